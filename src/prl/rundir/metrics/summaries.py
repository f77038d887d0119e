"""What a list of all series says of each: how many points, the first and the last value, how many are not finite.

Made of whole columns: a run has thousands of series, and looking each up would take seconds.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prl.rundir.metrics import queries
from prl.rundir.metrics.intake import Columns
from prl.rundir.metrics.reader import Point
from prl.rundir.metrics.rows import STANDING
from prl.rundir.metrics.segments import Segment


@dataclass(frozen=True)
class Summary:
    """One series. What a resume superseded does not count."""

    producer: str
    key: str
    points: int
    nonfinite: int
    first: float | None
    """None: no point stands."""
    last: Point | None


@dataclass
class _Counts:
    """By the number of a series, shape [series]."""

    points: NDArray[np.int64]
    nonfinite: NDArray[np.int64]
    first: NDArray[np.float64]


def summarise(columns: Columns) -> list[Summary]:
    """The series of a file, sorted by (producer, key)."""
    names = columns.catalogue.names
    counts = _Counts(np.zeros(len(names), np.int64), np.zeros(len(names), np.int64), np.full(len(names), np.nan))
    for segment in columns.segments.segments:
        _add(counts, columns, segment)
    # Rows of evaluations give up nothing: two of one step stand, of which the later one counts.
    family, evaluation = columns.catalogue.column("family"), columns.catalogue.column("evaluation")
    for number in np.flatnonzero(np.isin(family, family[evaluation])).tolist():
        _look_up(counts, columns, number)
    last = queries.last_values(columns, None)
    points, nonfinite, first = counts.points.tolist(), counts.nonfinite.tolist(), counts.first.tolist()
    return [
        Summary(
            producer=name[0],
            key=name[1],
            points=points[number],
            nonfinite=nonfinite[number],
            first=first[number] if points[number] else None,
            last=last.get(name),
        )
        for name, number in sorted((name, number) for number, name in enumerate(names))
    ]


def _add(counts: _Counts, columns: Columns, segment: Segment) -> None:
    starts, series = segment.starts[:-1], segment.series
    broken = ~np.isfinite(segment.values)
    if not columns.turns:
        new = counts.points[series] == 0
        counts.first[series[new]] = segment.values[starts[new]]
        counts.points[series] += np.diff(segment.starts)
        counts.nonfinite[series] += np.add.reduceat(broken, starts, dtype=np.int64)
        return
    stands = columns.rows.until[segment.rows] == STANDING
    first = np.minimum.reduceat(np.where(stands, np.arange(len(stands)), len(stands)), starts)
    found = np.add.reduceat(stands, starts, dtype=np.int64)
    new = (counts.points[series] == 0) & (found > 0)
    counts.first[series[new]] = segment.values[first[new]]
    counts.points[series] += found
    counts.nonfinite[series] += np.add.reduceat(stands & broken, starts, dtype=np.int64)


def _look_up(counts: _Counts, columns: Columns, number: int) -> None:
    values = queries.standing_values(columns, number)
    counts.points[number] = len(values)
    counts.nonfinite[number] = np.count_nonzero(~np.isfinite(values))
    counts.first[number] = values[0] if len(values) else np.nan
