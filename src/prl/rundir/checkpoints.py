"""``checkpoints/step_N/``: complete or absent.

A checkpoint of an RL run has two halves, ``trainer/`` and ``orchestrator/``, written by two processes at two times.
Each writes below ``step_N.tmp/``; whoever finds both halves there renames the whole to ``step_N``. So a directory named
``step_N`` is always complete, for this project's reader and for any other that goes by the name or by
``trainer/.metadata`` and ``orchestrator/progress.pt``. What lies there in which state, whoever wrote it, is read by
:mod:`prl.rundir.checkpoint_states`.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from prl.rundir.layout import numbered, step_number

TRAINER = "trainer"
ORCHESTRATOR = "orchestrator"
HALVES = (TRAINER, ORCHESTRATOR)
MARKS = {TRAINER: ".metadata", ORCHESTRATOR: "progress.pt"}
"""Written last in each half: its presence says that the half is whole."""


def begin_half(checkpoints: Path, step: int, half: str) -> Path:
    """An empty directory to write ``half`` of ``step`` into; left-overs of an earlier try are removed."""
    writing = _staging(checkpoints, step) / f"{half}.tmp"
    for path in (writing, writing.with_name(half)):
        _remove(path)
    writing.mkdir(parents=True)
    return writing


def publish_half(checkpoints: Path, step: int, half: str, halves: Sequence[str] = HALVES) -> bool:
    """Declare ``half`` whole. Returns True when that made the checkpoint complete.

    An older checkpoint of the same step (of a timeline that was abandoned) is replaced.
    """
    staging = _staging(checkpoints, step)
    (staging / f"{half}.tmp").rename(staging / half)
    if not all((staging / name / MARKS[name]).exists() for name in halves):
        return False
    # Whoever gets to move the staging directory away is the one that completes; only then may an older one go.
    whole = checkpoints / f"step_{step}.whole.tmp"
    try:
        staging.rename(whole)
    except FileNotFoundError:  # the other half's writer came at the same moment and was first
        return False
    target = checkpoints / f"step_{step}"
    _remove(target)
    whole.rename(target)
    return True


def is_complete(directory: Path, halves: Sequence[str] = HALVES) -> bool:
    """Whether ``step_N`` holds every half, each with the file that is written last."""
    return all((directory / half / MARKS[half]).exists() for half in halves)


def complete_steps(checkpoints: Path, halves: Sequence[str] = HALVES) -> list[int]:
    """Steps of the complete checkpoints, ascending."""
    try:
        entries = list(checkpoints.iterdir())
    except OSError:
        return []
    return sorted(step for path in entries if (step := step_number(path)) is not None and is_complete(path, halves))


def prune(checkpoints: Path, keep_last: int | None, keep_interval: int | None, halves: Sequence[str] = HALVES) -> None:
    """Remove complete checkpoints but the ``keep_last`` newest and multiples of ``keep_interval``; None keeps all."""
    for step in expendable(complete_steps(checkpoints, halves), keep_last, keep_interval):
        _remove(checkpoints / f"step_{step}")


def expendable(steps: Sequence[int], keep_last: int | None, keep_interval: int | None) -> list[int]:
    """Of ``steps`` (ascending), those that retention lets go. ``keep_last`` None keeps all."""
    if keep_last is None:
        return []
    return [step for step in steps[:-keep_last] if keep_interval is None or step % keep_interval]


def discard_unfinished(checkpoints: Path) -> None:
    """Remove what processes that are gone left half written. Only for a launcher before it starts anything."""
    with contextlib.suppress(OSError):
        for path in list(checkpoints.iterdir()):
            if path.suffix == ".tmp" and numbered(path.name.partition(".")[0], "step_") is not None:
                _remove(path)


def _remove(directory: Path) -> None:
    import shutil  # brings compression along, of which a reader has no use

    shutil.rmtree(directory, ignore_errors=True)


def _staging(checkpoints: Path, step: int) -> Path:
    return checkpoints / f"step_{step}.tmp"
