"""Answers from the columns of a metrics file: one series as it stands, what of it was superseded, newest values."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from prl.rundir.metrics.decimate import decimate
from prl.rundir.metrics.intake import Columns
from prl.rundir.metrics.reader import Point
from prl.rundir.metrics.rows import NO_STEP, STANDING

Axis = Literal["step", "time"]

_AXES: tuple[Axis, Axis] = ("step", "time")


@dataclass(frozen=True)
class Window:
    """Which points of a series: ``start <= x <= end`` on ``axis``, decimated to about ``points``."""

    axis: Axis = "step"
    start: float | None = None
    end: float | None = None
    points: int | None = None


@dataclass(frozen=True)
class SeriesData:
    """Points of one series, in the order of ``axis``. All arrays have shape [points] and dtype float64."""

    axis: Axis
    """What ``x`` is: steps, or Unix seconds."""
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    """The values. NaN and infinities are values that were written, never gaps."""
    steps: NDArray[np.float64]
    """NaN where a point has no step."""
    times: NDArray[np.float64]
    """Unix seconds, NaN where a point has no time."""
    total: int
    """How many points there were before they were decimated."""


@dataclass(frozen=True)
class Extent:
    """How many points a series has, for a list of series."""

    stepped: int
    """Points with a step that stand."""
    timed: int
    """Points without one."""
    superseded: int


@dataclass(frozen=True)
class _Found:
    """Rows and values of a series."""

    rows: NDArray[np.int32]
    values: NDArray[np.float64]

    def __getitem__(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> "_Found":
        return _Found(self.rows[chosen], self.values[chosen])


def select(columns: Columns, series: int, window: Window) -> SeriesData:
    """The standing points of a series in a window.

    On the step axis those with a step; a series without any is given on the time axis. There, all that have a time.
    """
    stepped, timed = _standing(columns, _find(columns, series))
    if window.axis == "step" and (len(stepped.rows) or not len(timed.rows)):
        return _data(columns, stepped, window)
    both = _Found(np.concatenate((stepped.rows, timed.rows)), np.concatenate((stepped.values, timed.values)))
    times = columns.rows.times[both.rows]
    order = np.lexsort((both.rows, times))
    return _data(columns, both[order[: np.count_nonzero(~np.isnan(times))]], replace(window, axis="time"))


def superseded(columns: Columns, series: int) -> SeriesData:
    """The points that a later timeline replaced, in the order in which they were given up."""
    found = _find(columns, series)
    given_up, steps = _given_up(columns, found), columns.rows.steps[found.rows]
    order = np.lexsort((steps, given_up))
    return _data(columns, found[order[given_up[order] != STANDING]], Window())


def extent(columns: Columns, series: int) -> Extent:
    found = _find(columns, series)
    stepped, timed = _standing(columns, found)
    counts = len(stepped.rows), len(timed.rows)
    return Extent(*counts, superseded=len(found.rows) - sum(counts))


def standing_values(columns: Columns, series: int) -> NDArray[np.float64]:
    """The values that stand: those with a step by step, then those without in file order."""
    stepped, timed = _standing(columns, _find(columns, series))
    return np.concatenate((stepped.values, timed.values))


def last_values(columns: Columns, producer: int | None) -> dict[tuple[str, str], Point]:
    """The newest standing point of each series (of one producer): of two, with and without a step, the later."""
    names = columns.catalogue.names
    unseen = np.ones(len(names), np.bool_)
    if producer is not None:
        unseen = columns.catalogue.column("producer") == producer
    last: dict[int, tuple[int, float]] = {}
    for segment in reversed(columns.segments.segments):
        places = np.flatnonzero(unseen[segment.series])
        series, ends = segment.series[places], segment.starts[places + 1] - 1
        unseen[series] = False
        rows, values = segment.rows[ends], segment.values[ends]
        sure = _surely_newest(columns, series, rows)
        newest = zip(rows[sure].tolist(), values[sure].tolist(), strict=True)
        last.update(zip(series[sure].tolist(), newest, strict=True))
        for number in series[~sure].tolist():
            if (point := _newest(columns, number)) is not None:
                last[number] = point
    return {names[number]: _point(columns, *last[number]) for number in sorted(last)}


def step_row(columns: Columns, producer: int, step: int) -> dict[str, float]:
    """All standing values of a producer's step, by key."""
    rows = columns.rows
    found = np.flatnonzero((rows.producers == producer) & (rows.steps == step) & (rows.until == STANDING))
    values: dict[str, float] = {}
    for row in found.tolist():
        for _, series, value in columns.segments.row_points(row, row):
            values[columns.catalogue.names[series][1]] = value
    return values


def last_step(columns: Columns, producer: int) -> int | None:
    """The newest standing step of a producer, rows that hold nothing but evaluations aside."""
    rows = columns.rows
    steps = rows.steps[(rows.producers == producer) & rows.plain & (rows.until == STANDING)]
    newest = int(steps.max(initial=NO_STEP))
    return None if newest == NO_STEP else newest


def clock(columns: Columns) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Each step that stands, ascending, and when its last row was written; as if clocks never went back."""
    rows = columns.rows
    chosen = rows.plain & (rows.steps != NO_STEP) & (rows.until == STANDING) & ~np.isnan(rows.times)
    steps, times = rows.steps[chosen], rows.times[chosen]
    order = np.lexsort((times, steps))
    steps, times = steps[order], times[order]
    last = np.append(steps[1:] != steps[:-1], np.ones(min(len(steps), 1), np.bool_))
    return steps[last], np.maximum.accumulate(times[last])


def first_step(columns: Columns, since: float, until: float) -> int | None:
    """The lowest step of the rows written from ``since`` on and before ``until``, evaluations aside."""
    rows = columns.rows
    steps = rows.steps[rows.plain & (rows.steps != NO_STEP) & (rows.times >= since) & (rows.times < until)]
    return int(steps.min()) if len(steps) else None


def _find(columns: Columns, series: int) -> _Found:
    return _Found(*columns.segments.find(series))


def _standing(columns: Columns, found: _Found) -> tuple[_Found, _Found]:
    """The points that stand: those with a step by step, then those without in file order."""
    steps = columns.rows.steps[found.rows]
    timed = steps == NO_STEP
    stepped = ~timed
    if columns.turns:
        stepped &= columns.rows.until[found.rows] == STANDING
    rest = found[timed]
    if not stepped.all():
        steps, found = steps[stepped], found[stepped]
    if (steps[1:] > steps[:-1]).all():
        return found, rest
    order = np.argsort(steps, kind="stable")
    replaced = np.append(steps[order][1:] == steps[order][:-1], np.zeros(min(len(steps), 1), np.bool_))
    return found[order[~replaced]], rest


def _given_up(columns: Columns, found: _Found) -> NDArray[np.int64]:
    """With which row each point was given up: a later timeline's first one, or one of the same step before that."""
    steps = columns.rows.steps[found.rows]
    given_up = columns.rows.until[found.rows].astype(np.int64)
    order = np.argsort(steps, kind="stable")
    again = np.flatnonzero((steps[order][1:] == steps[order][:-1]) & (steps[order][1:] != NO_STEP))
    given_up[order[again]] = np.minimum(given_up[order[again]], found.rows[order[again + 1]])
    return given_up


def _surely_newest(columns: Columns, series: NDArray[np.int32], rows: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Of the points written last, one a series: whether each is the newest, as far as the catalogue can tell."""
    newest, exact, timed = (columns.catalogue.column(name)[series] for name in ("newest", "exact", "timed"))
    steps = columns.rows.steps[rows]
    alone = np.where(steps == NO_STEP, newest == NO_STEP, ~timed)
    sure: NDArray[np.bool_] = exact & alone & (steps == newest) & (columns.rows.until[rows] == STANDING)
    return sure


def _newest(columns: Columns, series: int) -> tuple[int, float] | None:
    stepped, timed = _standing(columns, _find(columns, series))
    ends = [(int(found.rows[-1]), float(found.values[-1])) for found in (timed, stepped) if len(found.rows)]
    return max(ends, key=lambda end: np.nan_to_num(columns.rows.times[end[0]]), default=None)


def _point(columns: Columns, row: int, value: float) -> Point:
    step, time = int(columns.rows.steps[row]), float(columns.rows.times[row])
    return Point(None if step == NO_STEP else step, None if np.isnan(time) else time, value)


def _data(columns: Columns, found: _Found, window: Window) -> SeriesData:
    """Those of the points, which are in the order of the axis, that are in the window."""
    if window.start is not None or window.end is not None:
        x = _axis(columns, found.rows, window.axis)
        chosen = np.ones(len(x), np.bool_)
        if window.start is not None:
            chosen &= x >= window.start
        if window.end is not None:
            chosen &= x <= window.end
        found = found[chosen]
    total = len(found.rows)
    if window.points is not None:
        found = found[decimate(found.values, window.points)]
    steps, times = (_axis(columns, found.rows, axis) for axis in _AXES)
    return SeriesData(window.axis, steps if window.axis == "step" else times, found.values, steps, times, total)


def _axis(columns: Columns, rows: NDArray[np.int32], axis: Axis) -> NDArray[np.float64]:
    if axis == "time":
        return columns.rows.times[rows]
    steps = columns.rows.steps[rows]
    return np.where(steps == NO_STEP, np.nan, steps)
