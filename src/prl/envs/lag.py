"""Event-loop lag: how late a short sleep returns, which is how long everything else in the loop had to wait.

A worker plays all its episodes in one loop, so an environment that computes instead of awaiting holds up all of them.
Workers keep raw samples and hand them over with each pulse; the broker alone computes statistics, because percentiles
of parts cannot be merged into a percentile of the whole.
"""

import asyncio
import math
from collections.abc import Sequence

from prl.transport.env_wire import LagStats

PERIOD = 0.05
"""Seconds between two samples. A stall shorter than this is seen by chance, a longer one always."""


class LagProbe:
    """Samples the lag of the loop that :meth:`run` runs in."""

    def __init__(self, period: float = PERIOD) -> None:
        self._period = period
        self._samples: list[float] = []

    async def run(self) -> None:
        """Sample until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + self._period
            await asyncio.sleep(self._period)
            self._samples.append(max(0.0, clock() - due))

    def take(self) -> list[float]:
        """The samples, in seconds, since the last call."""
        samples, self._samples = self._samples, []
        return samples


def lag_stats(samples: Sequence[float]) -> LagStats:
    """Statistics of samples in seconds; zeros when there are none. Percentiles are nearest-rank: a value that was."""
    if not samples:
        return LagStats()
    ordered = sorted(samples)

    def percentile(share: float) -> float:
        return ordered[math.ceil(share * len(ordered)) - 1]

    return LagStats(
        min=ordered[0],
        mean=math.fsum(ordered) / len(ordered),
        p90=percentile(0.9),
        p99=percentile(0.99),
        max=ordered[-1],
        n=len(ordered),
    )


def worst(parts: Sequence[LagStats]) -> LagStats:
    """The largest of each statistic; ``n`` is the sum. Workers without samples do not count."""
    parts = [part for part in parts if part.n]
    if not parts:
        return LagStats()
    return LagStats(
        min=max(part.min for part in parts),
        mean=max(part.mean for part in parts),
        p90=max(part.p90 for part in parts),
        p99=max(part.p99 for part in parts),
        max=max(part.max for part in parts),
        n=sum(part.n for part in parts),
    )
