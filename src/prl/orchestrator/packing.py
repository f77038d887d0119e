"""Packing samples into micro batches of at most ``seq_len`` tokens, the same number of them for every rank.

First-fit-decreasing says how many micro batches are needed; rounded up to a multiple of the ranks, the samples are
then spread evenly over that many, so that ranks finish together. Where the even spread does not fit, the first-fit
bins stand and empty ones are filled with a padding sequence without loss tokens. A sample longer than ``seq_len`` is
cut at its end; tokens behind the last trained one are context for nothing and are cut from every sample. Cost is
counted in tokens: attention's quadratic part is ignored, since sequences are short against the rest of the model.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from prl.orchestrator.samples import Sample
from prl.transport.batches import MicroBatch, RankBatch

PADDING_TOKENS = 2
"""Length of a padding sequence: the shortest from which a next-token prediction can be made."""


@dataclass(frozen=True, slots=True)
class TrainItem:
    """A sample with the advantage of its trace."""

    sample: Sample
    advantage: float


@dataclass(frozen=True, slots=True)
class PackedBatch:
    ranks: list[RankBatch]
    """``ranks[r]`` is for rank ``r``."""
    tokens: int
    """Tokens of all samples after cutting, padding not counted."""
    loss_tokens: int
    cut: int
    """Samples that were longer than ``seq_len`` and lost tokens."""
    lost: int
    """Samples dropped because no trained token was left within ``seq_len``."""


def pack(items: Sequence[TrainItem], *, step: int, seq_len: int, num_ranks: int) -> PackedBatch:
    """Pack one step's samples. The batch is to be trained at policy version ``step - 1``."""
    kept: list[TrainItem] = []
    lengths: list[int] = []
    cut = lost = 0
    for item in items:
        wanted = int(np.flatnonzero(item.sample.loss_mask)[-1]) + 1
        if wanted > seq_len:
            cut += 1
            if not item.sample.loss_mask[:seq_len].any():
                lost += 1
                continue
        kept.append(item)
        lengths.append(min(wanted, seq_len))
    bins = assign_bins(lengths, capacity=seq_len, multiple=num_ranks)
    micro_batches = [_micro_batch([(kept[i], lengths[i]) for i in members]) for members in bins]
    loads = [sum(lengths[i] for i in members) for members in bins]
    ranks = [
        RankBatch(step=step, policy_version=step - 1, micro_batches=[micro_batches[b] for b in mine])
        for mine in share_bins(loads, num_ranks)
    ]
    loss_tokens = sum(
        int(np.count_nonzero(item.sample.loss_mask[:length])) for item, length in zip(kept, lengths, strict=True)
    )
    return PackedBatch(ranks, sum(lengths), loss_tokens, cut, lost)


def assign_bins(lengths: Sequence[int], *, capacity: int, multiple: int) -> list[list[int]]:
    """Indexes of ``lengths`` in bins of at most ``capacity``, their number a positive multiple of ``multiple``.

    Every index is in exactly one bin; bins may be empty. Each length must fit by itself.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    first_fit = _first_fit(order, lengths, capacity)
    count = max(-(-len(first_fit) // multiple), 1) * multiple
    return _spread(order, lengths, capacity, count) or first_fit + [[] for _ in range(count - len(first_fit))]


def share_bins(loads: Sequence[int], num_ranks: int) -> list[list[int]]:
    """Bin indexes per rank: the same number each, largest first to the rank with the least so far."""
    per_rank = len(loads) // num_ranks
    shares: list[list[int]] = [[] for _ in range(num_ranks)]
    totals = [0] * num_ranks
    for bin_index in sorted(range(len(loads)), key=lambda index: -loads[index]):
        rank = min((r for r in range(num_ranks) if len(shares[r]) < per_rank), key=totals.__getitem__)
        shares[rank].append(bin_index)
        totals[rank] += loads[bin_index]
    return shares


def _first_fit(order: Iterable[int], lengths: Sequence[int], capacity: int) -> list[list[int]]:
    bins: list[list[int]] = []
    free: list[int] = []
    for index in order:
        length = lengths[index]
        for slot, room in enumerate(free):
            if room >= length:
                bins[slot].append(index)
                free[slot] -= length
                break
        else:
            bins.append([index])
            free.append(capacity - length)
    return bins


def _spread(order: Iterable[int], lengths: Sequence[int], capacity: int, count: int) -> list[list[int]] | None:
    """Longest first into the emptiest of ``count`` bins; None when one does not fit there."""
    bins: list[list[int]] = [[] for _ in range(count)]
    heap = [(0, slot) for slot in range(count)]
    for index in order:
        load, slot = heap[0]
        if load + lengths[index] > capacity:
            return None
        bins[slot].append(index)
        heapq.heapreplace(heap, (load + lengths[index], slot))
    return bins


def _micro_batch(members: Sequence[tuple[TrainItem, int]]) -> MicroBatch:
    if not members:
        return _padding()
    samples = [item.sample for item, _ in members]
    lengths = [length for _, length in members]
    loss_mask = np.concatenate([item.sample.loss_mask[:length] for item, length in members])
    logprobs = np.concatenate([item.sample.logprobs[:length] for item, length in members])
    per_token = np.repeat([item.advantage for item, _ in members], lengths)
    return MicroBatch(
        token_ids=np.concatenate([item.sample.token_ids[:length] for item, length in members]).tolist(),
        loss_mask=loss_mask.tolist(),
        advantages=np.where(loss_mask, per_token, 0.0).tolist(),
        logprobs=np.where(loss_mask, logprobs, 0.0).tolist(),
        position_ids=np.concatenate([np.arange(length) for length in lengths]).tolist(),
        sequence_lengths=lengths,
        temperatures=[sample.temperature for sample in samples],
        env_names=[sample.env_name for sample in samples],
        trace_ids=[sample.trace_id for sample in samples],
        branch_indices=[sample.branch_index for sample in samples],
    )


def _padding() -> MicroBatch:
    return MicroBatch(
        token_ids=[0] * PADDING_TOKENS,
        loss_mask=[False] * PADDING_TOKENS,
        advantages=[0.0] * PADDING_TOKENS,
        logprobs=[0.0] * PADDING_TOKENS,
        position_ids=list(range(PADDING_TOKENS)),
        sequence_lengths=[PADDING_TOKENS],
        temperatures=[1.0],
        env_names=[""],
        trace_ids=[""],
        branch_indices=[0],
    )
