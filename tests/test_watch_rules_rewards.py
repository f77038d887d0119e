"""The rule about rewards that rise for another reason than they should."""

import random
from collections.abc import Sequence

import pytest

from made_up_facts import Cases, check, facts, judged, said, steps
from prl.watch.facts import Facts, Series
from prl.watch.keys import LAST, REPLAYED, kept_points
from prl.watch.thresholds import RewardLimits, Thresholds
from prl.watch.verdict import ADVICE, HEALTHY, INFO

RULE = "episodes.reward-hacking"
REWARD = "train/gsm/effective/agent/reward/mean"
CORRECT, FORMAT = (f"train/gsm/effective/agent/rewards/{name}/mean" for name in ("correct", "format"))
LENGTH = "train/gsm/effective/num_output_tokens/mean"
SCORE = "eval/gsm/effective/agent/avg@4"


def climbs(start: float, end: float, scatter: float = 0.02, count: int = 60, seed: int = 1) -> list[float | None]:
    """A noisy way from one level to another."""
    made = random.Random(seed)
    return [start + (end - start) * n / (count - 1) + made.gauss(0, scatter) for n in range(count)]


def run(score: Sequence[float] = (), **series: Sequence[float | None]) -> Facts:
    keys = {"reward": REWARD, "correct": CORRECT, "format": FORMAT, "length": LENGTH}
    found = [steps("orch", keys[name], values) for name, values in series.items()]
    return facts(*found, *([scores("gsm", score)] if score else []))


def scores(env: str, values: Sequence[float]) -> Series:
    return steps("orch", f"eval/{env}/effective/agent/avg@4", list(values))


UP = climbs(0.3, 0.7)
FALLING = (0.52, 0.50, 0.51, 0.49, 0.43, 0.40, 0.38, 0.36)
RISING = (0.40, 0.42, 0.41, 0.45, 0.50, 0.53, 0.55, 0.56)
FLAT = (0.50, 0.52, 0.49, 0.51, 0.50, 0.49, 0.52, 0.50)
CASES: Cases = {RULE: (lambda: run(FALLING, reward=UP), lambda: run(RISING, reward=UP))}


def test_speaks_and_is_silent() -> None:
    check(CASES, RULE)


def test_evidence_and_examples_but_no_verdict() -> None:
    known = run(FALLING, reward=climbs(0.3, 0.7, count=30))
    verdict, finding = judged(known), said(known, RULE)
    assert finding is not None
    # A trade-off that is meant looks the same: nothing is wrong with the run.
    assert (verdict.health, verdict.exit_code, finding.severity, finding.kind) == (HEALTHY, 0, INFO, ADVICE)
    assert "gsm: the reward rises from 0.3" in finding.message
    assert "evaluation falls from 0.505 to 0.392" in finding.message
    assert [one.text.split()[0] for one in finding.evidence] == [REWARD, SCORE]
    # Ready to type, for the newest steps and for the first third of those compared.
    action = finding.action or ""
    assert "prl episodes /runs/run --env gsm --sort reward --limit 5 --step 21..30" in action
    assert "prl episodes /runs/run --env gsm --sort reward --limit 5 --step 1..10" in action


def test_one_component_rises_at_the_cost_of_another() -> None:
    finding = said(run(reward=climbs(0.5, 0.6), correct=climbs(0.4, 0.2), format=climbs(0.1, 0.4)), RULE)
    assert finding is not None
    assert "format (from 0.1" in finding.message
    assert "correct (from 0.3" in finding.message


def test_length_in_the_place_of_the_task() -> None:
    longer = climbs(200, 600, scatter=10)
    assert said(run(FLAT, reward=UP, length=longer), RULE) is not None
    # Answers that get longer while the evaluation gets better is how reasoning is learnt.
    assert said(run(RISING, reward=UP, length=longer), RULE) is None
    # An evaluation that stays, alone, tells nothing.
    assert said(run(FLAT, reward=UP), RULE) is None
    assert said(run(FLAT, reward=UP, length=climbs(200, 230, scatter=10)), RULE) is None


@pytest.mark.parametrize(
    "known",
    [
        # One component is learnt, the other was there from the beginning: the healthiest picture there is.
        run(reward=UP, correct=climbs(0.2, 0.6), format=climbs(0.1, 0.1, scatter=0)),
        # All components rise.
        run(reward=UP, correct=climbs(0.2, 0.4), format=climbs(0.1, 0.3)),
        # Nothing moves beyond its noise, in any direction.
        run(FLAT, reward=climbs(0.5, 0.52, scatter=0.1), correct=climbs(0.3, 0.28, 0.1), format=climbs(0.2, 0.24, 0.1)),
        # Both get worse: that is no hacking.
        run(FALLING, reward=climbs(0.7, 0.3)),
        # Too few evaluations, and too few steps.
        run(FALLING[1::2], reward=UP),
        run(FALLING, reward=UP[::3]),
        # One bad evaluation among good ones.
        run((0.5, 0.51, 0.52, 0.5, 0.53, 0.2, 0.54, 0.55), reward=UP),
        # Values that are missing or constant.
        run(FALLING, reward=[None] * 60, correct=[0.0] * 60, format=[1.0] * 60),
    ],
)
def test_silent_without_evidence(known: Facts) -> None:
    assert said(known, RULE) is None


def test_evaluations_of_another_name_count_where_there_is_one_of_each() -> None:
    # A held-out set is often a source of its own name.
    assert said(facts(steps("orch", REWARD, UP), scores("gsm-test", FALLING)), RULE) is not None
    two = (steps("orch", REWARD, UP), scores("gsm-test", FALLING), scores("other", FALLING))
    assert said(facts(*two), RULE) is None


def test_noise_alone_hardly_ever_speaks() -> None:
    # Level series of usual noise: 2 scatters between medians of 20 values are more than 5 of their standard errors.
    for seed in range(200):
        flat = [climbs(0.5, 0.5, 0.1, seed=seed * 7 + n) for n in range(3)]
        made = random.Random(seed)
        known = run([made.gauss(0.5, 0.03) for _ in range(8)], reward=flat[0], correct=flat[1], format=flat[2])
        assert said(known, RULE) is None, seed


def test_thresholds_are_heeded() -> None:
    known = run(FALLING[1::2], reward=UP)
    assert said(known, RULE, Thresholds(rewards=RewardLimits(evaluations=4))) is not None


def test_facts_keep_what_the_rule_compares() -> None:
    assert [kept_points("orch", key) for key in (REWARD, CORRECT, LENGTH, SCORE)] == [REPLAYED] * 3 + [LAST]
    # An environment called as a part of a key, and the subset that is not asked for.
    assert kept_points("orch", "train/rewards/effective/agent/rewards/rewards/mean") == REPLAYED
    assert kept_points("orch", CORRECT.replace("effective", "all")) == 0
