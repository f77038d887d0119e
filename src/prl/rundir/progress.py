"""How far a run is, by its own counters: steps, episodes, and when each of them last advanced.

A modification time of a log or a metrics file says nothing here: engines are polled and lines are written while a run
stands still. What counts is the last row that belongs to a step, the last episode that arrived, and the file that holds
nothing but the number of the last finished step. Only ends of files are read.
"""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from prl.rundir.jsonl import Damage
from prl.rundir.layout import EPISODE_INDEX, METRICS
from prl.rundir.metrics.reader import TRAINER, infer_producer
from prl.rundir.status import LauncherStatus
from prl.rundir.tree import RunTree

TRAINER_STEP = "trainer_step"

_WINDOWS = (64 * 1024, 4 * 1024**2)
"""Bytes of the end of the metrics that are looked at for a row of a step; the second when the first has none."""
_INDEX_WINDOWS = (4 * 1024, 256 * 1024)
_MAX_STEP = 2**63
_TIMED = re.compile(rb'^\s*\{\s*"step"\s*:\s*null')


@dataclass(frozen=True)
class Counter:
    """One counter: its value, when it got there (Unix seconds) and where that stands (a name below the run)."""

    value: int | None
    time: float | None
    source: str


@dataclass(frozen=True)
class RunProgress:
    """The counters of a run. None: nothing says."""

    trainer: Counter | None = None
    """The last finished step."""
    orchestrator: Counter | None = None
    """The last shipped step: up to two ahead of the trainer's."""
    episodes: Counter | None = None
    """Episodes recorded."""
    schema_version: int | None = None
    """What the last row of the metrics says of its form, where it says so."""

    @property
    def step(self) -> int | None:
        """The last finished step; where no trainer tells one, the last shipped."""
        counter = self.trainer or self.orchestrator
        return counter.value if counter else None

    @property
    def last(self) -> Counter | None:
        """The counter that advanced last; None when none says when it did.

        The time of the file with the step's number, which copying a run sets anew, counts where nothing else tells.
        """
        told = [c for c in (self.trainer, self.orchestrator, self.episodes) if c is not None and c.time is not None]
        written = [counter for counter in told if counter.source != TRAINER_STEP]
        return max(written or told, key=lambda counter: counter.time or 0.0, default=None)


def read_progress(tree: RunTree, status: LauncherStatus | None = None) -> RunProgress:
    """The counters of the run that ``tree`` reads. ``status``: the launcher's word, where it stands for the newest
    attempt; it tells the step of a run that records no metrics."""
    rows, schema_version = _step_rows(tree)
    told = [counter for counter in (rows.get(True), _trainer_step(tree)) if counter is not None]
    if not told and status is not None and status.step is not None:
        told = [Counter(status.step, None, "launcher/status.json")]
    if len(told) == 2 and told[0].value == told[1].value and told[0].time is not None:
        told = told[:1]  # the time that was written down, not that of a file, which copying sets anew
    return RunProgress(
        trainer=max(told, key=lambda counter: counter.time or 0.0, default=None),
        orchestrator=rows.get(False),
        episodes=_episodes(tree),
        schema_version=schema_version,
    )


def _step_rows(tree: RunTree) -> tuple[dict[bool, Counter], int | None]:
    """The last row of a step of the trainer (True) and of anybody else (False), and the form the rows say they have."""
    for name in METRICS:
        for window in _WINDOWS:
            start, lines = _last_lines(tree, name, window)
            found, version = _newest_steps((line for line in lines if not _TIMED.match(line)), name)
            if found or version is not None:
                return found, version
            if start == 0:
                break
    return {}, None


def _newest_steps(lines: Iterable[bytes], source: str) -> tuple[dict[bool, Counter], int | None]:
    """The same, of lines that come the last first."""
    found: dict[bool, Counter] = {}
    version = None
    for row in _objects(lines):
        version = version if version is not None else _whole_number(row.get("schema_version"))
        step, trainers = _whole_number(row.get("step")), _producer(row) == TRAINER
        if step is not None and trainers not in found:
            found[trainers] = Counter(step, _moment(row.get("time")), source)
            if len(found) == 2:
                break
    return found, version


def _producer(row: dict[str, Any]) -> str:
    told = row.get("producer")
    return told if isinstance(told, str) else infer_producer(row)


def _trainer_step(tree: RunTree) -> Counter | None:
    """What the file with the step's number says. It is written at the end of a step only: its time is the step's."""
    data = tree.read(TRAINER_STEP, 64)
    digits = (data or b"").strip()
    found = tree.stat(TRAINER_STEP) if digits.isdigit() and len(digits) < 19 else None
    return Counter(int(digits), found.st_mtime, TRAINER_STEP) if found else None


def _episodes(tree: RunTree) -> Counter | None:
    for window in _INDEX_WINDOWS:
        rows = list(_objects(_last_lines(tree, EPISODE_INDEX, window)[1]))
        if rows:  # of several, since one may be another run's or out of its order
            lines = [line for row in rows if (line := _whole_number(row.get("line"))) is not None]
            arrivals = [time for row in rows if (time := _moment(row.get("arrival"))) is not None]
            return Counter(max(lines, default=None), max(arrivals, default=None), EPISODE_INDEX)
    return None


def _last_lines(tree: RunTree, name: str, window: int) -> tuple[int, list[bytes]]:
    """Where the last ``window`` bytes of a file begin, and the whole lines among them, the last first."""
    start, data = tree.tail(name, window) or (0, b"")
    lines = data.split(b"\n")
    return start, lines[-2:0:-1] if start else lines[-2::-1]


def _objects(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    damage = Damage()
    return (row for line in lines if (row := damage.decode(0, line)) is not None)


def _whole_number(value: object) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value < _MAX_STEP else None


def _moment(value: object) -> float | None:
    """Unix seconds of a row, None when it has none that a clock could have said."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value < 1e12 and math.isfinite(value) else None
