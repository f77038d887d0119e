"""The rule about disk space: what a run cannot write it waits for, or loses."""

from prl.text.human import format_bytes
from prl.watch.facts import Disk, Mark
from prl.watch.rules.base import Rule
from prl.watch.verdict import CRITICAL, DRAINING, FAILING, RUNNING, STARTING, WARNING, Evidence, Finding
from prl.watch.view import View

LEAST_FREE = 64 * 1024**2
LEAST_SHARE = 0.005
"""Below max(bytes, share of the file system) there is too little to go on with: a checkpoint or a policy is larger."""


def full(view: View) -> Finding | None:
    """A log says that a disk or a quota is full, or next to nothing is free where the run writes."""
    if view.phase not in (STARTING, RUNNING, DRAINING, FAILING):
        return None
    said, disk = _said(view), view.facts.disk
    low = disk is not None and disk.free < max(LEAST_FREE, LEAST_SHARE * disk.total)
    if said is None and not low:
        return None
    stands = view.last_step is None or view.facts.as_of - view.last_step > view.slow_bound
    room = f"{format_bytes(disk.free)} of {format_bytes(disk.total)} are free at {disk.path}" if disk else ""
    message = (
        f"{said.component} has no space left on a disk: {said.text}" if said else f"The disk is nearly full: {room}"
    )
    return Finding(
        rule="disk.full",
        severity=CRITICAL if stands else WARNING,
        message=message,
        evidence=_evidence(said, disk, room),
        cause="a file system or a quota is full",
        action="Free space there, for instance by removing old runs or checkpoints. A run that waits for it then goes "
        "on by itself; a checkpoint that could not be saved stays missing.",
    )


def _said(view: View) -> Mark | None:
    """The newest line about a full disk, while no step was finished after it or it is not older than a stall."""
    mark = view.facts.mark("no_space")
    if mark is None or mark.time is None:
        return None
    since = view.last_step is None or mark.time >= view.last_step
    return mark if since or view.facts.as_of - mark.time <= view.stall_bound else None


def _evidence(said: Mark | None, disk: Disk | None, room: str) -> list[Evidence]:
    lines = [Evidence(said.file, said.text, offset=said.offset, time=said.time)] if said else []
    return lines + ([Evidence(disk.path, room)] if disk else [])


RULES = (Rule("disk.full", full),)
