"""The reward of a run as a few points for the list of runs, without reading what was not read anyway.

The whole course is drawn where somebody has opened the run before, so that its metrics lie in the user's cache; else
the last steps, which the verdict looked at.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prl.rundir.locate import metrics_path
from prl.rundir.metrics.names import resolve

if TYPE_CHECKING:
    from prl.watch.facts import Series

POINTS = 40
_KEPT = 2000
"""Points of the course that are kept from one look to the next."""

_MEANINGS = ("reward", "score", "loss")

Course = tuple[tuple[int, float], ...]
"""(step, value), in the order of steps."""


@dataclass(frozen=True)
class Sparkline:
    """Values over steps."""

    points: tuple[float, ...]
    """At most :data:`POINTS`, each the mean of an equal part of the course."""
    last: float
    """The newest finite value."""
    change: float | None
    """From the mean of the first tenth of the course to that of the last; None with fewer than ten values."""
    step: int
    """Of the newest value."""

    def to_json(self) -> dict[str, Any]:
        return {"points": list(self.points), "last": self.last, "change": self.change, "step": self.step}


def course(run: Path, recent: Sequence["Series"], before: Course = ()) -> Course:
    """The reward of the run at ``run`` (of an evaluation its score, of SFT its loss), as far as it is known.

    ``recent``: the last points of its metrics. ``before``: what was known at an earlier look.
    """
    by_name = {(series.producer, series.key): series for series in recent}
    names = next((found for meaning in _MEANINGS if (found := resolve(meaning, list(by_name)))), None)
    if names is None:
        return before
    series = by_name[names[0]]
    told = zip(series.steps, series.values, strict=False)
    points = [(step, value) for step, value in told if step is not None and value is not None]
    if not points:
        return before
    first = points[0][0]
    earlier = [point for point in before if point[0] < first] if before else _kept(run, names[0], first)
    whole = [*earlier, *points]
    return tuple(_thinned(whole))


def sparkline(points: Course) -> Sparkline | None:
    """A course in short; None of an empty one."""
    if not points:
        return None
    values = [value for _, value in points]
    tenth = len(values) // 10
    change = _mean(values[-tenth:]) - _mean(values[:tenth]) if tenth else None
    parts = min(POINTS, len(values))
    edges = [index * len(values) // parts for index in range(parts + 1)]
    means = tuple(_short(_mean(values[start:end])) for start, end in pairwise(edges))
    return Sparkline(means, _short(values[-1]), None if change is None else _short(change), points[-1][0])


def _kept(run: Path, name: tuple[str, str], before: int) -> list[tuple[int, float]]:
    """Points before a step, from what was read of the metrics at some time and kept in the cache; else none."""
    if before <= 1:
        return []
    from prl.rundir.metrics.store import MetricsStore

    store = MetricsStore(metrics_path(run))
    store.refresh(1)  # takes up what was kept, and reads no more than it takes to see that it is of this file
    series = store.series(*name, end=before - 1, points=_KEPT)
    kept = zip(series.x.tolist(), series.y.tolist(), strict=True)
    return [(int(step), float(value)) for step, value in kept if math.isfinite(value)]


def _thinned(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Every second of the older half, again and again, until they are few enough."""
    thin = list(points)
    while len(thin) > _KEPT:
        half = len(thin) // 2
        thin = thin[:half:2] + thin[half:]
    return thin


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _short(value: float) -> float:
    return float(f"{value:.5g}")
