"""The numbers at the head of an overview: the newest value of what is asked for first, and its change since the start.

What was never measured has no value, which is not 0. What varies from step to step by chance (shares of few episodes,
times) is told as the mean or the median of the last steps.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from prl.dashboard.axes import Axes, Values
from prl.dashboard.limits import alarm
from prl.dashboard.lines import rounded
from prl.rundir.metrics.decimate import decimate
from prl.rundir.metrics.names import Name, resolve
from prl.rundir.metrics.store import MetricsStore
from prl.rundir.panels import Chart, Line, Panels
from prl.rundir.runs import RunInfo
from prl.watch.thresholds import Thresholds

STEPS = 10
"""The last steps, of which the mean or the median is told."""
SPARK = 40
"""Points of the small curve."""
MAX_OF_A_KIND = 6
"""Environments with a tile of their own."""

Charts = dict[str, Chart]
"""The charts of a run by the ids of their panels."""


@dataclass(frozen=True)
class Source:
    """What tiles are made from."""

    info: RunInfo
    store: MetricsStore
    axes: Axes
    panels: Panels
    charts: Charts
    limits: Thresholds


def tiles(source: Source) -> list[dict[str, Any]]:
    """The tiles of a run, as plain JSON."""
    make: dict[str, Callable[[Source], list[dict[str, Any]]]] = {"sft": _sft, "eval": _evaluation}
    return make.get(source.info.kind, _rl)(source)


def _rl(source: Source) -> list[dict[str, Any]]:
    rewards = _lines(source, "reward_by_env", "reward")
    if len(rewards) > MAX_OF_A_KIND:
        rewards = _lines(source, "reward")
    found = [_newest(source, f"reward {line.label}".strip(), _titled("Reward", line), line.name) for line in rewards]
    if not found:
        found = [_absent("reward", "Reward", "no step yet")]
    found += _scores(source, "eval_score", "Eval")
    found += [
        _recent(source, "errors", "Errors", _meant(source, "errors")),
        _recent(source, "truncated", "Truncated", _meant(source, "truncation")),
        _step_time(source, _meant(source, "trainer_step_time") or _meant(source, "orchestrator_step_time")),
    ]
    return found


def _sft(source: Source) -> list[dict[str, Any]]:
    return [
        _newest(source, "loss", "Loss", _meant(source, "loss")),
        _newest(source, "val_loss", "Validation loss", _meant(source, "trainer:val/loss"), "not validated yet"),
        _newest(source, "samples", "Samples", _meant(source, "trainer:progress/num_samples"), compared=False),
        _newest(source, "tokens", "Tokens", _meant(source, "trainer:progress/num_tokens"), compared=False),
        _recent(source, "throughput", "Throughput", _meant(source, "throughput"), combine=np.median),
        _recent(source, "mfu", "Model FLOPs use", _meant(source, "mfu"), combine=np.median),
        _step_time(source, _meant(source, "trainer_step_time")),
    ]


def _evaluation(source: Source) -> list[dict[str, Any]]:
    found = _scores(source, "eval_score", "Score") + _scores(source, "eval_pass", "Solved", wanted=())
    done = source.info.progress.episodes
    planned = source.info.planned_episodes
    found.append(
        {
            **_absent("episodes", "Episodes", f"of {planned:,}" if planned is not None else ""),
            "value": done.value if done is not None else None,
            "format": "count",
            "link": {"page": "traces", "params": {}},
        }
    )
    for name, label in (("eval_errors", "Errors"), ("eval_truncated", "Truncated"), ("eval_length", "Output length")):
        lines = _lines(source, name)[:MAX_OF_A_KIND]
        found += [_newest(source, f"{name} {line.label}".strip(), _titled(label, line), line.name) for line in lines]
    return found


def _scores(source: Source, chart: str, title: str, wanted: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """A tile for each environment that was evaluated, and one each for those that are still to be."""
    lines = _lines(source, chart)
    found = []
    for line in lines[:MAX_OF_A_KIND]:
        score = line.name[1].rpartition("/")[2]
        label = f"{_titled(title, line)} {score}" if score not in line.label else _titled(title, line)
        found.append(_newest(source, f"{chart} {line.label}".strip(), label, line.name, since_last=True))
    known = {line.name[1].split("/", 2)[1] for line in lines}
    waiting = [env for env in (source.info.eval_envs if wanted is None else wanted) if env not in known]
    if len(waiting) == 1 or (waiting and len(waiting) + len(found) <= MAX_OF_A_KIND):
        found += [_absent(f"{chart} {env}", f"{title}, {env}", "not evaluated yet") for env in waiting]
    elif waiting:
        what = "other environments" if found else f"{len(waiting)} environments"
        found.append(_absent(chart, f"{title}, {what}", "not evaluated yet"))
    return found


def _newest(
    source: Source,
    tile: str,
    label: str,
    name: Name | None,
    why: str = "not measured yet",
    *,
    since_last: bool = False,
    compared: bool = True,
) -> dict[str, Any]:
    """The newest value, and its change since the first one or, ``since_last``, the one before."""
    values, steps = _values(source, name)
    if name is None or not len(values):
        return _absent(tile, label, why)
    before = -2 if since_last else 0
    known = compared and len(values) > 1 and (since_last or source.store.whole)
    since = "start" if before == 0 and steps[0] <= 1 else f"step {steps[before]:g}" if len(values) > 1 else ""
    value, change = float(values[-1]), float(values[-1] - values[before]) if known else None
    return {
        **_tile(source, tile, label, name, values),
        **_told(source, name, values, value, change),
        "change_label": f"since {since}" if known else "",
    }


def _recent(
    source: Source, tile: str, label: str, name: Name | None, *, combine: Callable[[Values], Any] = np.mean
) -> dict[str, Any]:
    """The mean or median of the last steps, and its change from that of the first ones."""
    values, _ = _values(source, name)
    finite = values[np.isfinite(values)]
    if name is None or not len(finite):
        return _absent(tile, label, "not measured yet")
    value = float(combine(finite[-STEPS:]))
    known = len(finite) >= 2 * STEPS and source.store.whole
    change = value - float(combine(finite[:STEPS])) if known else None
    note = f"{'median' if combine is np.median else 'mean'} of {min(STEPS, len(finite))} steps"
    return {
        **_tile(source, tile, label, name, values),
        **_told(source, name, values, value, change),
        "change_label": "since start" if known else "",
        "note": note,
    }


def _step_time(source: Source, name: Name | None) -> dict[str, Any]:
    """The median of the last steps, beside their 90th percentile."""
    tile = _recent(source, "step_time", "Step time", name, combine=np.median)
    values, _ = _values(source, name)
    finite = values[np.isfinite(values)][-STEPS:]
    if not len(finite):
        return tile
    return {**tile, "note": f"{tile['note']}, p90 {np.percentile(finite, 90):.3g} s"}


def _tile(source: Source, tile: str, label: str, name: Name, values: Values) -> dict[str, Any]:
    """A tile of a series, without its value."""
    meaning = source.panels.meaning(name[1])
    return {
        **_absent(tile, label, ""),
        "unit": meaning.unit if meaning else "",
        "format": meaning.format if meaning else "number",
        "spark": rounded(values[decimate(values, SPARK)], 4),
        "link": {"page": "metrics", "params": {"key": f"{name[0]}:{name[1]}"}},
    }


def _told(source: Source, name: Name, values: Values, value: float, change: float | None) -> dict[str, Any]:
    """The value of a tile, its change, and whether it is beyond the limit of its metric."""
    meaning = source.panels.meaning(name[1])
    limit = alarm(meaning.limit if meaning else None, source.limits, values, whole=source.store.whole)
    told = _short(value)
    return {
        "value": told,
        "change": _short(change),
        "beyond_limit": limit is not None and limit.passed_by(told),
    }


def _absent(tile: str, label: str, why: str) -> dict[str, Any]:
    """A tile of what has no value."""
    return {
        "id": tile,
        "label": label,
        "value": None,
        "unit": "",
        "format": "number",
        "change": None,
        "change_label": why,
        "note": "",
        "beyond_limit": False,
        "spark": [],
        "link": None,
    }


def _values(source: Source, name: Name | None) -> tuple[Values, Values]:
    """The values of a series and their steps."""
    if name is None:
        return np.empty(0), np.empty(0)
    points = source.axes.points(name, "step")
    return points.y, points.x


def _meant(source: Source, meaning: str) -> Name | None:
    return next(iter(resolve(meaning, source.store.names())), None)


def _lines(source: Source, *panels: str) -> Sequence[Line]:
    """The lines of the first of these charts that the run has."""
    chart = next((source.charts[name] for name in panels if name in source.charts), None)
    return chart.lines if chart is not None else ()


def _titled(title: str, line: Line) -> str:
    return f"{title}, {line.label}" if line.label else title


def _short(value: float | None) -> float | None:
    if value is None or not np.isfinite(value):
        return None
    return float(f"{value:.6g}")


def by_id(charts: Iterable[Chart]) -> Charts:
    """Charts by the ids of their panels."""
    return {chart.panel.id: chart for chart in charts}
