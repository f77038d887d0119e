"""One judgement of a run: the verdict, and what else the facts say that the pages show.

The facts themselves are not kept: of a thousand runs they would take more memory than everything else together.
"""

import dataclasses
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prl.dashboard.sparkline import Course, Sparkline, course, sparkline
from prl.rundir.runs import RunInfo
from prl.watch.verdict import ALARM, PHASE_UNKNOWN, UNKNOWN, WARNING, Evidence, Finding, Verdict

if TYPE_CHECKING:
    from prl.watch.facts import Facts
    from prl.watch.thresholds import Thresholds

FAILED_RULE = "rule.failed"
"""Under which id a run that cannot be judged is told of: the one of a rule that raised."""
_SAME_FOR = 60.0
"""Seconds after which a judgement that says the same as the one before counts as another, for its age to be seen."""


@dataclass(frozen=True)
class Judgement:
    """What was found out about a run at one moment."""

    run: RunInfo
    verdict: Verdict
    made: float
    """``time.monotonic()`` when."""
    cpu_seconds: float = 0.0
    """What it took."""
    job: dict[str, Any] | None = None
    host: str | None = None
    checkpoints: tuple[int, ...] = ()
    """Steps of complete checkpoints."""
    started: float | None = None
    """When the attempt began."""
    ended: float | None = None
    seconds_per_step: float | None = None
    course: Course = ()
    """The reward over the steps."""
    reward: Sparkline | None = None
    version: int = 0
    """Of the judge: grows when this one says something else than the one before."""
    since: float = 0.0
    """``made`` of the first judgement of this version."""

    def differs(self, before: "Judgement") -> bool:
        """Whether it says something else than an earlier one, or the same for so long that its age should be seen."""
        return self.made - before.since > _SAME_FOR or self._said() != before._said()

    def _said(self) -> tuple[Any, ...]:
        verdict = self.verdict
        timeless = [dataclasses.replace(finding, message="", evidence=[]) for finding in verdict.findings]
        return (
            *(verdict.phase, verdict.health, verdict.stage, verdict.awaits, verdict.step, verdict.attempt),
            *(timeless, verdict.numbers, verdict.bottleneck, len(verdict.errors), len(verdict.unknown)),
            *(self.job, self.host, self.checkpoints, self.started, self.ended, self.reward),
        )


def judge_run(run: RunInfo, limits: "Thresholds", before: Judgement | None) -> Judgement:
    """Judge a run: its directory, the processes of this host, its engines and SLURM, as ``prl status`` does.

    ``before``: the judgement before this one.
    """
    from prl.watch.assess import assess
    from prl.watch.gather import gather

    began = time.thread_time()
    facts = gather(run.path)
    verdict = assess(facts, limits)
    rewards = course(run.path, facts.series, before.course if before is not None else ())
    launcher, progress = facts.launcher, facts.progress
    return Judgement(
        run=run,
        verdict=verdict,
        made=time.monotonic(),
        job=_job(facts),
        host=launcher.host if launcher is not None else next(iter(facts.hosts), None),
        checkpoints=tuple(facts.checkpoints.complete),
        started=facts.attempt_started,
        ended=launcher.ended if launcher is not None else None,
        seconds_per_step=progress.median_step,
        course=rewards,
        reward=sparkline(rewards),
        cpu_seconds=time.thread_time() - began,
    )


def failed(run: RunInfo, why: str) -> Judgement:
    """That a run could not be judged."""
    verdict = Verdict(
        as_of=time.time(),
        host=os.uname().nodename,
        run=run.name,
        run_dir=str(run.path),
        kind=run.kind,
        attempt=run.attempt,
        phase=PHASE_UNKNOWN,
        health=UNKNOWN,
        reason=why,
        stage=None,
        awaits=None,
        step=run.step,
        max_steps=run.max_steps,
        since_progress=None,
        findings=[
            Finding(
                rule=FAILED_RULE,
                severity=WARNING,
                message=f"The run could not be judged: {why}",
                evidence=[Evidence(str(run.path), why)],
                action="Try prl status on it, and report what that says.",
                kind=ALARM,
            )
        ],
        endless=run.endless,
    )
    return Judgement(run=run, verdict=verdict, made=time.monotonic())


def _job(facts: "Facts") -> dict[str, Any] | None:
    """The current SLURM job."""
    if not facts.jobs:
        return None
    job = facts.jobs[-1]
    return {
        "id": job.id,
        "state": job.state,
        "reason": job.reason_text or job.reason,
        "nodes": [node.name for node in job.nodes],
        "time_left": job.time_left,
    }
