"""Where the points of a series lie on an axis: by step, by wall time, by the tokens trained on so far.

Rows of steps say when each step ended and how many tokens there were then; what has only a time (engines, the
dispatcher) is put between the steps by it. Left out: choosing and thinning points.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from prl.rundir.metrics.names import Name
from prl.rundir.metrics.reader import ORCHESTRATOR, TRAINER
from prl.rundir.metrics.store import MetricsStore

Axis = Literal["step", "time", "tokens"]
Values = NDArray[np.float64]

_BEFORE, _OF_STEP = "progress/total_tokens", "progress/tokens"
_SO_FAR = "progress/num_tokens"


@dataclass(frozen=True)
class Points:
    """Points in the order of ``x``, which ascends. Shape [points]."""

    axis: Axis
    """What ``x`` is: the axis that was asked for, or what there is instead."""
    x: Values
    y: Values


class Axes:
    """The axes of one run as far as its metrics were read. For one answer: it remembers what it looked up."""

    def __init__(self, store: MetricsStore) -> None:
        self._store = store
        self._names = set(store.names())
        self._found: dict[tuple[Name, Axis], Points] = {}

    def points(self, name: Name, axis: Axis) -> Points:
        """The points of a series that stand. Those that the axis has no place for are given on one that has."""
        found = self._found.get((name, axis))
        if found is None:
            found = self._found[name, axis] = self._find(name, axis)
        return found

    def _find(self, name: Name, axis: Axis) -> Points:
        if axis == "time":
            data = self._store.series(*name, axis="time")
            return Points("time", data.x, data.y)
        data = self._store.series(*name)
        steps = data.x if data.axis == "step" else self.steps_at(data.times)
        if steps is None:
            return Points("time", data.x, data.y)
        tokens = self.tokens_at(steps) if axis == "tokens" else None
        return Points("step", steps, data.y) if tokens is None else Points("tokens", tokens, data.y)

    def steps_at(self, times: Values) -> Values | None:
        """The step under way at each time (Unix seconds), as parts of steps; None when no step has a time."""
        known = self._clock
        return None if known is None else np.interp(times, *known)

    def times_at(self, steps: Values) -> Values | None:
        """When each step ended, Unix seconds; None when no step has a time."""
        known = self._clock
        return None if known is None else np.interp(steps, known[1], known[0])

    def tokens_at(self, steps: Values) -> Values | None:
        """Tokens so far at the end of each step; None when nothing counts them."""
        known = self._tokens
        return None if known is None else np.interp(steps, *known)

    @cached_property
    def _clock(self) -> tuple[Values, Values] | None:
        """Times and steps, with a place before the first and one after the last that rows without a step fall in."""
        steps, times = self._store.clock()
        if not len(steps):
            return None
        pace = float(np.median(np.diff(times))) if len(times) > 1 else 1.0
        begun = min(self._store.first_time or times[0], times[0])
        return (
            np.concatenate(([begun], times, [times[-1] + max(pace, 1e-3)])),
            np.concatenate(([steps[0] - 1.0], steps, [steps[-1] + 1.0])),
        )

    @cached_property
    def _tokens(self) -> tuple[Values, Values] | None:
        """Steps and tokens so far."""
        if (TRAINER, _SO_FAR) in self._names:
            data = self._store.series(TRAINER, _SO_FAR)
            return _rising(data.x, data.y) if data.axis == "step" else None
        each = self._store.series(ORCHESTRATOR, _OF_STEP)
        if (ORCHESTRATOR, _BEFORE) in self._names:
            before = self._store.series(ORCHESTRATOR, _BEFORE)
            added = np.interp(before.x, each.x, each.y, left=0.0, right=0.0) if len(each.x) else 0.0
            return _rising(before.x, before.y + added) if before.axis == "step" else None
        if each.axis == "step" and self._store.whole:
            return _rising(each.x, np.cumsum(np.nan_to_num(each.y, nan=0.0, posinf=0.0, neginf=0.0)))
        return None


def _rising(steps: Values, totals: Values) -> tuple[Values, Values] | None:
    finite = np.isfinite(totals)
    if not finite.any():
        return None
    return steps[finite], np.maximum.accumulate(totals[finite])
