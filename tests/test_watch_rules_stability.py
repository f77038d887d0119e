"""Rules about the stability of the optimisation."""

import dataclasses
import random

import pytest

from made_up_facts import NOW, Cases, check, facts, judged, mark, said, steps
from prl.watch.facts import Launcher
from prl.watch.verdict import CRITICAL, DEGRADED, DOWN, FAILED, FINISHED, HEALTHY, INFO


def noisy(level: float, count: int, scatter: float = 0.1, seed: int = 1) -> list[float | None]:
    made = random.Random(seed)
    return [level * (1 + made.gauss(0, scatter)) for _ in range(count)]


NORM, KL, ENTROPY = "optim/grad_norm", "mismatch_kl/all/mean", "entropy/all/mean"
CLIMB: list[float | None] = [0.004 * 1.05**n for n in range(60)]
LONGER: list[float | None] = [300 + 10.0 * n for n in range(60)]
CUT: list[float | None] = [0.02 + 0.003 * n for n in range(60)]

RECORDED_KL: list[float | None] = [
    *(2.58e-13, 0.0161, 0.0155, 0.0116, 0.0892, 0.0921, 0.0573, 0.102, 0.0605, 0.0261, 0.00823, 0.0333, 0.058, 0.0244),
    *(0.00712, 0.0094, 0.018, 0.0109, 0.00644, 0.0168, 0.0239, 0.0122, 0.00903, 0.0108, 0.0145, 0.00577, 0.0178),
    *(0.0129, 0.00263, 0.00503, 0.00773, 0.00801, 0.00596, 0.00362, 0.00101, 0.0026, 0.0034, 0.00417, 0.00726),
    *(0.067, 0.083, 0.0135, 0.00301, 0.00304, 0.0023, 0.00228, 0.00139, 0.00791, 0.016, 0.0169, 0.0126, 0.0126),
]
CASES: Cases = {
    "training.grad-norm-spike": (
        lambda: facts(steps("trainer", NORM, [*noisy(0.25, 20), 4.0, 0.3, 5.0])),
        lambda: facts(steps("trainer", NORM, [*noisy(0.25, 20), 4.0, 0.3, 0.2])),
    ),
    "training.mismatch-kl": (
        lambda: facts(steps("trainer", KL, [*noisy(0.002, 20), 0.02, 0.03])),
        lambda: facts(steps("trainer", KL, [*noisy(0.002, 20), 0.03, 0.002])),
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


@pytest.mark.parametrize(
    ("rule", "key", "usual", "unusual", "words"),
    [
        ("training.mismatch-kl", KL, 0.002, (0.9, 0.4), "0.9 at step 27"),
        ("training.masked", "is_masked/mean", 0.002, (0.3, 0.2), "30.0% of the tokens are outside the trust region at"),
        ("training.entropy", ENTROPY, 1.0, (0.01, 0.02), "0.01 at step 27"),
    ],
)
def test_an_alarm_that_is_still_open_names_the_step_that_keeps_it_so(
    rule: str, key: str, usual: float, unusual: tuple[float, float], words: str
) -> None:
    finding = said(facts(steps("trainer", key, [usual] * 25 + [*unusual, usual, usual])), rule)
    # Two steps later the values are the usual ones again, which would contradict the sentence.
    assert finding is not None
    assert words in finding.message


def test_one_huge_spike_is_told_at_once() -> None:
    finding = said(facts(steps("trainer", NORM, [*noisy(0.25, 20), 300.0])), "training.grad-norm-spike")
    assert finding is not None
    assert "300 at step 30, usually 0.2" in finding.message


@pytest.mark.parametrize(("level", "health"), [(0.03, HEALTHY), (0.06, DEGRADED), (0.2, DOWN), (7.0, DOWN)])
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


def test_a_small_model_that_learns_fast_is_healthy() -> None:
    """Recorded from a healthy run: mismatch KL varies by factors of ten, entropy falls to a third, rewards rise."""
    known = facts(
        steps("trainer", KL, RECORDED_KL),
        steps("trainer", ENTROPY, [1.5 * 0.983**n for n in range(80)]),
        steps("orch", "train/agg/all/agent/reward/mean", [0.92 - 0.37 * 0.96**n for n in range(80)]),
        steps("orch", "off_policy/max", [3.0] * 20),
    )
    known = dataclasses.replace(known, run=dataclasses.replace(known.run, max_off_policy_steps=4))
    assert judged(known).findings == []


def test_entropy_that_falls_while_rewards_stand_or_fall_back_is_told() -> None:
    falling = steps("trainer", ENTROPY, [1.5 * 0.97**n for n in range(80)])
    reward = "train/agg/all/agent/reward/mean"
    for rewards in ([0.5] * 80, [0.5 + 0.01 * n for n in range(40)] + [0.9 - 0.01 * n for n in range(40)]):
        assert said(facts(falling, steps("orch", reward, rewards)), "training.entropy") is not None
    tuned = facts(falling)
    assert said(dataclasses.replace(tuned, run=dataclasses.replace(tuned.run, kind="sft")), "training.entropy") is None


def test_a_cliff_of_entropy_is_told_whatever_rewards_do() -> None:
    rewards = steps("orch", "train/agg/all/agent/reward/mean", [0.5 + 0.01 * n for n in range(24)])
    cliff = steps("trainer", ENTROPY, [*noisy(1.0, 22), 0.1, 0.1])
    finding = said(facts(cliff, rewards), "training.entropy")
    assert finding is not None
    assert "collapses: 0.1 at step" in finding.message


def test_entropy_that_explodes_is_told() -> None:
    finding = said(facts(steps("trainer", ENTROPY, [*noisy(1.0, 20), 2.5, 2.6])), "training.entropy")
    assert finding is not None
    assert "exploded" in finding.message


COLLAPSED = steps("trainer", ENTROPY, [*noisy(1.0, 20), *noisy(0.2, 4)])


def test_how_a_run_that_failed_was_doing_is_told_beside_its_failure() -> None:
    launcher = Launcher("node-0", 9, "failed", "gone", NOW - 600, NOW, exit_code=1, reason="trainer failed")
    verdict = judged(facts(COLLAPSED, launcher=launcher))
    assert (verdict.phase, verdict.health) == (FAILED, DOWN)
    assert "training.entropy" in [one.rule for one in verdict.findings]


def test_a_finished_run_is_well_and_says_that_its_entropy_collapsed() -> None:
    """Nobody has to act any more: it is told to whoever wonders why the reward fell."""
    launcher = Launcher("node-0", 9, "finished", "gone", NOW - 600, NOW, exit_code=0)
    done = [
        mark("trainer_done", "trainer", "RL trainer finished", 5.0),
        mark("orchestrator_done", "orchestrator", "Orchestrator finished", 5.0),
    ]
    verdict = judged(facts(COLLAPSED, launcher=launcher, marks=done, processes=[]))
    told = next(one for one in verdict.findings if one.rule == "training.entropy")
    assert (verdict.phase, verdict.health, told.severity, told.action) == (FINISHED, HEALTHY, INFO, None)
