"""The policy: loading it, and its logits over packed sequences.

Families Llama, Qwen2 and Qwen3 with full attention, as transformers implements them. Left out: quantised weights,
adapters, remote code.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from prl.trainer import attention
from prl.trainer.attention import Packing, make_packing

FAMILIES = ("llama", "qwen2", "qwen3")


class ModelError(ValueError):
    """A model that cannot be trained, with the reason."""


@dataclass(frozen=True)
class PackedTokens:
    """Sequences that lie end to end, ``T`` tokens in all, ``N`` of them to be learned from."""

    input_ids: Tensor
    """int64 [1, T]."""
    position_ids: Tensor
    """int64 [1, T]; restart at 0 with every sequence."""
    lengths: np.ndarray
    """int64, per sequence."""
    packing: Packing
    loss_positions: np.ndarray
    """int64 [N]: positions of the loss tokens, ascending. Never the first token of a sequence: nothing predicts it."""
    sequence_of: np.ndarray
    """int64 [N]: the sequence of each loss token."""
    predictors: Tensor
    """int64 [max(N, 1)]: positions whose logits predict the loss tokens. One is kept where there are none, so that
    a backward pass reaches every parameter and ranks stay in step."""
    targets: Tensor
    """int64 [N]: the loss tokens."""


def pack_tokens(
    token_ids: Sequence[int] | np.ndarray,
    loss_mask: Sequence[bool] | np.ndarray,
    lengths: Sequence[int],
    device: torch.device,
) -> PackedTokens:
    """Tensors of sequences that lie end to end. Raises ValueError when the lengths do not agree."""
    ids = np.asarray(token_ids, dtype=np.int64)
    mask = np.asarray(loss_mask, dtype=bool).copy()
    sizes = np.asarray(lengths, dtype=np.int64)
    if not len(ids) or len(ids) != len(mask) or sizes.sum() != len(ids) or (sizes < 1).any():
        raise ValueError(f"{len(ids)} tokens, {len(mask)} mask values and sequences of {sizes.tolist()} do not agree")
    starts = np.cumsum(sizes) - sizes
    mask[starts] = False
    positions = np.flatnonzero(mask)
    predictors = positions - 1 if len(positions) else np.zeros(1, dtype=np.int64)
    return PackedTokens(
        input_ids=torch.from_numpy(ids).to(device).unsqueeze(0),
        position_ids=torch.from_numpy(np.arange(len(ids)) - np.repeat(starts, sizes)).to(device).unsqueeze(0),
        lengths=sizes,
        packing=make_packing(lengths, device),
        loss_positions=positions,
        sequence_of=np.searchsorted(starts, positions, side="right") - 1,
        predictors=torch.from_numpy(predictors).to(device),
        targets=torch.from_numpy(ids[positions]).to(device),
    )


def load_model(name: str, device: torch.device) -> Any:
    """The causal language model ``name`` (a directory, or a hub name), float32, on ``device``.

    The local cache is looked at first; the hub is asked only for a name that is not there. On a GPU the parameters are
    the float32 masters of mixed precision (not verified on a GPU). Raises ModelError when there is no such model or it
    is of another family or attention.
    """
    from transformers import AutoModelForCausalLM

    attention.register()
    local = _is_local(name)
    config = _checked_config(name, local)
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(
            name,
            config=config,
            local_files_only=local,
            dtype=torch.float32,
            attn_implementation=attention.NAME,
        )
    except OSError as error:
        raise ModelError(f"model.name = {name!r}: no weights could be loaded from there ({error})") from error
    return model.to(device).train()


def _is_local(name: str) -> bool:
    if Path(name).is_dir():
        return True
    from transformers.utils.hub import cached_file

    found = cached_file(name, "config.json", local_files_only=True, _raise_exceptions_for_missing_entries=False)
    return found is not None


def _checked_config(name: str, local: bool) -> Any:
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(name, local_files_only=local)
    except (OSError, ValueError) as error:
        raise ModelError(f"model.name = {name!r}: no model configuration there ({error})") from error
    if config.model_type not in FAMILIES:
        raise ModelError(f"model.name = {name!r}: of family {config.model_type!r}, supported are {', '.join(FAMILIES)}")
    if set(getattr(config, "layer_types", None) or ()) - {"full_attention"}:
        raise ModelError(f"model.name = {name!r}: has layers without full attention, which are not supported")
    return config


def predict(model: nn.Module, tokens: PackedTokens) -> Tensor:
    """Logits that predict the loss tokens, [max(N, 1), vocabulary]; the head is applied to no other position."""
    output = model(
        input_ids=tokens.input_ids,
        position_ids=tokens.position_ids,
        use_cache=False,
        logits_to_keep=tokens.predictors,
        packing=tokens.packing,
    )
    logits: Tensor = output.logits[0]
    return logits
