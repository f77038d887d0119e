"""The metrics of an open run, at once and then in full.

A large file that no cache knows takes seconds to read. Until it is read, its last rows stand for it, so that whoever
opens the page sees where the run is; meanwhile a thread reads it from the beginning, in slices. Afterwards each look
reads what is new. Left out: what is done with the rows.
"""

import contextlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from prl.rundir.locate import metrics_path

if TYPE_CHECKING:
    from prl.rundir.metrics.store import MetricsStore

FIRST_ROWS = 600
"""Rows that stand for a file which is not read yet."""
AT_ONCE = 8 * 1024**2
"""Bytes that one look may read: some tens of milliseconds."""
_SLICE = 4 * 1024**2
"""Bytes that the thread reads without letting others to the store."""
_HEAD_START = 0.15
"""Seconds before the thread begins, in which the first answer is made of the last rows."""
_PAUSE = 0.002
"""Seconds between two slices, in which others come to their turn."""
_CLOSE_SECONDS = 5.0
"""How long closing waits for the thread, which a disk that hangs may hold."""


class MetricFeed:
    """Reads one run's metrics. Safe to use from several threads."""

    def __init__(self, root: Path, pace: float) -> None:
        """``pace``: seconds between two looks at the file."""
        self._root = root
        self._pace = pace
        self._lock = threading.RLock()
        self._store: MetricsStore | None = None
        self._first: MetricsStore | None = None
        """Stands for the store while that is not read to the end."""
        self._looked = float("-inf")
        self._reader: threading.Thread | None = None
        self._closed = False

    @contextmanager
    def read(self) -> Iterator["MetricsStore"]:
        """The metrics for as long as the block lasts. Their ``whole`` is false while only the last rows are there."""
        with self._lock:
            self._look()
            yield self._first or self._opened()

    def version(self) -> str:
        """Changes when an answer from the metrics may, in this process."""
        with self._lock:
            self._look()
            # While the first rows stand for all, it is them that answers are made from.
            return f"first-{self._first.version}" if self._first is not None else str(self._opened().version)

    def close(self) -> None:
        """End reading in the background."""
        self._closed = True
        if self._reader is not None:
            self._reader.join(timeout=_CLOSE_SECONDS)

    def _opened(self) -> "MetricsStore":
        if self._store is None or self._moved(self._store):
            from prl.rundir.metrics.store import MetricsStore

            self._store = MetricsStore(metrics_path(self._root))
            self._first = None
        return self._store

    def _moved(self, store: "MetricsStore") -> bool:
        """Whether the file did not exist and now does by another layout's name."""
        return store.absent and metrics_path(self._root) != store.path

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked < self._pace or self._is_reading():
            return
        store = self._opened()
        # Read once to its end, a file is only a little behind when much was added at once.
        known = store.complete and not store.absent
        if store.refresh(AT_ONCE):
            self._first = None
        else:
            self._first = None if known and store.rows else store.newest(FIRST_ROWS)
            self._reader = threading.Thread(target=self._read_on, args=(store,), name="metrics", daemon=True)
            self._reader.start()
        self._looked = time.monotonic()

    def _is_reading(self) -> bool:
        return self._reader is not None and self._reader.is_alive()

    def _read_on(self, store: "MetricsStore") -> None:
        time.sleep(_HEAD_START)
        done = False
        while not done and not self._closed:
            time.sleep(_PAUSE)
            with self._turn():
                done = store.refresh(_SLICE)
        with self._lock:
            self._first = None

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Alone with the store; while its first rows stand for it nobody else is there."""
        with self._lock if self._first is None else contextlib.nullcontext():
            yield
