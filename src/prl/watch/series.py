"""Progress clocks and the last points of the key metrics, from the end of ``metrics.jsonl`` and the episode index.

Only a bounded end of each file is read: a verdict needs the last steps, and a long run's files are large. Rows of
earlier attempts are left out; a baseline comes from this attempt alone.
"""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from prl.rundir.jsonl import Damage
from prl.rundir.metrics.reader import ORCHESTRATOR, TRAINER, MetricsHistory, MetricsRow, Point, parse_row
from prl.rundir.regular import open_regular
from prl.watch.facts import Clock, NonFinite, Series
from prl.watch.numbers import STABILITY_KEYS, wanted

WINDOW = 4 * 1024**2
"""Bytes read of the end of the metrics."""

_POLICY_VERSION = "watcher/policy_version"

KEPT_POINTS = 20
_KEPT_SERIES = 400
_STEPS_FOR_MEDIAN = 50
_INDEX_WINDOW = 256 * 1024


@dataclass
class Metrics:
    """What the end of the metrics file says about one attempt."""

    series: list[Series] = field(default_factory=list)
    nonfinite: list[NonFinite] = field(default_factory=list)
    trainer: Clock = field(default_factory=Clock)
    orchestrator: Clock = field(default_factory=Clock)
    policy: Clock = field(default_factory=Clock)
    median_step: float | None = None
    unknown: list[str] = field(default_factory=list)


def read_metrics_end(path: Path, source: str, since: float) -> Metrics:
    """Series and clocks from rows written at ``since`` (Unix seconds) or later."""
    found = Metrics()
    history, damage = MetricsHistory(path), Damage()
    try:
        rows = _last_objects(path, WINDOW, damage)
    except OSError as error:
        found.unknown.append(f"{source}: {error.strerror or error}")
        return found
    for raw in rows:
        row = parse_row(raw)
        if row.time is None or row.time >= since:
            history.add(_slim(row))
    if damage.lines:
        found.unknown.append(
            f"{source}: {damage.lines} unreadable lines, the first at byte {damage.first_offset}: {damage.sample}"
        )
    found.trainer = _step_clock(history, TRAINER, source)
    found.orchestrator = _step_clock(history, ORCHESTRATOR, source)
    found.policy = _version_clock(history, source)
    found.median_step = max(
        (value for name in (TRAINER, ORCHESTRATOR) if (value := _median_step(history, name)) is not None), default=None
    )
    complete = _complete_steps(history)
    for producer, key in [name for name in history.names() if wanted(*name)][:_KEPT_SERIES]:
        points = history.series(producer, key)
        found.series.append(_series(producer, key, _kept(producer, key, points, complete), source))
        found.nonfinite += [
            NonFinite(key, producer, point.step, point.time, source, None)
            for point in points[-KEPT_POINTS:]
            if not math.isfinite(point.value)
        ]
    return found


def _slim(row: MetricsRow) -> MetricsRow:
    """The row with the keys that are looked at, or with any one key: that the step exists is progress."""
    values = {key: value for key, value in row.values.items() if wanted(row.producer, key) or key == _POLICY_VERSION}
    return replace(row, values=values or dict(list(row.values.items())[:1]))


def episodes_clock(traces: Path, source: str, since: float) -> Clock:
    """How many episodes were recorded and when the last one of this attempt arrived."""
    try:
        rows = _last_objects(traces / "stream.index.jsonl", _INDEX_WINDOW, Damage())
    except OSError:
        return Clock()
    if not rows:
        return Clock()
    line, arrival = rows[-1].get("line"), rows[-1].get("arrival")
    time = float(arrival) if isinstance(arrival, int | float) and arrival >= since else None
    return Clock(line if isinstance(line, int) else None, time, source)


def _last_objects(path: Path, window: int, damage: Damage) -> list[dict[str, object]]:
    """Objects of the complete lines among the last ``window`` bytes. Raises OSError; an absent file has none."""
    try:
        with open_regular(path) as file:
            start = max(path.stat().st_size - window, 0)
            file.seek(start)
            data = file.read(window)
    except FileNotFoundError:
        return []
    end = data.rfind(b"\n") + 1
    begin = data.find(b"\n") + 1 if start else 0
    objects, offset = [], start + begin
    for line in data[begin:end].split(b"\n"):
        value = damage.decode(offset, line)
        if value is not None:
            objects.append(value)
        offset += len(line) + 1
    return objects


def _step_clock(history: MetricsHistory, producer: str, source: str) -> Clock:
    step = history.last_step(producer)
    if step is None:
        return Clock()
    keys = (key for name, key in history.names() if name == producer and not key.startswith("eval/"))
    times = [
        point.time
        for key in keys
        for point in history.series(producer, key)
        if point.step == step and point.time is not None
    ]
    return Clock(step, min(times, default=None), source)


def _version_clock(history: MetricsHistory, source: str) -> Clock:
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
    return Clock(int(last) if math.isfinite(last) else None, first.time, source, seen=points[-1].time)


def _median_step(history: MetricsHistory, producer: str) -> float | None:
    points = history.series(producer, "time/step")[-_STEPS_FOR_MEDIAN:]
    values = [point.value for point in points if point.step is not None and math.isfinite(point.value)]
    return median(values) if values else None


def _complete_steps(history: MetricsHistory) -> list[Point]:
    """Steps of which the trainer has written all rows: the one with its timings comes after the tensor statistics."""
    return [point for point in history.series(TRAINER, "time/step") if point.step is not None][-KEPT_POINTS:]


def _kept(producer: str, key: str, points: list[Point], complete: list[Point]) -> list[Point]:
    """The last points; of what the trainer writes at every step, a step without a value counts as one without."""
    if producer != TRAINER or key not in STABILITY_KEYS or not complete:
        return points[-KEPT_POINTS:]
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
