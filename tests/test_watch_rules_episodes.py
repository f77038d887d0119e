"""Rules about episodes and about what there is to learn from them."""

import pytest

from made_up_facts import NOW, Cases, check, facts, incident, judged, said, stands_since, steps
from prl.watch.facts import Facts, Series
from prl.watch.verdict import CRITICAL, WARNING


def rate(name: str, *values: float, env: str = "gsm", agent: bool = True) -> Series:
    middle = "agent/" if agent else ""
    end = "" if name.startswith("solved") else "/mean"
    return steps("orch", f"train/{env}/all/{middle}{name}{end}", [0.0] * 5 + list(values))


def starved(thrown_away: float) -> Facts:
    """A fifth of the episodes is thrown away; those that train have 300 tokens."""
    whole = 0.8 * 300 + 0.2 * thrown_away
    return facts(
        steps("orch", "train/gsm/all/cancelled/mean", [0.2] * 5),
        steps("orch", "train/gsm/all/num_total_tokens/mean", [whole] * 5),
    )


def shares(trainable: float, errors: float = 0.0, cancelled: float = 0.0, dropped: float = 0.0) -> Facts:
    agg = "train/agg/all"
    return facts(
        steps("orch", f"{agg}/agent/is_trainable/mean", [trainable] * 5),
        steps("orch", f"{agg}/has_error/mean", [errors] * 5),
        steps("orch", f"{agg}/cancelled/mean", [cancelled] * 5),
        steps("orch", "off_policy/dropped", [dropped] * 5),
    )


CASES: Cases = {
    "episodes.truncation": (
        lambda: facts(rate("is_truncated", 0.3, 0.25)),
        lambda: facts(rate("is_truncated", 0.3, 0.1)),
    ),
    "episodes.timeouts": (lambda: facts(rate("is_timeout", 0.2, 0.2)), lambda: facts(rate("is_timeout", 0.0, 0.2))),
    "episodes.cancelled": (
        lambda: facts(rate("cancelled", 0.2, 0.2, agent=False)),
        lambda: facts(rate("cancelled", 0.0, 0.2, agent=False)),
    ),
    "episodes.slow-starved": (lambda: starved(900), lambda: starved(320)),
    "episodes.no-signal": (lambda: facts(rate("solved_none", 0.6, 0.7)), lambda: facts(rate("solved_none", 0.1, 0.7))),
    "episodes.discarded": (lambda: shares(0.3, errors=0.1, cancelled=0.2), lambda: shares(0.6, errors=0.2)),
}


@pytest.mark.parametrize("rule", CASES)
def test_speaks_and_is_silent(rule: str) -> None:
    check(CASES, rule)


def test_a_rate_closes_after_two_steps_below() -> None:
    assert said(facts(rate("is_truncated", 0.3, 0.3, 0.1)), "episodes.truncation") is not None
    assert said(facts(rate("is_truncated", 0.3, 0.3, 0.1, 0.1)), "episodes.truncation") is None


def test_most_failing_is_critical_and_requests_without_an_episode_count() -> None:
    some = said(facts(rate("has_error", 0.3, 0.3, agent=False)), "episodes.error-rate")
    most = said(facts(rate("dispatch_failure", 0.9, 0.9, agent=False)), "episodes.error-rate")
    assert some is not None
    assert most is not None
    assert (some.severity, most.severity) == (WARNING, CRITICAL)


def test_all_failed_and_all_solved_point_elsewhere() -> None:
    failed = said(facts(rate("solved_none", 0.7, 0.7), rate("is_truncated", 0.4, 0.15)), "episodes.no-signal")
    solved = said(facts(rate("solved_all", 0.7, 0.7)), "episodes.no-signal")
    assert failed is not None
    assert solved is not None
    assert "every attempt fails" in (failed.cause or "")
    assert "15.0% truncated" in (failed.cause or "")
    assert "too easy" in (solved.cause or "")


def test_a_constant_reward_is_critical() -> None:
    finding = said(facts(rate("is_trainable", 0.0, 0.0)), "episodes.no-signal")
    assert finding is not None
    assert finding.severity == CRITICAL
    assert "score the same" in (finding.cause or "")


def test_a_constant_reward_is_told_also_where_nothing_can_be_shipped() -> None:
    line = incident("prl.zero_out", "orchestrator", age=10, severity="warn")
    known = stands_since(30, incidents=[line])
    finding = said(known, "episodes.no-signal")
    assert finding is not None
    assert finding.severity == CRITICAL
    assert said(facts(incidents=[line]), "episodes.no-signal") is None  # steps went on after it


def test_a_judge_that_is_not_trained_is_no_lack_of_signal() -> None:
    judge = steps("orch", "train/gsm/all/judge/is_trainable/mean", [0.0] * 10)
    assert said(facts(judge), "episodes.no-signal") is None


def test_what_is_discarded_is_split() -> None:
    finding = said(shares(0.2, errors=0.1, cancelled=0.3, dropped=6.4), "episodes.discarded")
    assert finding is not None
    # 10 % failed, 30 % stale and 64 x 10 % aged in the queue, 40 % of the rest had no signal: 1 - 0.1 - 0.3 - 0.2.
    assert "stale 40.0%, failed 10.0%, without a signal 40.0%" in finding.message
    stale = said(shares(0.4, cancelled=0.5, errors=0.05), "episodes.discarded")
    assert stale is not None
    assert "max_off_policy_steps" in (stale.action or "")


def test_an_environment_that_no_longer_delivers_says_nothing() -> None:
    old = Series("orch", "train/old/all/has_error/mean", [3, 4], [NOW - 300, NOW - 290], [0.9, 0.9])
    assert judged(facts(old)).findings == []
