"""Rules about who waits for whom: advice on which side to give more, and how old what trains is."""

from prl.text.human import format_duration, format_percent
from prl.watch.facts import Series
from prl.watch.rules.base import Rule, at_step, series_evidence
from prl.watch.statistics import is_open
from prl.watch.verdict import ADVICE, DRAINING, EVALUATING, INFO, RUNNING, WARNING, Finding
from prl.watch.view import View

_OPENS, _CLOSES = (4, 5), 3


def waits_for_batches(view: View) -> Finding | None:
    """The trainer waits for batches for as long as it works: rollouts are the bottleneck.

    Needs: the trainer's `time/wait_for_batch` and `time/step`.
    Speaks: as advice, when at 4 of 5 steps at least {pace.waiting:.0%} of the step was spent waiting, until it was
    not at 3 in a row. The first {pace.first_steps} steps and those beside an evaluation or a checkpoint do not count:
    waiting is normal there. The trainer's own warning is recomputed, not read.
    Silent: while an alarm is active.
    """
    waited, whole = view.trainer("time/wait_for_batch"), view.trainer("time/step")
    if waited is None or whole is None or not _persists(view, waited, whole):
        return None
    split = view.bottleneck
    side = split.grow if split is not None else None
    more = "environments" if side == "environments" else "inference"
    return Finding(
        rule="pace.waits-for-batches",
        severity=INFO,
        kind=ADVICE,
        message=f"The trainer waits for batches {_share(waited, whole)}{at_step(waited)}",
        evidence=[*series_evidence(waited, 2), *series_evidence(whole, 2)],
        cause=f"rollouts are the bottleneck: {split.why}" if split is not None else "rollouts are the bottleneck",
        action=f"Add {more} capacity (engines, episodes in flight)"
        if more == "inference"
        else "Give the environments more workers, or make tools and scoring faster",
    )


def waits_for_policies(view: View) -> Finding | None:
    """The orchestrator waits for policies for as long as it works: the trainer is the bottleneck.

    Needs: the orchestrator's `time/wait_for_policy` and `time/step`.
    Speaks: as advice, when at 4 of 5 steps at least {pace.waiting:.0%} of the step was spent waiting, until it was
    not at 3 in a row; counted as in `pace.waits-for-batches`.
    Silent: while an alarm is active.
    """
    waited, whole = view.orchestrator("time/wait_for_policy"), view.orchestrator("time/step")
    if waited is None or whole is None or not _persists(view, waited, whole):
        return None
    return Finding(
        rule="pace.waits-for-policies",
        severity=INFO,
        kind=ADVICE,
        message=f"The orchestrator waits for policies {_share(waited, whole)}{at_step(waited)}",
        evidence=[*series_evidence(waited, 2), *series_evidence(whole, 2)],
        cause="the trainer is the bottleneck",
        action="Give the trainer more devices, or smaller batches.",
    )


def off_policy(view: View) -> Finding | None:
    """What trains is nearly too old.

    Needs: `off_policy/max`, and `orchestrator.max_off_policy_steps` of the configuration.
    Speaks: when the oldest shipped episode had {pace.near_bound:.0%} of the versions that the bound allows, or more,
    at 5 steps running, until 3 in a row were not.
    Silent: when the bound is not known or is less than 2 versions, where nearness says nothing.
    """
    bound, oldest = view.facts.run.max_off_policy_steps, view.orchestrator("off_policy/max")
    if bound is None or bound < 2 or oldest is None:
        return None
    near = bound * view.limits.pace.near_bound
    if not is_open([None if value is None else value >= near for value in oldest.values], (5, 5), _CLOSES):
        return None
    dropped = view.orchestrator("off_policy/dropped")
    lost = f"; {dropped.last:.0f} traces were too old for the last step" if dropped is not None and dropped.last else ""
    return Finding(
        rule="pace.off-policy",
        severity=WARNING,
        message=f"Episodes that train are up to {oldest.last or 0.0:.0f} versions old{at_step(oldest)}, at most {bound}"
        f"{lost}",
        evidence=series_evidence(oldest, 3),
        cause="episodes take many steps, or too many are in flight",
        action="Lower orchestrator.concurrency.max_inflight or shorten episodes; a larger max_off_policy_steps "
        "keeps more of them at the price of older data.",
    )


def _persists(view: View, waited: Series, whole: Series) -> bool:
    seconds = dict(zip(whole.steps, whole.values, strict=False))
    flags = [
        None if value is None or not seconds.get(step) else value >= view.limits.pace.waiting * (seconds[step] or 0.0)
        for step, value in zip(waited.steps, waited.values, strict=False)
        if step not in view.unusual_steps
    ]
    return is_open(flags, _OPENS, _CLOSES)


def _share(waited: Series, whole: Series) -> str:
    seconds, of = waited.last or 0.0, whole.last or 0.0
    return f"{format_duration(seconds)} of {format_duration(of)}" + (f" ({format_percent(seconds / of)})" if of else "")


_PHASES = (RUNNING, EVALUATING, DRAINING)
RULES = (
    Rule("pace.off-policy", off_policy, _PHASES),
    Rule("pace.waits-for-batches", waits_for_batches, _PHASES),
    Rule("pace.waits-for-policies", waits_for_policies, _PHASES),
)
