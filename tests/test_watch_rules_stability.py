"""Rules about the stability of the optimisation."""

import random

import pytest

from made_up_facts import Cases, check, facts, judged, said, steps
from prl.watch.verdict import CRITICAL, DEGRADED, DOWN, HEALTHY


def noisy(level: float, count: int, scatter: float = 0.1, seed: int = 1) -> list[float | None]:
    made = random.Random(seed)
    return [level * (1 + made.gauss(0, scatter)) for _ in range(count)]


NORM, KL, ENTROPY = "optim/grad_norm", "mismatch_kl/all/mean", "entropy/all/mean"
CLIMB: list[float | None] = [0.004 * 1.05**n for n in range(60)]
LONGER: list[float | None] = [300 + 10.0 * n for n in range(60)]
CUT: list[float | None] = [0.02 + 0.003 * n for n in range(60)]

CASES: Cases = {
    "training.grad-norm-spike": (
        lambda: facts(steps("trainer", NORM, [*noisy(0.25, 20), 4.0, 0.3, 5.0])),
        lambda: facts(steps("trainer", NORM, [*noisy(0.25, 20), 4.0, 0.3, 0.2])),
    ),
    "training.mismatch-kl": (
        lambda: facts(steps("trainer", KL, [*noisy(0.002, 20), 0.01, 0.012])),
        lambda: facts(steps("trainer", KL, [*noisy(0.002, 20), 0.01, 0.002])),
    ),
    "training.entropy": (
        lambda: facts(steps("trainer", ENTROPY, [*noisy(1.0, 20), *noisy(0.2, 4)])),
        lambda: facts(steps("trainer", ENTROPY, [1.0 - 0.006 * n for n in range(60)])),
    ),
    "training.masked": (
        lambda: facts(steps("trainer", "is_masked/mean", [0.002] * 20 + [0.08, 0.09])),
        lambda: facts(steps("trainer", "is_masked/mean", [0.002] * 20 + [0.08, 0.002])),
    ),
    "training.runaway": (
        lambda: facts(
            steps("trainer", KL, CLIMB),
            steps("orch", "train/agg/all/agent/is_truncated/mean", CUT),
            steps("orch", "train/agg/all/num_total_tokens/mean", LONGER),
        ),
        lambda: facts(steps("orch", "train/agg/all/num_total_tokens/mean", LONGER)),
    ),
}


@pytest.mark.parametrize("rule", CASES)
def test_speaks_and_is_silent(rule: str) -> None:
    check(CASES, rule)


def test_first_steps_have_no_baseline() -> None:
    assert judged(facts(steps("trainer", NORM, [0.2, 0.2, 9.0, 9.0, 9.0]))).health == HEALTHY


def test_a_spike_closes_after_five_quiet_steps() -> None:
    spikes: list[float | None] = [*noisy(0.25, 20), 4.0, 5.0]
    rule = "training.grad-norm-spike"
    assert said(facts(steps("trainer", NORM, [*spikes, *noisy(0.25, 4)])), rule) is not None
    assert said(facts(steps("trainer", NORM, [*spikes, *noisy(0.25, 5)])), rule) is None


def test_one_huge_spike_is_told_at_once() -> None:
    finding = said(facts(steps("trainer", NORM, [*noisy(0.25, 20), 300.0])), "training.grad-norm-spike")
    assert finding is not None
    assert "300 at step 30, usually 0.2" in finding.message


@pytest.mark.parametrize(("level", "health"), [(0.03, HEALTHY), (0.06, DEGRADED), (0.2, DOWN)])
def test_mismatch_kl_has_bounds_of_its_own(level: float, health: str) -> None:
    # All steps alike: its own baseline knows nothing unusual, as with a learning rate that was wrong from the start.
    assert judged(facts(steps("trainer", KL, [level] * 20))).health == health


def test_the_climb_that_came_before_collapses_is_told() -> None:
    finding = said(facts(steps("trainer", KL, CLIMB)), "training.mismatch-kl")
    assert finding is not None
    assert finding.severity != CRITICAL
    assert "climbed" in finding.message or "above 0.05" in finding.message
    slow: list[float | None] = [0.004 * 1.01**n for n in range(60)]
    assert said(facts(steps("trainer", KL, slow)), "training.mismatch-kl") is None


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_no_drift(seed: int) -> None:
    known = facts(
        steps("trainer", KL, noisy(0.002, 120, 0.3, seed)),
        steps("trainer", ENTROPY, noisy(0.5, 120, 0.1, seed)),
        steps("trainer", NORM, noisy(0.25, 120, 0.4, seed)),
    )
    assert judged(known).findings == []


def test_entropy_that_explodes_is_told() -> None:
    finding = said(facts(steps("trainer", ENTROPY, [*noisy(1.0, 20), 2.5, 2.6])), "training.entropy")
    assert finding is not None
    assert "exploded" in finding.message
