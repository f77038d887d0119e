"""What readers derive from run directories and keep: columns of numbers, below the user's cache directory.

Never in a run directory, which the run alone writes. Everything here may be deleted at any time; it is made again from
the files it came from. A cache file is one header and the plain bytes of its arrays, so that opening one of any size
costs a mapping and one sum over its bytes, and a reader holds in memory only what it asks for. The sum, which stands
behind the last column, shows what a disk lost or a crash left unwritten; it is no protection against intent. Left out:
locks. Each write replaces the file as a whole, two writers made the same thing, and a reader keeps the file it mapped.
"""

import contextlib
import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prl.rundir.following import Mark
from prl.rundir.home import home
from prl.rundir.regular import open_regular

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_BYTES = 8 * 1024**3
"""Bytes that all cache files together may take. Beyond that the longest unused are removed."""

_MAGIC = b"prl-columns-2\n"
_ALIGNMENT = 64
_SUM_BYTES = 8
_SUM_WORDS = 64 * 1024
"""Words of 8 bytes that are added up at once."""
_MAX_HEADER = 16 * 1024 * 1024


@dataclass(frozen=True)
class Cached:
    """A cache file as it was read: what its writer noted, and its columns, mapped read-only."""

    meta: dict[str, Any]
    columns: dict[str, "NDArray[Any]"]


def cache_root() -> Path:
    """``$PRL_CACHE_DIR``, else ``prl`` below ``$XDG_CACHE_HOME``, else ``~/.cache/prl``."""
    own = os.environ.get("PRL_CACHE_DIR")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or home() / ".cache") / "prl"


def cache_path(source: Path, kind: str) -> Path:
    """Where the ``kind`` of columns derived from the file or directory ``source`` is kept.

    ``kind`` names what is derived and the version of its form (``metrics-1``): another form is another file.
    """
    name = hashlib.sha256(os.fsencode(os.path.realpath(source))).hexdigest()[:24]
    return cache_root() / kind / f"{name}.columns"


def load(path: Path) -> Cached | None:
    """A cache file, its columns mapped. None when there is none or it is not whole: then it is made again."""
    import numpy as np

    try:
        with open_regular(path) as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                return None
            header_bytes = int.from_bytes(file.read(8), "little")
            raw = file.read(header_bytes) if header_bytes <= _MAX_HEADER else b""
            header = json.loads(raw)
            start = _aligned(len(_MAGIC) + 8 + header_bytes)
            end = start + header["bytes"]
            if os.fstat(file.fileno()).st_size != end + _SUM_BYTES:
                return None
            data = np.memmap(file, dtype=np.uint8, mode="r")
        if data[end:].tobytes() != _sum(data[:end]):
            return None
        columns = {
            name: data[start + offset : start + offset + length].view(np.dtype(dtype)).reshape(shape)
            for name, (dtype, shape, offset, length) in header["columns"].items()
        }
        meta = header["meta"]
        with contextlib.suppress(OSError):
            os.utime(path)  # used now: the last to be pruned
        return Cached(meta, columns) if isinstance(meta, dict) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def save(path: Path, meta: Mapping[str, Any], columns: Mapping[str, "NDArray[Any] | tuple[NDArray[Any], ...]"]) -> bool:
    """Replace a cache file. False when it cannot be written (a full disk, a read-only home): nothing is kept then.

    ``meta`` is plain JSON. Arrays of any shape and of plain dtypes (numbers, bools, ``S``); no objects. Several arrays
    of one dtype and one dimension are one column, written one behind the other: what is mapped need not be copied.
    """
    import numpy as np

    entries: dict[str, tuple[str, tuple[int, ...], int, int]] = {}
    stored: list[tuple[NDArray[Any], ...]] = []
    total = 0
    for name, column in columns.items():
        parts = column if isinstance(column, tuple) else (column,)
        size = sum(part.nbytes for part in parts)
        shape = parts[0].shape if len(parts) == 1 else (sum(map(len, parts)),)
        entries[name] = (parts[0].dtype.str, shape, total, size)
        stored.append(parts)
        total = _aligned(total + size)
    header = json.dumps({"meta": meta, "columns": entries, "bytes": total}, separators=(",", ":")).encode()
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}.")
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + len(header).to_bytes(8, "little") + header)
            _pad(file, len(_MAGIC) + 8 + len(header))
            for parts in stored:
                for part in parts:
                    file.write(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
                _pad(file, sum(part.nbytes for part in parts))
            file.flush()
            file.write(_sum(np.memmap(temporary, dtype=np.uint8, mode="r")))
        Path(temporary).replace(path)
    except OSError:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        return False
    prune()
    return True


def mark_to_json(mark: Mark) -> dict[str, Any]:
    """A place in a file, for the ``meta`` of a cache."""
    return {"inode": mark.inode, "offset": mark.offset, "before": mark.before.hex()}


def mark_from_json(value: object) -> Mark | None:
    """The place that :func:`mark_to_json` wrote, None when it is none."""
    if not isinstance(value, Mapping):
        return None
    inode, offset, before = value.get("inode"), value.get("offset"), value.get("before")
    if type(inode) is not int or type(offset) is not int or offset < 0 or not isinstance(before, str):
        return None
    try:
        return Mark(inode, offset, bytes.fromhex(before))
    except ValueError:
        return None


def prune(max_bytes: int = MAX_BYTES) -> None:
    """Remove the longest unused cache files until all together take no more than ``max_bytes``."""
    found = []
    for path in cache_root().glob("*/*.columns"):
        with contextlib.suppress(OSError):
            stat = path.stat()
            found.append((stat.st_mtime, stat.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= max_bytes:
            return
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size


def _sum(data: "NDArray[Any]") -> bytes:
    """What stands behind a file's columns: 200 MB that are mapped take 25 ms.

    The sums of parts, of which the checksum is taken: so a part in another's place shows as well.
    """
    import numpy as np

    words = data.view(np.uint64)  # the length is a multiple of _ALIGNMENT
    whole = len(words) // _SUM_WORDS * _SUM_WORDS
    sums = words[:whole].reshape(-1, _SUM_WORDS).sum(axis=1, dtype=np.uint64)
    rest = words[whole:].sum(dtype=np.uint64)
    return zlib.crc32(np.append(sums, rest).tobytes()).to_bytes(_SUM_BYTES, "little")


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _pad(file: Any, size: int) -> None:
    file.write(bytes(_aligned(size) - size))
