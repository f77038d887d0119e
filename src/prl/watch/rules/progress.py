"""Rules about progress: counters decide, never modification times."""

from prl.text.human import format_duration
from prl.watch.facts import Clock
from prl.watch.rules.base import Rule, restart
from prl.watch.verdict import CRITICAL, DRAINING, EVALUATING, RUNNING, STARTING, WARNING, Evidence, Finding
from prl.watch.view import View
from prl.watch.waiting import ORCHESTRATOR

_UPDATE = 5.0
"""Seconds after the end of a broadcast within which a stall counts as having begun with it."""


def stalled(view: View) -> Finding | None:
    """The processes live and nothing advances.

    Needs: a counter that advanced in this attempt: trainer step, shipped batch, applied policy version, recorded
    episode.
    Speaks: when all stood still for longer than the stall bound, max({progress.stall_factor:g} x the median duration of
    the last steps of this attempt, {progress.stall_floor:.0f} s). It names who waits for whom where the files say
    (handshake markers, hold lines, wait lines, the two step counters), whether the orchestrator's event loop still runs
    (its pipeline line), and whether the stall began with a weight update. Modification times of logs are no progress:
    health checks keep a log warm. After the last batch was shipped the bound is at least
    `orchestrator.trainer_ready_timeout`.
    Silent: before the first step (see `startup.over-bound`), while a checkpoint that is being written grows, and where
    nothing says that the processes live (health is Unknown).
    """
    if view.idle is None or view.saving:
        return None
    # After the last batch no step tells of progress: the last policy, evaluations and the result take their time.
    bound = view.stall_bound if view.phase != DRAINING else max(view.stall_bound, view.facts.run.sync_timeout)
    if view.idle <= bound:
        return None
    return Finding(
        rule="progress.stalled",
        severity=CRITICAL,
        message=f"Nothing has advanced for {format_duration(view.idle)}{_usual(view)}{_with_update(view)}"
        f"{_waiting(view)}",
        evidence=_clocks(view),
        cause=_why(view),
        action=f"Look at the end of the named component's log. A hang does not mend itself. {restart(view)}",
    )


def no_step(view: View) -> Finding | None:
    """Steps come no more, though something else moves.

    Needs: the step counters and another counter that moves.
    Speaks: when no step was finished or shipped for longer than the stall bound but episodes or policy versions
    advanced within it; it says whether they still do.
    Silent: as `progress.stalled`, and while the run evaluates.
    """
    if view.last_step is None or view.idle is None or view.idle > view.stall_bound:
        return None
    age = view.facts.as_of - view.last_step
    if age <= view.stall_bound or view.saving:
        return None
    return Finding(
        rule="progress.no-step",
        severity=WARNING,
        message=f"No step for {format_duration(age)}{_usual(view)}, {_others(view)}{_waiting(view)}",
        evidence=_clocks(view),
        cause="a component hangs or is held up"
        if view.slow
        else "episodes take longer than before, or most are discarded before they reach a batch",
        action="Compare duration, errors and discards of the episodes with those of earlier steps.",
    )


def startup_over_bound(view: View) -> Finding | None:
    """The start-up stands still.

    Needs: the attempt's configuration and logs.
    Speaks: when a stage lasts longer than the run itself allows: environment servers
    `orchestrator.env_startup_timeout`, inference `orchestrator.model.client.wait_for_ready_timeout`, trainer and
    first weights `orchestrator.trainer_ready_timeout`, first batch and step `trainer.batch_timeout`. It names the
    stage and what is awaited.
    Silent: within the bound: a start-up in time is Healthy.
    """
    stage = view.stage
    if stage is None or stage.since is None:
        return None
    age = view.facts.as_of - stage.since
    if age <= stage.bound:
        return None
    return Finding(
        rule="startup.over-bound",
        severity=CRITICAL,
        message=(
            f"Start-up stands at '{stage.name}' for {format_duration(age)} (allowed: {format_duration(stage.bound)}); "
            f"awaited: {stage.awaits}"
        ),
        evidence=[Evidence(stage.source, stage.awaits, time=stage.since)],
        cause="what is awaited did not come up",
        action="Read the log of what is awaited.",
    )


def _why(view: View) -> str:
    """The likely cause of a stall, from what still speaks."""
    pipeline, waits = view.facts.pipeline, view.handshake
    if view.circle is not None:
        return "both sides wait for each other"
    if pipeline is None or waits is not None:
        return "both sides wait for each other, or the one that is waited for hangs"
    if not view.pipeline_is_fresh:
        return "the orchestrator is blocked or hangs: not even its event loop speaks"
    if view.facts.mark("hold") is not None and "Holding" in (view.awaits or ""):
        return "the trainer hangs, in a collective or a broadcast, while the orchestrator holds a batch for it"
    if pipeline.inflight_train == 0 and not pipeline.inflight_eval:
        return "no episode is in flight: the dispatcher is held back, or nothing is left to send"
    return "episodes are in flight and none ends: engines or environments hang"


def _with_update(view: View) -> str:
    """Whether the stall began with a weight update."""
    newest, last = view.facts.broadcast, view.last_progress
    if newest is None or newest.finished is None or last is None or newest.version == 0:
        return ""
    began = abs(last - newest.finished) <= _UPDATE and view.facts.progress.trainer.value == newest.version
    return f", since policy v{newest.version} was sent" if began else ""


def _usual(view: View) -> str:
    median = view.facts.progress.median_step
    return f" (a step usually takes {format_duration(median)})" if median is not None else ""


def _others(view: View) -> str:
    """What the other counters do. One that advanced a while ago is no sign that they still move."""
    if view.slow and view.idle is not None:
        return f"and no other counter has advanced for {format_duration(view.idle)}"
    return "though other counters advance"


def _waiting(view: View) -> str:
    return f"; {view.awaits}" if view.awaits else ""


def _clocks(view: View) -> list[Evidence]:
    progress = view.facts.progress
    named: tuple[tuple[str, Clock], ...] = (
        ("trainer step", progress.trainer),
        ("shipped batch", progress.orchestrator),
        ("applied policy version", progress.policy),
        ("recorded episodes", progress.episodes),
    )
    found = [
        Evidence(clock.source or "launcher/status.json", f"{name} {clock.value}", step=clock.value, time=clock.time)
        for name, clock in named
        if clock.value is not None
    ]
    line = view.facts.pipeline
    if line is not None:
        found.append(Evidence(line.file, f"{ORCHESTRATOR}: {line.text}", offset=line.offset, time=line.time))
    return found


RULES = (
    Rule("progress.stalled", stalled, (RUNNING, EVALUATING, DRAINING)),
    Rule("progress.no-step", no_step, (RUNNING,)),
    Rule("startup.over-bound", startup_over_bound, (STARTING,)),
)
