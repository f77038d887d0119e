"""Branches of a trace as training samples."""

from typing import Any

import pytest

from prl.orchestrator.samples import MalformedTraceError, branch_samples


def node(
    parent: int | None, tokens: list[int], mask: list[int] | None = None, logprobs: list[float] | None = None
) -> Any:
    flags = [bool(flag) for flag in mask or [0] * len(tokens)]
    return {"parent": parent, "token_ids": tokens, "mask": flags, "logprobs": logprobs or [], "sampled": any(flags)}


def test_a_multi_turn_trace_is_one_sample_with_its_prompts_masked() -> None:
    nodes = [
        node(None, [1, 2]),
        node(0, [3, 10, 11], [0, 1, 1], [-0.1, -0.2]),
        node(1, [4]),
        node(2, [5, 12], [0, 1], [-0.3]),
    ]
    (sample,) = branch_samples({"id": "t", "nodes": nodes}, "env", 0.8)
    assert sample.token_ids.tolist() == [1, 2, 3, 10, 11, 4, 5, 12]
    assert sample.loss_mask.tolist() == [False, False, False, True, True, False, False, True]
    assert sample.logprobs.tolist() == [0, 0, 0, -0.1, -0.2, 0, 0, -0.3]
    assert (sample.trace_id, sample.branch_index, sample.env_name, sample.temperature) == ("t", 0, "env", 0.8)


def test_a_sampled_node_shared_by_branches_trains_once() -> None:
    nodes = [
        node(None, [1]),
        node(0, [10], [1], [-0.5]),
        node(1, [11], [1], [-0.6]),
        node(1, [12], [1], [-0.7]),
    ]
    first, second = branch_samples({"id": "t", "nodes": nodes}, "env", 1.0)
    assert first.token_ids.tolist() == [1, 10, 11] and second.token_ids.tolist() == [1, 10, 12]
    assert first.loss_mask.tolist() == [False, True, True]
    assert second.loss_mask.tolist() == [False, False, True]
    # readers are told the advantage of every sampled token of a branch
    assert second.sampled.tolist() == [False, True, True]


def test_a_branch_that_trains_nothing_is_left_out_but_keeps_its_number() -> None:
    nodes = [node(None, [1]), node(0, [2]), node(0, [10], [1], [-0.5])]
    (sample,) = branch_samples({"id": "t", "nodes": nodes}, "env", 1.0)
    assert sample.branch_index == 1


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (node(None, [1, 2], [1], [-0.1]), "2 tokens with a mask of 1"),
        (node(None, [1, 2], [1, 1], [-0.1]), "2 sampled tokens with 1 log-probabilities"),
        (node(None, [1], [1], [float("nan")]), "not finite"),
    ],
)
def test_arrays_that_do_not_fit_are_named(broken: Any, message: str) -> None:
    with pytest.raises(MalformedTraceError, match=f"node 0: .*{message}|{message}"):
        branch_samples({"id": "t", "nodes": [broken]}, "env", 1.0)
