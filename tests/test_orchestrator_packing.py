"""Packing: every trained token exactly once, nothing longer than a micro batch, every rank the same number."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prl.orchestrator.packing import PADDING_TOKENS, PackedBatch, TrainItem, assign_bins, pack, share_bins
from prl.orchestrator.samples import Sample
from prl.transport.batches import MicroBatch


def sample(trace: str, prompt: int, sampled: int, tail: int = 0, first_token: int = 0) -> Sample:
    """``prompt`` context tokens, ``sampled`` trained ones, ``tail`` more; ids count up from ``first_token``."""
    length = prompt + sampled + tail
    mask = np.zeros(length, dtype=bool)
    mask[prompt : prompt + sampled] = True
    ids = np.arange(first_token, first_token + length)
    return Sample(trace, 0, "made-up", 0.7, ids, mask, mask, np.where(mask, -0.25, 0.0))


shapes = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 12), st.integers(0, 5)), min_size=1, max_size=40)


@given(shapes=shapes, num_ranks=st.integers(1, 4), seq_len=st.integers(24, 64))
@settings(max_examples=150, deadline=None)
def test_every_trained_token_is_in_exactly_one_micro_batch(
    shapes: list[tuple[int, int, int]], num_ranks: int, seq_len: int
) -> None:
    items = [
        TrainItem(sample(f"t{i}", *shape, first_token=1000 * (i + 1)), advantage=float(i + 1))
        for i, shape in enumerate(shapes)
    ]
    packed = pack(items, step=5, seq_len=seq_len, num_ranks=num_ranks)
    assert len({len(rank.micro_batches) for rank in packed.ranks}) == 1
    assert [(rank.step, rank.policy_version) for rank in packed.ranks] == [(5, 4)] * num_ranks
    wanted = Counter(
        (int(token), item.advantage) for item in items for token in item.sample.token_ids[item.sample.loss_mask]
    )
    assert Counter(trained_tokens(packed)) == wanted
    for micro in micro_batches(packed):
        check_layout(micro, seq_len)
    assert packed.loss_tokens == sum(wanted.values())
    assert (packed.cut, packed.lost) == (0, 0)


def test_too_long_samples_are_cut_and_counted() -> None:
    items = [
        TrainItem(sample("cut", 6, 6), 1.0),
        TrainItem(sample("lost", 12, 3), 1.0),
        TrainItem(sample("whole", 3, 5), -1.0),
    ]
    packed = pack(items, step=1, seq_len=8, num_ranks=1)
    assert (packed.cut, packed.lost) == (2, 1)
    by_trace = {name: i for micro in micro_batches(packed) for i, name in enumerate(micro.trace_ids)}
    assert set(by_trace) == {"cut", "whole"}
    assert packed.loss_tokens == 2 + 5  # two of "cut" lie within eight tokens
    assert packed.tokens == 8 + 8


def test_context_behind_the_last_trained_token_is_not_carried() -> None:
    packed = pack([TrainItem(sample("t", 4, 3, tail=20), 1.0)], step=1, seq_len=64, num_ranks=1)
    assert micro_batches(packed)[0].sequence_lengths == [7]


def test_ranks_without_a_sample_get_padding_without_loss() -> None:
    packed = pack([TrainItem(sample("t", 4, 3), 1.0)], step=1, seq_len=64, num_ranks=3)
    counts = [sum(sum(micro.loss_mask) for micro in rank.micro_batches) for rank in packed.ranks]
    assert sorted(counts) == [0, 0, 3]
    padding = packed.ranks[counts.index(0)].micro_batches[0]
    assert padding.sequence_lengths == [PADDING_TOKENS]
    assert not any(padding.advantages)


@given(lengths=st.lists(st.integers(1, 20), max_size=60), capacity=st.integers(20, 50), multiple=st.integers(1, 4))
@settings(max_examples=150, deadline=None)
def test_bins_hold_every_index_once_within_capacity(lengths: list[int], capacity: int, multiple: int) -> None:
    bins = assign_bins(lengths, capacity=capacity, multiple=multiple)
    assert sorted(index for members in bins for index in members) == list(range(len(lengths)))
    assert all(sum(lengths[i] for i in members) <= capacity for members in bins)
    assert bins and len(bins) % multiple == 0
    # first fit never leaves two bins at most half full
    assert len(bins) <= multiple * (2 * sum(lengths) // capacity // multiple + 2)


def test_samples_are_spread_evenly_where_that_fits() -> None:
    # first fit would make one bin of 60 and one of 4; the two ranks shall get about the same
    bins = assign_bins([4] * 16, capacity=60, multiple=2)
    assert sorted(len(members) for members in bins) == [8, 8]


def test_bins_are_shared_so_that_ranks_carry_alike() -> None:
    shares = share_bins([9, 1, 8, 2], 2)
    assert sorted(sum([9, 1, 8, 2][i] for i in mine) for mine in shares) == [10, 10]


def micro_batches(packed: PackedBatch) -> list[MicroBatch]:
    return [micro for rank in packed.ranks for micro in rank.micro_batches]


def trained_tokens(packed: PackedBatch) -> list[tuple[int, float]]:
    return [
        (token, advantage)
        for micro in micro_batches(packed)
        for token, advantage, mask in zip(micro.token_ids, micro.advantages, micro.loss_mask, strict=True)
        if mask
    ]


def check_layout(micro: MicroBatch, seq_len: int) -> None:
    tokens = len(micro.token_ids)
    assert tokens == sum(micro.sequence_lengths) <= seq_len
    assert all(
        len(column) == tokens for column in (micro.loss_mask, micro.advantages, micro.logprobs, micro.position_ids)
    )
    sequences = len(micro.sequence_lengths)
    assert all(
        len(column) == sequences
        for column in (micro.temperatures, micro.env_names, micro.trace_ids, micro.branch_indices)
    )
    assert micro.position_ids == [position for length in micro.sequence_lengths for position in range(length)]
    for mask, advantage, logprob in zip(micro.loss_mask, micro.advantages, micro.logprobs, strict=True):
        assert (advantage != 0 and logprob == pytest.approx(-0.25)) if mask else (advantage == 0 and logprob == 0)
