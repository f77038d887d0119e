"""Records whose index rows were lost in the middle of an index: by a damaged line, or by a disk that was full for long.

Rows number their records. So where two rows that follow each other are numbered further apart than that, the records
between their places have no rows. Records behind the newest row are no gap: their rows may be on their way.
"""

from typing import NamedTuple

import numpy as np

from prl.rundir.episodes.columns import Array

MAX_GAPS = 10_000
"""Gaps that are remembered apart. More of them become one, of which the records that have rows are read in vain."""


class Newest(NamedTuple):
    """The newest row of an index: its record's place and number. Of an empty one: where the stream begins."""

    place: int = 0
    line: int = 0


class Gap(NamedTuple):
    """Records from ``start`` up to ``end`` (places), of which some have no row."""

    start: int
    end: int
    line: int
    """Number of the record at ``start``."""


def find_gaps(newest: Newest, places: Array, lines: Array) -> list[Gap]:
    """The gaps before index rows that were just read: arrays of shape [rows]. ``newest``: the row before them."""
    places, lines = np.append(newest.place, places), np.append(newest.line, lines)
    jumps = np.flatnonzero((np.diff(lines) > 1) & (np.diff(places) > 0) & (places[:-1] >= 0))
    return [
        Gap(start, end, max(line, 1))
        for start, end, line in zip(
            places[jumps].tolist(), places[jumps + 1].tolist(), lines[jumps].tolist(), strict=True
        )
    ]


def bounded(gaps: list[Gap]) -> list[Gap]:
    """The gaps, or one in their place when there are too many."""
    if len(gaps) <= MAX_GAPS:
        return gaps
    return [Gap(gaps[0].start, max(gap.end for gap in gaps), gaps[0].line)]
