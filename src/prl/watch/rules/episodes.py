"""Rules about the episodes: what environments and engines deliver."""

from prl.text.human import format_percent
from prl.watch.facts import Series
from prl.watch.rules.base import Rule
from prl.watch.verdict import DRAINING, RUNNING, WARNING, Evidence, Finding
from prl.watch.view import View

TWICE = 0.05
"""An error rate above this at two steps running is too high ..."""
ONCE = 0.25
"""... and so is one above this at the newest step."""


def error_rate(view: View) -> Finding | None:
    """Too many episodes fail."""
    if view.phase not in (RUNNING, DRAINING):
        return None
    rates = [series for series in view.facts.series if series.key.endswith("/all/has_error/mean") and _is_env(series)]
    rates = rates or [series for series in view.facts.series if series.key == "train/agg/all/has_error/mean"]
    high = [series for series in rates if _too_high(series)]
    if not high:
        return None
    high.sort(key=lambda series: series.last or 0.0, reverse=True)
    named = ", ".join(f"{_env(series)} {format_percent(series.last or 0.0)}" for series in high)
    kinds = _kinds(view, {_env(series) for series in high})
    return Finding(
        rule="episodes.error-rate",
        severity=WARNING,
        message=f"Episodes fail: {named} at step {high[0].last_step}",
        evidence=[
            Evidence(series.source, f"{series.key} = {value:.4g}", step=step, time=time)
            for series in high
            for step, time, value in list(zip(series.steps, series.times, series.values, strict=True))[-2:]
            if value is not None
        ],
        cause=f"by type: {kinds}" if kinds else None,
        action="Read the environment's log (logs/latest/envs/) and the lines 'Trace failed' of the orchestrator's.",
    )


def _is_env(series: Series) -> bool:
    parts = series.key.split("/")
    return parts[0] == "train" and len(parts) == 5 and parts[1] != "agg"


def _env(series: Series) -> str:
    return series.key.split("/")[1]


def _too_high(series: Series) -> bool:
    last = [value for value in series.values[-2:] if value is not None]
    return bool(last) and (last[-1] > ONCE or (len(last) == 2 and min(last) > TWICE))


def _kinds(view: View, envs: set[str]) -> str:
    """Error types with their counts at the newest step at which each was counted."""
    found = []
    for series in view.facts.series:
        parts = series.key.split("/")
        if len(parts) >= 5 and parts[1] in envs and parts[2] == "all" and parts[-2] == "error" and series.last:
            found.append((series.last, f"{parts[-1]} {series.last:.0f} (step {series.last_step})"))
    return ", ".join(text for _, text in sorted(found, reverse=True)[:5])


RULES = (Rule("episodes.error-rate", error_rate),)
