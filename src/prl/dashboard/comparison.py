"""Several runs side by side: lines of the same series, what they were configured with that differs, values at one step.

Series are told apart by producer and key. Times are seconds since each run's own first row, since runs that began on
different days are to lie over each other. Left out: judging which is better.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from prl.dashboard.axes import Axes, Axis
from prl.dashboard.lines import Lines, Window
from prl.dashboard.metric_answers import find_series
from prl.dashboard.overview import last_step
from prl.dashboard.run_configs import several
from prl.rundir.configs import AttemptConfigs
from prl.rundir.metrics.names import resolve
from prl.rundir.metrics.store import MetricsStore
from prl.rundir.panels import load_panels

MAX_DIFFERENT = 200
"""Values of configurations that are told."""
MAX_LINES = 60
"""Lines of all runs."""
_MEANINGS = (
    ("reward", "Reward"),
    ("reward_all", "Reward of all episodes"),
    ("score", "Eval score"),
    ("loss", "Loss"),
    ("entropy", "Entropy"),
    ("mismatch_kl", "Mismatch KL"),
    ("masked", "Masked tokens"),
    ("grad_norm", "Gradient norm"),
    ("length", "Episode length"),
    ("truncation", "Truncated"),
    ("errors", "Errors"),
    ("trainer_step_time", "Step time"),
    ("throughput", "Trainer throughput"),
    ("off_policy", "Off-policy steps"),
)


@dataclass(frozen=True)
class Compared:
    """One of the runs, and what was drawn of it."""

    id: str
    name: str
    attempt: int | None
    configs: AttemptConfigs
    last_step: int | None
    lines: list[dict[str, Any]]
    missing: list[str]
    partial: bool
    values: dict[tuple[str, str, str], tuple[Any, Any]]
    """Steps and values by (label, producer, key)."""


def look_at(
    run: str, name: str, *, configs: AttemptConfigs, store: MetricsStore, wanted: Sequence[str], window: Window
) -> Compared:
    """What a comparison needs of one run, taken while nobody else has its metrics."""
    axes = Axes(store)
    names, missing = find_series(store.names(), wanted)
    began = store.first_time or 0.0
    lines = Lines(store, axes)
    asked = window
    if window.axis == "time":
        asked = replace(window, start=_later(window.start, began), end=_later(window.end, began))
    return Compared(
        id=run,
        name=name,
        attempt=configs.attempt,
        configs=configs,
        last_step=last_step(store),
        lines=[{"run": run, **_since(lines.line(one, asked), began)} for one in names[:MAX_LINES]],
        missing=missing,
        partial=not store.whole,
        values=_values(store, axes, began),
    )


def comparison(runs: Sequence[Compared], axis: Axis) -> dict[str, Any]:
    """The runs side by side, as plain JSON."""
    return {
        "runs": [
            {"id": run.id, "name": run.name, "attempt": run.attempt, "last_step": run.last_step, "missing": run.missing}
            for run in runs
        ],
        "axis": axis,
        "lines": _labelled([line for run in runs for line in run.lines]),
        "config": several([run.configs for run in runs], MAX_DIFFERENT),
        "at": _at(runs),
        "partial": any(run.partial for run in runs),
    }


def _labelled(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines with what tells each from the others of its run, as of several agents; "" where there is one alone."""
    keys = [line["key"] for line in lines]
    return [{**line, "label": telling_parts(line["key"], keys)} for line in lines]


def _later(seconds: float | None, began: float) -> float | None:
    return None if seconds is None else began + seconds


def _since(line: dict[str, Any], began: float) -> dict[str, Any]:
    """A line whose times begin with the run."""
    if line["axis"] != "time":
        return line
    marks = [[round(x - began, 3), word] for x, word in line["nonfinite"]]
    return {**line, "x": np.round(line["x"] - began, 3), "nonfinite": marks}


def _values(store: MetricsStore, axes: Axes, began: float) -> dict[tuple[str, str, str], tuple[Any, Any]]:
    names = store.names()
    found: dict[tuple[str, str, str], tuple[Any, Any]] = {}
    for meaning, label in _MEANINGS:
        for name in resolve(meaning, names)[:6]:
            points = axes.points(name, "step")
            if points.axis == "step" and len(points.x):
                found[label, *name] = points.x, points.y
    steps = store.clock()[0].astype(np.float64)
    times, tokens = axes.times_at(steps), axes.tokens_at(steps)
    if times is not None:
        found["Wall time", "", ""] = steps, times - began
    if tokens is not None and len(steps):
        found["Tokens", "", ""] = steps, tokens
    return found


def _at(runs: Sequence[Compared]) -> dict[str, Any] | None:
    """The values at the last step that all runs have; None when one has none."""
    steps = [run.last_step for run in runs if run.last_step is not None]
    if len(steps) < len(runs):
        return None
    step = min(steps)
    rows = dict.fromkeys(row for run in runs for row in run.values)
    keys: dict[str, list[str]] = {}
    for label, _, key in rows:
        keys.setdefault(label, []).append(key)
    return {
        "step": step,
        "rows": [
            {
                "label": ", ".join(filter(None, (label, telling_parts(key, keys[label])))),
                "producer": producer or None,
                "key": key or None,
                **_written(label, key),
                "values": [_value(run.values.get((label, producer, key)), step) for run in runs],
            }
            for label, producer, key in rows
        ],
    }


def telling_parts(key: str, keys: Sequence[str]) -> str:
    """What tells a key from others: those of its parts that not all of them have in the same place."""
    others = [other.split("/") for other in keys]
    return "/".join(part for at, part in enumerate(key.split("/")) if any(one[at : at + 1] != [part] for one in others))


def _written(label: str, key: str) -> dict[str, str]:
    """How to write a row's values."""
    if not key:
        return {"format": "seconds", "unit": "s"} if label == "Wall time" else {"format": "tokens", "unit": "tokens"}
    meaning = load_panels().meaning(key)
    return {"format": meaning.format, "unit": meaning.unit} if meaning else {"format": "number", "unit": ""}


def _value(points: tuple[Any, Any] | None, step: int) -> float | None:
    """The value at a step, of an evaluation the newest until then; None where there is none or it is not finite."""
    if points is None:
        return None
    index = int(np.searchsorted(points[0], step, "right")) - 1
    value = float(points[1][index]) if index >= 0 else float("nan")
    return value if np.isfinite(value) else None
