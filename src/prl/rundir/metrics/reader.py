"""Reading ``metrics.jsonl`` of this project and of older writers.

A series is (producer, key): the same key from two producers is two series. The many rows of one step are merged. A
resumed run repeats steps; then the later timeline stands and the earlier part is kept apart. Kept simple: one object a
point, for the end of a file and as the reference of what is right. :mod:`prl.rundir.metrics.store` holds millions.
"""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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


@dataclass(frozen=True)
class Point:
    """One value of a series. ``step`` None: the series is keyed by ``time`` (Unix seconds, None if not written)."""

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
        if point.step is None:
            self.timed.append(point)
            return
        replaced = self.steps.pop(point.step, None)
        if replaced is not None:
            self.superseded.append(replaced)
        self.steps[point.step] = point
        self.newest = point.step if self.newest is None else max(self.newest, point.step)

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
        key: number for key, value in raw.items() if key not in RESERVED and (number := to_number(value)) is not None
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
        self._series: dict[tuple[str, str], Series] = {}
        self.rows = 0
        self.last_time: float | None = None
        """Unix seconds of the newest row."""

    def refresh(self) -> None:
        """Read on to the end of the file. An absent file is an empty history."""
        while True:
            lines = self._tail.poll()
            if self._tail.restarts != self._restarts:
                self._restarts = self._tail.restarts
                self._series, self.rows, self.last_time = {}, 0, None
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
        self.last_time = max((t for t in (self.last_time, row.time) if t is not None), default=None)
        if row.step is not None and self._starts_again(row, row.step):
            self._supersede(row.producer, row.step)
        for key, value in row.values.items():
            self._series.setdefault((row.producer, key), Series()).add(Point(row.step, row.time, value))

    def names(self) -> list[tuple[str, str]]:
        """All (producer, key), sorted."""
        return sorted(self._series)

    def series(self, producer: str, key: str) -> list[Point]:
        """The points that stand: those with a step by step, then those without in the order they were written."""
        series = self._series.get((producer, key), Series())
        return [series.steps[step] for step in sorted(series.steps)] + series.timed

    def superseded(self, producer: str, key: str) -> list[Point]:
        """The points that a later timeline replaced, in the order they were given up."""
        return list(self._series.get((producer, key), Series()).superseded)

    def step_row(self, producer: str, step: int) -> dict[str, float]:
        """All values that a producer wrote for a step."""
        return {
            key: series.steps[step].value
            for (name, key), series in self._series.items()
            if name == producer and step in series.steps
        }

    def last_step(self, producer: str) -> int | None:
        """The newest step of a producer's timeline, evaluations aside (they carry the step of an older policy)."""
        steps = [
            series.newest
            for (name, key), series in self._series.items()
            if name == producer and series.newest is not None and not key.startswith(EVALUATION)
        ]
        return max(steps, default=None)

    def last_values(self, producer: str | None = None) -> dict[tuple[str, str], Point]:
        """The newest point of each series (of one producer)."""
        last = {}
        for (name, key), series in self._series.items():
            if producer not in (None, name):
                continue
            points = series.timed[-1:] + ([series.steps[series.newest]] if series.newest is not None else [])
            if points:
                last[name, key] = max(points, key=lambda point: point.time or 0.0)
        return last

    def _starts_again(self, row: MetricsRow, step: int) -> bool:
        """Whether the row repeats a step: a key of it was already written for this step or a later one.

        Evaluations do not count: they end when they end, each under the step of the policy it measured.
        """
        if any(key.startswith(EVALUATION) for key in row.values):
            return False
        seen = (self._series.get((row.producer, key)) for key in row.values)
        return any(series is not None and series.newest is not None and series.newest >= step for series in seen)

    def _supersede(self, producer: str, step: int) -> None:
        for (name, _), series in self._series.items():
            if name == producer:
                series.give_up_from(step)


def read_metrics(path: Path) -> MetricsHistory:
    """The history of a file as it is now."""
    history = MetricsHistory(path)
    history.refresh()
    return history
