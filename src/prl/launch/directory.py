"""The run directory before a start: may this launch have it, and what does it hold already.

A directory that was used is never written over: the user resumes it, removes it or names another. Attempts are numbered
on, never reused, so logs of an earlier launch stay as they are.
"""

import contextlib
import fcntl
import os
import shutil
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from prl.launch.exits import CONFIGURATION, RUN_DIRECTORY, RefusedError
from prl.rundir import atomic, checkpoints
from prl.rundir.layout import RunLayout, attempt_number, step_number
from prl.rundir.status import RUNNING, STARTING, STOPPING, LauncherStatus, read_status

_OBSERVERS = frozenset({"STATUS.md", "reports"})
"""What the watch side writes. It says nothing about a run having started here."""
_MARKS_OF_A_RUN = ("configs", "logs", "launcher", "monitors")
_ALIVE_SECONDS = 30.0
"""A launcher on another host counts as alive while its status is younger than this."""
START_SECONDS = 30.0
"""How long another launcher may take over its start before this one gives up waiting for it."""


@dataclass(frozen=True)
class Attempt:
    """One launch of a run directory."""

    number: int
    configs: Path
    logs: Path

    @property
    def resolved(self) -> Path:
        return self.configs / "resolved"

    @property
    def envs(self) -> Path:
        return self.resolved / "envs"


@contextlib.contextmanager
def starting_alone(root: Path) -> Iterator[None]:
    """Keep other launchers of this host from judging or beginning the run at ``root`` while this lasts.

    Seconds lie between the look at a directory and the status that names the launcher at work in it; without this a
    second launcher would find the directory free meanwhile. What is locked is the directory that holds the run, or the
    nearest above it that exists: so no file is left behind, and runs beside each other start one after the other. On a
    file system that cannot lock a directory there is no protection. Raises RefusedError after :data:`START_SECONDS`.
    """
    handle = os.open(next(path for path in root.parents if path.is_dir()), os.O_RDONLY | os.O_CLOEXEC)
    try:
        _lock(handle, root)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, root: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise RefusedError(
                    RUN_DIRECTORY, f"{root}: another launcher has been starting a run beside it for {START_SECONDS:g}s"
                ) from None
            time.sleep(0.05)
        except OSError:  # not on this file system
            return


def refuse_unwritable(key: str, directory: Path) -> None:
    """Refuse a directory of the user, named by its key, that cannot be made or written to."""
    root = directory.absolute()
    there = next(path for path in (root, *root.parents) if os.path.lexists(path))
    if there.is_symlink() and not there.exists():
        problem = f"{there} is a link to nowhere"
    elif not there.is_dir():
        problem = f"{there} is not a directory"
    elif not os.access(there, os.W_OK | os.X_OK):
        problem = f"{there} cannot be written to"
    else:
        return
    raise RefusedError(RUN_DIRECTORY, f"{key} = '{directory}': {problem}; give a directory where files can be made")


def check_directory(layout: RunLayout, output_dir: Path, *, resuming: bool, clean: bool) -> bool:
    """Decide whether a launch may have the directory; True when it has to be removed first (``--clean``).

    Touches nothing. Raises RefusedError when another launcher is at work in it, when it was used and not ``resuming``
    and not ``clean``, or when ``clean`` would remove something that is not a run below ``output_dir``.
    """
    alive = live_launcher(layout)
    if alive is not None:
        raise RefusedError(
            RUN_DIRECTORY,
            f"{layout.root}: its launcher is at work (process {alive.pid} on {alive.host}); end it first",
        )
    if resuming and clean:
        raise RefusedError(
            CONFIGURATION, "clean = True with resume: --clean would remove what --resume needs; give one"
        )
    used = contents(layout.root)
    if resuming or not used:
        return False
    advice = "use --resume to go on from its last checkpoint, --clean to remove it, or another --run.name"
    if not clean:
        raise RefusedError(RUN_DIRECTORY, f"{layout.root}: holds a run already ({', '.join(used)}); {advice}")
    if os.environ.get("NEVER_CLEAN"):
        raise RefusedError(RUN_DIRECTORY, f"{layout.root}: not removed, because NEVER_CLEAN is set; {advice}")
    _refuse_foreign(layout.root, output_dir)
    return True


def refuse_foreign_checkpoints(directory: Path) -> None:
    """Refuse to begin a new run whose separate checkpoint directory holds steps already; they are never removed."""
    steps = sorted(step for path in _entries(directory) if (step := step_number(path)) is not None)
    if steps:
        raise RefusedError(
            RUN_DIRECTORY,
            f"{directory}: holds checkpoints of a run already (steps {_some(steps)}); "
            "use --resume, another --ckpt.output_dir, or move them away",
        )


def remove_run(layout: RunLayout) -> None:
    """Remove the run directory. Only after :func:`check_directory` said so."""
    shutil.rmtree(layout.root)


def contents(root: Path) -> list[str]:
    """What shows that a run was started in ``root``: everything but configurations, the launcher's and empty logs."""
    found = []
    for path in sorted(_entries(root)):
        if path.name in ("configs", "launcher") or path.name in _OBSERVERS:
            continue
        if path.name == "logs" and not any(p.is_file() and p.stat().st_size for p in path.rglob("*")):
            continue
        found.append(path.name)
    return found


def live_launcher(layout: RunLayout) -> LauncherStatus | None:
    """The status of a launcher that is still at work in this directory, else None."""
    status = read_status(layout.status_json)
    if status is None or status.phase not in (STARTING, RUNNING, STOPPING):
        return None
    if status.host != socket.gethostname():
        return status if time.time() - status.updated < _ALIVE_SECONDS else None
    try:
        same = abs(psutil.Process(status.pid).create_time() - status.started) < 1.0
    except psutil.Error:
        return None
    return status if same else None


def new_attempt(layout: RunLayout) -> Attempt:
    """Make the directories of the next attempt: one more than the highest number below ``configs`` and ``logs``."""
    while True:
        seen = [attempt_number(path) or 0 for tree in (layout.configs, layout.logs) for path in _entries(tree)]
        number = 1 + max(seen, default=0)
        attempt = Attempt(number, layout.attempt_configs(number), layout.attempt_logs(number))
        try:
            attempt.configs.mkdir(parents=True)
        except FileExistsError:  # another launcher took the number a moment ago
            continue
        attempt.envs.mkdir(parents=True)
        attempt.logs.mkdir(parents=True)
        return attempt


def point_latest(layout: RunLayout, attempt: Attempt, *, only_if_missing: bool = False) -> None:
    """Point ``configs/latest`` and ``logs/latest`` at ``attempt``."""
    for tree in (layout.configs, layout.logs):
        link = tree / "latest"
        if not (only_if_missing and link.is_symlink()):
            atomic.replace_symlink(link, f"attempt_{attempt.number}")


def remove_stale(layout: RunLayout, checkpoint_root: Path, resume_step: int | None) -> None:
    """Remove what belongs to an abandoned future: half checkpoints, batches above the resume step and broadcasts from
    it on (the trainer offers the resumed version again). A fresh start keeps none of them."""
    last = -1 if resume_step is None else resume_step
    checkpoints.discard_unfinished(checkpoint_root)
    for tree, first in ((layout.root / "batches", last + 1), (layout.broadcasts, last)):
        for path in _entries(tree):
            step = step_number(path)
            if step is not None and step >= first:
                shutil.rmtree(path, ignore_errors=True)
    if resume_step is None:
        layout.trainer_step.unlink(missing_ok=True)
    else:
        atomic.write_text(layout.trainer_step, f"{resume_step}\n")


def set_aside(checkpoint_root: Path, resume_step: int, attempt: Attempt) -> list[int]:
    """Move checkpoints beyond the resume step to ``checkpoints/abandoned.attempt_N/`` and return their steps.

    Left where they are, a later ``--resume`` would pick them and retention would count them as the newest.
    """
    newer = sorted(
        step for path in _entries(checkpoint_root) if (step := step_number(path)) is not None and step > resume_step
    )
    for step in newer:
        shelf = checkpoint_root / f"abandoned.attempt_{attempt.number}"
        shelf.mkdir(exist_ok=True)
        (checkpoint_root / f"step_{step}").rename(shelf / f"step_{step}")
    return newer


def _refuse_foreign(root: Path, output_dir: Path) -> None:
    inside = root.resolve().is_relative_to(output_dir.resolve()) and root.resolve() != output_dir.resolve()
    if root.is_symlink() or not inside:
        raise RefusedError(RUN_DIRECTORY, f"{root}: --clean removes only what lies below output_dir = {output_dir}")
    if not any((root / name).is_dir() for name in _MARKS_OF_A_RUN):
        raise RefusedError(RUN_DIRECTORY, f"{root}: --clean removes only runs, and this does not look like one")


def _some(steps: list[int]) -> str:
    shown = ", ".join(map(str, steps[:5]))
    return shown if len(steps) <= 5 else f"{shown}, ... {steps[-1]}"


def _entries(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []
