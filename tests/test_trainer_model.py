"""Packed sequences give the logits that each gives alone; what cannot be trained is refused by name."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from prl.trainer.attention import make_packing
from prl.trainer.model import ModelError, load_model, pack_tokens, predict
from prl.trainer.tiny import Family, make_tiny_model

CPU = torch.device("cpu")
torch.set_num_threads(1)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Family], tuple[Any, Any]]:
    """Ours and plain transformers' model of a family, with the same weights."""
    made: dict[str, tuple[Any, Any]] = {}

    def get(family: Family) -> tuple[Any, Any]:
        if family not in made:
            path = make_tiny_model(tmp_path_factory.mktemp(family), hidden_size=16, family=family)
            made[family] = load_model(str(path), CPU), AutoModelForCausalLM.from_pretrained(path)
        return made[family]

    return get


def sequences(lengths: list[int], seed: int) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 256, size=length).tolist() for length in lengths]


def packed_logits(model: Any, parts: list[list[int]]) -> torch.Tensor:
    ids = [token for part in parts for token in part]
    return predict(model, pack_tokens(ids, [True] * len(ids), [len(part) for part in parts], CPU))


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("lengths", [[5], [4, 4, 4], [7, 3, 9, 2], [40, 3, 5, 11, 2, 24]])
def test_packed_logits_equal_those_of_each_sequence_alone(
    pair: Callable[[Family], tuple[Any, Any]], family: Family, lengths: list[int]
) -> None:
    ours, plain = pair(family)
    parts = sequences(lengths, seed=1)
    with torch.no_grad():
        alone = torch.cat([plain(torch.tensor([part])).logits[0, :-1] for part in parts])
        torch.testing.assert_close(packed_logits(ours, parts), alone, atol=2e-5, rtol=1e-4)


def test_gradients_equal_those_of_each_sequence_alone(pair: Callable[[Family], tuple[Any, Any]]) -> None:
    ours, plain = pair("qwen3")
    parts = sequences([9, 2, 4, 30], seed=2)
    packed_logits(ours, parts).square().sum().backward()
    torch.cat([plain(torch.tensor([part])).logits[0, :-1] for part in parts]).square().sum().backward()
    for (name, mine), theirs in zip(ours.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-4, rtol=1e-3, msg=name)
    ours.zero_grad()
    plain.zero_grad()


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_rows_hold_every_token_once_and_waste_less_than_they_hold(lengths: list[int]) -> None:
    packing = make_packing(lengths, CPU)
    total = sum(lengths)
    order = torch.cat([torch.arange(total) if rows.tokens is None else rows.tokens for rows in packing.rows])
    restored = order if packing.inverse is None else order[packing.inverse]
    assert restored.tolist() == list(range(total))
    # Every row is more than half full, because a row's group holds no sequence of half its length or less.
    assert sum(rows.count * rows.length for rows in packing.rows) < 2 * total


def test_logits_are_made_for_loss_tokens_alone_and_never_for_a_first_token(
    pair: Callable[[Family], tuple[Any, Any]],
) -> None:
    ours, _ = pair("qwen3")
    tokens = pack_tokens([1, 2, 3, 4, 5, 6], [True, False, True, True, False, True], [3, 3], CPU)
    assert tokens.loss_positions.tolist() == [2, 5]
    assert tokens.sequence_of.tolist() == [0, 1]
    assert tokens.predictors.tolist() == [1, 4]
    assert tokens.targets.tolist() == [3, 6]
    assert tokens.position_ids.tolist() == [[0, 1, 2, 0, 1, 2]]
    with torch.no_grad():
        assert predict(ours, tokens).shape == (2, 265)


def test_without_loss_tokens_a_backward_pass_still_reaches_every_parameter(
    pair: Callable[[Family], tuple[Any, Any]],
) -> None:
    ours, _ = pair("qwen3")
    (predict(ours, pack_tokens([1, 2], [False, False], [2], CPU)).sum() * 0).backward()
    assert all(parameter.grad is not None for parameter in ours.parameters())
    ours.zero_grad()


@pytest.mark.parametrize(
    ("ids", "mask", "lengths"),
    [([1, 2], [True], [2]), ([1, 2], [True, True], [1]), ([1], [True], [1, 0]), ([], [], [])],
)
def test_lengths_that_disagree_are_refused(ids: list[int], mask: list[bool], lengths: list[int]) -> None:
    with pytest.raises(ValueError, match="do not agree"):
        pack_tokens(ids, mask, lengths, CPU)


def test_another_family_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    with pytest.raises(ModelError, match="family 'gpt2', supported are llama, qwen2, qwen3"):
        load_model(str(tmp_path), CPU)


def test_sliding_windows_are_refused(tmp_path: Path) -> None:
    make_tiny_model(tmp_path, hidden_size=8, family="qwen2")
    config = json.loads((tmp_path / "config.json").read_text())
    config["layer_types"] = ["full_attention", "sliding_attention"]
    (tmp_path / "config.json").write_text(json.dumps(config | {"use_sliding_window": True, "sliding_window": 8}))
    with pytest.raises(ModelError, match="without full attention"):
        load_model(str(tmp_path), CPU)


def test_a_directory_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no model configuration there"):
        load_model(str(tmp_path), CPU)


def test_a_directory_without_weights_is_refused(tmp_path: Path) -> None:
    make_tiny_model(tmp_path, hidden_size=8)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="no weights could be loaded"):
        load_model(str(tmp_path), CPU)
