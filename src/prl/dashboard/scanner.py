"""The runs below the tracked directories, looked for in the background: whoever asks gets what is known so far.

A first look at a thousand runs takes a second, one at runs in which nothing happened a few milliseconds. While somebody
asks, the directories are looked at every few seconds, else seldom. Until it is started each question looks itself.
"""

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prl.rundir.discovery import RunList, discover
from prl.rundir.runs import RunInfo

SECONDS = 3.0
"""Between two looks, while somebody asks."""
QUIET_SECONDS = 30.0
"""Between two looks, while nobody does."""
_ASKED_LATELY = 15.0
_SHARE = 0.02
"""Of a core that looking may take, on average."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Found:
    """What is known of the runs at one moment."""

    runs: tuple[RunInfo, ...]
    """The most recently changed first."""
    problems: tuple[str, ...]
    scanning: bool
    """Whether the first look at these directories goes on: there may be more runs."""
    version: int
    """Changes when anything else here does."""


class Scanner:
    """Looks for runs. Safe to use from several threads."""

    def __init__(self, dirs: Sequence[Path]) -> None:
        self._dirs = tuple(dirs)
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._fresh = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._asked = float("-inf")
        self._runs: dict[str, RunInfo] = {}
        self._problems: tuple[str, ...] = ()
        self._scanning = True
        self._version = 0
        self._answer: Found | None = None

    @property
    def dirs(self) -> tuple[Path, ...]:
        return self._dirs

    def set_dirs(self, dirs: Sequence[Path]) -> None:
        """Track these directories from now on."""
        with self._lock:
            if tuple(dirs) == self._dirs:
                return
            self._dirs = tuple(dirs)
            self._scanning = True
            self._fresh.clear()
            self._changed()
        self._wake.set()

    def start(self) -> None:
        """Look in the background from now on, until :meth:`close`."""
        with self._lock:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._loop, name="scanner", daemon=True)
                self._thread.start()

    def close(self) -> None:
        self._closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)

    def found(self, wait: float = 0.0) -> Found:
        """The runs. ``wait``: seconds that a first look, or the first after a while in which nobody asked, may take
        before the answer is what is known so far."""
        lately = time.monotonic() - self._asked < _ASKED_LATELY
        self._asked = time.monotonic()
        if self._thread is None:
            self._look()
        else:
            if not lately:
                self._fresh.clear()  # what is known may be as old as nobody asked
                self._wake.set()
            self._fresh.wait(wait)
        with self._lock:
            if self._answer is None:
                runs = sorted(self._runs.values(), key=lambda run: (run.changed, run.name), reverse=True)
                self._answer = Found(tuple(runs), self._problems, self._scanning, self._version)
            return self._answer

    def known(self) -> tuple[RunInfo, ...]:
        """The runs that are known, in no order. Asking makes nobody look sooner."""
        with self._lock:
            return tuple(self._runs.values())

    def get(self, run_id: str) -> RunInfo | None:
        """The run of an id, as far as is known."""
        if self._thread is None:
            self._look()
        return self._runs.get(run_id)

    def _loop(self) -> None:
        while not self._closed:
            self._wake.clear()
            began = time.thread_time()
            try:
                self._look()
            except _Closed:
                return
            except Exception:  # whatever one look met, the next is taken
                _log.exception("looking for runs failed")
            pause = (time.thread_time() - began) / _SHARE
            lately = time.monotonic() - self._asked < _ASKED_LATELY
            self._wake.wait(max(pause, SECONDS if lately else QUIET_SECONDS))
            # Woken by a question, of which many may come: still not oftener than that.
            time.sleep(0.05 if not self._closed else 0.0)

    def _look(self) -> None:
        dirs = self._dirs
        found = discover(dirs, on_found=self._take)
        with self._lock:
            if dirs == self._dirs:
                self._settle(found)

    def _take(self, run: RunInfo) -> None:
        """A run, as soon as it is known."""
        if self._closed:
            raise _Closed
        with self._lock:
            known = self._runs.get(run.id)
            if known is not run and known != run:
                self._runs[run.id] = run
                self._changed()

    def _settle(self, found: RunList) -> None:
        runs = {run.id: run for run in found.runs}
        if self._scanning or found.problems != self._problems or runs.keys() != self._runs.keys():
            self._problems, self._scanning = found.problems, False
            self._changed()
        self._runs = runs
        self._fresh.set()

    def _changed(self) -> None:
        self._version += 1
        self._answer = None


class _Closed(Exception):  # noqa: N818 - the end of looking, no error
    """Ends a look whose answer nobody waits for."""
