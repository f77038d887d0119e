"""Files of JSON lines: encoding, appending, decoding, following.

Writers append whole lines, one ``write`` each, and begin a new line when the file ends in a torn one. Readers split
bytes on ``\\n`` only (a string may hold U+2028 or U+0085, which ``str.splitlines`` takes for line ends), never raise on
what a file holds, and count what they could not read. There is no fsync: a line that was appended survives the death
of its process, not that of the machine.
"""

import contextlib
import json
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prl.rundir.following import READ_BLOCK, Block, Follower

MAX_RECORD = 256 * 1024 * 1024
"""Bytes of the longest line of a stream that is read as a whole."""

_SAMPLE = 160


def encode(value: Any) -> bytes:
    """``value`` as one line of strict JSON with its newline. Non-finite floats become null.

    What JSON has no form for is written as well as can be: keys and unknown objects as text, numpy scalars as
    numbers, half a surrogate pair as U+FFFD, bytes as a note of their length.
    """
    import orjson

    try:
        return orjson.dumps(value, default=_plain, option=orjson.OPT_APPEND_NEWLINE)
    except (TypeError, RecursionError):  # keys that are not text, integers beyond 64 bits, half surrogates
        return json.dumps(_strict(value), allow_nan=False, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def decode(line: bytes) -> tuple[dict[str, Any], bool]:
    """The object on ``line``, and whether bytes that are not UTF-8 had to be replaced in it.

    ``NaN``, ``Infinity`` and ``-Infinity``, which JSON does not have but some writers use, are read as such.
    An integer of more than 64 bits is read as the nearest float. Raises ValueError when the line holds no JSON object.
    """
    import orjson

    replaced = False
    try:
        value = orjson.loads(line)
    except ValueError:
        try:
            text = line.decode()
        except UnicodeDecodeError:
            text, replaced = line.decode(errors="replace"), True
        try:
            value = json.loads(text)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError(f"a JSON {type(value).__name__}, not an object")
    return value, replaced


@dataclass
class Damage:
    """What could not be read as it stood in a file or stream."""

    lines: int = 0
    """Lines that hold no JSON object."""
    first_offset: int | None = None
    """Byte offset of the first of them."""
    sample: str = ""
    """Its beginning, for a person."""
    replaced: int = 0
    """Lines that were read with bytes replaced that are not UTF-8."""

    def add(self, offset: int, line: bytes) -> None:
        self.lines += 1
        if self.first_offset is None:
            self.first_offset = offset
            text = line[:_SAMPLE].decode(errors="backslashreplace")
            self.sample = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)

    def decode(self, offset: int, line: bytes) -> dict[str, Any] | None:
        """The object on ``line``. None, and counted, when there is none; None for a blank line, which is nothing."""
        if not line or line.isspace():
            return None
        try:
            value, replaced = decode(line)
        except ValueError:
            self.add(offset, line)
            return None
        self.replaced += replaced
        return value


class Appender:
    """Appends lines to a file, creating it and its directory at the first. Several processes may share the file.

    ``shared``: other processes append too. When a line could be written in part only (a full disk), the sole writer
    takes the part back; of a shared file it stays, and whoever appends next begins a new line.
    """

    def __init__(self, path: Path, *, shared: bool = False) -> None:
        self.path = path
        self.shared = shared
        self._fd: int | None = None

    def append(self, line: bytes) -> int:
        """Write ``line`` (with its newline) and return the offset of its first byte. Raises OSError."""
        fd = self._open()
        size = os.fstat(fd).st_size
        torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
        data = memoryview(b"\n" + line if torn else line)
        written = 0
        try:
            while written < len(data):
                written += os.write(fd, data[written:])
        except OSError:
            if written and not self.shared:
                with contextlib.suppress(OSError):
                    os.ftruncate(fd, size)
            raise
        return size + torn

    def end_torn_line(self) -> None:
        """Close a last line that lacks its newline. Raises OSError."""
        fd = self._open()
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":
            os.write(fd, b"\n")

    def size(self) -> int:
        """Bytes in the file. Raises OSError."""
        return os.fstat(self._open()).st_size

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self) -> int:
        if self._fd is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        return self._fd


@dataclass(frozen=True)
class Line:
    """One object of a file and the byte offset of its line."""

    offset: int
    value: dict[str, Any]


class Tail:
    """Follows a growing file of JSON lines: what a :class:`Follower` reads, as objects."""

    def __init__(self, path: Path, root: Path | None = None) -> None:
        """``root``: the run directory. A link that leads out of it is trouble."""
        self.damage = Damage()
        self._lines = Follower(path, root=root)

    @property
    def restarts(self) -> int:
        """How often the file was found replaced: what was read before the last of them no longer stands."""
        return self._lines.restarts

    @property
    def at_end(self) -> bool:
        """Whether the last poll reached the end of the file."""
        return self._lines.at_end

    @property
    def trouble(self) -> str | None:
        """Why the file could not be read at the last poll. An absent file is no trouble."""
        return self._lines.trouble

    @property
    def pending_bytes(self) -> int:
        """Length of the last line, which is not complete yet."""
        return self._lines.pending_bytes

    def poll(self, max_bytes: int = READ_BLOCK) -> list[Line]:
        """Objects of the lines completed since the last poll, from at most ``max_bytes`` of new data."""
        restarts = self.restarts
        block = self._lines.poll(max_bytes)
        if self.restarts != restarts:
            self.damage = Damage()
        return self._decode(block) if block else []

    def finish(self) -> list[Line]:
        """Take the last line as it is, its writer being gone: an object if it is one, else a damaged line."""
        return self._decode(self._lines.finish())

    def _decode(self, block: Block) -> list[Line]:
        decoded = ((offset, self.damage.decode(offset, line)) for offset, line in block.lines())
        return [Line(offset, value) for offset, value in decoded if value is not None]


def read_lines(path: Path) -> tuple[list[Line], Damage]:
    """All complete lines of a file. An absent or unreadable file has none."""
    tail = Tail(path)
    lines = tail.poll()
    while not tail.at_end:
        lines += tail.poll()
    return lines, tail.damage


def split_blocks(blocks: Iterable[bytes], offset: int = 0) -> Iterator[tuple[int, bytes, bool]]:
    """Lines of a file read in blocks: ``(offset, line without newline, whether it is complete)``.

    The last one may lack its newline. Of a line of more than :data:`MAX_RECORD` bytes the beginning is given.
    """
    partial: list[bytes] = []
    held = passed = 0
    for block in blocks:
        *complete, rest = block.split(b"\n")
        for line in complete:
            whole = b"".join([*partial, line]) if not passed else b"".join(partial)
            length = held + passed + len(line)
            partial, held = [], 0
            yield offset, whole, not passed
            passed = 0
            offset += length + 1
        if held > MAX_RECORD:
            passed += len(rest)
        else:
            partial.append(rest)
            held += len(rest)
    last = b"".join(partial)
    if last:
        yield offset, last, False


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    if isinstance(value, set | frozenset):
        return list(value)
    tolist = getattr(value, "tolist", None)  # a numpy scalar or array
    if callable(tolist):
        return tolist()
    return str(value)


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {_text(key if isinstance(key, str) else str(key)): _strict(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(entry) for entry in value]
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, int):
        return value
    return _strict(_plain(value))


def _text(value: str) -> str:
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
