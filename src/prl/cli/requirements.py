"""What a command needs beyond the base package, checked without importing any of it."""

import sys
from importlib.util import find_spec

EX_USAGE = 64
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
        print(f"{prog}: not installed here: {', '.join(missing)}. Type: pip install 'prl[train]'", file=sys.stderr)
        raise SystemExit(EX_USAGE)
