"""Where a run goes on: decided once, by the launcher, and written into every component's configuration.

Were each component to look for the newest checkpoint itself, one that appears or goes meanwhile would have them start
from different steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prl.config import ResumeConfig
from prl.launch.exits import CONFIGURATION, RUN_DIRECTORY, RefusedError
from prl.rundir.checkpoints import complete_steps, is_complete
from prl.rundir.layout import step_number


@dataclass(frozen=True)
class ResumePoint:
    """The checkpoint a run goes on from."""

    step: int
    directory: Path
    fork: bool
    """The checkpoint is another run's; this run directory begins anew."""

    @property
    def config(self) -> ResumeConfig:
        """What the components are told."""
        return ResumeConfig(dir=self.directory) if self.fork else ResumeConfig(step=self.step)


def resume_point(
    resume: ResumeConfig | None, checkpoint_root: Path, halves: Sequence[str], max_steps: int | None
) -> ResumePoint | None:
    """The complete checkpoint that ``resume`` asks for; None when it asks for none.

    Raises RefusedError when there is no such checkpoint, saying what there is, or when nothing would be left to train.
    """
    if resume is None:
        return None
    point = _fork(resume.dir, halves) if resume.dir else _own(resume.step, checkpoint_root, halves)
    if max_steps is not None and point.step >= max_steps:
        raise RefusedError(
            CONFIGURATION,
            f"max_steps = {max_steps}: the checkpoint is of step {point.step}, nothing is left to train; "
            "raise max_steps",
        )
    return point


def _own(step: int | None, root: Path, halves: Sequence[str]) -> ResumePoint:
    complete = complete_steps(root, halves)
    if not complete:
        raise RefusedError(RUN_DIRECTORY, f"{root}: no complete checkpoint to resume from ({_others(root)})")
    chosen = complete[-1] if step is None else step
    if chosen not in complete:
        raise RefusedError(
            RUN_DIRECTORY,
            f"resume.step = {chosen}: no complete checkpoint of that step in {root}; complete are {complete}",
        )
    return ResumePoint(chosen, root / f"step_{chosen}", fork=False)


def _fork(directory: Path, halves: Sequence[str]) -> ResumePoint:
    step = step_number(directory)
    if step is None:
        raise RefusedError(CONFIGURATION, f"resume.dir = {str(directory)!r}: must end in step_<number>")
    if not is_complete(directory, halves):
        raise RefusedError(
            RUN_DIRECTORY, f"resume.dir = {str(directory)!r}: not a complete checkpoint (needs {' and '.join(halves)})"
        )
    return ResumePoint(step, directory.absolute(), fork=True)


def _others(root: Path) -> str:
    try:
        names = sorted(path.name for path in root.iterdir())
    except OSError:
        return "the directory does not exist"
    return f"there is only {', '.join(names)}" if names else "the directory is empty"
