"""Lines of charts: points thinned for a picture, with the band around them and what is not finite marked.

Of everything that is left out the extremes stay: of a line by :func:`prl.rundir.metrics.decimate.decimate`, of a band
because each part of it takes the lowest and the highest of what it stands for.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prl.dashboard.axes import Axes, Axis, Points, Values
from prl.rundir.metrics.decimate import decimate
from prl.rundir.metrics.names import Name
from prl.rundir.metrics.reader import TRAINER
from prl.rundir.metrics.store import MetricsStore
from prl.watch.keys import STABILITY_KEYS

NAN, INFINITE, MINUS_INFINITE, DROPPED = "nan", "inf", "-inf", "dropped"
"""What a value was that is not finite. ``dropped``: its writer left it out and recorded the rest of the step."""


_ALL_DIGITS = 16


@dataclass(frozen=True)
class Window:
    """Which points of a line: ``start <= x <= end`` on ``axis``, about ``points`` of them.

    ``digits``: to how many significant ones values are rounded.
    """

    axis: Axis = "step"
    start: float | None = None
    end: float | None = None
    points: int = 400
    digits: int = 9


class Lines:
    """Makes the lines of one run."""

    def __init__(self, store: MetricsStore, axes: Axes | None = None) -> None:
        self._store = store
        self._axes = axes or Axes(store)

    def line(self, name: Name, window: Window, band: Sequence[Name | None] = (None, None)) -> dict[str, Any]:
        """A series as plain JSON: ``producer``, ``key``, ``axis``, ``x``, ``y``, ``nonfinite``, ``total``, ``low``,
        ``high``. The last two are null where ``band`` has no series for them."""
        points, dropped = self._with_dropped(name, window.axis)
        inside = _inside(points.x, window)
        x, y, dropped = points.x[inside], points.y[inside], dropped[inside]
        kept = decimate(y, window.points)
        low, high = (
            self._edge(edge, points, window.axis, inside, kept, lowest=lowest)
            for edge, lowest in zip(band, (True, False), strict=True)
        )
        return {
            "producer": name[0],
            "key": name[1],
            "axis": points.axis,
            "x": plain(x[kept], points.axis),
            "y": rounded(y[kept], window.digits),
            "nonfinite": _nonfinite(x[kept], y[kept], dropped[kept]),
            "total": len(x),
            "low": None if low is None else rounded(low, window.digits),
            "high": None if high is None else rounded(high, window.digits),
        }

    def _with_dropped(self, name: Name, axis: Axis) -> tuple[Points, NDArray[np.bool_]]:
        """The points of a series and, as points without a value, the steps at which its writer left it out."""
        points = self._axes.points(name, axis)
        none = np.zeros(len(points.x), np.bool_)
        missing = dropped_steps(self._store, name)
        if not len(missing):
            return points, none
        place = {"step": missing, "time": self._axes.times_at(missing), "tokens": self._axes.tokens_at(missing)}
        at = place[points.axis]
        if at is None:
            return points, none
        order = np.argsort(np.concatenate((points.x, at)), kind="stable")
        x, y = np.concatenate((points.x, at))[order], np.concatenate((points.y, np.full(len(at), np.nan)))[order]
        return Points(points.axis, x, y), np.concatenate((none, np.ones(len(at), np.bool_)))[order]

    def _edge(
        self, name: Name | None, main: Points, axis: Axis, inside: slice, kept: NDArray[np.intp], *, lowest: bool
    ) -> Values | None:
        """One side of a band at the points that are kept: the outermost value from each to the next."""
        if name is None or not len(kept):
            return None
        edge = self._axes.points(name, axis)
        values = _aligned(main.x, edge)[inside]
        starts = kept.copy()
        starts[0] = 0
        outermost: Values = (np.fmin if lowest else np.fmax).reduceat(values, starts)
        return outermost


def dropped_steps(store: MetricsStore, name: Name) -> Values:
    """Steps at which the trainer wrote its times but not this value, which it writes at every step: it was not finite.

    Writers leave such values out. Shape [steps].
    """
    producer, key = name
    if producer != TRAINER or key not in STABILITY_KEYS:
        return np.empty(0)
    written, ended = store.series(producer, key), store.series(TRAINER, "time/step")
    if written.axis != "step" or ended.axis != "step" or not len(written.x):
        return np.empty(0)
    missing: Values = np.setdiff1d(ended.x[ended.x > written.x[0]], written.x, assume_unique=True)
    return missing


def rounded(values: Values, digits: int) -> Values:
    """Values to so many significant digits, which take fewer bytes to write. What is not finite stays.

    With 16 digits and more they stay as they are.
    """
    if digits >= _ALL_DIGITS:
        return values
    with np.errstate(all="ignore"):
        places = digits - 1 - np.floor(np.log10(np.abs(values)))
        # A power of ten is exact only when it is a whole number, so there are two ways.
        factor = 10.0 ** np.abs(places)
        short = np.where(places >= 0, np.round(values * factor) / factor, np.round(values / factor) * factor)
    return np.where(np.isfinite(short), short, values)


def plain(x: Values, axis: Axis) -> NDArray[Any]:
    """Places as they are written: whole numbers where they are whole, times to a millisecond."""
    if axis == "time":
        x = np.round(x, 3)
    elif axis == "step":
        x = np.round(x, 4)
    whole = len(x) > 0 and bool((x == np.floor(x)).all()) and bool((np.abs(x) < 2**53).all())
    return x.astype(np.int64) if whole else x


def _inside(x: Values, window: Window) -> slice:
    first = 0 if window.start is None else int(np.searchsorted(x, window.start, "left"))
    last = len(x) if window.end is None else int(np.searchsorted(x, window.end, "right"))
    return slice(first, max(first, last))


def _aligned(x: Values, edge: Points) -> Values:
    """The values of an edge at the places ``x``; NaN where it has none."""
    if len(edge.x) == len(x) and bool((edge.x == x).all()):
        return edge.y
    values = np.full(len(x), np.nan)
    if len(edge.x):
        at = np.minimum(np.searchsorted(edge.x, x), len(edge.x) - 1)
        same = edge.x[at] == x
        values[same] = edge.y[at[same]]
    return values


def _nonfinite(x: Values, y: Values, dropped: NDArray[np.bool_]) -> list[list[Any]]:
    marks = []
    for index in np.flatnonzero(~np.isfinite(y)).tolist():
        value = float(y[index])
        marks.append([float(x[index]), DROPPED if dropped[index] else word_of(value)])
    return marks


def word_of(value: float) -> str | None:
    """The name of a value that is not finite, None for one that is."""
    if math.isfinite(value):
        return None
    return NAN if math.isnan(value) else INFINITE if value > 0 else MINUS_INFINITE
