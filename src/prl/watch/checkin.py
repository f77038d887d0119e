"""A check-in: the verdict, appended to the run's STATUS.md."""

from dataclasses import dataclass
from pathlib import Path

from prl.rundir.layout import RunLayout
from prl.watch import status_md
from prl.watch.assess import assess
from prl.watch.gather import gather
from prl.watch.verdict import Verdict


@dataclass(frozen=True)
class CheckIn:
    """What a check-in found and wrote."""

    verdict: Verdict
    entry: str
    path: Path
    problem: str | None
    """Why the entry could not be written; None when it was."""


def check_in(run_dir: Path, now: float | None = None) -> CheckIn:
    """Judge the run and append the entry to its STATUS.md. A file that cannot be written is told, not raised."""
    verdict = assess(gather(run_dir, now))
    text = status_md.entry(verdict)
    path = RunLayout(run_dir.resolve()).status_md
    problem = None
    try:
        status_md.append(path, text)
    except OSError as error:
        problem = f"{path}: {error.strerror or error}"
    return CheckIn(verdict, text, path, problem)
