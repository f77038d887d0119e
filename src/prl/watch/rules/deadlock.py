"""Rules about waits that do not end: a circle of two sides, or a policy that does not arrive."""

from prl.text.human import format_duration
from prl.watch.rules.base import Rule, incident_evidence, restart
from prl.watch.verdict import CRITICAL, LIVE, PHASE_UNKNOWN, WARNING, Evidence, Finding
from prl.watch.view import View
from prl.watch.waiting import ACCEPT, SEND, WRITE, Edge

_RECEIVER_SIGNATURES = ("prl.bcast_wait", "prl.no_receiver")


def circle(view: View) -> Finding | None:
    """Two sides wait for each other: neither goes on before the other does.

    Needs: the markers of the newest broadcast, and the hold and wait lines of orchestrator and trainer.
    Speaks: when the orchestrator waits for the trainer and the trainer for the orchestrator, both for longer than
    {progress.deadlock:.0f} s and no counter advanced since: at a resume, or in the middle of a run. It names both
    waits.
    Silent: when only one side waits, and when a counter advanced after the younger wait began.
    """
    waits = view.circle
    if waits is None:
        return None
    since = [edge.since for edge in waits]
    if any(time is None for time in since):
        return None
    began = max(time for time in since if time is not None)
    age = view.facts.as_of - began
    if age <= view.limits.progress.deadlock or (view.last_progress or 0.0) > began:
        return None
    start = "" if view.step is not None and view.last_step is not None else " before the first step of this attempt"
    return Finding(
        rule="progress.deadlock",
        severity=CRITICAL,
        message=f"Both sides wait for each other{start}, for {format_duration(age)}: {waits[0].text}; {waits[1].text}",
        evidence=[_evidence(edge) for edge in waits],
        cause=_why(waits[0]),
        action=f"It does not end by itself. {restart(view)}",
    )


def handshake(view: View) -> Finding | None:
    """A policy version does not arrive: a warning when it is late, critical when it will not come.

    Needs: the markers below `broadcasts/step_V/`.
    Speaks: when the orchestrator has not accepted an offered policy, or the trainer not sent an accepted one, for
    {progress.handshake:.0f} s (critical: {progress.handshake_stuck:.0f} s), or one is being written for
    {progress.transfer:.0f} s (critical: {progress.transfer_stuck:.0f} s); a run's own timeout
    (`orchestrator.trainer_ready_timeout`) that is shorter counts instead.
    Silent: for versions that arrived, and while the engines apply one (`progress.stalled` tells of that).
    """
    edge = view.handshake
    if edge is None or edge.since is None or edge.step not in (ACCEPT, SEND, WRITE):
        return None
    limits = view.limits.progress
    late, stuck = (
        (limits.transfer, limits.transfer_stuck) if edge.step == WRITE else (limits.handshake, limits.handshake_stuck)
    )
    age = view.facts.as_of - edge.since
    if age <= late or (edge.step == WRITE and view.saving):
        return None
    holds = view.facts.mark("hold")
    said = view.incidents(*_RECEIVER_SIGNATURES)
    critical = age > min(stuck, max(view.facts.run.sync_timeout, late))
    return Finding(
        rule="progress.handshake",
        severity=CRITICAL if critical else WARNING,
        message=f"A policy is on its way for {format_duration(age)}: {edge.text}",
        evidence=[_evidence(edge), *(incident_evidence(one) for one in said[:1])],
        cause="the orchestrator holds a full batch and does not take the policy: its output queue is stuck"
        if edge.step == ACCEPT and holds is not None and (said or critical)
        else f"{edge.whom} hangs or is held up",
        action=f"Look at the end of the {edge.whom}'s log. When it does not move: {restart(view)}",
    )


def _why(edge: Edge) -> str:
    if edge.step in (ACCEPT, SEND):
        return "the handshake of a policy was begun by one side only, as happens when both resume at different steps"
    return "each side needs what the other one holds back"


def _evidence(edge: Edge) -> Evidence:
    return Evidence(edge.source, edge.text, offset=edge.offset, time=edge.since)


RULES = (Rule("progress.deadlock", circle, (*LIVE, PHASE_UNKNOWN)), Rule("progress.handshake", handshake, LIVE))
