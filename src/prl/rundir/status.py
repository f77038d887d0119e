"""``launcher/status.json``: the processes of the current attempt and how far the launcher got.

The launcher refreshes it every few seconds, atomically; readers judge its age by ``updated``. A process is identified
by host, pid and start time, so that a pid that was used again is not mistaken for it.
"""

import functools
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, get_args, get_type_hints

from prl.rundir import atomic
from prl.rundir.regular import read_regular

SCHEMA_VERSION = 1

_MAX_NUMBER = 2**62

STARTING = "starting"
RUNNING = "running"
STOPPING = "stopping"
FINISHED = "finished"
FAILED = "failed"
STOPPED = "stopped"


@dataclass
class ProcessStatus:
    """One process of the run."""

    name: str
    """Component in the words of messages: ``inference``, ``train env server gsm``, ``orchestrator``,
    ``trainer``."""
    title: str
    pid: int
    host: str
    started: float
    """Unix seconds at which the operating system says the process began."""
    log: str
    """Path relative to the run directory."""
    ended: float | None = None
    exit_code: int | None = None
    """Negative: minus the signal that killed it."""
    reason: str | None = None


@dataclass
class LauncherStatus:
    """State of the launcher."""

    run_id: str
    run_name: str
    kind: str
    """``rl`` or ``sft``."""
    attempt: int
    phase: str
    host: str
    pid: int
    started: float
    updated: float
    max_steps: int | None = None
    step: int | None = None
    """Last finished trainer step."""
    waiting_for: str | None = None
    """What the run waits for, in words, where the launcher knows."""
    exit_code: int | None = None
    reason: str | None = None
    ended: float | None = None
    processes: list[ProcessStatus] = field(default_factory=list)
    ports: dict[str, int] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION

    def write(self, path: Path) -> None:
        """Replace the file atomically. Raises OSError."""
        atomic.write_json(path, asdict(self))


class StatusError(ValueError):
    """A file that is there and holds no launcher's word, with the reason."""


def read_status(path: Path) -> LauncherStatus | None:
    """The launcher's last word, or None when there is none that can be read. Unknown fields are ignored."""
    try:
        return load_status(path)
    except StatusError:
        return None


def load_status(path: Path) -> LauncherStatus | None:
    """As :func:`read_status`, None only when there is no file. Raises StatusError when what is there cannot be read.

    ``path``: ``launcher/status.json`` of a run. A link that leaves that run is not followed.
    """
    try:
        raw = json.loads(read_regular(path, root=path.parent.parent))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StatusError(error.strerror or str(error)) from error
    except (ValueError, RecursionError) as error:
        raise StatusError(f"not JSON: {error}") from error
    if not isinstance(raw, dict):
        raise StatusError(f"a JSON {type(raw).__name__}, not an object")
    try:
        processes = [ProcessStatus(**_known(ProcessStatus, entry)) for entry in raw.get("processes", [])]
        status = LauncherStatus(**{**_known(LauncherStatus, raw), "processes": processes})
    except (TypeError, AttributeError) as error:
        raise StatusError(f"fields are missing or of a wrong type: {error}") from error
    ports = status.ports.values() if isinstance(status.ports, dict) else [None]
    typed = _well_typed(status) and all(map(_well_typed, processes))
    if not typed or not all(_is_of(port, (int,)) for port in ports):
        raise StatusError("a field has a wrong type")
    return status


def _well_typed(part: LauncherStatus | ProcessStatus) -> bool:
    """Whether every plain field has the type that it should have: anybody may have written the file."""
    cls: type = type(part)
    return all(_is_of(getattr(part, name), kinds) for name, kinds in _plain_kinds(cls).items())


def _is_of(value: object, kinds: tuple[type, ...]) -> bool:
    """Whether a value is of one of these types, and a number one that a clock or a counter shows."""
    if isinstance(value, int | float):
        return isinstance(value, kinds) and not isinstance(value, bool) and abs(value) < _MAX_NUMBER
    return isinstance(value, kinds)


@functools.cache
def _plain_kinds(cls: type) -> dict[str, tuple[type, ...]]:
    """The types that each plain field may have. A whole number will do where a float is meant."""
    hints = {name: get_args(hint) or (hint,) for name, hint in get_type_hints(cls).items()}
    return {
        name: (int, *kinds) if float in kinds else kinds
        for name, kinds in hints.items()
        if name not in ("processes", "ports")
    }


def _known(cls: type[LauncherStatus] | type[ProcessStatus], raw: dict[str, Any]) -> dict[str, Any]:
    return {name: raw[name] for name in cls.__dataclass_fields__ if name in raw}
