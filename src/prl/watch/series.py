"""Progress clocks and the last points of the key metrics, from the end of ``metrics.jsonl`` and the episode index.

Only a bounded end of each file is read: a verdict needs the last steps, and a long run's files are large. Rows of
earlier attempts are left out; a baseline comes from this attempt alone. The store of all metrics
(:mod:`prl.rundir.metrics.store`) is not used: importing numpy alone takes as long as everything here.
"""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from prl.rundir.jsonl import Damage
from prl.rundir.layout import run_of
from prl.rundir.metrics.reader import (
    EVALUATION,
    ORCHESTRATOR,
    TRAINER,
    MetricsHistory,
    MetricsRow,
    Point,
    parse_row,
)
from prl.rundir.metrics.writer import RESERVED
from prl.rundir.regular import open_regular
from prl.watch.ends import End, read_end
from prl.watch.facts import Clock, NonFinite, Series
from prl.watch.keys import LAST, REPLAYED, STABILITY_KEYS, importance, kept_points
from prl.watch.statistics import median

_POLICY_VERSION = "watcher/policy_version"
_INFERENCE = "inference/"
_AGGREGATES = ("agg", "prefill", "decode")
_KEPT_SERIES = 400
_STEPS_FOR_MEDIAN = 50
_INDEX_WINDOW = 256 * 1024


@dataclass(frozen=True)
class Recorded:
    """What the run recorded of one engine last: values by the names of its own metrics."""

    time: float
    values: dict[str, float]


@dataclass
class Metrics:
    """What the end of the metrics file says about one attempt."""

    series: list[Series] = field(default_factory=list)
    nonfinite: list[NonFinite] = field(default_factory=list)
    trainer: Clock = field(default_factory=Clock)
    orchestrator: Clock = field(default_factory=Clock)
    policy: Clock = field(default_factory=Clock)
    inference: Clock = field(default_factory=Clock)
    trainer_median: float | None = None
    orchestrator_median: float | None = None
    engines: dict[str, Recorded] = field(default_factory=dict)
    newest: float | None = None
    """The latest time that a row has, Unix seconds."""
    bytes_per_second: float | None = None
    """By which the file grows."""
    source: str = ""
    unknown: list[str] = field(default_factory=list)

    @property
    def median_step(self) -> float | None:
        """The slower side's."""
        return max((value for value in (self.trainer_median, self.orchestrator_median) if value), default=None)


def read_metrics_end(path: Path, source: str, since: float) -> Metrics:
    """Series and clocks from rows written at ``since`` (Unix seconds) or later."""
    found = Metrics(source=source)
    try:
        end = read_end(path, REPLAYED)
    except OSError as error:
        found.unknown.append(f"{source}: {error.strerror or error}")
        return found
    history = MetricsHistory(path)
    rows = _rows(end, found)
    for row in rows:
        if row.time is None or row.time >= since:
            history.add(_without_engines(row, found))
    found.newest = max((row.time for row in rows if row.time is not None), default=None)
    found.bytes_per_second = _growth(end, rows)
    found.trainer = _step_clock(history, TRAINER, source)
    found.orchestrator = _step_clock(history, ORCHESTRATOR, source)
    found.policy = _version_clock(history, end.version_since, since, source)
    found.trainer_median = _median_step(history, TRAINER)
    found.orchestrator_median = _median_step(history, ORCHESTRATOR)
    _take_series(history, found)
    return found


def _rows(end: End, found: Metrics) -> list[MetricsRow]:
    damage, rows = Damage(), []
    looked_at: dict[str, _Keys] = {}
    for offset, line in end.lines:
        raw = damage.decode(offset, line)
        if raw is None:
            continue
        producer = raw.get("producer")
        if isinstance(producer, str):  # else the row stays whole, since its keys tell who wrote it
            keys = looked_at.get(producer) or looked_at.setdefault(producer, _Keys(producer))
            raw = keys.only(raw)
        rows.append(parse_row(raw))
    if damage.lines:
        found.unknown.append(
            f"{found.source}: {damage.lines} unreadable lines, the first at byte {damage.first_offset}: {damage.sample}"
        )
    return rows


class _Keys:
    """Which keys of a producer's rows are looked at. Its rows have the same ones again and again: each is told once."""

    def __init__(self, producer: str) -> None:
        self._producer = producer
        self._seen = set(RESERVED)
        self._kept = set(RESERVED)

    def only(self, raw: dict[str, Any]) -> dict[str, Any]:
        """The row with these keys, or with any one key: that the step exists is progress."""
        new = raw.keys() - self._seen
        self._seen |= new
        self._kept |= {key for key in new if kept_points(self._producer, key) or key.startswith(_INFERENCE)}
        kept = self._kept.intersection(raw)
        if kept <= RESERVED:
            kept |= set(next(([key] for key in raw if key not in RESERVED), []))
        return {key: raw[key] for key in kept}


def _take_series(history: MetricsHistory, found: Metrics) -> None:
    complete = _complete_steps(history)
    names = sorted((name for name in history.names() if kept_points(*name)), key=lambda name: importance(*name))
    if len(names) > _KEPT_SERIES:
        left_out = len(names) - _KEPT_SERIES
        found.unknown.append(f"{found.source}: {left_out} series of single environments were too many to look at")
    for producer, key in sorted(names[:_KEPT_SERIES]):
        points = history.series(producer, key)
        kept = _kept(producer, key, points, complete)
        found.series.append(_series(producer, key, kept, found.source))
        found.nonfinite += [
            NonFinite(key, producer, point.step, point.time, found.source, None)
            for point in points[-LAST:]
            if not math.isfinite(point.value)
        ]


def _without_engines(row: MetricsRow, found: Metrics) -> MetricsRow:
    """The row without what single engines said, of which the last word is kept apart.

    An engine's name stands between the first two slashes of its keys.
    """
    if row.step is not None or row.time is None or not any(key.startswith(_INFERENCE) for key in row.values):
        return row
    by_engine: dict[str, dict[str, float]] = {}
    rest: dict[str, float] = {}
    for key, value in row.values.items():
        parts = key.split("/", 2)
        if parts[0] == "inference" and len(parts) == 3 and parts[1] not in _AGGREGATES:
            by_engine.setdefault(parts[1], {})[parts[2]] = value
        else:
            rest[key] = value
    found.engines.update({name: Recorded(row.time, values) for name, values in by_engine.items()})
    found.inference = Clock(len(by_engine), row.time, found.source)
    return replace(row, values=rest)


def episodes_clock(traces: Path, source: str, since: float) -> Clock:
    """How many episodes were recorded and when the last one of this attempt arrived."""
    try:
        row = _last_object(traces / "stream.index.jsonl", _INDEX_WINDOW)
    except OSError:
        return Clock()
    if row is None:
        return Clock()
    line, arrival = row.get("line"), row.get("arrival")
    known = isinstance(arrival, int | float) and not isinstance(arrival, bool) and since <= arrival < 1e12
    return Clock(line if type(line) is int else None, float(arrival) if known else None, source)  # type: ignore[arg-type]


def _last_object(path: Path, window: int) -> dict[str, object] | None:
    """The object on the last complete line. Raises OSError; an absent file has none."""
    try:
        with open_regular(path, run_of(path)) as file:
            file.seek(max(path.stat().st_size - window, 0))
            lines = file.read(window).split(b"\n")
    except FileNotFoundError:
        return None
    damage = Damage()
    objects = (damage.decode(0, line) for line in reversed(lines[:-1]))
    return next((value for value in objects if value is not None), None)


def _growth(end: End, rows: list[MetricsRow]) -> float | None:
    """Bytes a second between the first and the last row that were looked at."""
    times = [row.time for row in rows if row.time is not None]
    if len(times) < 2 or max(times) - min(times) < 1.0:
        return None
    return (end.size - end.lines[0][0]) / (max(times) - min(times))


def _step_clock(history: MetricsHistory, producer: str, source: str) -> Clock:
    step = history.last_step(producer)
    if step is None:
        return Clock()
    keys = (key for name, key in history.names() if name == producer and not key.startswith(EVALUATION))
    times = [
        point.time
        for key in keys
        for point in history.series(producer, key)
        if point.step == step and point.time is not None
    ]
    return Clock(step, min(times, default=None), source)


def _version_clock(history: MetricsHistory, changed: float | None, since: float, source: str) -> Clock:
    """The applied policy version, at the time of the first row that tells of it."""
    points = history.series(ORCHESTRATOR, _POLICY_VERSION)
    if not points:
        return Clock()
    last = points[-1].value
    first = points[-1]
    for point in reversed(points):
        if point.value != last:
            break
        first = point
    # Rows that were looked at but not decoded may tell of it earlier.
    time = min((moment for moment in (first.time, changed) if moment is not None and moment >= since), default=None)
    return Clock(int(last) if math.isfinite(last) else None, time, source, seen=points[-1].time)


def _median_step(history: MetricsHistory, producer: str) -> float | None:
    points = history.series(producer, "time/step")[-_STEPS_FOR_MEDIAN:]
    values = [point.value for point in points if point.step is not None and math.isfinite(point.value)]
    return median(values) if values else None


def _complete_steps(history: MetricsHistory) -> list[Point]:
    """Steps of which the trainer has written all rows: the one with its timings comes after the tensor statistics."""
    return [point for point in history.series(TRAINER, "time/step") if point.step is not None][-REPLAYED:]


def _kept(producer: str, key: str, points: list[Point], complete: list[Point]) -> list[Point]:
    """The last points; of what the trainer writes at every step, a step without a value counts as one without."""
    if producer != TRAINER or key not in STABILITY_KEYS or not complete:
        return points[-kept_points(producer, key) :]
    by_step = {point.step: point for point in points}
    return [by_step.get(point.step, Point(point.step, point.time, math.nan)) for point in complete]


def _series(producer: str, key: str, points: list[Point], source: str) -> Series:
    return Series(
        producer=producer,
        key=key,
        steps=[point.step for point in points],
        times=[point.time or 0.0 for point in points],
        values=[point.value if math.isfinite(point.value) else None for point in points],
        source=source,
    )
