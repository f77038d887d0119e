"""All runs below the tracked directories, and those of them that are open: what every route works on."""

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prl.dashboard.errors import ApiError, not_found
from prl.dashboard.open_runs import OpenRun
from prl.dashboard.scanner import Found, Scanner
from prl.dashboard.tabs import Tabs
from prl.rundir.recognition import is_run, run_id

if TYPE_CHECKING:
    from prl.dashboard.judge import Judge
    from prl.rundir.runs import RunInfo

MAX_OPEN = 8
"""Runs whose readers are kept. One more closes the one that nobody asked for the longest."""
_MOMENT = 0.15
"""Seconds that a first look at the directories may keep somebody waiting who asks for the runs."""


class Workspace:
    """The tracked directories and their runs. Safe to use from several threads.

    Without :meth:`start` nothing goes on in the background: each question looks itself.
    """

    def __init__(self, dirs: Sequence[Path], *, url: str | None = None) -> None:
        """``url``: where the pages are, for whoever asks the server."""
        self.url = url
        self.tabs = Tabs()
        self._scanner = Scanner(dirs)
        self._lock = threading.Lock()
        self._open: OrderedDict[str, OpenRun] = OrderedDict()
        self._judge: Judge | None = None
        self._started = False

    @property
    def dirs(self) -> tuple[Path, ...]:
        return self._scanner.dirs

    def set_dirs(self, dirs: Sequence[Path]) -> None:
        """Track these directories from now on."""
        self._scanner.set_dirs(dirs)

    @property
    def judge(self) -> "Judge":
        """The verdicts on the runs. Judging begins when somebody asks for them first."""
        with self._lock:
            if self._judge is None:
                # The watch side is not needed to answer who is here.
                from prl.dashboard.judge import Judge

                self._judge = Judge(self._scanner.known)
                if self._started:
                    self._judge.start()
            return self._judge

    def start(self) -> None:
        """Look for runs and judge them in the background, until :meth:`close`."""
        self._started = True
        self._scanner.start()

    def close(self) -> None:
        """End what goes on in the background, and the runs that are open."""
        self._scanner.close()
        with self._lock:
            judge, opened = self._judge, list(self._open.values())
            self._open.clear()
        if judge is not None:
            judge.close()
        for run in opened:
            run.close()

    def runs(self, wait: float = 0.0) -> Found:
        """Every run that is known of. ``wait``: as in :meth:`Scanner.found`."""
        return self._scanner.found(wait)

    def info(self, wanted: str) -> "RunInfo":
        """What the list says of a run. Raises ApiError (404)."""
        found = self._scanner.get(wanted)
        if found is None:
            found = next((run for run in self.runs(_MOMENT).runs if run.id == wanted), None)
        if found is None:
            from prl.rundir.runs import read_run

            found = read_run(self._path_of(wanted))
        return found

    def open(self, wanted: str) -> OpenRun:
        """The run of an id. Raises ApiError: 404 for none, 410 for one whose directory is gone."""
        with self._lock:
            found = self._open.get(wanted)
            if found is not None:
                self._open.move_to_end(wanted)
        if found is None:
            found = self._opened(wanted, self._path_of(wanted))
        self.check(found)
        return found

    def _opened(self, wanted: str, path: Path) -> OpenRun:
        with self._lock:
            found = self._open.setdefault(wanted, OpenRun(wanted, path))
            over = [self._open.popitem(last=False)[1] for _ in range(len(self._open) - MAX_OPEN)]
        # Without the lock: closing waits for the run's reader, which may wait for one who asks for the lock.
        for run in over:
            run.close()
        return found

    def check(self, run: OpenRun) -> None:
        """Raises ApiError (410) when the directory of an open run is not there any more, and closes the run."""
        if os.path.isdir(run.path):  # noqa: PTH112 (asked with every request)
            return
        with self._lock:
            if self._open.get(run.id) is run:
                del self._open[run.id]
        run.close()
        raise ApiError(410, "gone", f"the directory of the run is not there any more: {run.path}")

    def _path_of(self, wanted: str) -> Path:
        known = self._scanner.get(wanted)
        if known is not None:
            return known.path
        # A run that began since the last look, or one whose page is opened before the first look came to it.
        name, _, _ = wanted.rpartition("~")
        for directory in self.dirs if name and "/" not in name and name not in (".", "..") else ():
            for path in (directory / name, directory):
                if run_id(os.path.realpath(path)) == wanted and is_run(path):
                    return path
        found = next((run for run in self.runs(_MOMENT).runs if run.id == wanted), None)
        if found is None:
            raise not_found(f"no run {wanted[:200]!r} below {', '.join(map(str, self.dirs))}")
        return found.path
