"""What a command needs beyond the base package, checked without importing any of it."""

import os
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

TRAIN_PACKAGES = (
    "torch",
    "transformers",
    "verifiers",
    "renderers",
    "pydantic",
    "pydantic_config",
    "zmq",
    "msgspec",
    "aiohttp",
    "jinja2",
    "safetensors",
    "tokenizers",
)


def require_train(prog: str) -> None:
    """Raise ``SystemExit(64)`` with the line to type when the ``train`` extra is not installed."""
    missing = [package for package in TRAIN_PACKAGES if find_spec(package) is None]
    if missing:
        line = install_line(Path(__file__).parents[2])
        print(f"{prog}: not installed here: {', '.join(missing)}. Type: {line}", file=sys.stderr)
        raise SystemExit(os.EX_USAGE)


def install_line(source: Path) -> str:
    """What installs the ``train`` extra; ``source`` is the directory that the package ``prl`` lies in.

    A checkout installs itself: an index need not have this package, or may have another version of it.
    """
    checkout = source.parent
    if source.name == "src" and (checkout / "pyproject.toml").is_file():
        return f"cd {shlex.quote(str(checkout))} && pip install -e '.[train]'"
    return "pip install 'prl[train]'"
