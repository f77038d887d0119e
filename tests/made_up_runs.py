"""Run directories written file by file: any layout, any damage."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LONG_AGO = 1_790_000_000.0
"""When everything in :func:`aged` trees was last written, Unix seconds."""


def write(root: Path, files: Mapping[str, Any]) -> Path:
    """Write files by their names: bytes and text as they are, objects as JSON, lists as JSON lines."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif isinstance(content, str):
            path.write_text(content)
        elif isinstance(content, list):
            path.write_text("".join(json.dumps(row) + "\n" for row in content))
        else:
            path.write_text(json.dumps(content))
    return root


def aged(root: Path, time: float = LONG_AGO) -> Path:
    """Let everything below ``root`` have been written at ``time``."""
    for directory, directories, files in os.walk(root, topdown=False):
        for name in (*directories, *files):
            os.utime(Path(directory, name), (time, time), follow_symlinks=False)
    os.utime(root, (time, time))
    return root


def rl_files(name: str = "gsm--tiny--0a1b2c3d", step: int = 12) -> dict[str, Any]:
    """The files of a run of kind rl in the newest layout."""
    source = [{"name": "gsm", "env": {"taskset": {"id": "gsm-task"}}}, {"env": {"taskset": {"id": "word-sort"}}}]
    return {
        "configs/attempt_1/command.txt": "rl @ rl.toml\n",
        "configs/attempt_1/rl.toml": "max_steps = 40\n",
        "configs/attempt_1/resolved/orchestrator.json": {
            "max_steps": 40,
            "model": {"name": "org/tiny"},
            "train": {"source": source},
            "eval": {"source": [{"name": "held-out"}]},
        },
        "configs/attempt_1/resolved/trainer.json": {"max_steps": 40, "model": {"name": "org/tiny"}},
        "configs/attempt_1/environment.json": {
            "schema_version": 1,
            "created": "2026-09-21T14:13:20+00:00",
            "environment": {"SLURM_JOB_ID": "8123", "PRL_RUN_ID": "f00d"},
        },
        "logs/attempt_1/trainer.log": "10:00:00    INFO Starting training loop\n",
        "launcher/status.json": {
            "run_id": "0" * 32,
            "run_name": name,
            "kind": "rl",
            "attempt": 1,
            "phase": "running",
            "host": "node1",
            "pid": 4242,
            "started": LONG_AGO,
            "updated": LONG_AGO + 100,
            "step": step,
        },
        "monitors/file/metrics.jsonl": [
            {"step": step + 1, "time": LONG_AGO + 60, "train/agg/all/has_error/mean": 0.0, "producer": "orch"},
            {"step": step, "time": LONG_AGO + 61, "loss/mean": 0.1, "producer": "trainer"},
            {"step": None, "time": LONG_AGO + 9000, "inference/agg/running": 0.0, "producer": "orch"},
        ],
        "monitors/file/traces/stream.index.jsonl": [{"line": 96, "arrival": LONG_AGO + 59, "id": "e96"}],
        "trainer_step": f"{step}\n",
    }
