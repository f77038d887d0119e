"""The counters of progress and when each last advanced: of rows first, then marker files, then console lines.

Metrics and step lines say the same of a step, but either may be off or behind; of several the one that advanced last
counts. Of earlier attempts only values are taken, never times.
"""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from prl.rundir.broadcasts import list_broadcasts
from prl.rundir.layout import RunLayout, step_number
from prl.rundir.regular import read_regular
from prl.watch.facts import Broadcast, Clock, Launcher, Progress
from prl.watch.lines import Lines
from prl.watch.series import Metrics, episodes_clock
from prl.watch.statistics import median

_INDEX = "monitors/file/traces/stream.index.jsonl"
_OLD_TRACES = "rollouts"
_TRAINER_STEP = "trainer_step"

AHEAD = 60.0
"""Seconds by which what is read may be dated ahead of this host's clock. Beyond, a clock is wrong, or a unit."""


def progress_facts(
    root: Path,
    metrics: Metrics,
    lines: Lines,
    launcher: Launcher | None,
    *,
    checkpoint: Clock,
    since: float,
    resumed: int | None,
    now: float,
) -> Progress:
    """All clocks. ``since``: when the attempt began, ``now``: when it is looked at, Unix seconds. ``resumed``: the step
    that it began from."""
    trainer, orchestrator = _interval(lines, "trainer"), _interval(lines, "orchestrator")
    trainer = metrics.trainer_median if metrics.trainer_median is not None else trainer
    orchestrator = metrics.orchestrator_median if metrics.orchestrator_median is not None else orchestrator
    written, file = _newer(metrics.trainer, _line_clock(lines, "trainer")), _step_file(root, since, resumed)
    # Of a step that was written down that moment counts, not the file's, which copying a run sets anew.
    known = written.time is not None and written.value == file.value
    clocks = {
        "trainer": _newer(written, Clock() if known else file, _told(launcher)),
        "orchestrator": _newer(metrics.orchestrator, _line_clock(lines, "orchestrator")),
        "policy": metrics.policy,
        "episodes": _episodes(root, since),
    }
    return Progress(
        **{name: _not_ahead(clock, root, metrics, now) for name, clock in clocks.items()},
        pipeline=_pipeline(lines),
        inference=metrics.inference,
        broadcast=_broadcast_clock(newest_broadcast(root)),
        checkpoint=checkpoint,
        median_step=max((value for value in (trainer, orchestrator) if value is not None), default=None),
        trainer_median=trainer,
        orchestrator_median=orchestrator,
    )


def _not_ahead(clock: Clock, root: Path, metrics: Metrics, now: float) -> Clock:
    """A clock that advanced in the future advanced before its file was last written, by as much as its newest row."""
    if clock.time is None or clock.source is None or clock.time <= now + AHEAD:
        return clock
    newest = max(clock.time, metrics.newest or 0.0) if clock.source == metrics.source else clock.time
    try:
        written = min((root / clock.source).stat().st_mtime, now)
    except OSError:
        written = now
    return replace(clock, time=written - (newest - clock.time))


def newest_broadcast(root: Path) -> Broadcast | None:
    """The newest policy version on its way or sent."""
    states = list_broadcasts(RunLayout(root).broadcasts)
    if not states:
        return None
    last = states[-1]
    source = last.path.relative_to(root).as_posix()
    return Broadcast(last.version, last.sender_ready, last.receiver_ready, last.started, last.finished, source)


def _newer(*clocks: Clock) -> Clock:
    return max(clocks, key=lambda clock: (clock.value is not None, clock.time or 0.0))


def _told(launcher: Launcher | None) -> Clock:
    known = launcher is not None and launcher.step is not None
    return Clock(launcher.step, None, launcher.source) if launcher is not None and known else Clock()


def _line_clock(lines: Lines, worker: str) -> Clock:
    steps = lines.steps.get(worker)
    if not steps:
        return Clock()
    source = next((mark.file for mark in lines.marks if mark.kind == f"{worker}_step"), None)
    return Clock(steps[-1][0], steps[-1][1], source)


def _interval(lines: Lines, worker: str) -> float | None:
    """Median seconds between two step lines. Lines carry whole seconds only."""
    steps = lines.steps.get(worker, [])
    gaps = [later[1] - earlier[1] for earlier, later in pairwise(steps) if later[0] == earlier[0] + 1]
    return median(gaps) if gaps else None


def _step_file(root: Path, since: float, resumed: int | None) -> Clock:
    """The file with the last finished step, written at the end of each, and by a launcher that goes on from one."""
    path = root / _TRAINER_STEP
    try:
        digits, changed = read_regular(path, 64, root).strip(), path.stat().st_mtime
    except OSError:
        return Clock()
    if not digits.isdigit() or len(digits) > 18:
        return Clock()
    step = int(digits)
    advanced = changed >= since and (resumed is None or step > resumed)
    return Clock(step, changed if advanced else None, _TRAINER_STEP)


def _episodes(root: Path, since: float) -> Clock:
    stream = episodes_clock(RunLayout(root).traces, _INDEX, since)
    return stream if stream.source is not None else _old_episodes(root, since)


def _old_episodes(root: Path, since: float) -> Clock:
    """Of the oldest layout: it writes the episodes of a step into a directory of its own. How many is not counted."""
    try:
        steps = [path for path in (root / _OLD_TRACES).iterdir() if step_number(path) is not None]
        newest = max(steps, key=lambda path: step_number(path) or 0, default=None)
        files = list(newest.glob("*/*/traces.jsonl")) if newest is not None else []
        changed = max((path.stat().st_mtime for path in files), default=None)
    except OSError:
        return Clock()
    if newest is None or changed is None:
        return Clock()
    return Clock(None, changed if changed >= since else None, newest.relative_to(root).as_posix())


def _pipeline(lines: Lines) -> Clock:
    said = lines.pipeline
    if said is None:
        return Clock()
    known = [count for count in (said.inflight_train, said.inflight_eval) if count is not None]
    return Clock(sum(known) if known else None, said.time, said.file)


def _broadcast_clock(newest: Broadcast | None) -> Clock:
    if newest is None:
        return Clock()
    marks = (newest.sender_ready, newest.receiver_ready, newest.started, newest.finished)
    clock = Clock(newest.version, None, newest.source)
    return replace(clock, time=max((mark for mark in marks if mark is not None), default=None))
