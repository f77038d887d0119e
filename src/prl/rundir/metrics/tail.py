"""The end of a metrics file: its last rows, and the rows since a place that a client remembers between calls.

A cursor names a byte offset and what tells that the file still is the same, so that it outlives the process that gave
it and is worth nothing for another file.
"""

import os
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from prl.rundir.following import CHECKPOINT, Mark
from prl.rundir.layout import run_of
from prl.rundir.metrics.intake import Columns
from prl.rundir.metrics.rows import NO_STEP
from prl.rundir.regular import open_regular

_BLOCK = 1024 * 1024


@dataclass(frozen=True)
class TailRow:
    """One row, as it was written."""

    producer: str
    step: int | None
    time: float | None
    """Unix seconds."""
    values: dict[str, float]
    supersedes: bool
    """Whether its producer went back with it: what it had for this step and later ones stands no more."""


@dataclass(frozen=True)
class MetricsTail:
    """Rows since a cursor, oldest first."""

    rows: list[TailRow]
    cursor: str
    """The place behind the last of them."""
    more: bool
    """Whether further rows are there already."""
    restarted: bool
    """Whether the cursor was of another file, or of rows that are not at hand: the rows are the newest instead."""


def read_tail(
    columns: Columns, path: Path, end: Mark | None, cursor: str | None, limit: int, *, since: float | None = None
) -> MetricsTail:
    """The rows since ``cursor`` or, without one, since a time (Unix seconds), at most ``limit``; else the newest.

    ``end``: how far the file was read.

    Raises ValueError when ``cursor`` is not one that was given out.
    """
    count = columns.rows.count
    first = None if cursor is None else _row_at(columns, path, end, cursor)
    restarted = cursor is not None and first is None
    if cursor is None and since is not None:
        later = columns.rows.times[:count] >= since
        first = int(later.argmax()) if later.any() else count
    if first is None:
        first = max(count - limit, 0)
    last = min(first + limit, count)
    offset = columns.rows.offsets[last] if last < count else end.offset if end else 0
    return MetricsTail(
        rows=_rows(columns, first, last),
        cursor=_cursor(path, end, int(offset)),
        more=last < count,
        restarted=restarted,
    )


def place_before_last(path: Path, rows: int) -> Mark | None:
    """Where the last ``rows`` complete lines of a file begin. None: with its first line, or it cannot be read."""
    try:
        with open_regular(path, run_of(path)) as file:
            handle = file.fileno()
            position = os.fstat(handle).st_size
            missing = rows + 1  # newlines, counted from the end: the one before the first line wanted is included
            while position:
                length = min(_BLOCK, position)
                position -= length
                block = os.pread(handle, length, position)
                found = block.count(b"\n")
                if found >= missing:
                    index = len(block)
                    for _ in range(missing):
                        index = block.rfind(b"\n", 0, index)
                    offset = position + index + 1
                    return Mark(os.fstat(handle).st_ino, offset, _before(handle, offset))
                missing -= found
    except OSError:
        return None
    return None


def _rows(columns: Columns, first: int, last: int) -> list[TailRow]:
    if first >= last:
        return []
    table, names = columns.rows, columns.catalogue.names
    values: list[dict[str, float]] = [{} for _ in range(first, last)]
    for row, series, value in columns.segments.row_points(first, last - 1):
        values[row - first][names[series][1]] = value
    steps, times = table.steps[first:last].tolist(), table.times[first:last].tolist()
    producers = table.producers[first:last].tolist()
    return [
        TailRow(
            producer=columns.catalogue.producers[producers[index]],
            step=None if steps[index] == NO_STEP else steps[index],
            time=None if np.isnan(times[index]) else times[index],
            values=values[index],
            supersedes=first + index in columns.turns,
        )
        for index in range(last - first)
    ]


def _cursor(path: Path, end: Mark | None, offset: int) -> str:
    if end is None:
        return "0-0-0"
    before = end.before if offset == end.offset else _read_before(path, offset)
    return f"{end.inode:x}-{offset:x}-{zlib.crc32(before):x}"


def _row_at(columns: Columns, path: Path, end: Mark | None, cursor: str) -> int | None:
    """The first row from the cursor on, None when it is no place among the rows that were read."""
    try:
        inode, offset, checksum = (int(part, 16) for part in cursor.split("-"))
    except ValueError:
        raise ValueError(f"not a cursor of metrics: {cursor!r}") from None
    count = columns.rows.count
    if end is None or inode != end.inode or not 0 <= offset <= end.offset:
        return None
    if not (count and columns.rows.offsets[0] <= offset) and offset != end.offset:
        return None
    before = end.before if offset == end.offset else _read_before(path, offset)
    if zlib.crc32(before) != checksum:
        return None
    return int(np.searchsorted(columns.rows.offsets, offset))


def _read_before(path: Path, offset: int) -> bytes:
    try:
        with open_regular(path, run_of(path)) as file:
            return _before(file.fileno(), offset)
    except OSError:
        return b""


def _before(handle: int, offset: int) -> bytes:
    start = max(offset - CHECKPOINT, 0)
    return os.pread(handle, offset - start, start)
