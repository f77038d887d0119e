"""All runs below the tracked directories, and those of them that are open."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from prl.dashboard.errors import not_found
from prl.dashboard.open_runs import OpenRun
from prl.rundir.discovery import RunList, discover

MAX_OPEN = 8
"""Runs whose readers are kept. One more closes the one that nobody asked for the longest."""


class Workspace:
    """The tracked directories and their runs. Safe to use from several threads."""

    def __init__(self, dirs: Sequence[Path]) -> None:
        self.dirs = tuple(dirs)
        self._lock = threading.Lock()
        self._open: OrderedDict[str, OpenRun] = OrderedDict()

    def runs(self) -> RunList:
        """Every run, by :func:`prl.rundir.discovery.discover`."""
        return discover(self.dirs)

    def open(self, run_id: str) -> OpenRun:
        """The run of an id. Raises ApiError (404)."""
        with self._lock:
            found = self._open.get(run_id)
            if found is not None:
                self._open.move_to_end(run_id)
                return found
        info = next((info for info in self.runs().runs if info.id == run_id), None)
        if info is None:
            raise not_found(f"no run {run_id!r} below {', '.join(map(str, self.dirs))}")
        with self._lock:
            opened = self._open.setdefault(run_id, OpenRun(run_id, info.path))
            while len(self._open) > MAX_OPEN:
                self._open.popitem(last=False)
            return opened
