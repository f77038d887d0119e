"""What is marked on the axes of a run's charts: where attempts began, checkpoints, evaluations.

Of a checkpoint that retention removed the trainer's record tells that it was saved. Left out: drawing.
"""

import contextlib
import datetime as dt
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np

from prl.dashboard.open_runs import OpenRun
from prl.rundir.checkpoint_states import read_checkpoints
from prl.rundir.configs import attempts_of, read_configs
from prl.rundir.metrics.reader import EVALUATION, TRAINER
from prl.rundir.metrics.store import MetricsStore
from prl.rundir.tree import RunTree

SECONDS = 5.0
"""How old what is known of attempts and checkpoints may be."""
MAX_MARKS = 500
"""Marks of a kind. Of more, evenly spread ones are given."""
REMOVED = "removed"
"""State of a checkpoint that was saved and is not there any more."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Attempt:
    """When an attempt began."""

    number: int
    time: float | None
    """Unix seconds."""


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint."""

    step: int
    state: str
    """As in :mod:`prl.rundir.checkpoint_states`, or :data:`REMOVED`."""
    time: float | None
    """When it was last written to, Unix seconds."""


@dataclass(frozen=True)
class Places:
    """What the run directory says of attempts and checkpoints."""

    attempts: tuple[Attempt, ...]
    checkpoints: tuple[Checkpoint, ...]

    @property
    def version(self) -> str:
        """Changes when they do."""
        return f"{hash((self.attempts, self.checkpoints)):x}"


def places(run: OpenRun) -> Places:
    """The attempts and checkpoints of a run as they were at most :data:`SECONDS` ago."""
    return run.remembered("places", SECONDS, lambda: _read_places(run))


def marks(run: OpenRun, store: MetricsStore) -> dict[str, Any]:
    """``attempts`` with the step that each began with, ``checkpoints``, and the steps of evaluations, as plain JSON."""
    found = places(run)
    return {
        "attempts": _thinned(_attempts(found.attempts, store)),
        "checkpoints": _thinned([asdict(one) for one in with_removed(found.checkpoints, store)]),
        "evals": _thinned(evaluated_steps(store)),
    }


def with_removed(there: Iterable[Checkpoint], store: MetricsStore) -> list[Checkpoint]:
    """Checkpoints by step, with those that were saved and are gone."""
    found = {one.step: one for one in there}
    saved = store.series(TRAINER, "time/save_ckpt")
    if saved.axis == "step":
        written = np.isfinite(saved.y) & (saved.y > 0)
        for step, moment in zip(saved.x[written].tolist(), saved.times[written].tolist(), strict=True):
            found.setdefault(int(step), Checkpoint(int(step), REMOVED, moment if math.isfinite(moment) else None))
    return [found[step] for step in sorted(found)]


def evaluated_steps(store: MetricsStore) -> list[int]:
    """Steps of policies that were evaluated."""
    steps: set[int] = set()
    for name in store.names():
        # Others of an evaluation's keys are only written where there is something to say.
        if name[1].startswith(EVALUATION) and name[1].rpartition("/")[2].startswith(("mean", "avg@", "policy_version")):
            data = store.series(*name)
            if data.axis == "step":
                steps |= {int(step) for step in data.x}
    return sorted(steps)


def _attempts(attempts: tuple[Attempt, ...], store: MetricsStore) -> list[dict[str, Any]]:
    rows = []
    for index, one in enumerate(attempts):
        step = None
        end = attempts[index + 1].time if index + 1 < len(attempts) else None
        if one.time is not None:
            # What a launcher notes of its start has whole seconds.
            step = store.first_step(one.time - 1.0, float("inf") if end is None else end - 1.0)
        resumed = index > 0 and step is not None and step > 1
        rows.append(
            {
                "attempt": one.number,
                "step": step,
                "time": one.time,
                "resumed_from": step - 1 if resumed and step is not None else None,
            }
        )
    return rows


def _read_places(run: OpenRun) -> Places:
    tree = RunTree(run.path)
    attempts = tuple(Attempt(number, _began(tree, number)) for number in attempts_of(tree))
    states = read_checkpoints(run.path, read_configs(run.path).documents, time.time()).states
    return Places(
        attempts,
        tuple(Checkpoint(one.step, one.state, one.changed) for one in states if one.abandoned_by is None),
    )


def _began(tree: RunTree, attempt: int) -> float | None:
    """When an attempt was launched: as its record of the environment says, else when its command was written."""
    directory = f"configs/attempt_{attempt}"
    document: Mapping[str, Any] = tree.document(f"{directory}/environment.json") or {}
    said = document.get("created")
    if isinstance(said, str):
        with contextlib.suppress(ValueError, OverflowError):
            return dt.datetime.fromisoformat(said).timestamp()
    found = tree.stat(f"{directory}/command.txt") or tree.stat(directory)
    return found.st_mtime if found is not None else None


def _thinned(values: list[_T]) -> list[_T]:
    if len(values) <= MAX_MARKS:
        return values
    return [values[index] for index in np.linspace(0, len(values) - 1, MAX_MARKS).round().astype(int).tolist()]
