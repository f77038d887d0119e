"""The tiny model's directory loads offline, generates, tokenizes any text and renders a chat."""

import stat
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from prl.trainer.tiny import SPECIAL_TOKENS, make_tiny_model

FAMILIES = ("llama", "qwen2", "qwen3")


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("tiny")
    return {family: make_tiny_model(root / family, hidden_size=16, family=family) for family in FAMILIES}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_directory_loads_as_its_family_and_stops_at_the_end_token(directories: dict[str, Path], family: str) -> None:
    model = AutoModelForCausalLM.from_pretrained(directories[family], local_files_only=True)
    tokenizer = AutoTokenizer.from_pretrained(directories[family], local_files_only=True)
    assert model.config.model_type == family
    assert model.dtype == torch.float32
    assert model.config.vocab_size == len(tokenizer) == 256 + len(SPECIAL_TOKENS)
    assert tokenizer.eos_token == "<|im_end|>"
    assert tokenizer.eos_token_id in model.generation_config.eos_token_id
    assert (directories[family] / "generation_config.json").exists()


def test_weights_are_readable_by_others(directories: dict[str, Path]) -> None:
    mode = (directories["qwen3"] / "model.safetensors").stat().st_mode
    assert mode & stat.S_IRGRP
    assert mode & stat.S_IROTH


def test_every_text_survives_a_round_trip_byte_by_byte(directories: dict[str, Path]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(directories["qwen3"], local_files_only=True)
    text = "grüße\n\t 日本 \x00 don't  <b>"
    ids = tokenizer.encode(text)
    assert ids == list(text.encode())
    assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("renderer", ["default", "qwen3"])
def test_the_renderers_accept_it(directories: dict[str, Path], renderer: str) -> None:
    from renderers import DefaultRendererConfig, Qwen3RendererConfig, create_renderer
    from renderers.base import load_tokenizer

    tokenizer = load_tokenizer(str(directories["qwen3"]))
    config = DefaultRendererConfig() if renderer == "default" else Qwen3RendererConfig()
    created = create_renderer(tokenizer, config)
    ids = created.render_ids([{"role": "user", "content": "abc"}], add_generation_prompt=True)
    assert tokenizer.decode(ids) == "<|im_start|>user\nabc<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.eos_token_id in created.get_stop_token_ids()
    reply = created.parse_response([*tokenizer.encode("cba"), tokenizer.eos_token_id])
    assert reply.content == "cba"


def test_a_seed_fixes_the_weights_and_leaves_the_generator_alone(tmp_path: Path) -> None:
    state = torch.get_rng_state()
    paths = [
        make_tiny_model(tmp_path / str(i), hidden_size=8, num_layers=1, seed=seed) for i, seed in enumerate((3, 3, 4))
    ]
    assert torch.equal(state, torch.get_rng_state())
    first, same, other = ((path / "model.safetensors").read_bytes() for path in paths)
    assert first == same
    assert first != other


def test_a_tied_head_is_stored_once(tmp_path: Path) -> None:
    from safetensors import safe_open

    make_tiny_model(tmp_path, hidden_size=8, num_layers=1, tie_word_embeddings=True)
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        names = set(file.keys())
    assert "model.embed_tokens.weight" in names
    assert "lm_head.weight" not in names


@pytest.mark.parametrize(("family", "hidden_size"), [("gpt2", 16), ("qwen3", 20)])
def test_what_it_cannot_make_is_refused(tmp_path: Path, family: str, hidden_size: int) -> None:
    with pytest.raises(ValueError, match=r"family|hidden_size"):
        make_tiny_model(tmp_path / "model", hidden_size=hidden_size, family=family)  # type: ignore[arg-type]
    assert not (tmp_path / "model").exists()
