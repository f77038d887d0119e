"""``environment.json``: what surrounded an attempt, for whoever wants to know years later why it went as it did."""

import importlib.metadata
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from prl.text.secrets import mask_secrets

SCHEMA_VERSION = 1
_PREFIXES = (
    "CUDA_",
    "HF_",
    "MKL_",
    "NCCL_",
    "OMP_",
    "PRIME_",
    "PRL_",
    "PYTHON",
    "PYTORCH_",
    "SLURM_",
    "TOKENIZERS_",
    "TORCH_",
    "TRANSFORMERS_",
    "UV_",
    "VF_",
    "VLLM_",
    "WANDB_",
)
_NAMES = frozenset({"CONDA_DEFAULT_ENV", "LD_LIBRARY_PATH", "LD_PRELOAD", "PATH", "TMPDIR", "VIRTUAL_ENV"})
_COMMAND_SECONDS = 5.0


def describe(seeds: Mapping[str, int | None], env_vars: Mapping[str, str]) -> dict[str, Any]:
    """The surroundings of this process as JSON. ``env_vars`` are those the configuration adds for the components."""
    return {
        "schema_version": SCHEMA_VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "git": _git(Path.cwd()),
        "host": {
            "name": socket.gethostname(),
            "platform": platform.platform(),
            "cpu": {"model": _cpu_model(), "count": os.cpu_count()},
            "memory_bytes": psutil.virtual_memory().total,
            "devices": _devices(),
        },
        "python": {"version": platform.python_version(), "interpreter": sys.executable},
        "cwd": str(Path.cwd()),
        "seeds": dict(seeds),
        "environment": masked({**_relevant(os.environ), **env_vars}),
        "packages": _packages(),
    }


def masked(variables: Mapping[str, str]) -> dict[str, str]:
    """``variables`` by name, with what looks like a secret masked."""
    return {name: mask_secrets(f"{name}={value}").partition("=")[2] for name, value in sorted(variables.items())}


def _relevant(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name.startswith(_PREFIXES) or name in _NAMES}


def _packages() -> dict[str, str]:
    found = {dist.metadata["Name"]: dist.version for dist in importlib.metadata.distributions()}
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def _git(directory: Path) -> dict[str, Any] | None:
    """Commit of the directory the launch was typed in; None outside a repository."""
    commit = _output(["git", "-C", str(directory), "rev-parse", "HEAD"])
    if commit is None:
        return None
    changed = _output(["git", "-C", str(directory), "status", "--porcelain", "--untracked-files=no"])
    return {"commit": commit, "dirty": None if changed is None else bool(changed)}


def _devices() -> list[str]:
    listed = _output(["nvidia-smi", "-L"])
    return listed.splitlines() if listed else []


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _output(command: list[str]) -> str | None:
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
