"""The plan of a restart: is one warranted, what must hold first, what to type, what is lost, how to see that it worked.

A pure function of the facts, the verdict on them, and what the host of the launch says now. It never runs, ends or
submits anything: it words what a person may do. A restart is a launch of the whole run under its own name, from a step
that is spelled out, because releases that look for "the latest" themselves take a half checkpoint too, and a launch
without a name begins another run without a word.
"""

import dataclasses
import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from prl.rundir.metrics.reader import TRAINER
from prl.text.human import format_duration
from prl.watch.conditions import FAILS, Condition
from prl.watch.facts import ALIVE, Facts
from prl.watch.launch_command import CommandError, LaunchCommand, parse_command, shell_line
from prl.watch.launch_site import NOT_LOOKED, LaunchSite
from prl.watch.restart_conditions import (
    cancel_line,
    cause_removed,
    checkpoint_complete,
    disk_space,
    job_ended,
    job_is_over,
    place_is_there,
    ports_free,
    processes_gone,
)
from prl.watch.surroundings import CheckpointFact, SlurmJob
from prl.watch.thresholds import DEFAULT, Thresholds
from prl.watch.verdict import (
    CONFIGURED,
    CRITICAL,
    FAILED,
    FAILING,
    FINISHED,
    PREEMPTED,
    QUEUED,
    REQUEUED,
    STOPPED,
    UNKNOWN,
    Verdict,
)

SCHEMA_VERSION = 1

YES = "yes"
NO = "no"
NOT_KNOWN = "unknown"

_BARE = re.compile(r"/[\w@%+=:,./ -]*")
"""A path, perhaps with arguments, that a shell takes as it stands."""
_GOES_ON_BY_ITSELF = ("disk.full", "process.stopped")
"""Findings whose action lets a run that lives go on, with nothing lost."""
_KEPT = {
    "rl": [
        "weights, optimizer and scheduler",
        "the counters of steps, tokens and samples",
        "the sampler's place among the tasks, the curriculum and the state of the random numbers",
    ],
    "sft": ["weights, optimizer and scheduler", "the counters of steps and tokens", "the place in the data"],
}


@dataclass(frozen=True)
class Command:
    """A line for a shell, and what it does."""

    line: str
    does: str


@dataclass(frozen=True)
class RestartPlan:
    """What somebody who restarts the run needs to know."""

    as_of: float
    run: str
    run_dir: str
    kind: str
    attempt: int | None
    phase: str
    health: str
    warranted: str
    """``yes``, ``no`` or ``unknown``."""
    why: str
    command: Command | None
    """None: there is none that would do, as ``refused`` says."""
    refused: str | None
    host: str | None
    """Where it is to be typed."""
    resume_step: int | None
    """None: from the beginning."""
    submission: str | None
    """What to do with SLURM; None: the run does not use it."""
    alternatives: list[Command] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    verify: list[Command] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    schema_version: int = SCHEMA_VERSION

    @property
    def exit_code(self) -> int:
        """Of ``prl restart-plan``: 0 warranted and nothing stands against it, 1 something does, 2 no, 3 not known."""
        if self.warranted == NOT_KNOWN:
            return 3
        if self.warranted == NO or self.command is None:
            return 2
        return int(any(condition.state == FAILS for condition in self.conditions))

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def plan(facts: Facts, verdict: Verdict, site: LaunchSite = NOT_LOOKED, limits: Thresholds = DEFAULT) -> RestartPlan:
    """The plan for the run that these facts tell of. ``verdict`` is the one on the same facts."""
    unsound_from = _unsound_from(facts, verdict)
    usable = _usable(facts, unsound_from)
    chosen = usable[-1] if usable else None
    warranted, why = _warranted(facts, verdict)
    launch, refused = _launch(facts, chosen)
    disk = disk_space(facts, chosen, limits)
    conditions = [
        processes_gone(facts),
        job_ended(facts),
        checkpoint_complete(facts, chosen, unsound_from, facts.checkpoints.source),
        disk,
        ports_free(facts, site),
        place_is_there(facts, site),
        cause_removed(facts, verdict, disk),
    ]
    return RestartPlan(
        as_of=facts.as_of,
        run=facts.run.name,
        run_dir=facts.run.dir,
        kind=facts.run.kind,
        attempt=facts.attempt,
        phase=verdict.phase,
        health=verdict.health,
        warranted=warranted,
        why=why,
        command=_command(facts, site, launch, chosen) if launch is not None else None,
        refused=refused,
        host=facts.launch.host if facts.launch is not None else None,
        resume_step=chosen.step if chosen is not None and launch is not None else None,
        submission=_submission(facts) if launch is not None else None,
        alternatives=_alternatives(facts, site, launch, usable) if launch is not None else [],
        conditions=[condition for condition in conditions if condition is not None],
        lost=_lost(facts, verdict, chosen) if launch is not None and verdict.phase != CONFIGURED else [],
        kept=_KEPT[facts.run.kind] if chosen is not None and launch is not None else [],
        verify=_verify(facts) if launch is not None else [],
        notes=_notes(facts, site),
    )


def _warranted(facts: Facts, verdict: Verdict) -> tuple[str, str]:
    phase, reason = verdict.phase, verdict.reason or "no reason is recorded"
    if phase == FINISHED:
        return NO, "the run has finished"
    if phase == CONFIGURED:
        return NO, "the run was configured and never started: the command starts it"
    if phase in (QUEUED, REQUEUED, PREEMPTED) and facts.jobs and facts.jobs[-1].blocked:
        return NO, _blocked(facts.jobs[-1])
    if phase in (QUEUED, REQUEUED):
        return NO, f"SLURM will start it by itself{f' (job {facts.jobs[-1].id})' if facts.jobs else ''}"
    if phase == PREEMPTED and facts.jobs and job_is_over(facts.jobs[-1]) is False:
        return NO, f"SLURM will start it again by itself: job {facts.jobs[-1].id} was preempted and is requeued"
    if phase in (FAILED, FAILING, PREEMPTED):
        return YES, f"the run is {phase}: {reason}"
    if phase == STOPPED:
        return YES, f"the run was stopped before its end ({reason}) and goes on only when it is launched again"
    if verdict.health == UNKNOWN:
        return NOT_KNOWN, reason
    by_itself = next((finding for finding in verdict.findings if finding.rule in _GOES_ON_BY_ITSELF), None)
    if by_itself is not None:
        return NO, f"a restart would lose what the run can still finish: {by_itself.message} {by_itself.action or ''}"
    critical = next((finding for finding in verdict.findings if finding.severity == CRITICAL), None)
    if critical is not None:
        return YES, f"the run lives and does not do its work: {critical.message}"
    return NO, f"the run is {verdict.phase} and {verdict.health}: it does its work"


def _blocked(job: SlurmJob) -> str:
    why = job.reason_text or job.reason
    if job.held:
        return f"job {job.id} has the run and waits for somebody ({why}): `scontrol release {job.id}` lets it start"
    return f"job {job.id} has the run and never starts ({why}): `scancel {job.id}`, mend that, and submit it again"


def _unsound_from(facts: Facts, verdict: Verdict) -> int | None:
    """The step from which on something of the training is not a number, while it still is none."""
    if not any(one.rule == "training.non-finite" and one.severity == CRITICAL for one in verdict.findings):
        return None
    since: list[int] = []
    for key in {value.key for value in facts.nonfinite}:
        series = facts.find(TRAINER, key)
        pairs = zip(series.steps, series.values, strict=True) if series is not None else ()
        sound = max((step for step, value in pairs if step is not None and value is not None), default=-1)
        steps = (value.step for value in facts.nonfinite if value.key == key)
        since += [step for step in steps if step is not None and step > sound]
    return min(since, default=None)


def _usable(facts: Facts, unsound_from: int | None) -> list[CheckpointFact]:
    """The complete checkpoints by step. Facts that know no more of them than that they exist will do."""
    found = [one for one in facts.checkpoint_states if one.state == "complete"]
    if not facts.checkpoint_states:
        source = facts.checkpoints.source
        found = [
            CheckpointFact(step, f"{source}/step_{step}", "complete", 0, 0.0) for step in facts.checkpoints.complete
        ]
    sound = (one for one in found if unsound_from is None or one.step < unsound_from)
    return sorted(sound, key=lambda one: one.step)


# ---- what to type


def _launch(facts: Facts, chosen: CheckpointFact | None) -> tuple[LaunchCommand | None, str | None]:
    """The recorded launch, or why there is none to repeat."""
    launch, run = facts.launch, facts.run
    if run.kind not in _KEPT:
        return None, f"how a run of kind {run.kind} goes on is not known: only rl and sft have checkpoints"
    if launch is None or launch.command is None:
        return None, "no command is recorded (configs/attempt_N/command.txt): only whoever typed it knows it"
    try:
        command = parse_command(launch.command)
    except CommandError as error:
        return None, f"what {launch.command_source or 'command.txt'} holds is no launch of a run: {error}"
    if chosen is None and facts.checkpoints.problem is not None:
        # To begin anew would remove a checkpoint that nobody here can see.
        return None, f"its checkpoints cannot be read: {facts.checkpoints.problem}"
    if chosen is not None and run.max_steps is not None and chosen.step >= run.max_steps:
        return None, (
            f"the newest complete checkpoint is of step {chosen.step} and max_steps is {run.max_steps}: nothing is "
            "left to train. Raise max_steps to go on"
        )
    return command, None


def _command(facts: Facts, site: LaunchSite, launch: LaunchCommand, chosen: CheckpointFact | None) -> Command:
    if chosen is None:
        return Command(_line(facts, launch, ["--clean"]), "removes the run directory and begins anew")
    return _resuming(facts, site, launch, chosen)


def _resuming(facts: Facts, site: LaunchSite, launch: LaunchCommand, chosen: CheckpointFact) -> Command:
    against_files = [*(["--no-clean"] if site.cleans else []), *(["--resume.dir", "None"] if site.forks else [])]
    line = _line(facts, launch, [*against_files, "--resume.step", str(chosen.step)])
    return Command(line, f"goes on with step {chosen.step + 1} from the checkpoint of step {chosen.step}")


def _alternatives(facts: Facts, site: LaunchSite, launch: LaunchCommand, usable: list[CheckpointFact]) -> list[Command]:
    if not usable:
        fresh = launch.without("run")
        name = f"{PurePosixPath(facts.run.dir).name}-again"
        return [Command(_line(facts, fresh, [], name), f"begins anew as {name} and leaves this directory as it is")]
    return [_resuming(facts, site, launch, earlier) for earlier in usable[-2:-1]]


def _line(facts: Facts, launch: LaunchCommand, options: list[str], name: str | None = None) -> str:
    """The launch in its directory, by its interpreter, under the run's name (or another), with these options."""
    known = facts.launch
    plain = launch.without("resume", "clean", "dry_run")
    started = plain.by(known.interpreter) if known is not None and known.interpreter else plain
    line = started.plus(*_naming(plain, facts, name), *options).line
    return f"cd {shell_line([known.cwd])} && {line}" if known is not None and known.cwd else line


def _naming(launch: LaunchCommand, facts: Facts, new: str | None) -> list[str]:
    """Options that lead to this run's directory, as far as the command does not give them."""
    root, name = PurePosixPath(facts.run.dir), facts.run.name
    below = launch.value("run.dir")
    words: list[str] = []
    if new is not None:
        words, below = ["--run.name", new, *(["--run.dir", new] if root.name != name else [])], root.name
    elif "/" in name and below is None:  # a name that was made of the directory's
        words, below = ["--run.dir", name], name
    else:
        if launch.value("run.name") is None and "/" not in name:
            words += ["--run.name", name]
        if below is None and root.name != (launch.value("run.name") or name):
            words += ["--run.dir", root.name]
    tail = PurePosixPath(below or root.name).parts
    if launch.value("output_dir") is None and root.parts[-len(tail) :] == tail:
        words += ["--output-dir", str(PurePosixPath(*root.parts[: -len(tail)]))]
    return words


def _submission(facts: Facts) -> str | None:
    active = [job for job in facts.jobs if job_is_over(job) is not True]
    sure = any(job_is_over(job) is False for job in active)
    first = "Cancel it" if sure else "If squeue still shows it, cancel it"
    cancel = f"{first} with `{cancel_line(active)}` and wait until squeue shows it no more. " if active else ""
    if facts.launch is not None and facts.launch.script is not None:
        return (
            f"{cancel}The command submits a new job by itself. Do not submit {facts.launch.script} again: it holds the "
            "earlier attempt, without the step to resume from."
        )
    if facts.jobs:
        job = facts.jobs[-1]
        named = f"{job.id} ({job.name})" if job.name else job.id
        return (
            f"{cancel}The run was launched inside job {named}: put the command in place of the one in its batch script "
            f"and submit that{_submitting(job)}, rather than typing it on a login node."
        )
    return None


def _submitting(job: SlurmJob) -> str:
    """How the script is submitted where it was; where its words are not known, or need quotes, only with what."""
    place, script = job.work_dir or "", job.script or ""
    if not _BARE.fullmatch(script) or not _BARE.fullmatch(place) or " " in place:
        return " with sbatch"
    return f": `cd {place} && sbatch {script}`"


# ---- what it costs, and how to see that it worked


def _lost(facts: Facts, verdict: Verdict, chosen: CheckpointFact | None) -> list[str]:
    if chosen is None:
        number = max(len(facts.attempts), 1)
        episodes = facts.progress.episodes.value
        recorded = f", {episodes} episodes" if episodes else ""
        return [
            f"everything in {facts.run.dir}: logs of {number} {'attempt' if number == 1 else 'attempts'}, metrics"
            f"{recorded}; copy it, or use the alternative, to keep what tells why the run ended",
            *([f"all {verdict.step} finished steps"] if verdict.step else []),
        ]
    lost = [_lost_steps(facts, verdict.step, chosen.step)]
    if facts.run.kind != "rl":
        return lost
    pipeline = facts.pipeline
    flying = queued = ""
    if pipeline is not None and pipeline.inflight_train is not None:
        flying = f" ({pipeline.inflight_train} of training, {pipeline.inflight_eval or 0} of evaluations)"
    if pipeline is not None and pipeline.queued is not None:
        queued = f" ({pipeline.queued} of {pipeline.wanted})"
    return [
        *lost,
        f"episodes in flight{flying}, groups that are not whole, traces queued for the next batch{queued}: their tasks "
        "count as drawn and do not come again",
        "evaluations that have not ended; the one at the start is not repeated",
        "the limit of concurrency that was found, and running baselines of advantages",
    ]


def _lost_steps(facts: Facts, step: int | None, resumed: int) -> str:
    if step is None or step <= resumed:
        return f"no finished step: the checkpoint is of step {resumed}"
    number, pace = step - resumed, facts.progress.median_step
    worth = f", about {format_duration(number * pace)} of work" if pace else ""
    steps = f"step {step}" if number == 1 else f"steps {resumed + 1} to {step}"
    return f"{steps}{worth}"


def _verify(facts: Facts) -> list[Command]:
    run = shell_line([facts.run.dir])
    return [
        Command(f"prl status {run} --since-restart", "all processes are up and a counter has advanced (exit status 0)"),
        Command(f"prl check-in {run}", "the restart stands in STATUS.md"),
    ]


def _notes(facts: Facts, site: LaunchSite) -> list[str]:
    notes = ["Nothing was started, ended or submitted. Restart only when whoever owns the run has asked for it."]
    if any(process.state == ALIVE for process in facts.processes):
        notes.append("Ask for the plan again once the run has ended: a newer checkpoint may be complete by then.")
    if site.run_id is not None:
        notes.append(f"An experiment tracker shows it as the same run only with PRL_RUN_ID={site.run_id} set.")
    if facts.run.layout != "C":
        notes.append(f"An older release wrote this run (layout {facts.run.layout}): its options may have other names.")
    return notes
