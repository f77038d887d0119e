"""What several rules need to know, worked out once from the facts: phase, progress, what the run waits for."""

import re
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from prl.rundir import status
from prl.watch.blame import root_cause, to_blame
from prl.watch.facts import ALIVE, EXITED, GONE, UNKNOWN, Clock, Facts, LogError, Process, Series
from prl.watch.verdict import (
    CONFIGURED,
    DRAINING,
    FAILED,
    FAILING,
    FINISHED,
    PHASE_UNKNOWN,
    RUNNING,
    STARTING,
    STOPPED,
)

STALL_FACTOR = 10.0
STALL_FLOOR = 60.0
"""A run is stuck when nothing advanced for longer than max(factor x median step, floor) seconds."""

WORKERS = ("trainer", "orchestrator")
"""Components that end by themselves when the work is done. All others serve until they are told to end."""

_POLICY = re.compile(r"policy v(\d+)")

_ESSENTIAL = (*WORKERS, "inference")
"""Components whose crash ends a run. An environment's log also holds the crashes of workers that are replaced."""


@dataclass(frozen=True)
class Stage:
    """How far a start-up is."""

    name: str
    awaits: str
    since: float | None
    bound: float
    """Seconds that this stage may take, from the run's configuration."""
    source: str


@dataclass(frozen=True)
class View:
    """The facts seen as a whole. Everything is derived; nothing here judges."""

    facts: Facts

    @cached_property
    def phase(self) -> str:
        """The run's phase. SLURM's phases (queued, preempted, requeued) are not told apart here."""
        facts, launcher = self.facts, self.facts.launcher
        if launcher is None:
            return self._phase_without_launcher()
        if launcher.phase == status.FINISHED:
            return FAILED if self.unfinished_workers else FINISHED
        if launcher.phase in (status.FAILED, status.STOPPED):
            return FAILED if launcher.phase == status.FAILED else STOPPED
        if launcher.state == UNKNOWN:
            return PHASE_UNKNOWN
        if launcher.state == GONE:
            if self.work_done:
                return FINISHED
            return FAILING if any(process.state == ALIVE for process in facts.processes) else FAILED
        if self.lost:
            return FAILING
        if launcher.phase == status.STOPPING or self.draining:
            return DRAINING
        return RUNNING if self.stage is None else STARTING

    def _phase_without_launcher(self) -> str:
        facts = self.facts
        if not facts.launched:
            return CONFIGURED if facts.configured else PHASE_UNKNOWN
        if self.work_done:
            return FAILED if facts.mark("forced_exit") else FINISHED
        if self.last_words is not None:
            return FAILED
        if self.idle is not None and self.idle <= self.stall_bound:
            return DRAINING if self.draining else RUNNING
        return PHASE_UNKNOWN

    @property
    def workers(self) -> tuple[str, ...]:
        return WORKERS if self.facts.run.kind == "rl" else ("trainer",)

    def finished(self, worker: str) -> bool:
        """Whether a worker wrote its finish line, and no step after it."""
        done, step = self.facts.mark(f"{worker}_done", worker), self.facts.mark(f"{worker}_step", worker)
        return done is not None and (step is None or step.file != done.file or step.offset < done.offset)

    @cached_property
    def work_done(self) -> bool:
        return all(self.finished(worker) for worker in self.workers)

    @cached_property
    def unfinished_workers(self) -> list[str]:
        """Workers whose log would show the finish line and does not, or that ended by force."""
        forced = self.facts.mark("forced_exit") is not None
        return [
            worker
            for worker in self.workers
            if (self._would_show_end(worker) and not self.finished(worker)) or (forced and worker == "orchestrator")
        ]

    def _would_show_end(self, worker: str) -> bool:
        """Whether a finish line, if there is one, is in the part of the log that was looked at.

        It is when the whole log was, or when that part holds an earlier line of the worker's: a step, a wait.
        """
        marked = any(mark.component == worker and mark.kind != "no_space" for mark in self.facts.marks)
        return any(
            log.component == worker and log.size and not log.problem and (not log.skipped or marked)
            for log in self.facts.logs
        )

    @cached_property
    def lost(self) -> list[Process]:
        """Processes that are no more although the run needs them, in the order of their ends."""
        lost = [
            process for process in self.facts.processes if process.state in (EXITED, GONE) and not self._ended(process)
        ]
        return sorted(lost, key=lambda process: process.ended or process.as_of)

    def _ended(self, process: Process) -> bool:
        """Whether a process may have ended: a worker that is done, or a server once all workers are."""
        if process.exit_code not in (None, 0):
            return self.work_done and process.name not in WORKERS
        if process.name not in WORKERS:
            return self.work_done
        unseen = process.exit_code == 0 and not self._would_show_end(process.name)
        return self.finished(process.name) or unseen

    @cached_property
    def draining(self) -> bool:
        """Whether the last batch was shipped: the rest of the run is finishing what exists."""
        shipped, max_steps = self.facts.progress.orchestrator.value, self.facts.run.max_steps
        drain, step = self.facts.mark("drain"), self.facts.mark("orchestrator_step")
        said = drain is not None and (step is None or step.offset < drain.offset)
        return said or (shipped is not None and max_steps is not None and shipped >= max_steps)

    @cached_property
    def culprit(self) -> Process | None:
        """The process whose end came first and is not the echo of another's."""
        return to_blame(self.lost, self.facts.errors)

    @cached_property
    def cause(self) -> LogError | None:
        """The earliest primary error that explains the end of the run."""
        return root_cause(self.facts.errors, self.culprit, self.lost)

    @cached_property
    def last_words(self) -> LogError | None:
        """A crash header that nothing followed, in the log of a component that a run cannot be without."""
        moved = self.last_progress or 0.0
        crashes = [
            error
            for error in self.facts.errors
            if error.fatal and error.primary and error.component in _ESSENTIAL and (error.last_time or 0.0) >= moved - 1
        ]
        return crashes[0] if crashes else None

    # ---- progress

    @cached_property
    def step(self) -> int | None:
        """Last finished optimizer step, of this attempt or the one it resumed from."""
        value = self.facts.progress.trainer.value
        if value is not None:
            return value
        return (
            self.facts.run.resume_step
            if self.facts.run.resume_step is not None
            else (0 if self.facts.launched else None)
        )

    @cached_property
    def last_progress(self) -> float | None:
        """When any counter last advanced in this attempt."""
        return max((clock.time for clock in self._clocks if clock.time is not None), default=None)

    @cached_property
    def last_step(self) -> float | None:
        """When a step was last finished or shipped in this attempt."""
        progress = self.facts.progress
        times = [clock.time for clock in (progress.trainer, progress.orchestrator) if clock.time is not None]
        return max(times, default=None)

    @property
    def _clocks(self) -> tuple[Clock, ...]:
        progress = self.facts.progress
        return progress.trainer, progress.orchestrator, progress.policy, progress.episodes

    @cached_property
    def idle(self) -> float | None:
        """Seconds since any counter advanced."""
        return None if self.last_progress is None else max(self.facts.as_of - self.last_progress, 0.0)

    @cached_property
    def stall_bound(self) -> float:
        """Seconds without progress after which a run is stuck."""
        return max(STALL_FACTOR * (self.facts.progress.median_step or 0.0), STALL_FLOOR)

    # ---- start-up and waiting

    @cached_property
    def stage(self) -> Stage | None:
        """The start-up stage, None once a step of this attempt was finished."""
        facts, run = self.facts, self.facts.run
        if facts.progress.trainer.time is not None or (facts.progress.trainer.value or 0) > (run.resume_step or 0):
            return None
        since = facts.attempt_started
        waited = [server for server in facts.env_servers if server.ready is None]
        if waited:
            names = ", ".join(server.name for server in waited)
            awaits = f"environment server {names}: no address yet"
            return Stage("environment servers", awaits, since, run.env_startup_timeout, waited[0].source)
        since = max((server.ready for server in facts.env_servers if server.ready is not None), default=since)
        loop = facts.mark("trainer_loop")
        if self._orchestrator_wait is not None:
            return self._orchestrator_wait
        if loop is None:
            return Stage("trainer", "trainer: not in its training loop yet", since, run.sync_timeout, "trainer.log")
        since = loop.time or since
        if run.kind != "rl":
            return Stage("first step", "trainer: first step", since, run.batch_timeout, loop.file)
        started = facts.mark("orchestrator_loop")
        if started is None:
            what = (
                self.broadcast_wait or "orchestrator: not in its loop yet (inference and first weights come before it)"
            )
            return Stage("first weights", what, since, run.inference_ready_timeout, "orchestrator.log")
        since = started.time or since
        if not facts.progress.orchestrator.time:
            first = facts.progress.episodes.time is None
            what = "orchestrator: first episode" if first else "orchestrator: first batch (episodes are arriving)"
            return Stage("first batch", what, since, run.batch_timeout, started.file)
        since = facts.progress.orchestrator.time
        return Stage("first step", "trainer: first step", since, run.batch_timeout, loop.file)

    @cached_property
    def _orchestrator_wait(self) -> Stage | None:
        """What the orchestrator says that it waits for before its loop begins."""
        facts, run = self.facts, self.facts.run
        wait, ready = facts.mark("startup_wait"), facts.mark("startup_ready")
        if wait is None or facts.mark("orchestrator_loop") is not None:
            return None
        if ready is not None and ready.offset > wait.offset:
            return None
        since = ready.time if ready is not None else facts.attempt_started
        what = f"orchestrator: {wait.text}"
        if "inference server" in wait.text:
            return Stage("inference", what, since, run.inference_ready_timeout, wait.file)
        if "environment server" in wait.text:
            return Stage("environment servers", what, since, run.env_startup_timeout, wait.file)
        return Stage("first weights", what, since, run.sync_timeout, wait.file)

    @cached_property
    def broadcast_wait(self) -> str | None:
        """Who waits for whom in the handshake of the newest policy version."""
        newest = self.facts.broadcast
        if newest is None or newest.sender_ready is None:
            return None
        if newest.receiver_ready is None:
            return f"trainer waits for the orchestrator to accept policy v{newest.version}"
        if newest.started is None:
            return f"orchestrator waits for the trainer to send policy v{newest.version}"
        if newest.finished is None:
            return f"orchestrator waits for the trainer to finish writing policy v{newest.version}"
        policy = self.facts.progress.policy
        # The applied version is recorded every few seconds: an older record says nothing about this broadcast.
        if policy.value is not None and policy.value < newest.version and (policy.seen or 0.0) > newest.finished:
            return f"orchestrator waits for inference to apply policy v{newest.version} (applied: v{policy.value})"
        return None

    def _policy_to_come(self, line: str) -> str:
        """Of a wait for a policy version that was not broadcast yet: who has to make it."""
        needed, trained = _POLICY.search(line), self.facts.progress.trainer.value
        sent = self.facts.broadcast.version if self.facts.broadcast is not None else -1
        if needed is None or trained is None or sent >= int(needed[1]):
            return ""
        return f"; the trainer has not sent v{needed[1]}, it is at step {trained + 1}"

    @property
    def slow(self) -> bool:
        """Whether nothing advanced for longer than two steps take: before that, waiting is how a run works."""
        return self.idle is not None and self.idle > self.slow_bound

    @property
    def slow_bound(self) -> float:
        """Seconds without progress that are more than the usual: two steps."""
        return max(2 * (self.facts.progress.median_step or 0.0), 5.0)

    @cached_property
    def awaits(self) -> str | None:
        """What the run waits for, where files say."""
        if self.broadcast_wait is not None:
            return self.broadcast_wait
        facts = self.facts
        hold, step = facts.mark("hold"), facts.mark("orchestrator_step")
        if hold is not None and (step is None or step.offset < hold.offset):
            return f"orchestrator: {hold.text}{self._policy_to_come(hold.text)}"
        closed, opened = facts.mark("gate_closed"), facts.mark("gate_open")
        if closed is not None and (opened is None or opened.offset < closed.offset):
            return f"orchestrator: {closed.text}{self._policy_to_come(closed.text)}"
        wait, trained_line = facts.mark("trainer_wait"), facts.mark("trainer_step")
        if wait is not None and (trained_line is None or trained_line.offset < wait.offset):
            return f"trainer: {wait.text}"
        trained, shipped = facts.progress.trainer.value, facts.progress.orchestrator.value
        if facts.run.kind != "rl" or trained is None or shipped is None:
            return facts.launcher.waiting_for if facts.launcher else None
        if trained < shipped:
            return f"trainer: step {trained + 1} (its batch was shipped)"
        return f"trainer waits for batch {trained + 1} of the orchestrator"


def usual(series: Series, least: int = 5) -> float | None:
    """Median of the values before the last one; None with fewer than ``least``."""
    before = [value for value in series.values[:-1] if value is not None]
    return median(before) if len(before) >= least else None
