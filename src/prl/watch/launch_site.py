"""The host on which a run would be started again, as far as a reader may look: files, ports, what the files say.

Nothing is occupied: whether somebody listens on a port is read from the system's tables, not tried. What files say
counts where it would contradict the options of a restart; a file that is no TOML or JSON says nothing.
"""

import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from prl.rundir.jobs import read_jobs
from prl.rundir.regular import open_regular
from prl.rundir.tree import RunTree
from prl.rundir.untyped import as_object
from prl.watch.facts import Facts
from prl.watch.launch_command import CommandError, LaunchCommand, parse_command

_MAX_FILE = 4 * 1024**2


@dataclass(frozen=True)
class LaunchSite:
    """What was found. The defaults stand for a host that nobody looked at."""

    looked: bool = False
    """Whether this is the host of the launch, so that its files and ports could be looked at."""
    missing: list[str] = field(default_factory=list)
    """Of the working directory, the interpreter and the configuration files, those that do not exist any more."""
    changed: list[str] = field(default_factory=list)
    """Configuration files that are not what the attempt was given."""
    listening: dict[int, str] = field(default_factory=dict)
    """Those of the run's ports on which somebody listens, and who."""
    cleans: bool = False
    """Whether a file says ``clean = true``."""
    forks: bool = False
    """Whether a file names another run's checkpoint (``resume.dir``)."""
    run_id: str | None = None
    """By which an experiment tracker knows the run."""


NOT_LOOKED = LaunchSite()


def look(facts: Facts) -> LaunchSite:
    """What this host says of starting the run again. Raises nothing."""
    root, launch = Path(facts.run.dir), facts.launch
    run_id = read_jobs(root).run_id
    if launch is None:
        return LaunchSite(run_id=run_id)
    given = _given(root, launch.command_source)
    resume = as_object(given.get("resume"))
    site = LaunchSite(cleans=given.get("clean") is True, forks=isinstance(resume.get("dir"), str), run_id=run_id)
    if launch.host not in (None, facts.host):
        return site
    command = _parsed(launch.command)
    return replace(
        site,
        looked=True,
        missing=[str(path) for path in _needed(launch.cwd, launch.interpreter, command) if _is_absent(path)],
        changed=_changed(root, launch.command_source, launch.cwd, command),
        listening=_listening(launch.ports),
    )


def _parsed(command: str | None) -> LaunchCommand | None:
    try:
        return parse_command(command) if command is not None else None
    except CommandError:
        return None


def _needed(cwd: str | None, interpreter: str | None, command: LaunchCommand | None) -> Iterable[Path]:
    if cwd is not None:
        yield Path(cwd)
    if interpreter is not None:
        yield Path(interpreter)
    for name in command.files if command is not None else ():
        if cwd is not None or Path(name).is_absolute():
            yield Path(cwd or "/", name)


def _is_absent(path: Path) -> bool:
    """Whether nothing is there. What may not be looked at may be there."""
    try:
        return not path.exists()
    except (OSError, ValueError):
        return False


def _changed(root: Path, source: str | None, cwd: str | None, command: LaunchCommand | None) -> list[str]:
    """The one file of the launch, when it differs from the copy of it that lies beside the recorded command."""
    if source is None or command is None or len(command.root_files) != 1:
        return []
    now = Path(cwd or "/", command.root_files[0])
    copy = RunTree(root).read(f"{Path(source).parent}/{command.program}{now.suffix}", _MAX_FILE)
    try:
        with open_regular(now) as file:
            same = file.read(_MAX_FILE + 1) == copy
    except OSError:
        return []
    return [str(now)] if copy is not None and not same else []


def _given(root: Path, source: str | None) -> dict[str, Any]:
    """What the copy of the user's file says."""
    tree = RunTree(root)
    places = Path(source).parent.as_posix() if source is not None else ""
    for name in ("rl.toml", "sft.toml", "rl.json", "sft.json"):
        text = tree.text(f"{places}/{name}", _MAX_FILE) if places else None
        if text is None:
            continue
        try:
            return as_object(tomllib.loads(text) if name.endswith(".toml") else json.loads(text))
        except (ValueError, RecursionError):
            return {}
    return {}


def _listening(ports: list[int]) -> dict[int, str]:
    try:
        connections = psutil.net_connections(kind="tcp") if ports else []
    except (psutil.Error, OSError):
        return {}
    held = {one.laddr.port: one.pid for one in connections if one.status == psutil.CONN_LISTEN and one.laddr}
    return {port: _who(held[port]) for port in ports if port in held}


def _who(pid: int | None) -> str:
    if pid is None:
        return "a process of another user"
    try:
        return f"process {pid} ({' '.join(' '.join(psutil.Process(pid).cmdline()).split())[:80]})"
    except psutil.Error:
        return f"process {pid}"
