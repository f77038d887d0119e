"""From ``model.name`` to a directory with a whole model in Hugging Face format, without the network.

A launcher never downloads: on a cluster's node there may be no way out, and a run must not change because a hub did.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from prl.launch.exits import CONFIGURATION, RefusedError
from prl.rundir.layout import TOKENIZER_FILES

_VOCABULARIES = ("tokenizer.json", "tokenizer.model", "vocab.json")
_INDEX = "model.safetensors.index.json"
ARCHITECTURES = ("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
"""Of what trainer and engine know. Details of a configuration are theirs to refuse."""


def resolve_model(name: str) -> Path:
    """The directory of model ``name``: a directory itself, else its snapshot in the local Hugging Face cache.

    Raises RefusedError when there is none, naming the file that a directory lacks, or when the model is of an
    architecture that cannot be trained here.
    """
    path = Path(name).expanduser()
    directory = path.absolute() if path.is_dir() else _cached(name)
    missing = _missing(directory)
    if missing:
        raise RefusedError(
            CONFIGURATION, f"model.name = {name!r}: {directory} has no {missing}; it is not a whole model"
        )
    _refuse_foreign(name, directory / "config.json")
    return directory


def copy_tokenizer(model: Path, target: Path) -> None:
    """Copy the tokenizer's files of ``model`` to ``target``, which appears whole. One that is there already stays."""
    if target.exists():
        return
    staging = target.with_name(f".{target.name}.new")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    for name in TOKENIZER_FILES:
        if (model / name).is_file():
            shutil.copyfile(model / name, staging / name)
    staging.rename(target)


def _cached(name: str) -> Path:
    if name.startswith((".", "/", "~")) or name.count("/") != 1:
        raise RefusedError(CONFIGURATION, f"model.name = {name!r}: no such directory (relative to {Path.cwd()})")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except (HFValidationError, LocalEntryNotFoundError, OSError):
        raise RefusedError(
            CONFIGURATION,
            f"model.name = {name!r}: neither a directory here nor a model in the local Hugging Face cache; "
            f"get it with `hf download {name}`, or give the path of a directory",
        ) from None


def _refuse_foreign(name: str, path: Path) -> None:
    try:
        config = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise RefusedError(CONFIGURATION, f"model.name = {name!r}: {path} is not JSON ({error})") from None
    architectures = config.get("architectures") if isinstance(config, dict) else None
    if not isinstance(architectures, list) or not any(name in ARCHITECTURES for name in architectures):
        raise RefusedError(
            CONFIGURATION,
            f"model.name = {name!r}: {path} has architectures = {architectures!r}; "
            f"supported are {', '.join(ARCHITECTURES)}",
        )


def _missing(directory: Path) -> str | None:
    """The first thing that a model directory lacks."""
    if not (directory / "config.json").is_file():
        return "config.json"
    if not _any_file(directory, _VOCABULARIES):
        return "tokenizer (tokenizer.json, tokenizer.model or vocab.json)"
    index = directory / _INDEX
    if index.is_file():
        return _missing_shard(directory, index)
    if not any(directory.glob("*.safetensors")):
        return "weights (model.safetensors)"
    return None


def _missing_shard(directory: Path, index: Path) -> str | None:
    try:
        shards = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"readable {_INDEX}"
    return next((f"weights {shard} (named in {_INDEX})" for shard in shards if not (directory / shard).is_file()), None)


def _any_file(directory: Path, names: Sequence[str]) -> bool:
    return any((directory / name).is_file() for name in names)
