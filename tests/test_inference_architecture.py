"""Which models the engine takes, and how it refuses the others."""

import json
from pathlib import Path
from typing import Any

import pytest

from prl.inference.architecture import Llama3Scaling, UnsupportedModelError, read_architecture

QWEN3: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "vocab_size": 300,
    "hidden_size": 64,
    "intermediate_size": 192,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 512,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    "layer_types": ["full_attention", "full_attention"],
    "use_sliding_window": False,
    "sliding_window": None,
    "eos_token_id": 257,
}


def write(directory: Path, **changes: Any) -> Path:
    (directory / "config.json").write_text(json.dumps({**QWEN3, **changes}))
    return directory


def test_sizes_and_switches_by_family(tmp_path: Path) -> None:
    qwen3 = read_architecture(write(tmp_path))
    assert (qwen3.family, qwen3.qk_norm, qwen3.qkv_bias, qwen3.query_size, qwen3.kv_size) == (
        "qwen3",
        True,
        False,
        128,
        64,
    )
    assert qwen3.rope_theta == 1e6
    qwen2 = read_architecture(write(tmp_path, architectures=["Qwen2ForCausalLM"], head_dim=None))
    assert (qwen2.qk_norm, qwen2.qkv_bias, qwen2.output_bias, qwen2.head_dim) == (False, True, False, 16)
    llama = read_architecture(write(tmp_path, architectures=["LlamaForCausalLM"], attention_bias=True, mlp_bias=True))
    assert (llama.qkv_bias, llama.output_bias, llama.mlp_bias) == (True, True, True)


def test_the_rotary_base_is_read_from_old_and_new_configurations(tmp_path: Path) -> None:
    assert read_architecture(write(tmp_path, rope_parameters=None, rope_theta=5e5)).rope_theta == 5e5
    assert read_architecture(write(tmp_path, rope_parameters=None)).rope_theta == 1e4
    scaling = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    old = read_architecture(write(tmp_path, rope_parameters=None, rope_theta=5e5, rope_scaling=scaling))
    new = read_architecture(write(tmp_path, rope_parameters={**scaling, "rope_theta": 5e5}))
    assert old.rope_scaling == new.rope_scaling == Llama3Scaling(8.0, 1.0, 4.0, 8192)
    assert old.rope_theta == new.rope_theta == 5e5


def test_stop_tokens_come_from_the_generation_configuration_first(tmp_path: Path) -> None:
    assert read_architecture(write(tmp_path)).stop_token_ids == {257}
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [258, 256]}))
    assert read_architecture(tmp_path).stop_token_ids == {256, 258}
    (tmp_path / "generation_config.json").unlink()
    assert read_architecture(write(tmp_path, eos_token_id=None)).stop_token_ids == set()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"architectures": ["Qwen3MoeForCausalLM"]}, "Qwen3MoeForCausalLM"),
        ({"architectures": ["GPT2LMHeadModel"]}, "GPT2LMHeadModel"),
        ({"architectures": None}, "architectures"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding_attention"),
        ({"use_sliding_window": True, "sliding_window": 128}, "use_sliding_window"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "yarn"),
        ({"rope_parameters": None, "rope_scaling": {"type": "dynamic", "factor": 2.0}}, "dynamic"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"quantization_config": {"quant_method": "fp8"}}, "quantization_config"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"vocab_size": "many"}, "config.json"),
    ],
)
def test_what_it_cannot_run_is_refused_by_name(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    with pytest.raises(UnsupportedModelError, match=named):
        read_architecture(write(tmp_path, **changes))


def test_a_directory_without_a_readable_configuration_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError, match="no such file"):
        read_architecture(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UnsupportedModelError, match="not readable"):
        read_architecture(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(UnsupportedModelError, match="not a JSON object"):
        read_architecture(tmp_path)
