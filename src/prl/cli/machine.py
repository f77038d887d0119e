"""Whether this machine is ready to run: the packages, the ports that a run takes, room on the disk, SLURM.

Each check says what it found, and what to do where that is not enough. Nothing is started, claimed or written. Left
out: devices, which only the programs that use them can tell of, and versions within a range, which the installer
keeps; only what is pinned to one version is compared, since wire formats and records change between those.
"""

import os
import re
import shlex
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from shutil import which

from prl.cli.requirements import TRAIN_PACKAGES, install_line
from prl.slurm.commands import Kind, Runner, run
from prl.slurm.jobs import query_jobs
from prl.text.human import format_bytes

READY, WARNING, PROBLEM, UNKNOWN = "ready", "warning", "problem", "unknown"
STATES = (READY, WARNING, PROBLEM, UNKNOWN)
LEAST_FREE = 1024**3
"""Bytes without which the first checkpoint of a small model may not fit."""

_PINNED = re.compile(r"([\w.-]+)==([\w.]+) *; *extra == [\"']train[\"']")
_SLURM = ("sbatch", "squeue")
_PLACES = 20
"""Sets of ports looked at."""


@dataclass(frozen=True)
class Check:
    """What one check found."""

    check: str
    state: str
    """``ready``; ``warning``: runs start, and something is worth a look; ``problem``: no run starts; ``unknown``."""
    message: str
    action: str | None = None
    """What to do about it."""


def examine(output_dir: Path, low: float, ask: Runner = run) -> list[Check]:
    """All checks. ``output_dir``: where runs go; ``low``: the share of a disk below which room counts as short."""
    return [packages(), ports(), disk(output_dir, low), slurm(ask)]


def packages() -> Check:
    """What a run needs beyond the watch side is installed, what is pinned in its version."""
    missing = [name for name in TRAIN_PACKAGES if find_spec(name) is None]
    install = install_line(Path(__file__).parents[2])
    if missing:
        return Check("packages", PROBLEM, f"not installed: {', '.join(missing)}", install)
    other = [told for line in requires("prl") or () if (told := _other_version(line))]
    if other:
        return Check("packages", WARNING, "; ".join(other), install)
    return Check("packages", READY, f"the {len(TRAIN_PACKAGES)} packages of a run are installed")


def _other_version(requirement: str) -> str | None:
    pinned = _PINNED.fullmatch(requirement)
    if pinned is None:
        return None
    try:
        found = version(pinned[1])
    except PackageNotFoundError:
        return f"{pinned[1]}: nothing says which version is installed, {pinned[2]} is expected"
    same = found.partition("+")[0] == pinned[2]  # what stands behind + names a build
    return None if same else f"{pinned[1]} {found} is installed, {pinned[2]} is expected"


def ports() -> Check:
    """The ports of a run that sets none; runs beside it move on to the next free ones."""
    try:
        from prl.launch.ports import default_ports, taken_ports
    except ImportError as error:
        return Check("ports", UNKNOWN, f"which ones a run takes cannot be told: {error}", "install the packages first")
    first = taken_ports(default_ports())
    if not first:
        return Check("ports", READY, f"{_listed(default_ports().by_name())} are free")
    free = next((place for place in range(1, _PLACES) if not taken_ports(default_ports(place))), None)
    taken = ", ".join(map(str, first))
    if free is None:
        message = f"{taken} are taken, and so are those of the next {_PLACES - 1} runs"
        return Check("ports", PROBLEM, message, "set inference.server.port and rollout_transport.port to free ones")
    return Check("ports", READY, f"{taken} taken; a run moves to {_listed(default_ports(free).by_name())}")


def _listed(by_name: dict[str, int]) -> str:
    return ", ".join(f"{port} ({name})" for name, port in by_name.items())


def disk(output_dir: Path, low: float) -> Check:
    """Room where runs go, and the right to write there."""
    path = output_dir.absolute()
    while not os.path.lexists(path) and path != path.parent:  # what is missing is made by the first run
        path = path.parent
    if not path.is_dir() or not os.access(path, os.W_OK | os.X_OK):
        why = "may not be written to" if path.is_dir() else "is no directory"
        return Check("disk", PROBLEM, f"{path} {why}", "set output_dir to a directory of yours, and PRL_OUTPUT_DIR")
    try:
        usage = os.statvfs(path)
    except OSError as error:
        return Check("disk", UNKNOWN, f"{path}: {error.strerror or error}")
    free, total = usage.f_bavail * usage.f_frsize, usage.f_blocks * usage.f_frsize
    message = f"{format_bytes(free)} of {format_bytes(total)} are free at {path}"
    if free < LEAST_FREE:
        return Check("disk", PROBLEM, message, f"free some: du -xsh {shlex.quote(str(path))}/* shows what is large")
    if free < low * total:
        return Check("disk", WARNING, message, "keep few checkpoints (ckpt.keep_last), or free some")
    return Check("disk", READY, message)


def slurm(ask: Runner = run) -> Check:
    """Whether its controller answers, where there is SLURM. Without it runs are started on this machine."""
    missing = [name for name in _SLURM if which(name) is None]
    if len(missing) == len(_SLURM):
        return Check("slurm", READY, "not installed here: runs are started on this machine")
    if missing:
        return Check("slurm", WARNING, f"{missing[0]} is not on the PATH, the rest of SLURM is", "load SLURM's module")
    answer = query_jobs(None, ask)
    if answer.trouble is None:
        return Check("slurm", READY, f"the controller answers; {len(answer.jobs)} jobs of yours")
    state = UNKNOWN if answer.trouble.silent else WARNING
    action = "ask again later: sinfo shows when it answers" if answer.trouble.kind != Kind.REFUSED else None
    return Check("slurm", state, f"the controller gives no answer: {answer.trouble}", action)
