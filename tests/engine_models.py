"""Models for the engine's tests: tiny, but with weights far from their initial values."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from prl.rundir.broadcasts import write_manifest
from prl.trainer.tiny import Family, make_tiny_model


def shaken_model(
    directory: Path,
    *,
    family: Family = "qwen3",
    tied: bool = False,
    seed: int = 0,
    config: dict[str, Any] | None = None,
) -> Path:
    """A tiny model whose every parameter is moved.

    Fresh initial weights give near-uniform distributions, unit norms and zero biases: an engine that forgot a norm or
    a bias would still agree with transformers on those.
    """
    make_tiny_model(directory, hidden_size=64, family=family, tie_word_embeddings=tied, seed=seed)
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, **(config or {}))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.15 * torch.randn(parameter.shape, generator=generator))
    model.save_pretrained(directory)
    return directory


def weight_directory(directory: Path, *, version: int, seed: int, **options: Any) -> Path:
    """Weights as the trainer broadcasts them: a model directory with its manifest."""
    shaken_model(directory, seed=seed, **options)
    write_manifest(directory, version)
    return directory


@lru_cache(maxsize=2)
def _reference(directory: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)


def reference_logprobs(directory: Path, token_ids: list[int], temperature: float = 1.0) -> torch.Tensor:
    """transformers' log-probabilities after each token, (tokens, vocabulary), in float32."""
    with torch.no_grad():
        logits = _reference(directory)(torch.tensor([token_ids])).logits[0]
    return torch.log_softmax(logits / temperature, -1)
