"""What a run is called."""

import os
import secrets
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from prl.config import RunConfig
from prl.config.run import NAME_BYTES
from prl.launch.exits import CONFIGURATION, RefusedError

_READABLE_BYTES = NAME_BYTES - len("--01234567")


def new_run_name(sources: Iterable[str], model: str) -> str:
    """``<sources joined by +>--<last segment of the model's name>--<8 hex digits>``, lower-case."""
    first = "+".join(dict.fromkeys(sources)) or "no-env"
    last = model.rstrip("/").rsplit("/", 1)[-1]
    readable = "".join(c if c.isprintable() else "_" for c in f"{first}--{last}".lower())
    return f"{readable.encode()[:_READABLE_BYTES].decode(errors='ignore')}--{secrets.token_hex(4)}"


def run_id() -> str:
    """``$PRL_RUN_ID`` when set (a resumed run that wants to keep its id), else 32 random hex digits."""
    return os.environ.get("PRL_RUN_ID") or uuid.uuid4().hex


@dataclass(frozen=True)
class RunName:
    """The name of a run and of its directory below the output directory."""

    name: str
    dir: str


def named(run: RunConfig, *, sources: Iterable[str], model: str, resuming: bool) -> RunName:
    """The run's name and directory, made up where the user gave none.

    Raises RefusedError when the run shall go on but is not named: a new name would never find it.
    """
    if run.name is None and run.dir is None and resuming:
        raise RefusedError(
            CONFIGURATION, "resume needs the run it resumes: give --run.name NAME (a directory below --output_dir)"
        )
    name = run.name or run.dir or new_run_name(sources, model)
    return RunName(name, run.dir or name)
