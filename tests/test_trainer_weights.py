"""The state that travels and the result of a run: names, modes, tokenizer, whole or absent."""

import stat
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from prl.trainer.model import load_model
from prl.trainer.parallel import World
from prl.trainer.tiny import make_tiny_model
from prl.trainer.weights import full_state, tokenizer_directory, write_result, write_weights

ONE_RANK = World(0, 1, torch.device("cpu"))


@pytest.mark.parametrize("tied", [False, True])
def test_the_state_has_the_names_of_the_models_own_file(tmp_path: Path, tied: bool) -> None:
    directory = make_tiny_model(tmp_path, hidden_size=8, num_layers=1, tie_word_embeddings=tied)
    state = full_state(load_model(str(directory), ONE_RANK.device), ONE_RANK)
    assert state.keys() == load_file(directory / "model.safetensors").keys()
    assert ("lm_head.weight" in state) is not tied


def test_a_result_is_written_whole_over_an_older_one(tmp_path: Path) -> None:
    base = make_tiny_model(tmp_path / "base", hidden_size=8, num_layers=1)
    model = load_model(str(base), ONE_RANK.device)
    directory = tmp_path / "weights" / "step_3"
    directory.mkdir(parents=True)
    (directory / "of-an-older-timeline").touch()
    (tmp_path / "weights" / "step_3.tmp").mkdir()
    write_result(directory, model, full_state(model, ONE_RANK), base)
    assert [path.name for path in directory.parent.iterdir()] == ["step_3"]
    assert not (directory / "of-an-older-timeline").exists()
    loaded = AutoModelForCausalLM.from_pretrained(directory)
    for name, tensor in loaded.state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name]), name
    assert loaded.config.use_cache
    assert AutoTokenizer.from_pretrained(directory).chat_template == AutoTokenizer.from_pretrained(base).chat_template


def test_a_group_may_read_the_weights(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_weights(path, {"a": torch.zeros(2, 2).t()})
    assert path.stat().st_mode & stat.S_IRGRP
    assert load_file(path)["a"].shape == (2, 2)


def test_the_runs_own_tokenizer_comes_first(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    assert tokenizer_directory(tmp_path / "tokenizer", str(model)) == model
    (tmp_path / "tokenizer").mkdir()
    assert tokenizer_directory(tmp_path / "tokenizer", str(model)) == tmp_path / "tokenizer"
    assert tokenizer_directory(tmp_path / "none", "made-up/absent") is None
