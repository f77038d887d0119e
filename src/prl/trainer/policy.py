"""One policy update: the loss of a rank's micro batches, their gradients, and what is recorded of every token."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from prl.config.trainer import IPOLossConfig
from prl.trainer.learner import Learner
from prl.trainer.loss import TokenTerms, policy_loss
from prl.trainer.model import PackedTokens, pack_tokens
from prl.transport.batches import MicroBatch


@dataclass(frozen=True)
class PolicyTokens:
    """A micro batch as tensors on the device; ``N`` loss tokens."""

    tokens: PackedTokens
    temperatures: Tensor
    """float32 [N], like the next two."""
    sampler_logprobs: Tensor
    advantages: Tensor
    weighted: int
    """Loss tokens with an advantage other than 0: they alone count in the mean."""


@dataclass(frozen=True)
class MicroTerms:
    """What is recorded of a micro batch. Plain numpy: it travels to the main rank."""

    loss: float
    """Its share of the step's normalised loss."""
    lengths: np.ndarray
    """int64, per sequence, like the next three."""
    trace_ids: list[str]
    branch_indices: list[int]
    env_names: list[str]
    positions: np.ndarray
    """int64 [N]: place of each loss token in the micro batch."""
    sequence_of: np.ndarray
    """int64 [N]."""
    logprobs: np.ndarray
    """float32 [N], like the next two; see :class:`prl.trainer.loss.TokenTerms`."""
    entropy: np.ndarray
    mismatch_kl: np.ndarray
    is_masked: np.ndarray
    """bool [N]."""


def load_micro_batch(micro: MicroBatch, device: torch.device) -> PolicyTokens:
    """Tensors of ``micro``. Raises ValueError when its lists do not agree."""
    tokens = pack_tokens(micro.token_ids, micro.loss_mask, micro.sequence_lengths, device)
    count = len(micro.sequence_lengths)
    per_sequence = (micro.temperatures, micro.env_names, micro.trace_ids, micro.branch_indices)
    per_token = (micro.logprobs, micro.advantages)
    if any(len(x) != count for x in per_sequence) or any(len(x) != len(micro.token_ids) for x in per_token):
        raise ValueError(
            f"a micro batch of {count} sequences and {len(micro.token_ids)} tokens has lists of other lengths"
        )
    at = tokens.loss_positions
    advantages = np.asarray(micro.advantages, dtype=np.float32)[at]
    return PolicyTokens(
        tokens=tokens,
        temperatures=_tensor(np.asarray(micro.temperatures, dtype=np.float32)[tokens.sequence_of], device),
        sampler_logprobs=_tensor(np.asarray(micro.logprobs, dtype=np.float32)[at], device),
        advantages=_tensor(advantages, device),
        weighted=int(np.count_nonzero(advantages)),
    )


def accumulate(
    learner: Learner, micro: MicroBatch, loaded: PolicyTokens, config: IPOLossConfig, denominator: float
) -> MicroTerms:
    """Add the gradient of one micro batch's loss divided by ``denominator``. Collective where the model is sharded.

    ``denominator`` is the number of weighted tokens of the step over all ranks, so that the gradients of all micro
    batches sum to that of a mean over tokens.
    """
    logits = learner.predict(loaded.tokens)
    if len(loaded.tokens.loss_positions):
        total, terms = policy_loss(
            logits,
            loaded.tokens.targets,
            config,
            temperatures=loaded.temperatures,
            sampler_logprobs=loaded.sampler_logprobs,
            advantages=loaded.advantages,
        )
    else:
        total, terms = logits.sum() * 0, _no_terms(logits)
    loss = total / denominator
    learner.backward(loss)
    return MicroTerms(
        loss=float(loss.detach()),
        lengths=loaded.tokens.lengths,
        trace_ids=micro.trace_ids,
        branch_indices=micro.branch_indices,
        env_names=micro.env_names,
        positions=loaded.tokens.loss_positions,
        sequence_of=loaded.tokens.sequence_of,
        logprobs=terms.logprobs.cpu().numpy(),
        entropy=terms.entropy.cpu().numpy(),
        mismatch_kl=terms.mismatch_kl.cpu().numpy(),
        is_masked=terms.is_masked.cpu().numpy(),
    )


def denominator(learner: Learner, loaded: Sequence[PolicyTokens]) -> float:
    """Weighted tokens of the step over all ranks, at least 1. Collective: the step's one all-reduce of counts."""
    (count,) = learner.world.sum([float(sum(batch.weighted for batch in loaded))])
    return max(count, 1.0)


def _no_terms(logits: Tensor) -> TokenTerms:
    empty = logits.new_empty(0, dtype=torch.float32)
    return TokenTerms(empty, empty, empty, empty.bool())


def _tensor(values: np.ndarray, device: torch.device) -> Tensor:
    return torch.from_numpy(values).to(device)
