"""Reading weights: what fits the model is taken, everything else is named and refused."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine_models import shaken_model
from prl.inference.architecture import Architecture, read_architecture
from prl.inference.weights import INDEX, WeightError, load_weights

Tensors = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Architecture, Tensors]:
    directory = shaken_model(tmp_path_factory.mktemp("model"), family="qwen2")
    return read_architecture(directory), load_file(directory / "model.safetensors")


def test_projections_are_joined_and_nothing_stays_mapped_to_the_file(
    tmp_path: Path, model: tuple[Architecture, Tensors]
) -> None:
    arch, tensors = model
    path = tmp_path / "model.safetensors"
    save_file(tensors, path)
    weights = load_weights(tmp_path, arch)
    path.write_bytes(b"\0" * path.stat().st_size)
    layer = "model.layers.1.self_attn"
    joined = torch.cat([tensors[f"{layer}.{p}_proj.weight"] for p in "qkv"])
    assert torch.equal(weights.layers[1].qkv, joined)
    bias = weights.layers[1].qkv_bias
    assert bias is not None
    assert torch.equal(bias, torch.cat([tensors[f"{layer}.{p}_proj.bias"] for p in "qkv"]))
    assert torch.equal(weights.head, tensors["lm_head.weight"])
    assert weights.num_parameters == sum(t.numel() for t in tensors.values())


def test_shards_are_read_through_their_index_and_half_precision_is_widened(
    tmp_path: Path, model: tuple[Architecture, Tensors]
) -> None:
    arch, tensors = model
    names = sorted(tensors)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, part in shards.items():
        save_file({name: tensors[name].to(torch.bfloat16) for name in part}, tmp_path / file)
    index = {"weight_map": {name: file for file, part in shards.items() for name in part}}
    (tmp_path / INDEX).write_text(json.dumps(index))
    (tmp_path / "stray.safetensors").write_bytes(b"not of this model")
    weights = load_weights(tmp_path, arch)
    assert weights.norm.dtype == torch.float32
    assert torch.equal(weights.norm, tensors["model.norm.weight"].to(torch.bfloat16).float())


def test_a_tied_head_is_the_embedding_even_when_the_file_holds_another(tmp_path: Path) -> None:
    directory = shaken_model(tmp_path, tied=True)
    arch = read_architecture(directory)
    tensors = load_file(directory / "model.safetensors")
    tensors["lm_head.weight"] = torch.zeros_like(tensors["model.embed_tokens.weight"])
    save_file(tensors, directory / "model.safetensors")
    weights = load_weights(directory, arch)
    assert weights.head is weights.embedding
    assert torch.equal(weights.embedding, tensors["model.embed_tokens.weight"])


def drop(tensors: Tensors) -> None:
    del tensors["model.layers.0.mlp.up_proj.weight"]


def add(tensors: Tensors) -> None:
    tensors["model.layers.2.mlp.up_proj.weight"] = torch.zeros(4)


def reshape(tensors: Tensors) -> None:
    tensors["model.norm.weight"] = torch.zeros(65)


def retype(tensors: Tensors) -> None:
    tensors["model.norm.weight"] = torch.zeros(64, dtype=torch.int8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (drop, "missing: model.layers.0.mlp.up_proj.weight"),
        (add, "unknown: model.layers.2.mlp.up_proj.weight"),
        (reshape, r"wrong shape: model.norm.weight is \(65,\), not \(64,\)"),
        (retype, "wrong type: model.norm.weight is torch.int8"),
    ],
)
def test_tensors_that_do_not_fit_are_named(
    tmp_path: Path, model: tuple[Architecture, Tensors], change: Callable[[Tensors], None], message: str
) -> None:
    arch, tensors = model
    changed = dict(tensors)
    change(changed)
    save_file(changed, tmp_path / "model.safetensors")
    with pytest.raises(WeightError, match=message):
        load_weights(tmp_path, arch)


def test_directories_without_readable_weights_are_refused(tmp_path: Path, model: tuple[Architecture, Tensors]) -> None:
    arch, tensors = model
    with pytest.raises(WeightError, match=r"holds no \*\.safetensors"):
        load_weights(tmp_path, arch)
    path = tmp_path / "model.safetensors"
    save_file(tensors, path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(WeightError, match=r"model\.safetensors"):
        load_weights(tmp_path, arch)
    save_file(tensors, path)
    save_file({"model.norm.weight": tensors["model.norm.weight"]}, tmp_path / "twice.safetensors")
    with pytest.raises(WeightError, match="another file"):
        load_weights(tmp_path, arch)
    (tmp_path / INDEX).write_text("{}")
    with pytest.raises(WeightError, match="not a readable index"):
        load_weights(tmp_path, arch)
