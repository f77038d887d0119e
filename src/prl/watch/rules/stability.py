"""Rules about the stability of the optimisation: spikes, climbs and collapses against this attempt's own baseline."""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence

from prl.watch.facts import Series
from prl.watch.rules.base import Rule, series_evidence
from prl.watch.statistics import Baseline, baseline, is_open, median, page_hinkley, trailing
from prl.watch.thresholds import TrainingLimits
from prl.watch.verdict import CRITICAL, FAILED, FAILING, FINISHED, INFO, LIVE, STOPPED, WARNING, Evidence, Finding
from prl.watch.view import View

_OPENS = (2, 5)
_LASTING = (6, 8)
_CLOSES = 5
_RECENT = 3
"""Steps over which the present level is taken."""

_GO_BACK = (
    "Stop the run and go back to a checkpoint from before it began, with a lower learning rate or a smaller max_norm."
)


def grad_norm(view: View) -> Finding | None:
    """The gradient norm spikes, which may come before divergence.

    Needs: `optim/grad_norm` of at least {training.least} steps of this attempt.
    Speaks: when 2 of the last 5 steps were above {training.grad_norm_factor:g} x the median of the {training.window}
    steps before them and {training.mads:g} scatters (1.4826 x MAD) beyond it, or one step was above
    {training.grad_norm_huge:g} x; until 5 steps in a row were not.
    Silent: in the first steps, without clipping (the norm is then not written), and on a single smaller spike.
    """
    series = view.trainer("optim/grad_norm")
    limits = view.limits.training
    if series is None:
        return None

    def spikes(value: float, usual: Baseline) -> bool:
        return value > limits.grad_norm_factor * usual.median and usual.excess(value) > limits.mads

    def huge(value: float, usual: Baseline) -> bool:
        return value > limits.grad_norm_huge * usual.median

    flags, steps = _against(series, limits, spikes)
    if not is_open(flags, _OPENS, _CLOSES):
        flags, steps = _against(series, limits, huge)
        if not is_open(flags, (1, 1), _CLOSES):
            return None
    return _spike(
        series,
        steps[-1],
        Finding(
            rule="training.grad-norm-spike",
            severity=WARNING,
            message=f"The gradient norm spikes: {_level(series, steps[-1])}",
            cause="a batch with extreme advantages or ratios, or a learning rate that is too high",
            action="Clipping bounds the update; when spikes persist or mismatch KL rises with them, lower the learning "
            "rate or max_norm, and keep a checkpoint from before.",
        ),
    )


def mismatch_kl(view: View) -> Finding | None:
    """Sampler and trainer drift apart: critical when they are no longer the same policy, else a warning.

    Needs: `mismatch_kl/all/mean`; for the comparison with what is usual, of at least {training.least} steps of this
    attempt.
    Speaks: when 6 of the last 8 steps were above {training.kl_critical:g}, or 2 of 5 above {training.kl_huge:g}
    (critical); when 6 of 8 were above {training.kl_high:g}; when 2 of 5 were above {training.kl_factor:g} x the
    median of the {training.window} steps before them and {training.mads:g} scatters (of the logarithm, since it
    varies by factors) beyond it; and when it has climbed for long (Page-Hinkley, of the logarithm) to
    {training.kl_climb:g} x its beginning, as it did before runs collapsed. Until 5 steps in a row were not.
    Silent: on single spikes, and below {training.kl_good:g} whatever it does.
    """
    series = view.trainer("mismatch_kl/all/mean")
    limits = view.limits.training
    if series is None:
        return None
    for severity, bound, opens in (
        (CRITICAL, limits.kl_huge, _OPENS),
        (CRITICAL, limits.kl_critical, _LASTING),
        (WARNING, limits.kl_high, _LASTING),
    ):
        if is_open(_above(series.values, bound), opens, _CLOSES):
            return _kl(view, series, severity, f"above {bound:g}")

    def high(value: float, usual: Baseline) -> bool:
        far = value > math.log(limits.kl_factor) + usual.median and usual.excess(value) > limits.mads
        return far and value > math.log(limits.kl_good)

    flags, steps = _against(_logarithm(series), limits, high)
    if is_open(flags, _OPENS, _CLOSES):
        return _kl(view, series, WARNING, _level(series, steps[-1]))
    start, now = _start(series, limits), _now(series)
    if start is None or now is None or now <= max(limits.kl_climb * start.median, limits.kl_good):
        return None
    if _climbs(series, limits):
        return _kl(view, series, WARNING, f"it climbed from {start.median:.4g} to {now:.4g} over the recorded steps")
    return None


def entropy(view: View) -> Finding | None:
    """The policy's entropy collapses, or explodes.

    Needs: `entropy/all/mean` of at least {training.least} steps of this attempt of an RL run, and the rewards.
    Speaks: when 2 of the last 5 steps were above {training.entropy_high:g} x of what it was in the first recorded
    steps, or below {training.entropy_low:.0%} of the median of the {training.window} steps before them (a cliff),
    until 5 steps in a row were not; and while rewards do not rise, when 2 of 5 were below {training.entropy_low:.0%}
    of the first recorded steps, or it fell for long (Page-Hinkley) below {training.entropy_fall:.0%}.
    Silent: in the first steps, and when it falls slowly while rewards rise: entropy falls as a policy learns.
    Fine-tuning is meant to lower it.
    """
    series = view.trainer("entropy/all/mean")
    limits = view.limits.training
    start = _start(series, limits) if series is not None else None
    if series is None or start is None or start.median <= 0 or view.facts.run.kind != "rl":
        return None
    low = [None if value is None else value < limits.entropy_low * start.median for value in series.values]
    exploded = is_open(_above(series.values, limits.entropy_high * start.median), _OPENS, _CLOSES)
    now = _now(series)
    falls = (
        now is not None
        and now < limits.entropy_fall * start.median
        and _drifted(series, start, limits, upwards=False) > limits.drift_alarm
    )

    def cliff(value: float, usual: Baseline) -> bool:
        return value < limits.entropy_low * usual.median and -usual.excess(value) > limits.mads

    fell = is_open(_against(series, limits, cliff)[0], _OPENS, _CLOSES)
    sank = (falls or is_open(low, _OPENS, _CLOSES)) and not _learns(view)
    if not (exploded or fell or sank):
        return None
    what = "has exploded" if exploded else "collapses"
    value, where = _extreme(series, lowest=not exploded)
    return Finding(
        rule="training.entropy",
        severity=WARNING,
        message=f"Entropy {what}: {value:.4g}{where}, {start.median:.4g} in the first recorded steps",
        evidence=_recent(series),
        cause="the policy has become noise: the learning rate is too high, or the update diverged"
        if exploded
        else "the policy no longer explores: its updates push towards a few answers",
        action=f"Look at rewards and at episodes of these steps. {_GO_BACK}",
    )


def masked(view: View) -> Finding | None:
    """Many tokens are outside the trust region.

    Needs: `is_masked/mean`.
    Speaks: when more than {training.masked:.0%} of the tokens were masked at 2 of the last 5 steps, until 5 steps in a
    row were not.
    Silent: on a single step.
    """
    series = view.trainer("is_masked/mean")
    bound = view.limits.training.masked
    if series is None or not is_open(_above(series.values, bound), _OPENS, _CLOSES):
        return None
    share, where = _extreme(series)
    return Finding(
        rule="training.masked",
        severity=WARNING,
        message=f"{share:.1%} of the tokens are outside the trust region{where}",
        evidence=_recent(series),
        cause="sampler and trainer disagree, or episodes are too old for the policy that trains on them",
        action="Compare with mismatch KL and off_policy/max: a smaller max_off_policy_steps or learning rate helps.",
    )


def runaway(view: View) -> Finding | None:
    """Mismatch KL, truncation and length climb together: generations run away.

    Needs: `mismatch_kl/all/mean`, and of the orchestrator `is_truncated/mean` of all traces and
    `num_total_tokens/mean`, each of at least {training.least} steps.
    Speaks: when the last steps are above {training.kl_climb:g} x the first recorded ones in mismatch KL, above 1.5 x in
    length or truncation by 10 points, and all have drifted for long (Page-Hinkley).
    Silent: when only one of them climbs.
    """
    limits = view.limits.training
    kl = view.trainer("mismatch_kl/all/mean")
    truncated = view.orchestrator("train/agg/all/agent/is_truncated/mean")
    length = view.orchestrator("train/agg/all/num_total_tokens/mean")
    length = length or view.orchestrator("train/agg/effective/num_total_tokens/mean")
    if kl is None or truncated is None or length is None:
        return None
    levels = [(_start(series, limits), _now(series)) for series in (kl, truncated, length)]
    known = [(start.median, now) for start, now in levels if start is not None and now is not None]
    if len(known) < len(levels):
        return None
    (kl_was, kl_is), (cut_was, cut_is), (long_was, long_is) = known
    longer = long_is > 1.5 * long_was or cut_is > cut_was + 0.1
    if not (kl_is > limits.kl_climb * kl_was > 0 and cut_is > cut_was and longer):
        return None
    start = levels[1][0]
    if not _climbs(kl, limits) or start is None:
        return None
    if _drifted(truncated, start, limits, upwards=True) <= limits.drift_alarm:
        return None
    return Finding(
        rule="training.runaway",
        severity=WARNING,
        message=f"Generations run away: mismatch KL {kl_was:.3g} → {kl_is:.3g}, truncated {cut_was:.1%} → {cut_is:.1%}"
        f", length {long_was:.0f} → {long_is:.0f}",
        evidence=[*series_evidence(kl), *series_evidence(truncated), *series_evidence(length)],
        cause="the policy drifts towards endless answers",
        action="Cap the completion tokens, lower the learning rate, and resume from an earlier checkpoint.",
    )


def _against(
    series: Series, limits: TrainingLimits, exceeds: Callable[[float, Baseline], bool]
) -> tuple[list[bool | None], list[int]]:
    """For each step whether its value exceeds the baseline of the steps before it, and the indices of those that do.

    Values that exceed are left out of the baselines of later steps: a run of spikes must not become the usual.
    """
    flags: list[bool | None] = []
    usual_values: list[float | None] = []
    for index, value in enumerate(series.values):
        usual = baseline(trailing(usual_values, index, limits.window), limits.least)
        flag = None if value is None or usual is None else exceeds(value, usual)
        flags.append(flag)
        usual_values.append(None if flag else value)
    return flags, [index for index, flag in enumerate(flags) if flag]


def _above(values: Sequence[float | None], bound: float) -> list[bool | None]:
    return [None if value is None else value > bound for value in values]


def _start(series: Series | None, limits: TrainingLimits) -> Baseline | None:
    """The level in the first recorded steps, when there are as many again after them."""
    values = [value for value in series.values if value is not None] if series is not None else []
    return baseline(values[: limits.least], limits.least) if len(values) >= limits.least + _RECENT else None


def _now(series: Series) -> float | None:
    now = baseline([value for value in series.values if value is not None][-_RECENT:], _RECENT)
    return now.median if now is not None else None


def _climbs(series: Series, limits: TrainingLimits) -> bool:
    """Whether it rose for long, by factors."""
    logarithm = _logarithm(series)
    start = _start(logarithm, limits)
    return start is not None and _drifted(logarithm, start, limits, upwards=True) > limits.drift_alarm


def _logarithm(series: Series) -> Series:
    """Of values that vary by factors. What is not above 0 has none."""
    values = [math.log(value) if value is not None and value > 0 else None for value in series.values]
    return dataclasses.replace(series, values=values)


def _learns(view: View) -> bool:
    """Whether the mean reward of an agent is above that of the first recorded steps by more than its scatter, and not
    far below its best."""
    limits = view.limits.training
    for series in view.of_episodes("reward", "mean", agents=True):
        start, now = _start(series, limits), _now(series)
        if start is None or now is None:
            continue
        values = [value for value in series.values if value is not None]
        best = max(median(values[index : index + _RECENT]) for index in range(len(values) - _RECENT + 1))
        gain = best - start.median
        if now - start.median > start.scatter and now > best - gain / 2:
            return True
    return False


def _drifted(series: Series, start: Baseline, limits: TrainingLimits, *, upwards: bool) -> float:
    values = [value for value in series.values if value is not None][limits.least :]
    return page_hinkley(values, start, limits.drift, upwards=upwards)


def _level(series: Series, index: int) -> str:
    usual = baseline([value for value in series.values[:index] if value is not None][-20:], 1)
    was = f", usually {usual.median:.4g}" if usual is not None else ""
    return f"{series.values[index]:.4g} at step {series.steps[index]}{was}"


def _extreme(series: Series, *, lowest: bool = False) -> tuple[float, str]:
    """The highest or lowest of the steps that keep an alarm open, and where: the newest may be a quiet one again."""
    pairs = zip(series.values[-_CLOSES:], series.steps[-_CLOSES:], strict=False)
    known = [(value, step) for value, step in pairs if value is not None]
    value, step = (min if lowest else max)(known, key=lambda pair: pair[0], default=(0.0, None))
    return value, f" at step {step}" if step is not None else ""


def _recent(series: Series) -> list[Evidence]:
    return series_evidence(series, _CLOSES)


def _spike(series: Series, index: int, finding: Finding) -> Finding:
    value, step, time = series.values[index], series.steps[index], series.times[index]
    finding.evidence.append(Evidence(series.source, f"{series.key} = {value:.4g}", step=step, time=time))
    return finding


def _kl(view: View, series: Series, severity: str, how: str) -> Finding:
    stale = view.orchestrator("off_policy/max")
    value, where = _extreme(series)
    old = f"; episodes are up to {stale.last:.0f} versions old" if stale is not None and stale.last else ""
    return Finding(
        rule="training.mismatch-kl",
        severity=severity,
        message=f"Mismatch KL is high: {value:.4g}{where} ({how}){old}",
        evidence=_recent(series),
        cause="the engines sample from another policy than the trainer computes: a diverging update, stale episodes, "
        "or numerics that differ",
        action=_GO_BACK
        if severity == CRITICAL
        else "Watch entropy and gradient norm, and keep a checkpoint from before.",
    )


def _afterwards(check: Callable[[View], Finding | None]) -> Callable[[View], Finding | None]:
    """The rule, which of a finished run tells how it went: that is for whoever reads its curves, nobody is called."""

    @functools.wraps(check)
    def told(view: View) -> Finding | None:
        finding = check(view)
        if finding is None or view.phase != FINISHED:
            return finding
        return dataclasses.replace(finding, severity=INFO, action=None)

    return told


_PHASES = (*LIVE, FAILING, FAILED, STOPPED, FINISHED)
RULES = (
    Rule("training.mismatch-kl", _afterwards(mismatch_kl), _PHASES),
    Rule("training.entropy", _afterwards(entropy), _PHASES),
    Rule("training.grad-norm-spike", _afterwards(grad_norm), _PHASES),
    Rule("training.masked", _afterwards(masked), _PHASES),
    Rule("training.runaway", _afterwards(runaway), _PHASES),
)
