"""Weights on disk: what a broadcast carries, and the result of a run."""

import logging
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from prl.rundir.layout import TOKENIZER_FILES
from prl.trainer.parallel import World

logger = logging.getLogger(__name__)

WEIGHTS_FILE = "model.safetensors"
_HEAD = "lm_head.weight"


def full_state(model: Any, world: World) -> dict[str, Tensor]:
    """All parameters under their names in a Hugging Face checkpoint, on the main rank (empty elsewhere). Collective.

    A tied head is left out, as in such a checkpoint. From a GPU they come as bfloat16, what engines serve; from a CPU
    as float32. One CPU rank gets the live tensors, not copies.
    """
    if world.sharded:
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

        gathered: Any = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    else:
        gathered = model.state_dict()
    state: dict[str, Tensor] = dict(gathered)
    if model.config.tie_word_embeddings:
        state.pop(_HEAD, None)
    if world.device.type == "cuda":
        state = {name: tensor.to(torch.bfloat16) for name, tensor in state.items()}
    return state


def write_weights(path: Path, state: dict[str, Tensor]) -> None:
    """Write ``state`` as a safetensors file that the umask's readers can read."""
    from safetensors.torch import save_file

    save_file({name: tensor.contiguous() for name, tensor in state.items()}, path, metadata={"format": "pt"})
    make_readable(path)


def make_readable(path: Path) -> None:
    """Give a file the mode that the umask says. safetensors writes through a private temporary file."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(0o666 & ~mask)


def write_result(directory: Path, model: Any, state: dict[str, Tensor], tokenizer: Path | None) -> None:
    """Write ``directory``, loadable by ``from_pretrained``, as a whole: it appears when everything is in it.

    ``tokenizer`` is a directory whose tokenizer files are copied. One of an abandoned timeline is replaced.
    """
    staging = directory.with_name(f"{directory.name}.tmp")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    model.config.save_pretrained(staging)
    if model.generation_config is not None:
        model.generation_config.save_pretrained(staging)
    for name in TOKENIZER_FILES:
        if tokenizer is not None and (tokenizer / name).is_file():
            shutil.copy(tokenizer / name, staging / name)
    write_weights(staging / WEIGHTS_FILE, state)
    shutil.rmtree(directory, ignore_errors=True)
    staging.rename(directory)


def publish_result(directory: Path, model: Any, world: World, tokenizer: Path | None) -> None:
    """Write the model as the run's result (:func:`write_result`) from all its ranks. Collective."""
    state = full_state(model, world)
    if world.is_main:
        write_result(directory, model, state, tokenizer)
        logger.info("Wrote the trained model to %s", directory)
    world.barrier()


def tokenizer_directory(run_tokenizer: Path, model: str) -> Path | None:
    """Where the tokenizer lies: in the run directory, in the model's directory, or with it in the local cache."""
    if run_tokenizer.is_dir():
        return run_tokenizer
    if Path(model).is_dir():
        return Path(model)
    from transformers.utils.hub import cached_file

    found = cached_file(model, "config.json", local_files_only=True, _raise_exceptions_for_missing_entries=False)
    return None if found is None else Path(found).parent
