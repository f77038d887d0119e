"""Starts the components of a run, watches over them and ends them all.

One thread does everything: the kernel ties a child's life to the thread that started it, and a loop that looks ten
times a second needs no second one. Components are started without waiting for each other; that all are ready is the
orchestrator's business. Each has a session of its own, so that a Ctrl-C reaches the launcher alone, and orphans of any
of them come to the launcher, so that the whole tree can be found when it has to go.
"""

import contextlib
import logging
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import psutil

from prl.launch.cause import Cause, find_cause, has_fatal_line
from prl.launch.components import Component, Role
from prl.launch.events import ComponentUp, Event, Failed, Outcome, Waiting
from prl.launch.exits import COMPONENT_FAILED, OK, SIGNALLED
from prl.launch.processes import descendants, end_all, reap
from prl.launch.progress import Progress
from prl.launch.watchdog import Watchdog
from prl.rundir.layout import RunLayout
from prl.rundir.logs.console import success
from prl.rundir.process import adopt_orphans, die_with_parent
from prl.rundir.status import (
    FAILED,
    FINISHED,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    LauncherStatus,
    ProcessStatus,
)

logger = logging.getLogger("prl.launch")

POLL_SECONDS = 0.1
STATUS_SECONDS = 2.0
SETTLE_SECONDS = 1.0
"""How long to wait, once a component died, for others to turn out dead: the first one seen need not be the first."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass
class Child:
    """A component that was started."""

    component: Component
    process: subprocess.Popen[bytes]
    status: ProcessStatus
    crashed: bool = False
    """It ended after reporting a crash."""

    def collect(self) -> None:
        """Note the end of the process, once."""
        code = self.process.poll()
        if code is not None and self.status.exit_code is None:
            self.status.exit_code, self.status.ended = code, time.time()
            # One may end with status 0 although it crashed: a teardown that took too long is cut off so.
            self.crashed = has_fatal_line(self.component.log)

    @property
    def failed(self) -> bool:
        """Ended as it must not while the run is on."""
        code = self.status.exit_code
        return code is not None and (code != 0 or self.crashed or self.component.role is Role.SERVER)

    def cause(self) -> Cause:
        code = self.status.exit_code or 0
        log = self.component.log
        if code == 0 and not self.crashed:
            return Cause("ended while the run still needed it", log)
        ranks = self.component.rank_logs
        return find_cause(code, log, sorted(ranks.glob("*/attempt_*/*/stderr.log")) if ranks else ())


class Supervisor:
    """One launch from the first process to the last. :meth:`run` must be called in the main thread."""

    def __init__(
        self,
        components: Sequence[Component],
        layout: RunLayout,
        status: LauncherStatus,
        progress: Progress,
        *,
        shutdown_timeout: float,
        launcher_log: Path,
        on_event: Callable[[Event], None],
    ) -> None:
        self.components = components
        self.layout = layout
        self.status = status
        self.progress = progress
        self.shutdown_timeout = shutdown_timeout
        self.launcher_log = launcher_log
        self.on_event = on_event
        self.children: list[Child] = []
        self._signals: list[int] = []
        self._written = 0.0
        self._mute = False
        self._others = {process.pid for process in psutil.Process().children()}
        """Children this process had before: not the run's."""

    def run(self) -> Outcome:
        """Start, watch, end. Whatever happens, no process of the run is left when this returns or raises."""
        with self._signals_noted():
            adopt_orphans()
            watchdog = Watchdog(self.layout.status_json, self.launcher_log, self.shutdown_timeout)
            self._others.add(watchdog.pid)
            try:
                outcome = self._supervise(watchdog)
            except Exception as error:
                logger.error("Error occurred: %s", error, exc_info=True)
                outcome = self._end(COMPONENT_FAILED, FAILED, cause=f"launcher: {type(error).__name__}: {error}")
            finally:
                end_all(self._tree, 0.0)  # nothing, unless the way here was an exception
                self._reap()
                watchdog.dismiss()
                adopt_orphans(False)
            return outcome

    def _supervise(self, watchdog: Watchdog) -> Outcome:
        self.status.phase = STARTING
        for component in self.components:
            self._start(component)
            watchdog.guard(self._tree())
        while not self._signals:
            self._collect()
            failed = [child for child in self.children if child.failed]
            if failed:
                return self._fail(failed)
            if all(c.status.exit_code is not None for c in self.children if c.component.role is Role.WORKER):
                self._report()
                success(logger, "Training finished!")
                return self._end(OK, FINISHED)
            self._report()
            if time.monotonic() - self._written >= STATUS_SECONDS:
                watchdog.guard(self._tree())
                self._write_status()
                self._reap()
            time.sleep(POLL_SECONDS)
        return self._stop(self._signals[0])

    def _start(self, component: Component) -> None:
        component.log.parent.mkdir(parents=True, exist_ok=True)
        if component.rank_logs:
            component.rank_logs.mkdir(parents=True, exist_ok=True)
        with component.log.open("ab") as log:
            process = subprocess.Popen(
                component.command,
                env=component.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509  no thread of this process holds a lock it would need
            )
        status = ProcessStatus(
            name=component.name,
            title=component.title,
            pid=process.pid,
            host=socket.gethostname(),
            started=_started(process.pid),
            log=str(component.log.relative_to(self.layout.root)),
        )
        self.children.append(Child(component, process, status))
        self.status.processes.append(status)
        self._write_status()
        logger.info("Started %s (process %d), log %s", component.name, process.pid, component.log)
        self._emit(ComponentUp(component.name, process.pid, component.log))

    def _collect(self) -> None:
        """Note which components have ended since the last look."""
        for child in self.children:
            child.collect()

    def _report(self) -> None:
        for event in self.progress.poll():
            self._emit(event)
        what, seconds = self.progress.waiting_for()
        self.status.step = self.progress.step if self.progress.step is not None else self.progress.resume_step
        self.status.waiting_for = what
        if self.progress.step is not None:
            self.status.phase = RUNNING
        self._emit(Waiting(what, seconds))

    def _fail(self, failed: list[Child]) -> Outcome:
        deadline = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline and not self._signals:
            time.sleep(POLL_SECONDS)
            self._collect()
        dead = failed + [child for child in self.children if child.failed and child not in failed]
        dead.sort(key=lambda child: child.status.ended or 0.0)
        causes = [(child, child.cause()) for child in dead]
        child, cause = next(((c, why) for c, why in causes if not why.is_echo), causes[0])
        for other, why in causes:
            other.status.reason = why.text
        self._report()
        code, name = child.status.exit_code or 0, child.component.spoken_name
        log = cause.log.relative_to(self.layout.root)
        logger.error("Error: %s failed with exit code %d: %s (%s)", name, code, cause.text, log)
        self._emit(Failed(child.component.name, code, cause.text, cause.log))
        logger.error("Terminating all processes")
        return self._end(COMPONENT_FAILED, FAILED, child.component.name, cause.text)

    def _stop(self, signum: int) -> Outcome:
        name = signal.Signals(signum).name
        what = "an interrupt" if signum == signal.SIGINT else name
        logger.warning("Received %s, terminating all processes (again: kill them at once)", what)
        return self._end(SIGNALLED + signum, STOPPED, cause=f"stopped by {name}")

    def _end(self, exit_code: int, phase: str, component: str | None = None, cause: str | None = None) -> Outcome:
        """End whatever runs and write the last status."""
        # A second interrupt may come at any moment from the first on, also while this one is being told.
        noted = 1 if phase == STOPPED else len(self._signals)
        self.status.phase, self.status.waiting_for = STOPPING, "the processes to end"
        self._write_status()

        def hurry() -> bool:
            self._collect()
            if time.monotonic() - self._written >= STATUS_SECONDS:
                self._write_status()
            return len(self._signals) > noted

        running = [child for child in self.children if child.process.poll() is None]
        killed = end_all(self._tree, self.shutdown_timeout, hurry=hurry)
        if killed:
            names = ", ".join(f"{process.pid}" for process in killed)
            why = "as asked" if len(self._signals) > noted else "that did not end in time"
            logger.warning("Killed processes %s: %s", why, names)
        for child in self.children:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(timeout=POLL_SECONDS)
        self._collect()
        for child in running:
            child.status.reason = child.status.reason or "ended by the launcher"
        where = f"{component}: {cause}" if component else cause
        self.status.phase, self.status.exit_code, self.status.reason = phase, exit_code, where
        self.status.waiting_for, self.status.ended = None, time.time()
        self._write_status()
        return Outcome(exit_code, phase, component, cause, self.layout.root)

    def _tree(self) -> list[psutil.Process]:
        """Every living process of the run, orphans included."""
        mine = psutil.Process().pid
        spared = {p.pid for pid in self._others for p in descendants(pid)} | self._others
        return [process for process in descendants(mine) if process.pid not in spared]

    def _reap(self) -> None:
        reap([*self._others, *(child.process.pid for child in self.children)])

    def _write_status(self) -> None:
        self._written = time.monotonic()
        self.status.updated = time.time()
        try:
            self.layout.status_json.parent.mkdir(parents=True, exist_ok=True)
            self.status.write(self.layout.status_json)
        except OSError as error:
            # A full disk must not end a run that could go on; the file's age tells readers.
            if not self._mute:
                logger.warning("Cannot write %s: %s", self.layout.status_json, error)
            self._mute = True
        else:
            self._mute = False

    def _emit(self, event: Event) -> None:
        try:
            self.on_event(event)
        except OSError as error:  # the terminal went away; the run does not need it
            self.on_event = _ignore
            logger.warning("Progress is shown no longer: %s", error)

    @contextlib.contextmanager
    def _signals_noted(self) -> Iterator[None]:
        """Note signals instead of dying from them; one that was ignored from the start (nohup) stays so."""

        def note(signum: int, _frame: FrameType | None) -> None:
            self._signals.append(signum)

        before = {signum: signal.getsignal(signum) for signum in _SIGNALS}
        for signum, handler in before.items():
            if handler != signal.SIG_IGN:
                signal.signal(signum, note)
        try:
            yield
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)


def _started(pid: int) -> float:
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return time.time()


def _ignore(_event: Event) -> None:
    return None
