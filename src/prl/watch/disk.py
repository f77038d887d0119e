"""The disk of a run: how full it is, how fast it fills, and the checkpoints on it.

How fast comes from the run's own record alone: what the trainer wrote of its disk at each step; where it wrote none,
the size of checkpoints over the time between two, and the growth of metrics and traces. What cannot be told is None.
"""

import os
from itertools import pairwise
from pathlib import Path

from prl.rundir.checkpoint_states import COMPLETE, STUCK, WRITING, CheckpointState
from prl.rundir.checkpoint_states import Checkpoints as Found
from prl.rundir.jsonl import Damage
from prl.rundir.layout import RunLayout
from prl.rundir.metrics.reader import TRAINER
from prl.rundir.regular import open_regular
from prl.watch.facts import Checkpoints, Clock, Disk, Series
from prl.watch.series import Metrics
from prl.watch.statistics import median
from prl.watch.surroundings import CheckpointFact

_USED = "system/ckpt_disk_used_gib"
_GIB = 1024**3
_LEAST_POINTS = 3
_LEAST_SECONDS = 60.0
_INDEX_WINDOW = 256 * 1024
_MAX_STATES = 200


def disk_facts(root: Path, metrics: Metrics, checkpoints: Found) -> Disk | None:
    """The file system of the run directory; None when it cannot be asked."""
    try:
        usage = os.statvfs(root)
    except OSError:
        return None
    growth, source = _recorded_growth(metrics) or _own_growth(root, metrics, checkpoints) or (None, None)
    free, total = usage.f_bavail * usage.f_frsize, usage.f_blocks * usage.f_frsize
    return Disk(str(root), free, total, growth, source)


def checkpoint_facts(root: Path, found: Found) -> tuple[Checkpoints, list[CheckpointFact]]:
    """Every checkpoint by step, and the same in short. What was begun anew of a step that is complete counts for the
    time of the last write alone: who resumes from that step takes the complete one."""
    current = [state for state in found.states if state.abandoned_by is None]
    open_ones = [state for state in current if state.path.suffix == ".tmp" or state.state in (WRITING, STUCK)]
    complete = {state.step for state in current if state.state == COMPLETE}
    named = {state.step for state in current if state.path.suffix != ".tmp"}
    directory = next((state.path.parent for state in current), found.roots[0])
    short = Checkpoints(
        complete=sorted(complete),
        half=sorted(named - complete),
        unfinished=sorted(state.path.name for state in open_ones if state.path.suffix == ".tmp"),
        changed=max((state.changed for state in open_ones), default=None),
        source=_name(root, directory),
        problem=_unread(root, found),
    )
    told = [state for state in current if state.state == COMPLETE or state.step not in complete]
    return short, [_fact(root, state) for state in told[-_MAX_STATES:]]


def _unread(root: Path, found: Found) -> str | None:
    """Why there may be more checkpoints: what is there cannot be read, or a directory beside the run is not there."""
    away = (place for place in found.roots if place != root / "checkpoints" and not place.parent.exists())
    told = [*found.trouble, *(f"{place.parent}: not there, or not on this host" for place in away)]
    return told[0] if told else None


def checkpoint_clock(root: Path, found: Found) -> Clock:
    """The newest checkpoint and when something in it was last written."""
    states = [state for state in found.states if state.abandoned_by is None]
    if not states:
        return Clock()
    newest = max(states, key=lambda state: (state.changed, state.step))
    return Clock(newest.step, newest.changed, _name(root, newest.path))


def _fact(root: Path, state: CheckpointState) -> CheckpointFact:
    path = _name(root, state.path)
    return CheckpointFact(state.step, path, state.state, state.bytes, state.changed, state.problem)


def _name(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def _recorded_growth(metrics: Metrics) -> tuple[float, str] | None:
    """Between the first and the last of the points kept. What others write on the same disk counts: it fills it too."""
    used = next((one for one in metrics.series if one.producer == TRAINER and one.key == _USED), None)
    points = _finite(used) if used is not None else []
    if len(points) < _LEAST_POINTS or points[-1][0] - points[0][0] < _LEAST_SECONDS:
        return None
    seconds = points[-1][0] - points[0][0]
    return (points[-1][1] - points[0][1]) * _GIB / seconds, f"{metrics.source}: {_USED}"


def _finite(series: Series) -> list[tuple[float, float]]:
    pairs = zip(series.times, series.values, strict=True)
    return [(time, value) for time, value in pairs if value is not None and time > 0]


def _own_growth(root: Path, metrics: Metrics, checkpoints: Found) -> tuple[float, str] | None:
    parts = {
        "checkpoints": _checkpoint_growth(metrics, checkpoints),
        "traces": _trace_growth(root),
        metrics.source: metrics.bytes_per_second,
    }
    known = {name: rate for name, rate in parts.items() if rate is not None}
    return (sum(known.values()), " + ".join(known)) if known else None


def _checkpoint_growth(metrics: Metrics, found: Found) -> float | None:
    """Bytes of a checkpoint over the time from one to the next; 0 where as many are removed as are written."""
    complete = [state for state in found.states if state.state == COMPLETE and state.abandoned_by is None]
    if len(complete) < 2 or metrics.median_step is None:
        return None
    if found.keep_last is not None and found.keep_interval is None and len(complete) >= found.keep_last:
        return 0.0
    gaps = [gap for earlier, later in pairwise(complete) if (gap := later.step - earlier.step) > 0]
    seconds = median(gaps) * metrics.median_step if gaps else 0.0
    return complete[-1].bytes / seconds if seconds > 0 else None


def _trace_growth(root: Path) -> float | None:
    """Between the first and the last episode of the index's end that lie in one chunk of the stream."""
    try:
        with open_regular(RunLayout(root).traces / "stream.index.jsonl", root) as file:
            file.seek(max(os.fstat(file.fileno()).st_size - _INDEX_WINDOW, 0))
            lines = file.read(_INDEX_WINDOW).split(b"\n")[1:-1]
    except OSError:
        return None
    damage = Damage()
    ends = [row for line in (lines[:1] + lines[-1:]) if (row := damage.decode(0, line)) is not None]
    if len(ends) < 2 or ends[0].get("chunk") != ends[1].get("chunk"):
        return None
    (began, first), (ended, last) = ((_number(row, "arrival"), _number(row, "offset")) for row in ends)
    if began is None or ended is None or first is None or last is None or ended - began < _LEAST_SECONDS:
        return None
    return max(last - first, 0.0) / (ended - began)


def _number(row: dict[str, object], name: str) -> float | None:
    value = row.get(name)
    return (
        float(value) if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18 else None
    )
