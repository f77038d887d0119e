"""Values of episodes whose writer left none (tasks, agents, steps, rewards by name), made in the background.

Each is read from its record, in slices between which the table is free for everybody else. What was made is kept in the
user's cache.
"""

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prl.dashboard.open_runs import OpenRun

_SLICE = 4 << 20
"""Bytes of records that are read while others wait: some tens of milliseconds."""
_PAUSE = 0.05


class ValuesMaker:
    """Makes what is missing of one run, by a thread that ends when nothing is. Safe to use from several threads."""

    def __init__(self, run: "OpenRun") -> None:
        self._run = run
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def start(self) -> None:
        """Begin, unless it goes on already."""
        with self._lock:
            if self._closed.is_set() or (self._thread is not None and self._thread.is_alive()):
                return
            self._thread = threading.Thread(target=self._make, name="values", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End after the slice that is read now."""
        self._closed.set()

    def _make(self) -> None:
        done = False
        while not done and not self._closed.wait(_PAUSE):
            with self._run.episodes() as table:
                done = table.make_values(max_bytes=_SLICE)
