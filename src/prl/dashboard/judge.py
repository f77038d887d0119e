"""Verdicts on all runs, made in the background: those that somebody looks at first and often, ended ones once.

Judging a live run costs tens of milliseconds, so how often it happens follows from what it took: it gets a small part
of a core, however many tabs are open. A run whose judging raises is Unknown with the reason, and one whose judging does
not come back (a disk that hangs) is left to its thread; neither keeps the others from being judged. Nothing of it is
written down.
"""

import dataclasses
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prl.dashboard.judgement import Judgement, failed, judge_run
from prl.rundir.runs import RunInfo
from prl.watch.verdict import FAILED, FINISHED, PHASE_UNKNOWN, STOPPED

if TYPE_CHECKING:
    from prl.watch.thresholds import Thresholds

OPEN_SECONDS = 5.0
"""Between two judgements of a live run that somebody looks at, at the least."""
LIVE_SECONDS = 20.0
"""Of a live run that nobody looks at."""
STILL_SECONDS = 120.0
"""Of one in which nothing changes and of which nothing says whether it lives."""
LOOKED_LATELY = 20.0
"""A run counts as looked at for this long."""
IDLE_SECONDS = 60.0
"""Nothing is judged when nobody asked for a verdict for this long."""
PATIENCE = 2.0
"""Seconds for which the others wait while one run is judged."""
HANGS = 30.0
"""Seconds after which judging a run counts as not coming back."""
SHARE = 0.04
"""Of a core that judging again may take."""
FIRST_SHARE = 0.4
"""Of a core that judging for the first time may take: a thousand runs are to be known within a minute or so."""

_OVER = (FINISHED, FAILED, STOPPED)
_TOGETHER = 100
"""Runs whose jobs SLURM is asked for at once."""
_ASK_SECONDS = 25.0
_log = logging.getLogger(__name__)


class Judge:
    """The verdicts. ``runs`` gives the runs that there are. Safe to use from several threads."""

    def __init__(
        self,
        runs: Callable[[], Sequence[RunInfo]],
        judge: "Callable[[RunInfo, Thresholds, Judgement | None], Judgement]" = judge_run,
        hangs: float = HANGS,
    ) -> None:
        self._runs, self._judge, self._hangs = runs, judge, hangs
        self._lock = threading.Condition()
        self._made: dict[str, Judgement] = {}
        self._looked: dict[str, float] = {}
        self._asked = time.monotonic()
        self._version = 0
        self._problem: str | None = None
        self._wake = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._worker: _Worker | None = None
        self._slow: dict[str, _Slow] = {}
        self._asked_slurm = float("-inf")

    # ---- for those who ask

    @property
    def version(self) -> int:
        """Changes when a verdict does, but for the passing of time."""
        now = time.monotonic()
        idle, self._asked = now - self._asked > IDLE_SECONDS, now
        if idle:
            self._wake.set()
        return self._version

    @property
    def problem(self) -> str | None:
        """Why the user's own thresholds are not used; None when they are."""
        return self._problem

    def of(self, run_id: str) -> Judgement | None:
        """The newest judgement of a run; None: not judged yet."""
        return self._made.get(run_id)

    def look_at(self, run: RunInfo, wait: float = 0.0) -> Judgement | None:
        """As :meth:`of` a run that somebody looks at: it is judged next, and often. ``wait``: seconds to wait for a
        first judgement."""
        now = time.monotonic()
        with self._lock:
            before = self._looked.get(run.id, float("-inf"))
            self._looked[run.id] = self._asked = now
        if self._thread is None:
            return self._judge_here(run)
        if now - before > LOOKED_LATELY or run.id not in self._made:
            self._wake.set()
        with self._lock:
            self._lock.wait_for(lambda: run.id in self._made or self._closed, timeout=wait)
        return self._made.get(run.id)

    def start(self) -> None:
        """Judge in the background from now on, until :meth:`close`."""
        with self._lock:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._loop, name="judge", daemon=True)
                self._thread.start()

    def close(self) -> None:
        self._closed = True
        self._wake.set()
        with self._lock:
            self._lock.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=1.0)
        if self._worker is not None:
            self._worker.end()

    # ---- in the background

    def _loop(self) -> None:
        while not self._closed:
            try:
                pause = self._turn()
            except Exception:  # whatever one turn met, the next is taken
                _log.exception("judging failed")
                pause = 5.0
            self._wake.wait(pause)
            self._wake.clear()

    def _turn(self) -> float:
        """Judge the run whose turn it is. Seconds until the next."""
        if time.monotonic() - self._asked > IDLE_SECONDS:
            return 30.0
        runs = self._runs()
        self._forget(runs)
        self._collect()
        due = self._due(runs)
        if not due:
            return 1.0
        self._ask_slurm(due)
        run = due[0]
        first = run.id not in self._made
        judged = self._outcome(run)
        if judged is not None:
            self._keep(run, judged)
        # Somebody waits for one that was never judged.
        if judged is None or any(self._is_looked_at(run) and run.id not in self._made for run in due[1:]):
            return 0.0
        return judged.cpu_seconds * (1 / (FIRST_SHARE if first else SHARE) - 1)

    def _due(self, runs: Sequence[RunInfo]) -> list[RunInfo]:
        """Runs that are to be judged now, the most urgent first."""
        now = time.monotonic()
        due = []
        for run in runs:
            late = self._late(run, now)
            if late is not None and run.id not in self._slow:
                due.append(((not self._is_looked_at(run), run.id in self._made, -late), run))
        return [run for _, run in sorted(due, key=lambda pair: pair[0])]

    def _late(self, run: RunInfo, now: float) -> float | None:
        """By how many times its interval the judgement of a run is late; None: it is not."""
        made = self._made.get(run.id)
        if made is None:
            return run.changed
        age, looked = now - made.made, self._is_looked_at(run)
        changed = made.run is not run and made.run != run
        if made.verdict.phase in _OVER:
            interval = OPEN_SECONDS if changed else float("inf")
        elif made.verdict.phase == PHASE_UNKNOWN and not changed and not looked:
            interval = STILL_SECONDS
        else:
            interval = OPEN_SECONDS if looked else LIVE_SECONDS
        interval = max(interval, made.cpu_seconds / SHARE)
        return age / interval if age >= interval else None

    def _is_looked_at(self, run: RunInfo) -> bool:
        return time.monotonic() - self._looked.get(run.id, float("-inf")) < LOOKED_LATELY

    def _outcome(self, run: RunInfo) -> Judgement | None:
        """The judgement of a run; None: it takes long, and the others are not to wait for it."""
        limits = self.limits()
        worker = self._worker = self._worker or _Worker()
        answer = worker.do(lambda: self._try(run, limits))
        try:
            return answer.get(timeout=min(PATIENCE, self._hangs))
        except queue.Empty:
            self._slow[run.id] = _Slow(run, worker, answer, time.monotonic())
            self._worker = None
            worker.end()
            return None

    def _collect(self) -> None:
        """Take what took long; of what does not come back tell so, once, and let it be."""
        for slow in list(self._slow.values()):
            if slow.worker.is_free:
                del self._slow[slow.run.id]
                self._keep(slow.run, slow.answer.get())
            elif not slow.told and time.monotonic() - slow.since > self._hangs:
                slow.told = True
                why = f"judging it has not come back for {self._hangs:g} s (a disk that hangs?)"
                self._keep(slow.run, failed(slow.run, why))

    def _try(self, run: RunInfo, limits: "Thresholds") -> Judgement:
        began = time.thread_time()
        try:
            return self._judge(run, limits, self._made.get(run.id))
        except Exception as error:  # one run that cannot be judged must not keep the others from it
            _log.warning("judging %s failed", run.path, exc_info=True)
            told = failed(run, f"judging it failed: {type(error).__name__}: {error}")
            return dataclasses.replace(told, cpu_seconds=time.thread_time() - began)

    def _judge_here(self, run: RunInfo) -> Judgement:
        made = self._made.get(run.id)
        if made is None or time.monotonic() - made.made > OPEN_SECONDS or made.run != run:
            made = self._keep(run, self._try(run, self.limits()))
        return made

    def _keep(self, run: RunInfo, judged: Judgement) -> Judgement:
        with self._lock:
            before = self._made.get(run.id)
            if before is not None and not judged.differs(before):
                kept = dataclasses.replace(judged, version=before.version, since=before.since)
            else:
                self._version += 1
                kept = dataclasses.replace(judged, version=self._version, since=judged.made)
            self._made[run.id] = kept
            self._lock.notify_all()
            return kept

    def _forget(self, runs: Sequence[RunInfo]) -> None:
        """Runs that are gone."""
        if len(self._made) > len(runs):
            known = {run.id for run in runs}
            with self._lock:
                self._made = {name: made for name, made in self._made.items() if name in known}
                self._looked = {name: moment for name, moment in self._looked.items() if name in known}

    def limits(self) -> "Thresholds":
        """The user's thresholds; where their file cannot be used the usual ones, and that is told."""
        from prl.watch.thresholds import DEFAULT, ThresholdsError, load_thresholds

        try:
            limits = load_thresholds()
            self._problem = None
        except ThresholdsError as error:
            limits, self._problem = DEFAULT, f"runs are judged by the usual thresholds: {error}"
        return limits

    def _ask_slurm(self, due: Sequence[RunInfo]) -> None:
        """One question for all jobs, so that each run need not ask."""
        if time.monotonic() - self._asked_slurm < _ASK_SECONDS:
            return
        jobs = [run.job_id for run in due[:_TOGETHER] if run.job_id is not None]
        if jobs:
            from prl.watch.jobs import ask_together

            ask_together(list(dict.fromkeys(jobs)), time.time())
            self._asked_slurm = time.monotonic()


@dataclass
class _Slow:
    """A run whose judgement has not come yet."""

    run: RunInfo
    worker: "_Worker"
    answer: "queue.SimpleQueue[Judgement]"
    since: float
    told: bool = False


class _Worker:
    """A thread that does one thing after the other, and that can be left alone when one does not come back."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[tuple[Callable[[], Judgement], queue.SimpleQueue[Judgement]] | None] = (
            queue.SimpleQueue()
        )
        self.is_free = True
        threading.Thread(target=self._run, name="judge-worker", daemon=True).start()

    def do(self, task: Callable[[], Judgement]) -> "queue.SimpleQueue[Judgement]":
        """Where the outcome will be."""
        self.is_free = False
        answer: queue.SimpleQueue[Judgement] = queue.SimpleQueue()
        self._tasks.put((task, answer))
        return answer

    def end(self) -> None:
        self._tasks.put(None)

    def _run(self) -> None:
        while (item := self._tasks.get()) is not None:
            task, answer = item
            answer.put(task())
            self.is_free = True
