"""Event-loop lag: how late a short sleep returns, the measure of whether this process still keeps up."""

import asyncio
from collections import deque

import numpy as np

_SLEEP = 0.1
_KEPT = 1000


class LoopLag:
    """Measures the event loop it is made in, for as long as :meth:`run` runs."""

    def __init__(self) -> None:
        self._late: deque[float] = deque(maxlen=_KEPT)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _SLEEP
            await asyncio.sleep(_SLEEP)
            self._late.append(max(loop.time() - due, 0.0))

    def metrics(self) -> dict[str, float]:
        """``event_loop_lag/{min,mean,median,p90,p99,max,n}`` in seconds; empty before the first measurement."""
        if not self._late:
            return {}
        late = np.array(self._late)
        median, p90, p99 = np.percentile(late, (50, 90, 99))
        values = {
            "min": late.min(),
            "mean": late.mean(),
            "median": median,
            "p90": p90,
            "p99": p99,
            "max": late.max(),
            "n": late.size,
        }
        return {f"event_loop_lag/{name}": float(value) for name, value in values.items()}
