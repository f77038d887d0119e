"""What several rules need to know, worked out once from the facts: phase, progress, what the run waits for."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from prl.rundir.metrics.reader import ORCHESTRATOR, TRAINER
from prl.watch.blame import BEFORE, INCIDENT, root_cause, to_blame
from prl.watch.bottleneck import split
from prl.watch.facts import EXITED, GONE, Clock, Facts, LogError, Process, Series
from prl.watch.phases import HOLDING, phase_of
from prl.watch.stages import Stage, stage_of
from prl.watch.statistics import median
from prl.watch.surroundings import Incident, SlurmJob
from prl.watch.thresholds import DEFAULT, Thresholds
from prl.watch.verdict import Bottleneck
from prl.watch.waiting import Edge, awaited, circle, handshake

WORKERS = ("trainer", "orchestrator")
"""Components that end by themselves when the work is done. All others serve until they are told to end."""

USUAL_OF = 20
"""Values before the last one over which the usual one is told."""

_ESSENTIAL = (*WORKERS, "inference")
"""Components whose crash ends a run. An environment's log also holds the crashes of workers that are replaced."""

GENERIC = frozenset({"prl.fatal", "prl.child", "prl.interrupted", "prl.no_receiver"})
"""Signatures that only say that something ended: its error says why."""

_FRESH_LINE = 60.0
"""Seconds for which the pipeline line, written every 10, shows that the orchestrator's event loop runs."""


@dataclass(frozen=True)
class View:
    """The facts seen as a whole. Everything is derived; nothing here judges."""

    facts: Facts
    limits: Thresholds = DEFAULT

    @cached_property
    def phase(self) -> str:
        return phase_of(self)

    @property
    def job(self) -> SlurmJob | None:
        """The run's current SLURM job."""
        return self.facts.jobs[-1] if self.facts.jobs else None

    @property
    def in_grace(self) -> bool:
        """Whether the job log says that a component ended badly and the others may still write."""
        return self.job is not None and self.job.grace_since is not None and self.job.state in HOLDING

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

    @cached_property
    def missing(self) -> list[str]:
        """Without a launcher's word: components that the run needs and that have no process on the only host they can
        be on, while others of the run have."""
        search = self.facts.search
        if search is None or not search.local or search.hidden or not search.found:
            return []
        return [name for name in search.missing if name in _ESSENTIAL and not self.finished(name)]

    @cached_property
    def vanished(self) -> bool:
        """Without a launcher's word: whether no process of the run is left on the only host they can be on.

        That its directory lies on a local disk is not enough: it may be a copy of a run that lives elsewhere.
        """
        search = self.facts.search
        here = search is not None and search.host in self.facts.hosts
        return here and search is not None and bool(search.local) and not search.hidden and not search.found

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
    def evaluating(self) -> bool:
        """Whether the run evaluates and nothing else: no training episode is in flight."""
        pipeline = self.facts.pipeline
        return self.facts.run.kind == "eval" or (
            pipeline is not None
            and self.pipeline_is_fresh
            and bool(pipeline.inflight_eval)
            and pipeline.inflight_train == 0
        )

    @cached_property
    def culprit(self) -> Process | None:
        """The process whose end came first and is not the echo of another's."""
        return to_blame(self.lost, self.facts.errors)

    @cached_property
    def cause(self) -> LogError | None:
        """The earliest primary error that explains the end of the run."""
        return root_cause(self.facts.errors, self.culprit, self.lost)

    @cached_property
    def root_incident(self) -> Incident | None:
        """The earliest known failure that explains the end of the run, on whatever node, rank or component.

        None when the error that the component itself ended with came before it.
        """
        ended = self.culprit.ended if self.culprit is not None else None
        found = next(
            (
                one
                for one in self.facts.incidents
                if not one.secondary and one.severity == "fatal" and one.signature not in GENERIC
                if ended is None or one.time is None or ended - INCIDENT <= one.time <= ended + BEFORE
            ),
            None,
        )
        cause = self.cause or self.last_words
        if found is None or cause is None or found.file == cause.file:
            return found
        return found if (found.time or 0.0) <= (cause.time or 0.0) else None

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
        limits = self.limits.progress
        return max(limits.stall_factor * (self.facts.progress.median_step or 0.0), limits.stall_floor)

    @property
    def slow(self) -> bool:
        """Whether nothing advanced for longer than two steps take: before that, waiting is how a run works."""
        return self.idle is not None and self.idle > self.slow_bound

    @property
    def slow_bound(self) -> float:
        """Seconds without progress that are more than the usual: two steps."""
        return max(2 * (self.facts.progress.median_step or 0.0), 5.0)

    @property
    def saving(self) -> bool:
        """Whether a checkpoint is being written: no step ends meanwhile, and that takes as long as the disk needs."""
        changed = self.facts.checkpoints.changed
        return changed is not None and self.facts.as_of - changed <= _FRESH_LINE

    @property
    def pipeline_is_fresh(self) -> bool:
        """Whether the orchestrator's event loop ran a moment ago."""
        times = [self.facts.progress.pipeline.time, self.facts.pipeline.time if self.facts.pipeline else None]
        newest = max((time for time in times if time is not None), default=None)
        return newest is not None and self.facts.as_of - newest <= _FRESH_LINE

    # ---- start-up and waiting

    @cached_property
    def stage(self) -> Stage | None:
        """The start-up stage, None once a step of this attempt was finished."""
        return stage_of(self.facts)

    @cached_property
    def handshake(self) -> Edge | None:
        """Who waits for whom in the handshake of the newest policy version."""
        return handshake(self.facts)

    @cached_property
    def circle(self) -> tuple[Edge, Edge] | None:
        """Two sides that wait for each other."""
        return circle(self.facts)

    @cached_property
    def awaits(self) -> str | None:
        """What the run waits for, where files say."""
        return awaited(self.facts)

    # ---- series

    def trainer(self, key: str) -> Series | None:
        return self.facts.find(TRAINER, key)

    def orchestrator(self, key: str) -> Series | None:
        return self.facts.find(ORCHESTRATOR, key)

    def of_episodes(self, *tail: str, subset: str = "all", agents: bool) -> list[Series]:
        """``train/<env>/<subset>[/<agent>]/<tail>`` of each environment; of all together where none is told apart."""
        length = 3 + agents + len(tail)
        found = [
            series
            for series in self.facts.series
            if series.producer == ORCHESTRATOR
            and len(parts := series.key.split("/")) == length
            and (parts[0], parts[2]) == ("train", subset)
            and tuple(parts[-len(tail) :]) == tail
        ]
        of_envs = [series for series in found if env_of(series) != "agg"]
        return of_envs or found

    @cached_property
    def first_step(self) -> int:
        """The first step of this attempt."""
        return (self.facts.run.resume_step or 0) + 1

    @cached_property
    def unusual_steps(self) -> frozenset[int]:
        """Steps whose times say nothing: the first ones, and those beside an evaluation or a checkpoint."""
        first = range(self.first_step, self.first_step + self.limits.pace.first_steps)
        evaluated = {
            step for series in self.facts.series if series.key.startswith("eval/") for step in series.steps if step
        }
        saved = {
            step
            for series in (self.trainer("time/save_ckpt"), self.orchestrator("time/save_ckpt"))
            if series is not None
            for step, value in zip(series.steps, series.values, strict=False)
            if value and step is not None
        }
        return frozenset({*first, *saved, *(step + after for step in evaluated for after in (0, 1, 2))})

    @cached_property
    def bottleneck(self) -> Bottleneck | None:
        """Where the wall time of the last steps went."""
        return split(self)

    def incidents(self, *signatures: str) -> list[Incident]:
        """Known failures of these kinds, in the order of the facts."""
        return [incident for incident in self.facts.incidents if incident.signature in signatures]


def env_of(series: Series) -> str:
    """The environment of a series below ``train/``, ``eval/`` or ``env_server/``."""
    return series.key.split("/")[1]


def usual(series: Series, least: int = 5) -> float | None:
    """Median of up to 20 values before the last one; None with fewer than ``least``."""
    before: Sequence[float] = [value for value in series.values[:-1] if value is not None][-USUAL_OF:]
    return median(before) if len(before) >= least else None
