"""A run that somebody looks at: its readers, kept open and read on, each used by one thread at a time.

Metrics, episodes and logs have locks of their own, so that a long first read of one never keeps the other waiting.
Left out: which runs there are (:mod:`prl.dashboard.workspace`).
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from prl.dashboard.log_desk import LogDesk
from prl.dashboard.metric_feed import MetricFeed
from prl.dashboard.rollouts import Rollouts
from prl.dashboard.values_maker import ValuesMaker
from prl.rundir.run import Run

if TYPE_CHECKING:
    from prl.rundir.episodes.table import EpisodeTable
    from prl.rundir.metrics.store import MetricsStore

REFRESH_SECONDS = 0.5
"""How old what was read may be. Several clients within that time share one look at the files."""
METRICS_SECONDS = 2.0
"""The same of metrics. An overview is made anew for each state of them, so tabs are to find the same state."""

_T = TypeVar("_T")


class _Paced:
    """Whether it is time to look again."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._last = float("-inf")

    def due(self) -> bool:
        now = time.monotonic()
        if now - self._last < self._seconds:
            return False
        self._last = now
        return True


class OpenRun:
    """One run's readers."""

    def __init__(self, run_id: str, path: Path) -> None:
        self.id = run_id
        self.path = path
        self.run = Run(path)
        self._metrics = MetricFeed(path, METRICS_SECONDS)
        self._episodes_lock = threading.RLock()
        self._episodes_pace = _Paced(REFRESH_SECONDS)
        self._values = ValuesMaker(self)
        self.rollouts = Rollouts(self)
        self.log_desk = LogDesk(path)
        self._remembered_lock = threading.Lock()
        self._remembered_locks: dict[str, threading.Lock] = {}
        self._remembered: dict[str, tuple[float, Any]] = {}

    @contextmanager
    def metrics(self) -> Iterator["MetricsStore"]:
        """The metrics, for as long as the block lasts: read on to their end; of a large file at first the last rows
        alone (``whole`` is false then)."""
        with self._metrics.read() as store:
            yield store

    @contextmanager
    def episodes(self) -> Iterator["EpisodeTable"]:
        """The table of episodes, read on to its end, for as long as the block lasts."""
        with self._episodes_lock:
            table = self.run.episodes
            if self._episodes_pace.due():
                table.refresh()
                if table.values_missing:
                    self._values.start()
            yield table

    def metrics_version(self) -> str:
        """Changes when a metric does."""
        return self._metrics.version()

    def episodes_version(self) -> str:
        """Changes when an episode, or what is known of one, does."""
        with self.episodes() as table:
            return "-".join(map(str, table.version))

    def remembered(self, name: str, seconds: float, make: Callable[[], _T]) -> _T:
        """What ``make`` gave under this name, at most ``seconds`` ago: for what takes many looks at small files."""
        with self._remembered_lock:
            lock = self._remembered_locks.setdefault(name, threading.Lock())
        with lock:
            made, value = self._remembered.get(name, (float("-inf"), None))
            now = time.monotonic()
            if now - made >= seconds:
                value = make()
                self._remembered[name] = (now, value)
            return value  # type: ignore[no-any-return]

    def close(self) -> None:
        """End what is read in the background."""
        self._metrics.close()
        self._values.close()
