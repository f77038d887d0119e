"""What a model directory in Hugging Face format says about its model: families, sizes, rotary embedding, stop tokens.

The engine runs dense decoders of the Llama, Qwen2 and Qwen3 families with full attention. Everything else is refused
by name when the server starts: mixtures of experts, sliding windows, quantised weights, other rotary scalings than
Llama 3's. They would need kernels or caches of their own; on GPUs they are vLLM's business.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FAMILIES = {"LlamaForCausalLM": "llama", "Qwen2ForCausalLM": "qwen2", "Qwen3ForCausalLM": "qwen3"}


class UnsupportedModelError(ValueError):
    """A model directory that this engine cannot serve, with the reason and what would be accepted."""


@dataclass(frozen=True)
class Llama3Scaling:
    """Rotary scaling of Llama 3.1 and later: low frequencies are divided by ``factor``, the band between is blended."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int


@dataclass(frozen=True)
class Architecture:
    """Sizes and switches of one dense decoder."""

    family: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    norm_eps: float
    rope_theta: float
    rope_scaling: Llama3Scaling | None
    qkv_bias: bool
    output_bias: bool
    mlp_bias: bool
    qk_norm: bool
    tied_head: bool
    max_position_embeddings: int
    stop_token_ids: frozenset[int]
    """End-of-sequence ids of the generation configuration, else of the model's."""

    @property
    def query_size(self) -> int:
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        return self.num_kv_heads * self.head_dim


def read_architecture(directory: Path) -> Architecture:
    """Read ``config.json`` (and ``generation_config.json``). Raises UnsupportedModelError with the reason."""
    path = directory / "config.json"
    config = _read_json(path)
    if config is None:
        raise UnsupportedModelError(f"{path}: no such file. The model must be a directory in Hugging Face format")
    family = _family(config, path)
    _refuse_variants(config, path)
    try:
        heads = int(config["num_attention_heads"])
        theta, scaling = _rope(config, path)
        attention_bias = bool(config.get("attention_bias", False))
        return Architecture(
            family=family,
            vocab_size=int(config["vocab_size"]),
            hidden_size=int(config["hidden_size"]),
            intermediate_size=int(config["intermediate_size"]),
            num_layers=int(config["num_hidden_layers"]),
            num_heads=heads,
            num_kv_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=int(config.get("head_dim") or int(config["hidden_size"]) // heads),
            norm_eps=float(config.get("rms_norm_eps", 1e-6)),
            rope_theta=theta,
            rope_scaling=scaling,
            # Qwen2 has biases on its three input projections by construction, whatever the configuration says.
            qkv_bias=family == "qwen2" or attention_bias,
            output_bias=family != "qwen2" and attention_bias,
            mlp_bias=family == "llama" and bool(config.get("mlp_bias", False)),
            qk_norm=family == "qwen3",
            tied_head=bool(config.get("tie_word_embeddings", False)),
            max_position_embeddings=int(config["max_position_embeddings"]),
            stop_token_ids=_stop_token_ids(directory, config),
        )
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, UnsupportedModelError):
            raise
        raise UnsupportedModelError(f"{path}: {type(error).__name__}: {error}") from error


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UnsupportedModelError(f"{path}: not readable ({error})") from error
    if not isinstance(content, dict):
        raise UnsupportedModelError(f"{path}: not a JSON object")
    return content


def _family(config: Mapping[str, Any], path: Path) -> str:
    names = config.get("architectures") or []
    for name in names:
        if name in FAMILIES:
            return FAMILIES[name]
    raise UnsupportedModelError(
        f"{path}: architectures = {names}: the engine for CPUs runs {', '.join(FAMILIES)} only. "
        "Use one of those, or vLLM for this model"
    )


def _refuse_variants(config: Mapping[str, Any], path: Path) -> None:
    def refuse(key: str, value: object, allowed: str) -> None:
        raise UnsupportedModelError(f"{path}: {key} = {value!r}: the engine for CPUs runs {allowed} only")

    layer_types = set(config.get("layer_types") or ())
    if config.get("use_sliding_window") or layer_types - {"full_attention"}:
        refuse("layer_types / use_sliding_window", sorted(layer_types) or True, "full attention")
    if FAMILIES.get((config.get("architectures") or [""])[0]) == "llama" and config.get("sliding_window"):
        refuse("sliding_window", config["sliding_window"], "full attention")
    if config.get("hidden_act", "silu") != "silu":
        refuse("hidden_act", config["hidden_act"], "silu")
    if config.get("quantization_config"):
        refuse("quantization_config", config["quantization_config"], "unquantised weights")
    if config.get("partial_rotary_factor", 1.0) != 1.0:
        refuse("partial_rotary_factor", config["partial_rotary_factor"], "a full rotary embedding")


def _rope(config: Mapping[str, Any], path: Path) -> tuple[float, Llama3Scaling | None]:
    """Base and scaling: ``rope_parameters`` of transformers 5, ``rope_theta`` and ``rope_scaling`` of older ones."""
    parameters = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = float(parameters.get("rope_theta", config.get("rope_theta", 10_000.0)))
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    if kind == "default":
        return theta, None
    if kind == "llama3":
        return theta, Llama3Scaling(
            factor=float(parameters["factor"]),
            low_freq_factor=float(parameters["low_freq_factor"]),
            high_freq_factor=float(parameters["high_freq_factor"]),
            original_max_position_embeddings=int(parameters["original_max_position_embeddings"]),
        )
    raise UnsupportedModelError(
        f"{path}: rotary scaling {kind!r}: the engine for CPUs runs 'default' and 'llama3' only"
    )


def _stop_token_ids(directory: Path, config: Mapping[str, Any]) -> frozenset[int]:
    generation = _read_json(directory / "generation_config.json") or {}
    value = generation.get("eos_token_id", config.get("eos_token_id"))
    if value is None:
        return frozenset()
    return frozenset(int(v) for v in (value if isinstance(value, list) else [value]))
