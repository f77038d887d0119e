"""Which tokenizer a run's tokens are of: where a ``tokenizer.json`` of it may lie, most certain first.

A directory that was given; the run's own ``tokenizer/``; a copy beside weights (checkpoints, the result, broadcasts,
newest first); the local Hugging Face cache, by the name of the model that the run resolved. The network is never asked.
Of what lies in the run, links that lead out of it are not followed.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from prl.rundir.configs import attempts_of, read_documents
from prl.rundir.home import home
from prl.rundir.layout import step_number
from prl.rundir.tree import RunTree

FILE = "tokenizer.json"

_COPIES = (
    ("checkpoints", ("", "trainer")),
    ("weights", ("",)),
    ("broadcasts", ("",)),
)
"""Directories with one subdirectory a step, and where in that a tokenizer may lie."""
_STEPS_LOOKED_AT = 50
_COMPONENTS = ("trainer", "orchestrator", "inference", "sft")
_MODEL_NAME = re.compile(r"(?!\.)[\w.-]+(/(?!\.)[\w.-]+)?")


@dataclass(frozen=True)
class TokenizerFile:
    """A ``tokenizer.json`` and why it is taken for the run's."""

    path: Path
    origin: str
    """For a person: ``the run``, ``checkpoints/step_4``, ``the model cache (org/name)``, ``given``."""


def tokenizer_files(run: Path | None, directory: Path | None = None) -> Iterator[TokenizerFile]:
    """The files that exist, the most certain first. ``directory``: the one that was given, which alone counts then."""
    if directory is not None:
        if (directory / FILE).is_file():
            yield TokenizerFile(directory / FILE, "given")
        return
    if run is None:
        return
    tree = RunTree(run)
    if tree.stat(f"tokenizer/{FILE}") is not None:
        yield TokenizerFile(tree.path(f"tokenizer/{FILE}"), "the run")
    yield from _copies(tree)
    for model in model_names(tree):
        path = _cached(model)
        if path is not None:
            yield TokenizerFile(path, f"the model cache ({model})")


def model_names(tree: RunTree) -> list[str]:
    """The tokenizers and models that the newest attempt resolved, in the order of preference."""
    for attempt in [*reversed(attempts_of(tree)), None]:
        documents = read_documents(tree, attempt, _COMPONENTS)
        sections = [documents.get(name, {}).get(part) for name in _COMPONENTS for part in ("tokenizer", "model")]
        names = [section.get("name") for section in sections if isinstance(section, dict)]
        found = [name for name in names if isinstance(name, str)]
        if found:
            return list(dict.fromkeys(found))
    return []


def absence(run: Path | None, directory: Path | None) -> str:
    """Why there is no tokenizer, and what to do."""
    if directory is not None:
        return f"{directory} has no {FILE}"
    if run is None:
        return "the run directory is not known"
    models = model_names(RunTree(run))
    named = f"the model cache has none of {', '.join(models)}" if models else "no configuration names its model"
    return f"the run holds no {FILE}, and {named}: name a directory with one (--tokenizer DIR)"


def _copies(tree: RunTree) -> Iterator[TokenizerFile]:
    for parent, places in _COPIES:
        steps = [step for name in tree.names(parent) if (step := step_number(Path(name))) is not None]
        for step in sorted(steps, reverse=True)[:_STEPS_LOOKED_AT]:
            for place in places:
                directory = f"{parent}/step_{step}" + f"/{place}" * bool(place)
                if tree.stat(f"{directory}/{FILE}") is not None:
                    yield TokenizerFile(tree.path(f"{directory}/{FILE}"), directory)
                    break


def _cached(model: str) -> Path | None:
    """The file of a model in the local Hugging Face cache: of the revision ``main``, else of the newest snapshot."""
    if _MODEL_NAME.fullmatch(model) is None:
        return None
    repository = _hub() / f"models--{model.replace('/', '--')}"
    try:
        main = (repository / "refs" / "main").read_text().strip()
    except (OSError, ValueError):
        main = ""
    snapshots = sorted(_newest_first(repository / "snapshots"), key=lambda path: path.name != main)
    return next((path for snapshot in snapshots if (path := snapshot / FILE).is_file()), None)


def _newest_first(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    except OSError:
        return []


def _hub() -> Path:
    """Where the library ``huggingface_hub`` keeps models."""
    own = os.environ.get("HF_HUB_CACHE")
    if own:
        return Path(own)
    all_of_it = os.environ.get("HF_HOME")
    if all_of_it:
        return Path(all_of_it) / "hub"
    return Path(os.environ.get("XDG_CACHE_HOME") or home() / ".cache") / "huggingface" / "hub"
