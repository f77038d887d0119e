"""Rules about the episodes: what environments and engines deliver."""

from collections.abc import Sequence
from dataclasses import dataclass

from prl.text.human import format_percent
from prl.watch.facts import Series
from prl.watch.rules.base import Rule, at_step, highest, newest, series_evidence
from prl.watch.statistics import is_open
from prl.watch.verdict import CRITICAL, WARNING, WORKING, Finding
from prl.watch.view import View, env_of

_TWICE = (2, 2)
_CLOSES = 2


def error_rate(view: View) -> Finding | None:
    """Episodes fail: critical when most do, else a warning.

    Needs: `train/<env>/all/has_error/mean`, and `train/<env>/all/dispatch_failure/mean` of requests that came to no
    episode.
    Speaks: when the share of an environment is above {episodes.errors_once:.0%} at the newest step, or above
    {episodes.errors_twice:.0%} at the two newest (critical: above {episodes.errors_most:.0%} at both); the error types
    are named with their counts.
    Silent: while the run is starting and after it ended, and at a single step between the two bounds.
    """
    rates = [
        *view.of_episodes("has_error", "mean", agents=False),
        *view.of_episodes("dispatch_failure", "mean", agents=False),
    ]
    high = highest(series for series in newest(rates) if _fails(view, series))
    if not high:
        return None
    most = view.limits.episodes.errors_most
    named = ", ".join(f"{env_of(series)} {format_percent(series.last or 0.0)}" for series in high)
    kinds = _kinds(view, {env_of(series) for series in high})
    return Finding(
        rule="episodes.error-rate",
        severity=CRITICAL if any(_all_above(series, most, 2) for series in high) else WARNING,
        message=f"Episodes fail: {named}{at_step(high[0])}",
        evidence=[evidence for series in high for evidence in series_evidence(series, 2)],
        cause=f"by type: {kinds}" if kinds else None,
        action="Read the environment's log (logs/latest/envs/) and the lines 'Trace failed' of the orchestrator's.",
    )


def truncation(view: View) -> Finding | None:
    """Many traces are cut off by a limit of tokens or turns.

    Needs: `train/<env>/all/<agent>/is_truncated/mean`.
    Speaks: when more than {episodes.truncated:.0%} of an agent's traces were truncated at 2 steps running, until 2
    steps in a row were below.
    Silent: at a single step.
    """
    rate = _Rate(
        "episodes.truncation",
        "is_truncated",
        "Traces are cut off",
        "answers have become longer than the limit, or the limit was always too small for the task",
        "Look at them: `prl episodes --truncated`. Raise sampling.max_completion_tokens or the sequence length, or "
        "shorten the task.",
    )
    return _rate(view, rate, view.limits.episodes.truncated)


def timeouts(view: View) -> Finding | None:
    """Many traces run into a time limit.

    Needs: `train/<env>/all/<agent>/is_timeout/mean`.
    Speaks: when more than {episodes.timeouts:.0%} of an agent's traces timed out at 2 steps running, until 2 steps in a
    row were below.
    Silent: at a single step, and in runs whose writer does not tell of timeouts.
    """
    rate = _Rate(
        "episodes.timeouts",
        "is_timeout",
        "Traces run into a time limit",
        "engines or tools are slower than the limit allows, or the task is too long",
        "Look at episodes with `prl episodes --outcome timeout`. Raise the source's timeout, or find what is slow.",
    )
    return _rate(view, rate, view.limits.episodes.timeouts)


def cancelled(view: View) -> Finding | None:
    """Many episodes are thrown away because they were too old.

    Needs: `train/<env>/all/cancelled/mean`.
    Speaks: when more than {episodes.cancelled:.0%} of an environment's episodes were cancelled at 2 steps running,
    until 2 steps in a row were below.
    Silent: at a single step, and while a run drains: it then cancels what is in flight.
    """
    rate = _Rate(
        "episodes.cancelled",
        "cancelled",
        "Episodes are cancelled as stale",
        "episodes take longer than the policy versions that max_off_policy_steps allows them",
        "Raise orchestrator.max_off_policy_steps, shorten episodes, or lower the number in flight.",
        agents=False,
    )
    return _rate(view, rate, view.limits.episodes.cancelled)


def slow_starved(view: View) -> Finding | None:
    """Slow episodes starve: those that are thrown away are the long ones, so what trains looks fine and is biased.

    Needs: `num_total_tokens/mean` and `timing/total/mean` of all and of effective traces, and that episodes are
    thrown away as stale (`cancelled/mean`, `off_policy/dropped`).
    Speaks: when at the last 3 steps those that were thrown away took {episodes.slower:g} x as long, or as many
    tokens, as those that trained.
    Silent: when nothing is thrown away, and when errors alone are.
    """
    for env_rate in view.of_episodes("cancelled", "mean", agents=False):
        env = env_of(env_rate)
        if min((value or 0.0 for value in env_rate.values[-3:]), default=0.0) < 0.02:
            continue
        for tail in (("num_total_tokens", "mean"), ("timing", "total", "mean")):
            agents = tail[0] == "timing"
            whole = {_name(s, env, tail): s for s in view.of_episodes(*tail, agents=agents)}
            trained = {_name(s, env, tail): s for s in view.of_episodes(*tail, subset="effective", agents=agents)}
            for name in sorted(whole.keys() & trained.keys() - {None}, key=str):
                ratio = _of_discarded(whole[name], trained[name], env_rate)
                if ratio is not None and ratio > view.limits.episodes.slower:
                    return _starved(env, tail[0], ratio, whole[name], trained[name])
    return None


def _starved(env: str, what: str, ratio: float, whole: Series, trained: Series) -> Finding:
    unit = "tokens" if what == "num_total_tokens" else "time"
    return Finding(
        rule="episodes.slow-starved",
        severity=WARNING,
        message=f"Slow episodes of {env} starve: those thrown away took {ratio:.1f} x the {unit} of those that train",
        evidence=[*series_evidence(whole, 2), *series_evidence(trained, 2)],
        cause="long episodes become stale before they end, so the policy learns from short ones alone",
        action="Raise orchestrator.max_off_policy_steps until long episodes arrive, and compare rewards by length.",
    )


def _name(series: Series, env: str, tail: tuple[str, ...]) -> str | None:
    """The agent of a series of this environment; None for another's."""
    parts = series.key.split("/")
    return "/".join(parts[3 : -len(tail)]) if parts[1] == env else None


def _of_discarded(whole: Series, trained: Series, rate: Series) -> float | None:
    """The mean of what was thrown away over that of what trained, the least of the last 3 steps.

    With w the mean of all, t of those that trained and c the share thrown away: w = (1 - c) t + c d, so d follows.
    """
    by_step = [dict(zip(series.steps, series.values, strict=False)) for series in (whole, trained, rate)]
    ratios = []
    for step in rate.steps[-3:]:
        w, t, c = (values.get(step) for values in by_step)
        if not w or not t or not c:
            return None
        ratios.append((w - (1 - c) * t) / c / t)
    return min(ratios) if len(ratios) == 3 else None


@dataclass(frozen=True)
class _Rate:
    """A share of traces or episodes that is to be low, and what is said when it is not."""

    rule: str
    name: str
    what: str
    cause: str
    action: str
    agents: bool = True
    """Whether it is of traces, agent by agent."""


def _rate(view: View, rate: _Rate, bound: float) -> Finding | None:
    high = highest(
        series
        for series in newest(view.of_episodes(rate.name, "mean", agents=rate.agents))
        if is_open([None if value is None else value > bound for value in series.values], _TWICE, _CLOSES)
    )
    if not high:
        return None
    named = ", ".join(f"{_who(series)} {format_percent(series.last or 0.0)}" for series in high)
    return Finding(
        rule=rate.rule,
        severity=WARNING,
        message=f"{rate.what}: {named}{at_step(high[0])}",
        evidence=[evidence for series in high[:3] for evidence in series_evidence(series, 2)],
        cause=rate.cause,
        action=rate.action,
    )


def _who(series: Series) -> str:
    """Environment, and agent where it is not the only one's usual name."""
    parts = series.key.split("/")
    agent = parts[3] if len(parts) == 6 else "agent"
    return parts[1] + (f" {agent}" if agent != "agent" else "")


def _fails(view: View, series: Series) -> bool:
    limits = view.limits.episodes
    return (series.last or 0.0) > limits.errors_once or _all_above(series, limits.errors_twice, 2)


def _all_above(series: Series, bound: float, count: int) -> bool:
    last: Sequence[float] = [value for value in series.values[-count:] if value is not None]
    return len(last) == count and min(last) > bound


def _kinds(view: View, envs: set[str]) -> str:
    """Error types with their counts at the newest step at which each was counted."""
    found = []
    for series in view.facts.series:
        parts = series.key.split("/")
        counted = len(parts) >= 5 and parts[1] in envs and parts[2] == "all" and parts[-1] != "mean"
        if counted and parts[-2] in ("error", "dispatch_failure") and series.last:
            found.append((series.last, f"{parts[-1]} {series.last:.0f} (step {series.last_step})"))
    return ", ".join(text for _, text in sorted(found, reverse=True)[:5])


RULES = (
    Rule("episodes.error-rate", error_rate, WORKING),
    Rule("episodes.timeouts", timeouts, WORKING),
    Rule("episodes.truncation", truncation, WORKING),
    Rule("episodes.cancelled", cancelled, ("running", "evaluating")),
    Rule("episodes.slow-starved", slow_starved, WORKING),
)
