"""A check-in: the verdict, appended to the run's STATUS.md.

A run directory that this user may not write to keeps its check-ins in the user's state directory, one file a run. What
changed is told against the last entry that was written here, found in that same file.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from prl.rundir.layout import RunLayout
from prl.rundir.recognition import run_id
from prl.watch import status_md
from prl.watch.assess import assess
from prl.watch.facts import Facts
from prl.watch.gather import gather
from prl.watch.introduction import introduction
from prl.watch.last_entry import last_entry
from prl.watch.state_dir import state_dir
from prl.watch.thresholds import DEFAULT, Thresholds
from prl.watch.verdict import FAILED, FINISHED, STOPPED, Verdict

OVER = (FINISHED, FAILED, STOPPED)
"""Phases of a run that has ended."""


@dataclass(frozen=True)
class CheckIn:
    """What a check-in found and wrote."""

    verdict: Verdict
    entry: str
    path: Path
    """Where the entry is, or should have been."""
    elsewhere: bool = False
    """Whether that is the user's state directory, because the run directory may not be written to."""
    problem: str | None = None
    """Why the entry could not be written; None when it was."""


def check_in(run_dir: Path, now: float | None = None, limits: Thresholds = DEFAULT) -> CheckIn:
    """Judge the run and append the entry to its STATUS.md. A file that cannot be written is told, not raised."""
    facts = gather(run_dir, now)
    return record(facts, assess(facts, limits))


def introduce(run_dir: Path) -> CheckIn:
    """The check-in that a launcher writes once its run works. It waits for nobody: engines and SLURM are not asked."""
    facts = gather(run_dir, ask_engines=False, ask_slurm=False)
    return record(facts, assess(facts))


def record(facts: Facts, verdict: Verdict) -> CheckIn:
    """Append the entry for a verdict that was given already. The first entry of an attempt says what the run is."""
    root = Path(facts.run.dir)
    path, elsewhere = _place(root)
    previous = last_entry(path)
    first = previous is None or previous.attempt != verdict.attempt
    text = status_md.entry(verdict, previous, introduction(facts) if first else [])
    problem = None
    try:
        if elsewhere:
            path.parent.mkdir(parents=True, exist_ok=True)
        status_md.append(path, text)
    except OSError as error:
        problem = f"{path}: {error.strerror or error}"
    return CheckIn(verdict, text, path, elsewhere, problem)


def _place(root: Path) -> tuple[Path, bool]:
    """The file for the entries of a run, and whether it lies outside the run directory.

    What is no file (a directory, a pipe, a link that leads out) is not gone round, nor is a run directory that was
    removed: somebody should know.
    """
    path = RunLayout(root).status_md
    writable = os.access(path, os.W_OK) if path.exists() else os.access(root, os.W_OK | os.X_OK) or not root.exists()
    return (path, False) if writable else (state_dir() / "check-ins" / f"{run_id(str(root))}.md", True)
