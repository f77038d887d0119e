"""Streams of tokens: their definitions, both layouts, and reasons where one is missing."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.rundir.episodes.streams import (
    ALL_ZERO,
    MASKED,
    NO_TOKENS,
    NO_TRAINER,
    NOT_COVERED,
    NOT_RECORDED,
    NOT_SAMPLED,
    NOT_SHIPPED,
    OVER,
    STABLE,
    STREAMS,
    UNDER,
    joined_tokens,
    node_tokens,
    stored_streams,
    unavailable_streams,
)


def node(**fields: Any) -> dict[str, Any]:
    """Four tokens, of which the last three were sampled."""
    return {"token_ids": [5, 6, 7, 8], "mask": [False, True, True, True], **fields}


def test_compact_and_aligned_values_are_the_same_stream() -> None:
    compact = node_tokens(node(logprobs=[-1.0, -2.0, -3.0]))
    aligned = node_tokens(node(logprobs=[None, -1.0, -2.0, -3.0]))
    for tokens in (compact, aligned):
        stream = tokens.streams["inference_logprob"]
        assert stream.to_list() == [None, -1.0, -2.0, -3.0]
        assert (stream.reason, stream.recomputed, tokens.problems) == (None, False, ())
    assert compact.streams["loss_mask"].to_list() == [0.0, 1.0, 1.0, 1.0]


def test_mismatch_is_as_stored_else_recomputed() -> None:
    logprobs = {"logprobs": [-1.0, -2.0, -3.0], "trainer_logprobs": [-1.5, -2.0, -2.0]}
    made = node_tokens(node(**logprobs)).streams["mismatch_kl"]
    expected = [math.exp(d) - d - 1 for d in (-0.5, 0.0, 1.0)]
    assert made.recomputed
    assert made.to_list()[0] is None
    assert made.to_list()[1:] == pytest.approx(expected)
    stored = node_tokens(node(mismatch_kl=[0.5, None, 0.25], **logprobs)).streams["mismatch_kl"]
    assert stored.to_list() == [None, 0.5, 0.0, 0.25], "a hole in a partial stream is recomputed"
    assert stored.recomputed
    whole = node_tokens(node(mismatch_kl=[0.5, 0.75, 0.25], **logprobs)).streams["mismatch_kl"]
    assert (whole.to_list(), whole.recomputed) == ([None, 0.5, 0.75, 0.25], False)


def test_stable_by_the_difference_of_probabilities() -> None:
    logs = [math.log(p) for p in (0.5, 0.5, 0.5)]
    fields = {"logprobs": logs, "trainer_logprobs": [math.log(p) for p in (0.85, 0.55, 0.1)]}
    for eps, expected in ((0.1, [OVER, STABLE, UNDER]), (0.36, [STABLE, STABLE, UNDER]), (0.5, [STABLE] * 3)):
        stream = node_tokens(node(**fields), eps=eps).streams["stable"]
        assert stream.to_list() == [None, *expected]
        assert stream.recomputed
    stored = node_tokens(node(is_masked=[False, True, None], **fields)).streams["stable"]
    assert stored.to_list() == [None, STABLE, OVER, UNDER], "as stored first; its direction from the probabilities"
    alone = node_tokens(node(is_masked=[False, True, None])).streams["stable"]
    assert alone.to_list() == [None, STABLE, MASKED, None], "nothing tells the direction"


def test_why_a_stream_is_missing() -> None:
    empty = node_tokens({"mask": [True], "logprobs": [-1.0]})
    assert {stream.reason for stream in empty.streams.values()} == {NO_TOKENS}
    bare = node_tokens(node()).streams
    assert {name: bare[name].reason for name in STREAMS} == {
        "advantage": NOT_SHIPPED,
        "inference_logprob": NOT_RECORDED,
        "reference_logprob": NOT_RECORDED,
        "content_mask": NOT_RECORDED,
        "trainer_logprob": NO_TRAINER,
        "entropy": NO_TRAINER,
        "mismatch_kl": NO_TRAINER,
        "stable": NO_TRAINER,
        "loss_mask": None,
    }
    prompt = node_tokens({"token_ids": [1, 2], "mask": [False, False]}, has=frozenset({"entropy"})).streams
    assert prompt["entropy"].reason == NOT_SAMPLED
    uncovered = node_tokens(node(), has=frozenset({"entropy", "trainer_logprob"})).streams
    assert uncovered["entropy"].reason == uncovered["mismatch_kl"].reason == NOT_COVERED
    zero = node_tokens(node(advantages=[0.0, 0.0, 0.0])).streams["advantage"]
    assert (zero.reason, zero.to_list()) == (ALL_ZERO, [None, 0.0, 0.0, 0.0])


def test_wrong_lengths_and_types_are_left_out_and_noted() -> None:
    tokens = node_tokens(node(logprobs=[-1.0, -2.0], entropies="high", is_content=[True], advantages=[1, "x", True]))
    assert tokens.streams["inference_logprob"].values is None
    assert tokens.streams["content_mask"].values is None
    assert tokens.streams["advantage"].to_list() == [None, 1.0, None, None]
    assert len(tokens.problems) == 3
    assert "logprobs: 2 values for 3 sampled of 4 tokens" in tokens.problems
    assert node_tokens({"token_ids": [1, "x", 2.5]}).ids == [1, -1, -1]
    unmasked = node_tokens({"token_ids": [1, 2], "logprobs": [-1.0, -2.0]})
    assert unmasked.streams["inference_logprob"].to_list() == [-1.0, -2.0], "without a mask only one layout fits"


def test_a_branch_joins_its_messages() -> None:
    parts = [
        node_tokens({"token_ids": [1, 2], "mask": [False, False]}),
        node_tokens(node(logprobs=[-1.0, -2.0, -3.0], advantages=[0.0, 0.0, 0.0])),
        node_tokens(node(entropies=[0.5, 0.5, 0.5], advantages=[0.0, 0.0, 1.0])),
    ]
    branch = joined_tokens(parts)
    assert branch.ids == [1, 2, 5, 6, 7, 8, 5, 6, 7, 8]
    assert branch.streams["inference_logprob"].to_list() == [None] * 3 + [-1.0, -2.0, -3.0] + [None] * 4
    assert branch.streams["advantage"].reason is None, "not all of the branch's are zero"
    assert branch.streams["trainer_logprob"].reason == NO_TRAINER, "the reason of the messages that were sampled"
    assert branch.part(4, 6).ids == [7, 8]
    assert branch.part(4, 6).streams["inference_logprob"].to_list() == [-2.0, -3.0]
    nothing = joined_tokens([])
    assert (nothing.ids, nothing.streams["entropy"].reason) == ([], NO_TOKENS)


def test_what_a_trace_has_nothing_to_show_of() -> None:
    full = node(logprobs=[-1.0] * 3, trainer_logprobs=[-1.0] * 3, advantages=[0.0] * 3, is_content=[True] * 4)
    assert unavailable_streams([node(), full, None]) == {
        "advantage": ALL_ZERO,
        "entropy": NO_TRAINER,
        "reference_logprob": NOT_RECORDED,
    }
    assert set(unavailable_streams([{}, 3]).values()) == {NO_TOKENS}
    assert "stable" in stored_streams([node(is_masked=[True])])


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=2) | st.lists(st.none(), max_size=2)


@given(
    st.dictionaries(
        st.sampled_from(["token_ids", "mask", "is_content", "logprobs", "trainer_logprobs", "is_masked", "advantages"]),
        VALUES | st.lists(VALUES, max_size=5),
    ),
    st.booleans(),
)
def test_every_stream_has_one_value_a_token_or_a_reason(fields: dict[str, Any], whole: bool) -> None:
    tokens = node_tokens({**node(), **fields} if whole else fields)
    for name in STREAMS:
        stream = tokens.streams[name]
        assert stream.reason is not None or stream.values is not None
        if stream.values is not None:
            assert stream.values.shape == (len(tokens),)
            assert stream.values.dtype == np.float64
    joined_tokens([tokens, tokens])
    unavailable_streams([fields])
