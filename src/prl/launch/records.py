"""What an attempt says about itself in ``configs/attempt_N/``: the command, the user's files, what they resolve to."""

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from prl.launch.directory import Attempt
from prl.rundir import atomic

_DRY_RUN = ("--dry-run", "--dry_run")


def command_line(program: str, argv: Sequence[str]) -> str:
    """The command as one line for a shell, with ``uv run`` in front when uv started it."""
    prefix = ["uv", "run"] if "UV_RUN_RECURSION_DEPTH" in os.environ else []
    return shlex.join([*prefix, program, *argv])


def start_command(program: str, argv: Sequence[str], run_name: str, *, named: bool) -> str:
    """The command that does what a dry run only prepared."""
    kept: list[str] = []
    for before, word in zip(["", *argv], argv, strict=False):
        flagged = before in _DRY_RUN and word.lower() == "true"
        if word not in _DRY_RUN and not flagged:
            kept.append(word)
    if len(kept) == len(argv):  # a file asked for the dry run
        kept.append("--no-dry-run")
    return command_line(program, kept if named else [*kept, "--run.name", run_name])


def root_files(argv: Sequence[str]) -> list[Path]:
    """The configuration files of the whole run, in order (``@ file``; ``--trainer @ file`` is one of a sub-tree)."""
    return [
        Path(argv[index + 1])
        for index, word in enumerate(argv[:-1])
        if word == "@" and not (index and argv[index - 1].startswith("--"))
    ]


def write_records(
    attempt: Attempt, program: str, argv: Sequence[str], resolved: Mapping[str, BaseModel], environment: dict[str, Any]
) -> None:
    """Write everything the attempt says about itself. ``resolved`` maps names below ``resolved/`` to models."""
    _write_once(attempt.configs / "command.txt", command_line(program, argv) + "\n")
    files = root_files(argv)
    if len(files) == 1:
        atomic.write_bytes(attempt.configs / f"{program}{files[0].suffix}", files[0].read_bytes())
    elif files:
        parts = (f"# @ {path}\n{path.read_text()}" for path in files)
        atomic.write_text(attempt.configs / f"{program}.toml", "\n".join(parts))
    for name, model in resolved.items():
        path = attempt.resolved / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_json(path, model.model_dump(mode="json"))
    atomic.write_json(attempt.configs / "environment.json", environment)


def _write_once(path: Path, text: str) -> None:
    try:
        with path.open("x") as file:
            file.write(text)
    except FileExistsError:
        return
