"""The limits beyond which the watch side speaks, as the values that a chart can draw.

What a rule says is more than a limit: how often, how long, which steps do not count. A line in a chart is the value
alone.
"""

from dataclasses import dataclass

import numpy as np

from prl.dashboard.axes import Values
from prl.rundir.panels import Limit
from prl.watch.thresholds import Thresholds

MEDIAN, BEGINNING = "median", "beginning"


@dataclass(frozen=True)
class Alarm:
    """A limit as a value."""

    value: float
    above: bool

    def passed_by(self, value: float | None) -> bool:
        """Whether a value is beyond it."""
        return value is not None and (value > self.value if self.above else value < self.value)

    def to_json(self) -> dict[str, object]:
        return {"value": self.value, "above": self.above}


def alarm(limit: Limit | None, thresholds: Thresholds, values: Values, *, whole: bool) -> Alarm | None:
    """A limit as a value, None where there is none or too few values tell what is usual.

    ``values``: those of the series, oldest first. ``whole``: whether they begin with its first.
    """
    if limit is None:
        return None
    threshold = threshold_of(limit, thresholds)
    if limit.of is None:
        return Alarm(threshold, limit.above)
    finite = values[np.isfinite(values)]
    training = thresholds.training
    if len(finite) < training.least or (limit.of == BEGINNING and not whole):
        return None
    usual = finite[-training.window :] if limit.of == MEDIAN else finite[: training.least]
    return Alarm(threshold * float(np.median(usual)), limit.above)


def threshold_of(limit: Limit, thresholds: Thresholds) -> float:
    """The number that a limit names. Raises AttributeError when there is no such threshold."""
    area, _, name = limit.threshold.partition(".")
    return float(getattr(getattr(thresholds, area), name))
