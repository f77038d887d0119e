"""Rules about progress: counters decide, never modification times."""

from prl.text.human import format_duration
from prl.watch.facts import Clock
from prl.watch.rules.base import Rule, restart
from prl.watch.verdict import CRITICAL, DRAINING, RUNNING, STARTING, WARNING, Evidence, Finding
from prl.watch.view import View


def stalled(view: View) -> Finding | None:
    """The processes live and nothing advances."""
    if view.phase not in (RUNNING, DRAINING) or view.idle is None or _saving(view):
        return None
    # After the last batch no step tells of progress: the last policy, evaluations and the result take their time.
    bound = view.stall_bound if view.phase == RUNNING else max(view.stall_bound, view.facts.run.sync_timeout)
    if view.idle <= bound:
        return None
    return Finding(
        rule="progress.stalled",
        severity=CRITICAL,
        message=f"Nothing has advanced for {format_duration(view.idle)}{_usual(view)}{_waiting(view)}",
        evidence=_clocks(view),
        cause="both sides wait for each other, or the one that is waited for hangs",
        action=f"Look at the end of the named component's log. A hang does not mend itself. {restart(view)}",
    )


def no_step(view: View) -> Finding | None:
    """Episodes still arrive, but no step comes of them."""
    if view.phase != RUNNING or view.last_step is None or view.idle is None or view.idle > view.stall_bound:
        return None
    age = view.facts.as_of - view.last_step
    if age <= view.stall_bound or _saving(view):
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
    """A start-up stage takes longer than the run itself allows for it."""
    stage = view.stage
    if view.phase != STARTING or stage is None or stage.since is None:
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


def _saving(view: View) -> bool:
    """Whether a checkpoint is being written: no step ends meanwhile, and that takes as long as the disk needs."""
    changed = view.facts.checkpoints.changed
    return changed is not None and view.facts.as_of - changed <= 60.0


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
    return [
        Evidence(clock.source or "launcher/status.json", f"{name} {clock.value}", step=clock.value, time=clock.time)
        for name, clock in named
        if clock.value is not None
    ]


RULES = (
    Rule("progress.stalled", stalled),
    Rule("progress.no-step", no_step),
    Rule("startup.over-bound", startup_over_bound),
)
