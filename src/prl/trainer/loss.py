"""The IPO policy loss and the per-token quantities it is watched by.

With π the trainer's distribution at the sampling temperature, μ the sampler's recorded one and
``l = log π(a) − log μ(a)`` of the sampled token a:

* a token is kept iff ``|π(a) − μ(a)| <= eps``: a bound on the difference of probabilities, so that a rare token may
  change by any factor while a likely one may not move far;
* the loss is the sum over kept tokens of ``−adv_tau · A · ρ``, where ``ρ = π/μ`` is capped in value and its gradient is
  ``ρ ∇ log π``, never zero;
* the mismatch KL of a token is ``exp(l) − 1 − l``: never negative, and over samples of μ its mean is KL(μ‖π).

Left out: other objectives (PPO, CISPO, distillation), and replay of truncated sampling, which the sampler refuses.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from prl.config.trainer import IPOLossConfig

KL_CAP = 1e30
"""Largest mismatch KL of one token: what a float32 holds with room for a sum."""


@dataclass(frozen=True)
class TokenTerms:
    """Per loss token, all [N] and detached."""

    logprobs: Tensor
    """log π of the token."""
    entropy: Tensor
    """Of the distribution it was drawn from, nats."""
    mismatch_kl: Tensor
    is_masked: Tensor
    """bool: outside the trust region."""


def log_probs_and_entropy(logits: Tensor, targets: Tensor, temperatures: Tensor) -> tuple[Tensor, Tensor]:
    """log π of ``targets`` [N] and the detached entropy [N], for ``logits`` [N, V] at ``temperatures`` [N]."""
    precise = logits.to(torch.promote_types(logits.dtype, torch.float32))
    log_probs = torch.log_softmax(precise / temperatures[:, None], dim=-1)
    with torch.no_grad():
        detached = log_probs.detach()
        # A logit of -inf has probability 0 and adds nothing; 0 * -inf would make it NaN.
        entropy = -(detached.exp() * detached.clamp(min=torch.finfo(detached.dtype).min)).sum(-1)
    return log_probs.gather(-1, targets[:, None]).squeeze(-1), entropy


def mismatch_kl(log_ratio: Tensor) -> Tensor:
    """``exp(l) − 1 − l`` per token, exact near 0 and at most :data:`KL_CAP`."""
    return (torch.expm1(log_ratio.clamp(max=math.log(KL_CAP))) - log_ratio).clamp(max=KL_CAP)


def outside_trust_region(logprobs: Tensor, sampler_logprobs: Tensor, eps: float) -> Tensor:
    """Whether ``|π − μ| > eps``, per token. The larger times ``1 − exp(−gap)``: no cancellation when both are close."""
    high = torch.maximum(logprobs, sampler_logprobs)
    low = torch.minimum(logprobs, sampler_logprobs)
    return high.exp() * -torch.expm1(low - high) > eps


def importance_ratio(log_ratio: Tensor, cap: float) -> Tensor:
    """``ρ = min(π/μ, cap)`` whose gradient is ``ρ ∇ log π`` also where the cap holds."""
    constant = log_ratio.detach()
    return torch.exp(constant.clamp(max=math.log(cap)) + log_ratio - constant)


def ipo_loss(
    logprobs: Tensor, sampler_logprobs: Tensor, advantages: Tensor, config: IPOLossConfig
) -> tuple[Tensor, Tensor, Tensor]:
    """The sum of the loss over kept tokens (a scalar, not normalised), mismatch KL [N] and the mask [N].

    All inputs are [N]; gradients flow through ``logprobs`` alone.
    """
    log_ratio = logprobs - sampler_logprobs
    with torch.no_grad():
        masked = outside_trust_region(logprobs, sampler_logprobs, config.eps)
        kl = mismatch_kl(log_ratio)
    ratio = importance_ratio(log_ratio, config.max_importance_ratio)
    # Selected, not multiplied by zero: a dropped token's ratio may be infinite.
    terms = torch.where(masked, torch.zeros_like(ratio), -config.adv_tau * advantages * ratio)
    return terms.sum(), kl, masked


def policy_loss(
    logits: Tensor,
    targets: Tensor,
    config: IPOLossConfig,
    *,
    temperatures: Tensor,
    sampler_logprobs: Tensor,
    advantages: Tensor,
) -> tuple[Tensor, TokenTerms]:
    """The summed loss of one micro batch and its tokens' quantities. ``logits`` [N, V], the rest [N]."""
    logprobs, entropy = log_probs_and_entropy(logits, targets, temperatures)
    loss, kl, masked = ipo_loss(logprobs, sampler_logprobs, advantages, config)
    return loss, TokenTerms(logprobs.detach(), entropy, kl, masked)
