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
    """Write everything the attempt says about itself. ``resolved`` maps names below ``resolved/`` to models.

    All of it is encoded before the first file is written: what cannot be told leaves no half of an attempt.
    """
    encoded = {attempt.configs / name: data for name, data in _given_files(program, root_files(argv)).items()}
    for name, model in resolved.items():
        encoded[attempt.resolved / f"{name}.json"] = atomic.json_bytes(model.model_dump(mode="json"))
    encoded[attempt.configs / "environment.json"] = atomic.json_bytes(environment)
    _write_once(attempt.configs / "command.txt", command_line(program, argv) + "\n")
    for path, data in encoded.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_bytes(path, data)


def _given_files(program: str, files: Sequence[Path]) -> dict[str, bytes]:
    """The user's file as it is, or several under headings, by the name of the copy."""
    if len(files) == 1:
        return {f"{program}{files[0].suffix}": files[0].read_bytes()}
    parts = (f"# @ {path}\n".encode() + path.read_bytes() for path in files)
    return {f"{program}.toml": b"\n".join(parts)} if files else {}


def _write_once(path: Path, text: str) -> None:
    try:
        with path.open("x") as file:
            file.write(text)
    except FileExistsError:
        return
