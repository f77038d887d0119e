"""Weights of a model: read from safetensors files, checked against the architecture, laid out for the forward pass.

A :class:`Weights` is never changed once made, so swapping policies is swapping one reference between two decode steps.
The three input projections of attention, and the two of the MLP, are concatenated: one matrix product instead of
three or two. Everything is copied out of the memory-mapped files, which the trainer deletes soon after.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from prl.inference.architecture import Architecture

INDEX = "model.safetensors.index.json"
READABLE = (torch.float32, torch.bfloat16, torch.float16)
IGNORED_SUFFIXES = ("rotary_emb.inv_freq",)
"""Buffers that old checkpoints carry and that follow from the configuration."""


class WeightError(ValueError):
    """Weights that do not fit the model, with the names concerned."""


@dataclass(frozen=True)
class LayerWeights:
    """One decoder layer; matrices are (out, in). ``qk_scale`` is Qwen3's norms, (heads + kv heads, head_dim)."""

    attention_norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor | None
    qk_scale: Tensor | None
    output: Tensor
    output_bias: Tensor | None
    mlp_norm: Tensor
    gate_up: Tensor
    gate_up_bias: Tensor | None
    down: Tensor
    down_bias: Tensor | None


@dataclass(frozen=True)
class Weights:
    """A whole model. With a tied head ``head`` is ``embedding`` itself."""

    embedding: Tensor
    layers: tuple[LayerWeights, ...]
    norm: Tensor
    head: Tensor
    num_parameters: int


def expected_shapes(arch: Architecture) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor that a checkpoint of ``arch`` must hold. A tied head needs none of its own."""
    hidden, inner, query, kv = arch.hidden_size, arch.intermediate_size, arch.query_size, arch.kv_size
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (arch.vocab_size, hidden),
        "model.norm.weight": (hidden,),
    }
    if not arch.tied_head:
        shapes["lm_head.weight"] = (arch.vocab_size, hidden)
    for i in range(arch.num_layers):
        layer = f"model.layers.{i}"
        shapes[f"{layer}.input_layernorm.weight"] = (hidden,)
        shapes[f"{layer}.post_attention_layernorm.weight"] = (hidden,)
        projections = (
            ("self_attn.q_proj", query, hidden, arch.qkv_bias),
            ("self_attn.k_proj", kv, hidden, arch.qkv_bias),
            ("self_attn.v_proj", kv, hidden, arch.qkv_bias),
            ("self_attn.o_proj", hidden, query, arch.output_bias),
            ("mlp.gate_proj", inner, hidden, arch.mlp_bias),
            ("mlp.up_proj", inner, hidden, arch.mlp_bias),
            ("mlp.down_proj", hidden, inner, arch.mlp_bias),
        )
        for name, rows, columns, bias in projections:
            shapes[f"{layer}.{name}.weight"] = (rows, columns)
            if bias:
                shapes[f"{layer}.{name}.bias"] = (rows,)
        if arch.qk_norm:
            shapes[f"{layer}.self_attn.q_norm.weight"] = (arch.head_dim,)
            shapes[f"{layer}.self_attn.k_norm.weight"] = (arch.head_dim,)
    return shapes


def load_weights(directory: Path, arch: Architecture) -> Weights:
    """Read ``directory`` into new tensors. Raises WeightError when a tensor is missing, unknown or of another shape."""
    tensors = _read_tensors(directory)
    _check(tensors, arch, directory)
    return _lay_out(tensors, arch)


def _read_tensors(directory: Path) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for path in _weight_files(directory):
        try:
            with safe_open(path, framework="pt") as file:
                for name in file.keys():  # noqa: SIM118 (not a mapping: it cannot be iterated over)
                    if name in tensors:
                        raise WeightError(f"{path}: {name} is in another file of this directory too")
                    tensors[name] = file.get_tensor(name)
        except (SafetensorError, OSError) as error:
            raise WeightError(f"{path}: {error}") from error
    return tensors


def _weight_files(directory: Path) -> list[Path]:
    index = directory / INDEX
    if index.exists():
        try:
            names = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
        except (OSError, ValueError, KeyError, AttributeError) as error:
            raise WeightError(f"{index}: not a readable index ({error!r})") from error
        return [directory / Path(name).name for name in names]
    files = sorted(directory.glob("*.safetensors"))
    if not files:
        raise WeightError(f"{directory}: holds no *.safetensors file")
    return files


def _check(tensors: Mapping[str, Tensor], arch: Architecture, directory: Path) -> None:
    expected = expected_shapes(arch)
    optional = {"lm_head.weight"} if arch.tied_head else set()
    unknown = [n for n in tensors if n not in expected and n not in optional and not n.endswith(IGNORED_SUFFIXES)]
    missing = [name for name in expected if name not in tensors]
    shapes = [
        f"{name} is {tuple(tensors[name].shape)}, not {shape}"
        for name, shape in expected.items()
        if name in tensors and tuple(tensors[name].shape) != shape
    ]
    dtypes = [f"{name} is {t.dtype}" for name, t in tensors.items() if name in expected and t.dtype not in READABLE]
    for what, names in (("missing", missing), ("unknown", unknown), ("wrong shape", shapes), ("wrong type", dtypes)):
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise WeightError(f"{directory}: does not fit the model: {what}: {', '.join(names[:3])}{more}")


def _lay_out(tensors: Mapping[str, Tensor], arch: Architecture) -> Weights:
    def copy(name: str) -> Tensor:
        return tensors[name].to(torch.float32, copy=True)

    def joined(layer: str, names: tuple[str, ...], kind: str) -> Tensor:
        return torch.cat([tensors[f"{layer}.{name}.{kind}"].to(torch.float32) for name in names])

    qkv_names = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    mlp_names = ("mlp.gate_proj", "mlp.up_proj")
    layers = []
    for i in range(arch.num_layers):
        layer = f"model.layers.{i}"
        qk_scale = None
        if arch.qk_norm:
            query = copy(f"{layer}.self_attn.q_norm.weight").expand(arch.num_heads, -1)
            key = copy(f"{layer}.self_attn.k_norm.weight").expand(arch.num_kv_heads, -1)
            qk_scale = torch.cat([query, key])
        layers.append(
            LayerWeights(
                attention_norm=copy(f"{layer}.input_layernorm.weight"),
                qkv=joined(layer, qkv_names, "weight"),
                qkv_bias=joined(layer, qkv_names, "bias") if arch.qkv_bias else None,
                qk_scale=qk_scale,
                output=copy(f"{layer}.self_attn.o_proj.weight"),
                output_bias=copy(f"{layer}.self_attn.o_proj.bias") if arch.output_bias else None,
                mlp_norm=copy(f"{layer}.post_attention_layernorm.weight"),
                gate_up=joined(layer, mlp_names, "weight"),
                gate_up_bias=joined(layer, mlp_names, "bias") if arch.mlp_bias else None,
                down=copy(f"{layer}.mlp.down_proj.weight"),
                down_bias=copy(f"{layer}.mlp.down_proj.bias") if arch.mlp_bias else None,
            )
        )
    embedding = copy("model.embed_tokens.weight")
    return Weights(
        embedding=embedding,
        layers=tuple(layers),
        norm=copy("model.norm.weight"),
        # The file of a tied model may hold a head as well; what ties it is the configuration.
        head=embedding if arch.tied_head else copy("lm_head.weight"),
        num_parameters=sum(tensors[name].numel() for name in expected_shapes(arch)),
    )
