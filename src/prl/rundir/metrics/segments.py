"""Points of many series in immutable pieces, each sorted by series, so that one series is a slice of each piece.

A point costs 12 bytes (its row's number and its value), whether its series is dense or sparse, and no Python object.
Pieces are merged like runs of a log-structured tree, so that there are few of them and each point is moved seldom.
They can as well be mapped from a file as lie in memory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FAN_IN = 16
"""Pieces of one order of size that become one."""
_LARGE = 2**20
"""Points beyond which a piece is left as it is."""


@dataclass(frozen=True)
class Panel:
    """Rows of the same keys: ``values[i, j]`` is of row ``rows[i]`` and series ``series[j]``; both ascend."""

    series: NDArray[np.int32]
    rows: NDArray[np.int32]
    values: NDArray[np.float64]


@dataclass(frozen=True)
class Segment:
    """Points sorted by series, then by row: those of ``series[i]`` lie from ``starts[i]`` to ``starts[i + 1]``."""

    series: NDArray[np.int32]
    starts: NDArray[np.int64]
    rows: NDArray[np.int32]
    values: NDArray[np.float64]
    first_row: int
    last_row: int

    @classmethod
    def of(cls, panels: Sequence[Panel]) -> "Segment":
        """The points of some panels, at least one of them with a point."""
        rows = np.concatenate([np.tile(panel.rows, len(panel.series)) for panel in panels])
        series = np.concatenate([np.repeat(panel.series, len(panel.rows)) for panel in panels])
        values = np.concatenate([panel.values.T.reshape(-1) for panel in panels])
        if len(panels) > 1:
            order = np.lexsort((_narrow(rows), _narrow(series)))
            rows, series, values = rows[order], series[order], values[order]
        edges = np.flatnonzero(series[1:] != series[:-1]) + 1
        starts = np.concatenate(([0], edges, [len(series)])).astype(np.int64)
        return cls(series[starts[:-1]], starts, rows, values, int(rows.min()), int(rows.max()))

    def find(self, series: int) -> slice | None:
        """Where the points of a series lie, None when it has none here."""
        index = int(np.searchsorted(self.series, series))
        if index == len(self.series) or self.series[index] != series:
            return None
        return slice(int(self.starts[index]), int(self.starts[index + 1]))

    def within(self, first: int, last: int) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
        """Rows, series and values of the points of the rows from ``first`` to ``last``."""
        found = np.flatnonzero((self.rows >= first) & (self.rows <= last))
        series = self.series[np.searchsorted(self.starts, found, "right") - 1]
        return self.rows[found], series, self.values[found]


class SegmentStack:
    """All points read so far: segments whose rows ascend from one to the next."""

    def __init__(self, segments: Sequence[Segment] = ()) -> None:
        self.segments = list(segments)

    @property
    def points(self) -> int:
        return sum(len(segment.rows) for segment in self.segments)

    def add(self, segment: Segment) -> None:
        """Add points of later rows."""
        self.segments.append(segment)
        while (run := self._mergeable()) >= FAN_IN:
            self.segments[-run:] = [_merge(self.segments[-run:])]

    def find(self, series: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Rows and values of one series, in file order."""
        parts = [(segment, part) for segment in self.segments if (part := segment.find(series)) is not None]
        if not parts:
            return np.empty(0, np.int32), np.empty(0, np.float64)
        rows = np.concatenate([segment.rows[part] for segment, part in parts])
        return rows, np.concatenate([segment.values[part] for segment, part in parts])

    def row_points(self, first: int, last: int) -> Iterator[tuple[int, int, float]]:
        """Row, series and value of each point of the rows from ``first`` to ``last``, in no order of note."""
        for segment in self.segments:
            if segment.first_row <= last and segment.last_row >= first:
                rows, series, values = segment.within(first, last)
                yield from zip(rows.tolist(), series.tolist(), values.tolist(), strict=True)

    def _mergeable(self) -> int:
        """How many of the last segments are no larger, by order of size, than the last of all."""
        order = _order(self.segments[-1])
        if len(self.segments[-1].rows) >= _LARGE:
            return 0
        run = 0
        for segment in reversed(self.segments):
            if _order(segment) > order:
                break
            run += 1
        return run


def _order(segment: Segment) -> int:
    return (len(segment.rows).bit_length() - 1) // 4


def _merge(segments: Sequence[Segment]) -> Segment:
    series = np.unique(np.concatenate([segment.series for segment in segments]))
    places = [np.searchsorted(series, segment.series) for segment in segments]
    starts = np.zeros(len(series) + 1, np.int64)
    for segment, place in zip(segments, places, strict=True):
        starts[place + 1] += np.diff(segment.starts)
    np.cumsum(starts, out=starts)
    rows, values = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.float64)
    free = starts[:-1].copy()
    for segment, place in zip(segments, places, strict=True):
        counts = np.diff(segment.starts)
        target = np.repeat(free[place] - segment.starts[:-1], counts) + np.arange(len(segment.rows))
        rows[target], values[target] = segment.rows, segment.values
        free[place] += counts
    return Segment(series, starts, rows, values, segments[0].first_row, segments[-1].last_row)


def _narrow(numbers: NDArray[Any]) -> NDArray[Any]:
    """Numbers of the same order that are quicker to sort: of 16 bits, which are sorted by radix, where they fit."""
    low = numbers.min()
    return (numbers - low).astype(np.uint16) if numbers.max() - low < 2**16 else numbers
