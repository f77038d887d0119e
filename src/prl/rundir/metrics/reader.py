"""Reading ``metrics.jsonl`` of this project and of older writers.

A series is (producer, key): the same key from two producers is two series. The many rows of one step are merged. A
resumed run repeats steps; then the later timeline stands and the earlier part is kept apart. Kept simple: one object a
point, for the end of a file and as the reference of what is right. :mod:`prl.rundir.metrics.store` holds millions.
"""

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from prl.rundir.jsonl import Damage, Tail
from prl.rundir.layout import run_of
from prl.rundir.metrics.writer import RESERVED

ORCHESTRATOR = "orch"
TRAINER = "trainer"
EVALUATION = "eval/"
"""How the keys of evaluations begin."""
MAX_STEP = 2**62
"""What lies beyond is no step but a mistake: such a row is read as one without a step."""

_TRAINER_PREFIXES = ("perf/", "optim/", "loss/", "system/", "val/", "entropy/", "mismatch_kl/", "time/forward_backward")
_NON_FINITE_TEXT = {
    "nan": math.nan,
    "inf": math.inf,
    "infinity": math.inf,
    "+infinity": math.inf,
    "-inf": -math.inf,
    "-infinity": -math.inf,
}


@dataclass(frozen=True)
class MetricsRow:
    """One row. ``values`` may hold non-finite floats: a sign of divergence that a reader must see."""

    producer: str
    step: int | None
    time: float | None
    values: dict[str, float]


class Point(NamedTuple):
    """One value of a series. ``step`` None: the series is keyed by ``time`` (Unix seconds, None if not written).

    A tuple, since points are made by the ten thousand.
    """

    step: int | None
    time: float | None
    value: float


@dataclass
class Series:
    """The points of one (producer, key)."""

    steps: dict[int, Point] = field(default_factory=dict)
    """By step, ascending order not guaranteed: :meth:`MetricsHistory.series` sorts."""
    timed: list[Point] = field(default_factory=list)
    """Points without a step, in file order."""
    newest: int | None = None
    """The highest step that stands."""
    superseded: list[Point] = field(default_factory=list)
    """Points of a timeline that a resume left behind, or of a row that a later one replaced."""

    def add(self, point: Point) -> None:
        """Add a point that was written after all others."""
        step = point.step
        if step is None:
            self.timed.append(point)
            return
        if step in self.steps:
            self.superseded.append(self.steps.pop(step))
        self.steps[step] = point
        if self.newest is None or step > self.newest:
            self.newest = step

    def give_up_from(self, step: int) -> None:
        """Move the points of ``step`` and later ones to the superseded."""
        if self.newest is None or self.newest < step:
            return
        self.superseded += [self.steps.pop(old) for old in sorted(self.steps) if old >= step]
        self.newest = max(self.steps, default=None)


def parse_row(raw: Mapping[str, Any]) -> MetricsRow:
    """A row from its object. What is not a number is left out; ``"NaN"``, ``"-Infinity"`` and the like are numbers.

    Rows of old writers name no producer: it follows from the keys.
    """
    values = {
        key: number
        for key, value in raw.items()
        if (number := value if type(value) is float else to_number(value)) is not None and key not in RESERVED
    }
    producer = raw.get("producer")
    return MetricsRow(
        producer=producer if isinstance(producer, str) else infer_producer(values),
        step=to_step(raw.get("step")),
        time=to_time(raw.get("time")),
        values=values,
    )


def to_number(value: object) -> float | None:
    """A metric's value, None when it is no number. An integer that no float can hold is infinite."""
    if isinstance(value, bool | float):
        return float(value)
    if isinstance(value, int):
        return value if abs(value) <= sys.float_info.max else math.inf if value > 0 else -math.inf
    return _NON_FINITE_TEXT.get(value.strip().lower()) if isinstance(value, str) else None


def to_step(value: object) -> int | None:
    """A row's step, None when it has none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if -MAX_STEP <= value <= MAX_STEP else None


def to_time(value: object) -> float | None:
    """A row's time in Unix seconds, None when it has none."""
    time = to_number(value)
    return time if time is not None and math.isfinite(time) else None


def infer_producer(keys: Mapping[str, Any]) -> str:
    """Who wrote a row without a producer: the trainer if a key is one that only it writes, else the orchestrator."""
    return TRAINER if any(key.startswith(_TRAINER_PREFIXES) for key in keys) else ORCHESTRATOR


class MetricsHistory:
    """The metrics of a run as far as its file has been read. :meth:`refresh` reads what is new."""

    def __init__(self, path: Path) -> None:
        self._tail = Tail(path, run_of(path))
        self._restarts = 0
        self._producers: dict[str, _Producer] = {}
        self.rows = 0
        self.last_time: float | None = None
        """Unix seconds of the newest row."""

    def refresh(self) -> None:
        """Read on to the end of the file. An absent file is an empty history."""
        while True:
            lines = self._tail.poll()
            if self._tail.restarts != self._restarts:
                self._restarts = self._tail.restarts
                self._producers, self.rows, self.last_time = {}, 0, None
            for line in lines:
                self.add(parse_row(line.value))
            if self._tail.at_end:
                return

    @property
    def damage(self) -> Damage:
        """Lines that could not be read."""
        return self._tail.damage

    @property
    def trouble(self) -> str | None:
        """Why the file cannot be read, in the words of the operating system."""
        return self._tail.trouble

    def add(self, row: MetricsRow) -> None:
        """Merge a row that was written after all earlier ones."""
        self.rows += 1
        if row.time is not None:
            self.last_time = row.time if self.last_time is None else max(self.last_time, row.time)
        self._producers.setdefault(row.producer, _Producer()).add(row)

    def names(self) -> list[tuple[str, str]]:
        """All (producer, key), sorted."""
        return sorted((name, key) for name, producer in self._producers.items() for key in producer.series)

    def series(self, producer: str, key: str) -> list[Point]:
        """The points that stand: those with a step by step, then those without in the order they were written."""
        series = self._of(producer).series.get(key, Series())
        return [series.steps[step] for step in sorted(series.steps)] + series.timed

    def superseded(self, producer: str, key: str) -> list[Point]:
        """The points that a later timeline replaced, in the order they were given up."""
        return list(self._of(producer).series.get(key, Series()).superseded)

    def step_row(self, producer: str, step: int) -> dict[str, float]:
        """All values that a producer wrote for a step."""
        series = self._of(producer).series
        return {key: one.steps[step].value for key, one in series.items() if step in one.steps}

    def last_step(self, producer: str) -> int | None:
        """The newest step of a producer's timeline, evaluations aside (they carry the step of an older policy)."""
        series = self._of(producer).series
        steps = [one.newest for key, one in series.items() if one.newest is not None and not key.startswith(EVALUATION)]
        return max(steps, default=None)

    def last_values(self, producer: str | None = None) -> dict[tuple[str, str], Point]:
        """The newest point of each series (of one producer)."""
        last = {}
        for name in self._producers if producer is None else (producer,):
            for key, series in self._of(name).series.items():
                points = series.timed[-1:] + ([series.steps[series.newest]] if series.newest is not None else [])
                if points:
                    last[name, key] = max(points, key=lambda point: point.time or 0.0)
        return last

    def _of(self, producer: str) -> "_Producer":
        return self._producers.get(producer) or _Producer()


class _Producer:
    """What one producer wrote."""

    def __init__(self) -> None:
        self.series: dict[str, Series] = {}
        self._highest = -MAX_STEP
        """No series has a newer step."""

    def add(self, row: MetricsRow) -> None:
        step, time = row.step, row.time
        if step is not None:
            if step <= self._highest and self._starts_again(row.values, step):
                for series in self.series.values():
                    series.give_up_from(step)
            self._highest = max(self._highest, step)
        for key, value in row.values.items():
            series_or_none = self.series.get(key)
            if series_or_none is None:
                series_or_none = self.series[key] = Series()
            series_or_none.add(Point(step, time, value))

    def _starts_again(self, keys: Iterable[str], step: int) -> bool:
        """Whether a row repeats a step: a key of it was already written for this step or a later one.

        Evaluations do not count: they end when they end, each under the step of the policy it measured.
        """
        if any(key.startswith(EVALUATION) for key in keys):
            return False
        seen = (self.series.get(key) for key in keys)
        return any(series is not None and series.newest is not None and series.newest >= step for series in seen)


def read_metrics(path: Path) -> MetricsHistory:
    """The history of a file as it is now."""
    history = MetricsHistory(path)
    history.refresh()
    return history
