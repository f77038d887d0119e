"""Rules about disk space: what a run cannot write it waits for, or loses."""

from prl.text.human import format_bytes, format_duration
from prl.watch.facts import Disk, Mark
from prl.watch.rules.base import Rule
from prl.watch.verdict import CRITICAL, FAILING, LIVE, PHASE_UNKNOWN, WARNING, Evidence, Finding
from prl.watch.view import View


def full(view: View) -> Finding | None:
    """A file system or a quota is full: critical while no step was finished for longer than two steps take, else a
    warning.

    Needs: the logs, or the free space of the run directory's file system.
    Speaks: while the run is not over, when a line of a log at WARNING or above says so (`No space left on device`,
    `ENOSPC`, an exceeded quota) and no step was finished since or the line is not older than the stall bound; and when
    less than max({host.disk_least} bytes, {host.disk_share:.1%}) is free.
    Silent: after the run ended (the cause is then told with its end) and once steps are finished again; about the free
    space while nothing says whether the run lives.
    """
    said, disk = _said(view), view.facts.disk
    low = disk is not None and _is_full(view, disk) and view.phase != PHASE_UNKNOWN
    if said is None and not low:
        return None
    stands = view.last_step is None or view.facts.as_of - view.last_step > view.slow_bound
    room = _room(disk) if disk else ""
    message = (
        f"{said.component} has no space left on a disk: {said.text}" if said else f"The disk is nearly full: {room}"
    )
    return Finding(
        rule="disk.full",
        severity=CRITICAL if stands else WARNING,
        message=message,
        evidence=_evidence(view, said, room),
        cause="a file system or a quota is full",
        action="Free space there, for instance by removing old runs or checkpoints. A run that waits for it then goes "
        "on by itself; a checkpoint that could not be saved stays missing.",
    )


def filling(view: View) -> Finding | None:
    """The disk will be full soon.

    Needs: the free space of the run directory's file system, and for the forecast how fast the run adds to it, from its
    own record.
    Speaks: when at that rate the disk is full within {host.disk_hours:g} hours, with the time; and when less than
    {host.disk_low:.0%} is free. Others that write to the same disk are not in the forecast.
    Silent: when it is full already (`disk.full`), and when the run will have made its last step by then.
    """
    disk = view.facts.disk
    if disk is None or _is_full(view, disk) or _said(view) is not None:
        return None
    left = disk.free / disk.growth if disk.growth else None
    needed = _to_the_end(view)
    soon = left is not None and left <= 3600 * view.limits.host.disk_hours and (needed is None or needed > left)
    if not soon and disk.free >= view.limits.host.disk_low * disk.total:
        return None
    evidence = [Evidence(disk.path, _room(disk), time=view.facts.as_of)]
    forecast = ""
    if soon and left is not None and disk.growth is not None:
        forecast = (
            f"; the run adds {format_bytes(disk.growth * 3600)} an hour, which fills it in {format_duration(left)}"
        )
        evidence.append(Evidence(disk.growth_source or "growth", f"{format_bytes(disk.growth * 3600)} an hour"))
    return Finding(
        rule="disk.filling",
        severity=WARNING,
        message=f"The disk runs out of room: {_room(disk)}{forecast}",
        evidence=evidence,
        cause="checkpoints, traces and logs grow with every step",
        action="Remove old runs or checkpoints now, or keep fewer (trainer.ckpt.keep_last) at the next launch.",
    )


def _to_the_end(view: View) -> float | None:
    """Seconds until the last step at the usual pace."""
    step, last, median = view.step, view.facts.run.max_steps, view.facts.progress.median_step
    return None if step is None or last is None or median is None else max(last - step, 0) * median


def _is_full(view: View, disk: Disk) -> bool:
    return disk.free < max(view.limits.host.disk_least, view.limits.host.disk_share * disk.total)


def _room(disk: Disk) -> str:
    return f"{format_bytes(disk.free)} of {format_bytes(disk.total)} are free at {disk.path}"


def _said(view: View) -> Mark | None:
    """The newest line about a full disk, while no step was finished after it or it is not older than a stall."""
    mark = view.facts.mark("no_space")
    if mark is None or mark.time is None:
        return None
    since = view.last_step is None or mark.time >= view.last_step
    return mark if since or view.facts.as_of - mark.time <= view.stall_bound else None


def _evidence(view: View, said: Mark | None, room: str) -> list[Evidence]:
    disk = view.facts.disk
    lines = [Evidence(said.file, said.text, offset=said.offset, time=said.time)] if said else []
    return lines + ([Evidence(disk.path, room, time=view.facts.as_of)] if disk else [])


RULES = (Rule("disk.full", full, (*LIVE, FAILING, PHASE_UNKNOWN)), Rule("disk.filling", filling, LIVE))
