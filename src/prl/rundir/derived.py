"""Rows derived from the records of a stream (its indexes), in a file beside it.

A record is written before its row. So rows can be missing at the end when a process died or a disk was full, and are
made again from the records; a torn last row is simply cut off, for the same reason.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from prl.rundir import jsonl
from prl.rundir.layout import run_of
from prl.rundir.regular import open_regular

PENDING_LIMIT = 1000


class DerivedRows:
    """Appends rows to a derived file, its only writer. ``last`` is the newest whole row, None when there is none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        _cut_torn_end(path)
        self.last = last_object(path)
        self._file = jsonl.Appender(path)
        self._pending: list[bytes] = []

    @property
    def waiting(self) -> bool:
        """Whether rows could not be written yet."""
        return bool(self._pending)

    @property
    def full(self) -> bool:
        """Too many rows wait: the stream must not grow before they are written."""
        return len(self._pending) >= PENDING_LIMIT

    def append(self, row: dict[str, Any]) -> None:
        """Write a row after those that wait. One that cannot be written waits too: :meth:`flush` tells why."""
        self._pending.append(jsonl.encode(row))
        self.last = row
        with contextlib.suppress(OSError):
            self.flush()

    def flush(self) -> None:
        """Write the rows that wait. Raises OSError."""
        while self._pending:
            self._file.append(self._pending[0])
            del self._pending[0]

    def close(self) -> None:
        self._file.close()


def row_number(row: Mapping[str, Any] | None, name: str) -> int:
    """A non-negative integer of a row; 0 when it has none."""
    value = row.get(name) if row else None
    return value if type(value) is int and value >= 0 else 0


def last_object(path: Path) -> dict[str, Any] | None:
    """The object of the last line of a file that holds one. None when there is none or the file cannot be read."""
    damage = jsonl.Damage()
    for line in _lines_backwards(path):
        value = damage.decode(0, line)
        if value is not None:
            return value
    return None


def _lines_backwards(path: Path, block_bytes: int = 64 * 1024) -> Iterator[bytes]:
    try:
        with open_regular(path, run_of(path)) as file:
            position = file.seek(0, os.SEEK_END)
            rest = b""
            while position:
                length = min(block_bytes, position)
                position -= length
                file.seek(position)
                rest, *lines = (file.read(length) + rest).split(b"\n")
                yield from reversed(lines)
            yield rest
    except OSError:
        return


def _cut_torn_end(path: Path) -> None:
    """Remove what follows the last newline. Readers hold an unterminated line back, so none has taken it."""
    try:
        with path.open("r+b") as file:
            end = file.seek(0, os.SEEK_END)
            position = end
            while position:
                length = min(64 * 1024, position)
                file.seek(position - length)
                newline = file.read(length).rfind(b"\n")
                if newline >= 0:
                    position += newline + 1 - length
                    break
                position -= length
            if position != end:
                file.truncate(position)
    except FileNotFoundError:
        return
