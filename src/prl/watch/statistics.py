"""Telling a change from noise: robust baselines, spikes, lasting shifts, and states that do not flap.

All functions are of plain values in the order of their steps; None is a step without a value and is passed over.
Nothing is remembered between calls: a state is replayed over the values that the facts hold.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MAD_TO_SIGMA = 1.4826
"""Of a normal distribution the standard deviation is 1.4826 x MAD (1 / the 0.75 quantile of the standard normal)."""


def median(values: Iterable[float]) -> float:
    """The middle value, or the mean of the two in the middle. Raises IndexError when there is none.

    The standard library's, which brings fractions and decimals with it, takes a verdict's time to load.
    """
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


@dataclass(frozen=True)
class Baseline:
    """What is usual: median and scatter."""

    median: float
    scatter: float
    """1.4826 x the median absolute deviation (MAD), in the unit of the values."""
    count: int

    def excess(self, value: float) -> float:
        """How many scatters ``value`` lies above the median; the modified z-score of Iglewicz and Hoaglin (1993)."""
        difference = value - self.median
        if self.scatter > 0:
            return difference / self.scatter
        return math.copysign(math.inf, difference) if difference else 0.0


def baseline(values: Sequence[float | None], least: int) -> Baseline | None:
    """Median and scatter of the finite values; None with fewer than ``least``.

    Both have a breakdown point of one half: no minority of spikes moves them (Hampel 1974).
    """
    finite = [value for value in values if value is not None and math.isfinite(value)]
    if len(finite) < max(least, 1):
        return None
    middle = median(finite)
    return Baseline(middle, MAD_TO_SIGMA * median(abs(value - middle) for value in finite), len(finite))


def page_hinkley(values: Sequence[float], start: Baseline, drift: float, *, upwards: bool = True) -> float:
    """How far the values have drifted from ``start``: the Page-Hinkley statistic of their excess over it.

    With x the excess (in scatters, against the direction when not ``upwards``) and d the tolerated ``drift``,
    S_n = sum of (x_i - d) and the statistic is S_n - min(S_0 .. S_n) (Page 1954, Hinkley 1971). It is near 0 while the
    values scatter around the median, and grows by the shift at every step after a lasting one. The mean of the values
    is that of the baseline rather than a running one, which would follow a slow change. A single value counts for
    at most 8 scatters, so that one spike is no drift.
    """
    total = lowest = 0.0
    for value in values:
        excess = start.excess(value) if upwards else -start.excess(value)
        total += max(min(excess, 8.0), -8.0) - drift
        lowest = min(lowest, total)
    return total - lowest


def is_open(flags: Sequence[bool | None], opens: tuple[int, int], closes: int) -> bool:
    """Whether an alarm is on at the end: opened by ``k`` true flags of the last ``n``, closed by so many false in a
    row.

    None (nothing was measured) neither opens nor closes.
    """
    needed, window = opens
    known = [flag for flag in flags if flag is not None]
    opened = False
    since = 0
    for index, flag in enumerate(known):
        if not opened:
            opened = flag and sum(known[max(since, index + 1 - window) : index + 1]) >= needed
        elif not any(known[max(index + 1 - closes, 0) : index + 1]) and index + 1 >= closes:
            opened, since = False, index + 1
    return opened


def trailing(values: Sequence[float | None], index: int, window: int) -> list[float]:
    """The finite values among the ``window`` before ``index``."""
    before = values[max(index - window, 0) : index]
    return [value for value in before if value is not None and math.isfinite(value)]
