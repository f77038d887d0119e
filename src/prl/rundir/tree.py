"""Reading below a run directory by names that were found in it: bounded, and never out of it.

Anybody may have written to a run directory. A link is followed while it stays inside, refused when it leads out (the
directory itself may be a link: that is where its owner put it), and what is not a regular file is not opened. What does
not exist is simply absent; what exists and cannot be read is noted as trouble. Left out: protection against somebody
who swaps links between the look and the reading. Readers only read, and what they read is data.
"""

import errno
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from prl.rundir.regular import LEAVES, is_inside, open_regular, read_regular

MAX_DOCUMENT = 4 * 1024**2
"""Bytes of a JSON document or text that are read. A longer one is trouble."""

MAX_TROUBLE = 20
"""Notes of trouble kept of one reading."""

_T = TypeVar("_T")


class RunTree:
    """One reading of a run directory. Names are relative, with ``/``. Nothing is kept open and nothing raises."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.trouble: list[str] = []
        """What is there and could not be read, with the reason."""
        self._base = str(root)
        self._seen: dict[str, os.stat_result | None] = {}
        self._listed: dict[str, dict[str, os.DirEntry[str]]] = {}

    def path(self, name: str) -> Path:
        """The path of a name."""
        return Path(f"{self._base}/{name}") if name else self.root

    def entries(self, directory: str = "") -> list[os.DirEntry[str]]:
        """What a directory holds, by name; none when it does not exist. A network disk's ``.nfs`` files are no part."""
        if directory not in self._listed:

            def scan() -> list[os.DirEntry[str]]:
                with os.scandir(f"{self._base}/{directory}") as found:
                    return [entry for entry in found if not entry.name.startswith(".nfs")]

            found = self._try(directory, scan)
            if found is None:
                return []
            self._listed[directory] = {entry.name: entry for entry in sorted(found, key=lambda entry: entry.name)}
        return list(self._listed[directory].values())

    def names(self, directory: str = "") -> list[str]:
        """The names of :meth:`entries`."""
        return [entry.name for entry in self.entries(directory)]

    def stat(self, name: str) -> os.stat_result | None:
        """What the system says about a file or directory, as it was when this reading first looked at it.

        None when it is absent, when a link on the way leads out or in a circle, and when it cannot be asked.
        """
        if name not in self._seen:
            self._seen[name] = None  # a link that leads back here leads nowhere
            self._seen[name] = self._ask(name)
        return self._seen[name]

    def is_dir(self, name: str) -> bool:
        found = self.stat(name)
        return found is not None and stat.S_ISDIR(found.st_mode)

    def read(self, name: str, limit: int = MAX_DOCUMENT) -> bytes | None:
        """The bytes of a regular file of at most ``limit`` bytes; None when it is absent or cannot be read."""

        def whole() -> bytes:
            with open_regular(self.path(name)) as file:
                data = file.read(limit + 1)
            if len(data) > limit:
                raise OSError(errno.EFBIG, f"larger than the {limit} bytes that are read of it")
            return data

        return self._try(name, whole)

    def head(self, name: str, limit: int) -> bytes | None:
        """The first ``limit`` bytes of a regular file; None when it is absent or cannot be read."""
        return self._try(name, lambda: read_regular(self.path(name), limit))

    def tail(self, name: str, limit: int) -> tuple[int, bytes] | None:
        """Offset and bytes of the last ``limit`` bytes of a regular file; None when it is absent or cannot be read."""

        def end() -> tuple[int, bytes]:
            with open_regular(self.path(name)) as file:
                start = max(os.fstat(file.fileno()).st_size - limit, 0)
                return start, os.pread(file.fileno(), limit, start)

        return self._try(name, end)

    def text(self, name: str, limit: int = MAX_DOCUMENT) -> str | None:
        """A text file. Bytes that are not UTF-8 are replaced."""
        data = self.read(name, limit)
        return None if data is None else data.decode(errors="replace")

    def document(self, name: str) -> dict[str, Any] | None:
        """The JSON object in a file; None when it is absent or holds anything else, which is trouble."""
        data = self.read(name)
        if data is None:
            return None
        try:
            value = _loads(data)
        except (ValueError, RecursionError) as error:
            self.note(name, f"not JSON: {error}")
            return None
        if not isinstance(value, dict):
            self.note(name, f"a JSON {type(value).__name__}, not an object")
            return None
        return value

    def note(self, name: str, problem: str) -> None:
        """Remember trouble with a name."""
        told = f"{name or '.'}: {problem}"
        if told not in self.trouble and len(self.trouble) < MAX_TROUBLE:
            self.trouble.append(told)

    def _ask(self, name: str) -> os.stat_result | None:
        parent, _, last = name.rpartition("/")
        if last in ("", ".", ".."):
            return self._call(name, self.root.stat) if not name else None
        above = self.stat(parent)
        if above is None or not stat.S_ISDIR(above.st_mode):
            return None
        if parent in self._listed and last not in self._listed[parent]:
            return None
        path = f"{self._base}/{name}"
        found = self._call(name, lambda: os.lstat(path))
        if found is None or not stat.S_ISLNK(found.st_mode):
            return found
        target = self._call(name, lambda: os.readlink(path))  # noqa: PTH115
        if target is None:
            return None
        if "/" not in target and target not in (".", ".."):
            return self.stat(f"{parent}/{target}" if parent else target)
        if os.path.realpath(path) == os.path.realpath(self._base):
            self.note(name, "a link back to the run directory: not followed")
            return None
        if not is_inside(path, self._base):
            self.note(name, LEAVES)
            return None
        return self._call(name, self.path(name).stat)

    def _try(self, name: str, read: Callable[[], _T]) -> _T | None:
        return None if self.stat(name) is None else self._call(name, read)

    def _call(self, name: str, call: Callable[[], _T]) -> _T | None:
        for again in (True, False):
            try:
                return call()
            except (FileNotFoundError, NotADirectoryError):
                return None
            except OSError as error:
                if error.errno == errno.ESTALE and again:  # a network disk's stale handle: opening anew helps
                    continue
                self.note(name, error.strerror or str(error))
                return None
            except ValueError:  # a name with a null byte
                return None
        return None


def _loads(data: bytes) -> Any:
    """As other writers write it: bytes that are not UTF-8 are replaced, and ``NaN`` is read."""
    import orjson

    try:
        return orjson.loads(data)
    except ValueError:
        return json.loads(data.decode(errors="replace"))
