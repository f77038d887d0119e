"""The loss, its gradient and every statistic against a plain numpy form written from the formulas."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prl.config.trainer import IPOLossConfig
from prl.trainer.loss import (
    KL_CAP,
    importance_ratio,
    ipo_loss,
    log_probs_and_entropy,
    mismatch_kl,
    outside_trust_region,
    policy_loss,
)

torch.set_num_threads(1)

log_probability = st.floats(-30, 0, allow_subnormal=False)
advantage = st.floats(-3, 3, allow_subnormal=False)
tokens = st.lists(st.tuples(log_probability, log_probability, advantage), min_size=1, max_size=20)


def plain_ipo(pi: np.ndarray, mu: np.ndarray, adv: np.ndarray, config: IPOLossConfig) -> float:
    kept = np.abs(np.exp(pi) - np.exp(mu)) <= config.eps
    ratio = np.minimum(np.exp(pi - mu), config.max_importance_ratio)
    return float(np.sum(np.where(kept, -config.adv_tau * adv * ratio, 0.0)))


def columns(rows: list[tuple[float, float, float]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    pi, mu, adv = np.array(rows).T
    return pi, mu, adv


def away_from_the_bound(pi: np.ndarray, mu: np.ndarray, eps: float) -> bool:
    """The mask jumps at the bound: neither a rounding nor a finite difference is meaningful across it."""
    return bool((np.abs(np.abs(np.exp(pi) - np.exp(mu)) - eps) > 1e-4).all())


@given(tokens, st.floats(0.05, 0.9), st.floats(1.5, 1e4), st.floats(0.1, 3))
@settings(deadline=None)
def test_the_loss_is_the_formula(
    rows: list[tuple[float, float, float]], eps: float, cap: float, adv_tau: float
) -> None:
    pi, mu, adv = columns(rows)
    config = IPOLossConfig(eps=eps, max_importance_ratio=cap, adv_tau=adv_tau)
    if not away_from_the_bound(pi, mu, eps):
        return
    loss, _, _ = ipo_loss(*(torch.from_numpy(x) for x in (pi, mu, adv)), config)
    assert float(loss) == pytest.approx(plain_ipo(pi, mu, adv, config), rel=1e-9, abs=1e-9)


@given(tokens)
@settings(deadline=None)
def test_the_gradient_is_the_finite_difference_where_nothing_is_capped(rows: list[tuple[float, float, float]]) -> None:
    pi, mu, adv = columns(rows)
    config = IPOLossConfig(max_importance_ratio=1e13)  # above exp(30): never reached
    if not away_from_the_bound(pi, mu, config.eps):
        return
    tensor = torch.from_numpy(pi).requires_grad_()
    loss, _, _ = ipo_loss(tensor, torch.from_numpy(mu), torch.from_numpy(adv), config)
    loss.backward()
    assert tensor.grad is not None
    step = 1e-6
    for i in range(len(pi)):
        up, down = pi.copy(), pi.copy()
        up[i] += step
        down[i] -= step
        one = slice(i, i + 1)
        numeric = (plain_ipo(up[one], mu[one], adv[one], config) - plain_ipo(down[one], mu[one], adv[one], config)) / (
            2 * step
        )
        assert float(tensor.grad[i]) == pytest.approx(numeric, rel=1e-4, abs=1e-8)


def test_a_capped_ratio_keeps_the_cap_as_its_gradient() -> None:
    log_ratio = torch.tensor([math.log(50.0), math.log(2.0)], dtype=torch.float64, requires_grad=True)
    ratio = importance_ratio(log_ratio, 10.0)
    assert ratio.tolist() == pytest.approx([10.0, 2.0])
    ratio.sum().backward()
    assert log_ratio.grad is not None
    assert log_ratio.grad.tolist() == pytest.approx([10.0, 2.0])


def test_a_dropped_token_has_neither_loss_nor_gradient_even_when_its_ratio_overflows() -> None:
    pi = torch.tensor([0.0, -0.5], requires_grad=True)
    mu = torch.tensor([-1e38, -0.5])
    loss, _, masked = ipo_loss(pi, mu, torch.ones(2), IPOLossConfig())
    loss.backward()
    assert masked.tolist() == [True, False]
    assert float(loss.detach()) == -1.0
    assert pi.grad is not None
    assert pi.grad.tolist() == [0.0, -1.0]


@given(log_probability, log_probability, st.floats(0.01, 0.99))
@settings(deadline=None)
def test_the_trust_region_bounds_the_difference_of_probabilities(pi: float, mu: float, eps: float) -> None:
    if not away_from_the_bound(np.array([pi]), np.array([mu]), eps):
        return
    found = outside_trust_region(torch.tensor([pi]).double(), torch.tensor([mu]).double(), eps)
    assert bool(found) is (abs(math.exp(pi) - math.exp(mu)) > eps)


def test_the_trust_region_is_accurate_for_tiny_differences_in_single_precision() -> None:
    # exp(-1e-7) - exp(-2e-7) is 1e-7; subtracted in float32 it would be 1.2e-7 or 0.
    pi, mu = torch.tensor([-1e-7]), torch.tensor([-2e-7])
    assert bool(outside_trust_region(pi, mu, 0.99e-7))
    assert not bool(outside_trust_region(pi, mu, 1.01e-7))


@given(st.floats(-60, 60))
def test_mismatch_kl_is_the_formula_and_never_negative(log_ratio: float) -> None:
    found = float(mismatch_kl(torch.tensor(log_ratio, dtype=torch.float64)))
    assert found >= 0
    assert found == pytest.approx(math.expm1(log_ratio) - log_ratio, rel=1e-12)


@pytest.mark.parametrize("log_ratio", [80.0, 1e4, float("inf")])
def test_mismatch_kl_is_capped(log_ratio: float) -> None:
    assert float(mismatch_kl(torch.tensor([log_ratio]))) <= KL_CAP * 1.001


@given(st.integers(1, 6), st.integers(2, 12), st.integers(0, 10_000))
@settings(deadline=None, max_examples=40)
def test_log_probabilities_and_entropy_are_those_of_the_tempered_softmax(n: int, v: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits, targets = rng.normal(0, 3, (n, v)), rng.integers(0, v, n)
    temperatures = rng.uniform(0.3, 2.0, n)
    scaled = logits / temperatures[:, None]
    probabilities = np.exp(scaled - scaled.max(-1, keepdims=True))
    probabilities /= probabilities.sum(-1, keepdims=True)
    got, entropy = log_probs_and_entropy(*(torch.from_numpy(x) for x in (logits, targets, temperatures)))
    np.testing.assert_allclose(got.numpy(), np.log(probabilities[np.arange(n), targets]), atol=1e-4)
    np.testing.assert_allclose(entropy.numpy(), -(probabilities * np.log(probabilities)).sum(-1), atol=1e-4)


def test_an_impossible_token_adds_nothing_to_the_entropy() -> None:
    _, entropy = log_probs_and_entropy(torch.tensor([[0.0, 0.0, -math.inf]]), torch.tensor([0]), torch.ones(1))
    assert float(entropy) == pytest.approx(math.log(2))


def test_the_policy_loss_differentiates_to_the_finite_difference_of_its_logits() -> None:
    rng = np.random.default_rng(5)
    logits = rng.normal(0, 1, (6, 5))
    targets = torch.from_numpy(rng.integers(0, 5, 6))
    temperatures = torch.full((6,), 0.7, dtype=torch.float64)
    with torch.no_grad():
        mu = log_probs_and_entropy(torch.from_numpy(logits), targets, temperatures)[0] + 0.05
    streams = {
        "temperatures": temperatures,
        "sampler_logprobs": mu,
        "advantages": torch.from_numpy(rng.normal(0, 1, 6)),
    }

    def loss_of(values: torch.Tensor) -> torch.Tensor:
        return policy_loss(values, targets, IPOLossConfig(eps=0.5), **streams)[0]

    tensor = torch.from_numpy(logits).requires_grad_()
    loss_of(tensor).backward()
    assert tensor.grad is not None
    for i, j in np.ndindex(6, 5):
        shift = torch.zeros(6, 5, dtype=torch.float64)
        shift[i, j] = 1e-6
        with torch.no_grad():
            numeric = float(loss_of(tensor + shift) - loss_of(tensor - shift)) / 2e-6
        assert float(tensor.grad[i, j]) == pytest.approx(numeric, rel=1e-5, abs=1e-9)
