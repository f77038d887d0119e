"""Rules about the learning signal: whether what arrives can train at all."""

from dataclasses import dataclass

from prl.text.human import format_percent
from prl.watch.facts import Series
from prl.watch.rules.base import Rule, at_step, incident_evidence, newest, series_evidence
from prl.watch.statistics import is_open
from prl.watch.verdict import CRITICAL, LIVE, WARNING, WORKING, Evidence, Finding
from prl.watch.view import View, env_of

_OPENS, _CLOSES = (2, 3), 2
_EMPTY = ("prl.empty", "prl.zero_out")


def no_signal(view: View) -> Finding | None:
    """The episodes carry no learning signal: critical when next to none does, else a warning.

    Needs: `is_trainable/mean`, `solved_none` and `solved_all` below `train/<env>/all/<agent>`, or the orchestrator's
    line that no batch came of what arrived.
    Speaks: when at 2 of 3 steps fewer than {episodes.trainable:.0%} of the traces were trainable (critical:
    {episodes.trainable_least:.0%}), or every attempt failed, or every one succeeded, in
    {episodes.one_sided:.0%} of the groups; and when the orchestrator says that nothing could be shipped. All failed
    points to failures (time limits, truncation, an environment that rejects all), all solved to a task that is too
    easy.
    Silent: about agents that are not trained (their share is 0 at all recorded steps while another's is not), and on
    a single step.
    """
    empty = [one for one in view.incidents(*_EMPTY) if _since_last_step(view, one.last_time)]
    low = _low(view)
    none, everyone = _sided(view, "solved_none"), _sided(view, "solved_all")
    if not (empty or low or none or everyone):
        return None
    worst = min((series.last or 0.0 for series in low), default=1.0)
    parts = [f"{_who(series)} {format_percent(series.last or 0.0)} trainable" for series in low]
    parts += [f"{_who(series)} {format_percent(series.last or 0.0)} of groups all failed" for series in none]
    parts += [f"{_who(series)} {format_percent(series.last or 0.0)} of groups all solved" for series in everyone]
    shown = [*low, *none, *everyone]
    where = at_step(shown[0]) if shown else ""
    return Finding(
        rule="episodes.no-signal",
        severity=CRITICAL if empty or worst < view.limits.episodes.trainable_least else WARNING,
        message=f"Little or nothing to learn from: {', '.join(parts) or empty[0].text}{where}",
        evidence=[incident_evidence(one) for one in empty[:1]]
        + [e for one in shown for e in series_evidence(one, 2)][:6],
        cause=_why(view, none, everyone),
        action=_what(none, everyone),
    )


def discarded(view: View) -> Finding | None:
    """More than half of what arrives is thrown away, as the orchestrator's own warning tells.

    Needs: of `train/<env or agg>/all`: `has_error/mean`, `cancelled/mean`, `dispatch_failure/mean` and
    `<agent>/is_trainable/mean`, with `off_policy/dropped`; or the orchestrator's line.
    Speaks: when more than {episodes.discarded:.0%} was stale, failed or without a signal at 2 of 3 steps, with the
    split; the largest part says what to act on. Until 2 steps in a row were not.
    Silent: at a single step.
    """
    splits = _splits(view)
    bound = view.limits.episodes.discarded
    if not is_open([split.whole > bound for split in splits], _OPENS, _CLOSES):
        return None
    split = splits[-1]
    parts = {"stale": split.stale, "failed": split.errored, "without a signal": split.no_signal}
    largest = max(parts, key=lambda name: parts[name])
    causes = {
        "stale": "episodes outlive the policy versions that max_off_policy_steps allows them",
        "failed": "environments or engines fail",
        "without a signal": "all attempts of most groups score the same",
    }
    actions = {
        "stale": "Raise orchestrator.max_off_policy_steps, shorten episodes, or give the trainer more devices.",
        "failed": "Read the lines 'Trace failed' of the orchestrator's log, and the environment's.",
        "without a signal": "Choose tasks that are neither too easy nor too hard, or more attempts a group.",
    }
    named = ", ".join(f"{name} {format_percent(share)}" for name, share in parts.items())
    return Finding(
        rule="episodes.discarded",
        severity=WARNING,
        message=f"{format_percent(split.whole)} of what arrives is thrown away at step {split.step}: {named}",
        evidence=[
            Evidence(one.source, f"thrown away {one.whole:.3f}", step=one.step, time=one.time) for one in splits[-2:]
        ],
        cause=causes[largest],
        action=actions[largest],
    )


@dataclass(frozen=True)
class _Split:
    """Of the episodes that ended before one step: the shares that were thrown away, and why."""

    step: int | None
    time: float
    source: str
    stale: float
    errored: float
    no_signal: float

    @property
    def whole(self) -> float:
        return self.stale + self.errored + self.no_signal


def _splits(view: View) -> list[_Split]:
    """Step by step, of all environments together. Disjoint: stale and failed ones carry no signal either."""
    trainable = view.orchestrator("train/agg/all/agent/is_trainable/mean")
    if trainable is None:
        return []
    values = {
        name: _by_step(view.orchestrator(key))
        for name, key in (
            ("error", "train/agg/all/has_error/mean"),
            ("cancelled", "train/agg/all/cancelled/mean"),
            ("failure", "train/agg/all/dispatch_failure/mean"),
            ("dropped", "off_policy/dropped"),
            ("rollouts", "progress/rollouts"),
        )
    }
    splits = []
    for step, time, signal in zip(trainable.steps, trainable.times, trainable.values, strict=False):
        if signal is None:
            continue
        at = {name: series.get(step) or 0.0 for name, series in values.items()}
        arrived = 1.0 - at["failure"]
        errored = at["failure"] + arrived * at["error"]
        stale = arrived * at["cancelled"]
        without = max(1.0 - errored - stale - arrived * signal, 0.0)
        # Queued traces that aged out had a signal once: they are not among those without.
        aged = min(at["dropped"] / at["rollouts"], max(1.0 - errored - stale - without, 0.0)) if at["rollouts"] else 0.0
        splits.append(_Split(step, time, trainable.source, stale + aged, errored, without))
    return splits


def _by_step(series: Series | None) -> dict[int | None, float | None]:
    return dict(zip(series.steps, series.values, strict=False)) if series is not None else {}


def _low(view: View) -> list[Series]:
    found = newest(view.of_episodes("is_trainable", "mean", agents=True))
    trained = [series for series in found if any(series.values)] or found
    bound = view.limits.episodes.trainable
    return [
        series
        for series in trained
        if is_open([None if value is None else value < bound for value in series.values], _OPENS, _CLOSES)
    ]


def _sided(view: View, name: str) -> list[Series]:
    bound = view.limits.episodes.one_sided
    return [
        series
        for series in newest(view.of_episodes(name, agents=True))
        if is_open([None if value is None else value >= bound for value in series.values], _OPENS, _CLOSES)
    ]


def _who(series: Series) -> str:
    agent = series.key.split("/")[3]
    return env_of(series) + (f" {agent}" if agent != "agent" else "")


def _why(view: View, none: list[Series], everyone: list[Series]) -> str:
    if none:
        cut = max((one.last or 0.0 for one in view.of_episodes("is_truncated", "mean", agents=True)), default=0.0)
        late = max((one.last or 0.0 for one in view.of_episodes("is_timeout", "mean", agents=True)), default=0.0)
        seen = [f"{format_percent(cut)} truncated"] * (cut > 0.1) + [f"{format_percent(late)} timed out"] * (late > 0.1)
        more = f" ({', '.join(seen)})" if seen else ""
        return f"every attempt fails: time limits, truncation, failing tools, or tasks that are too hard{more}"
    if everyone:
        return "every attempt succeeds: the tasks are too easy for this policy"
    return "all attempts of a group score the same: the reward tells nothing apart, or tasks are too easy or too hard"


def _what(none: list[Series], everyone: list[Series]) -> str:
    if none:
        return "Look at them (`prl episodes --reward-max 0`): a failure of the environment looks like a hard task."
    if everyone:
        return "Choose harder tasks, or let a curriculum retire those that are solved."
    return "Compare rewards within groups (`prl episodes --groups group`): if they never differ the reward is constant."


def _since_last_step(view: View, time: float | None) -> bool:
    return time is not None and (view.last_step is None or time > view.last_step)


RULES = (
    Rule("episodes.no-signal", no_signal, LIVE),
    Rule("episodes.discarded", discarded, WORKING),
)
