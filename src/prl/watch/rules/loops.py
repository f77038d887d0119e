"""The rule about event loops: one that is held up answers nobody, and stops before long."""

from prl.rundir.metrics.reader import ORCHESTRATOR
from prl.text.human import format_duration
from prl.watch.facts import Series
from prl.watch.rules.base import Rule, highest, incident_evidence, series_evidence
from prl.watch.statistics import is_open
from prl.watch.verdict import CRITICAL, LIVE, WARNING, Finding
from prl.watch.view import View, env_of


def lag(view: View) -> Finding | None:
    """An event loop is held up: critical when for more than {loops.lag_critical:.0f} s, else a warning.

    Needs: the rows about event loops that orchestrator and environment servers write, or, in old runs, their log line
    about a busy loop.
    Speaks: when the latest wake-up was late by more than {loops.lag_max:.0f} s, or one in a hundred by more than
    {loops.lag_p99:g} s in 3 of the last 4 rows; until 3 rows in a row were not.
    Silent: at the start-up of engines and workers, which is over before such rows are written, and when rows are older
    than 5 minutes.
    """
    limits = view.limits.loops
    fresh = [series for series in view.facts.series if _is_lag(series) and _is_fresh(view, series)]
    longest = highest(
        series for series in fresh if series.key.endswith("/max") and _over(series, limits.lag_max, (1, 1))
    )
    often = highest(series for series in fresh if series.key.endswith("/p99") and _over(series, limits.lag_p99, (3, 4)))
    said = [one for one in view.incidents("prl.lag") if one.severity == "error" and _recent(view, one.last_time)]
    if not (longest or often or said):
        return None
    worst = next(iter(longest or often), None)
    seconds = (max((value for value in worst.values[-3:] if value is not None), default=0.0)) if worst else None
    where = _whose(worst) if worst is not None else said[0].component
    how = f"{format_duration(seconds)} late" if seconds is not None else "held up for more than a minute"
    critical = bool(said) or (bool(longest) and (seconds or 0.0) > limits.lag_critical)
    return Finding(
        rule="loop.lag",
        severity=CRITICAL if critical else WARNING,
        message=f"The event loop of {where} wakes up to {how}",
        evidence=[*(series_evidence(worst, 3) if worst is not None else []), *map(incident_evidence, said[:1])],
        cause="work that blocks the loop (tokenising, scoring, large messages), or a host without CPU to spare",
        action="Fewer episodes in flight, more workers of the environment, or a host of its own for the orchestrator. "
        "A loop that is late by tens of seconds stops before long.",
    )


def _is_lag(series: Series) -> bool:
    parts = series.key.split("/")
    return series.producer == ORCHESTRATOR and "event_loop_lag" in parts[:3] and parts[-1] in ("max", "p99")


def _is_fresh(view: View, series: Series) -> bool:
    return bool(series.times) and _recent(view, series.times[-1])


def _recent(view: View, time: float | None) -> bool:
    return time is not None and view.facts.as_of - time <= 300.0


def _over(series: Series, bound: float, opens: tuple[int, int]) -> bool:
    return is_open([None if value is None else value > bound for value in series.values], opens, 3)


def _whose(series: Series) -> str:
    return "the orchestrator" if series.key.startswith("event_loop_lag") else f"environment server {env_of(series)}"


RULES = (Rule("loop.lag", lag, LIVE),)
