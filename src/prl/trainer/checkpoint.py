"""The trainer's half of a checkpoint: model, optimizer, schedule, progress and random state.

Written with torch's distributed checkpoint, so that another number of ranks can load it. Complete or absent: the rules
are those of :mod:`prl.rundir.checkpoints`.
"""

import contextlib
import logging
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from prl.config.common import CkptConfig, ResumeConfig
from prl.rundir import checkpoints
from prl.rundir.checkpoints import TRAINER
from prl.trainer.learner import Learner, Progress
from prl.transport.weights import is_disk_full

logger = logging.getLogger(__name__)


_LITTLE = 16 * 1024**2
"""Bytes free, after a write failed, below which it failed for want of space."""


class CheckpointError(RuntimeError):
    """A checkpoint that could not be written, with the reason."""


class ResumeError(RuntimeError):
    """A training that cannot go on from where it was told to, with the reason."""


class Checkpoints:
    """When to save, and saving. ``halves`` are those that make a checkpoint of this kind of run complete."""

    def __init__(self, root: Path, config: CkptConfig | None, halves: Sequence[str], learner: Learner) -> None:
        self.root = root
        self.config = config
        self.halves = halves
        self._learner = learner

    def due(self, step: int, max_steps: int | None) -> bool:
        """Whether to save after ``step``. The last step is saved after the loop."""
        interval = self.config.interval if self.config else None
        return interval is not None and step % interval == 0 and step != max_steps

    def save(self, progress: Progress, *, final: bool = False) -> bool:
        """Save the state after ``progress.step`` and remove what retention lets go. Collective.

        A disk that refuses costs the checkpoint, not the run: the error is logged and the answer False.
        """
        logger.info("Saving %scheckpoint at step %d", "final " if final else "", progress.step)
        main = self._learner.world.is_main
        try:
            directory = Path(self._on_main(lambda: str(checkpoints.begin_half(self.root, progress.step, TRAINER))))
            self._write(directory, progress)
            self._on_main(lambda: self._publish(progress.step))
        except CheckpointError as error:
            if main:
                logger.error(
                    "The trainer's half of the checkpoint at step %d could not be saved: %s", progress.step, error
                )
                staging = self.root / f"step_{progress.step}.tmp"
                shutil.rmtree(staging / f"{TRAINER}.tmp", ignore_errors=True)
                with contextlib.suppress(OSError):  # the other half may be in it
                    staging.rmdir()
            return False
        return True

    def _write(self, directory: Path, progress: Progress) -> None:
        alone = self._learner.world.host_group is None
        try:
            with _alone_is_fine():
                state_dict_saver.save(_state(self._learner, progress), checkpoint_id=directory, no_dist=alone)
        except CheckpointException as error:
            full = "no space left on device: " if _is_full(error, directory) else ""
            raise CheckpointError(full + _reason(error)) from error

    def _publish(self, step: int) -> str:
        checkpoints.publish_half(self.root, step, TRAINER, self.halves)
        if self.config is not None:
            checkpoints.prune(self.root, self.config.keep_last, self.config.keep_interval, self.halves)
        return ""

    def _on_main(self, act: Callable[[], str]) -> str:
        """What ``act`` returns on the main rank, on every rank; its OSError becomes a CheckpointError on every rank."""
        world = self._learner.world
        outcome: list[Any] = [None]
        if world.is_main:
            try:
                outcome = [(True, act())]
            except OSError as error:
                outcome = [(False, str(error))]
        if world.host_group is not None:
            torch.distributed.broadcast_object_list(outcome, src=0, group=world.host_group)
        done, text = outcome[0]
        if not done:
            raise CheckpointError(text)
        return str(text)

    def find(self, resume: ResumeConfig | None) -> Path | None:
        """The ``step_N`` directory to go on from, or None to start from scratch.

        Raises ResumeError when the one that was asked for is missing or incomplete.
        """
        if resume is None:
            return None
        if resume.dir is not None:
            return self._complete(resume.dir)
        if resume.step is not None:
            return self._complete(self.root / f"step_{resume.step}")
        steps = checkpoints.complete_steps(self.root, self.halves)
        if not steps:
            logger.warning("Found no complete checkpoint in %s, so there is nothing to resume from", self.root)
            return None
        logger.info("Found latest complete checkpoint in %s: step %d", self.root, steps[-1])
        return self.root / f"step_{steps[-1]}"

    def _complete(self, directory: Path) -> Path:
        if not checkpoints.is_complete(directory, self.halves):
            found = checkpoints.complete_steps(directory.parent, self.halves)
            raise ResumeError(
                f"cannot resume from {directory}: no complete checkpoint there "
                f"(complete in {directory.parent}: {found or 'none'})"
            )
        return directory

    def load(self, directory: Path) -> Progress:
        """Take over the state in ``directory`` (a ``step_N``). Raises ResumeError when it does not fit. Collective."""
        learner = self._learner
        state = _state(learner, Progress())
        try:
            with _alone_is_fine():
                path = directory / TRAINER
                state_dict_loader.load(state, checkpoint_id=path, no_dist=learner.world.host_group is None)
        except CheckpointException as error:
            raise ResumeError(f"cannot resume from {directory}: it cannot be loaded ({_reason(error)})") from error
        set_state_dict(
            learner.model,
            learner.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
        learner.schedule.load_state_dict(state["scheduler"])
        torch.set_rng_state(state["rng"])
        return Progress(**state["progress"])


def start_or_resume(saved: Checkpoints, resume: ResumeConfig | None, max_steps: int | None) -> Progress:
    """The progress to go on from, its state loaded. Raises ResumeError when nothing is left to train. Collective."""
    directory = saved.find(resume)
    if directory is None:
        logger.info("Training from scratch")
        return Progress()
    progress = saved.load(directory)
    if max_steps is not None and progress.step >= max_steps:
        raise ResumeError(
            f"nothing is left to train: the checkpoint in {directory} is at step {progress.step} and "
            f"max_steps = {max_steps}; raise max_steps or resume an earlier step"
        )
    logger.info("Resuming training from checkpoint step %d (%s)", progress.step, directory)
    return progress


def _state(learner: Learner, progress: Progress) -> dict[str, Any]:
    model, optimizer = get_state_dict(learner.model, learner.optimizer)
    return {
        "model": model,
        "optimizer": optimizer,
        "scheduler": learner.schedule.state_dict(),
        "progress": asdict(progress),
        "rng": torch.get_rng_state(),
    }


def _reason(error: CheckpointException) -> str:
    """The first rank's own words. torch wraps them, tracebacks included, in an exception that is no ``Exception``."""
    rank, (cause, _) = next(iter(sorted(error.failures.items())))
    return f"rank {rank}: {type(cause).__name__}: {cause}"


def _is_full(error: CheckpointException, directory: Path) -> bool:
    """Whether the disk is full. torch's writer says only that a number of bytes differs, so the disk is asked, too."""
    if any(is_disk_full(cause) for cause, _ in error.failures.values()):
        return True
    try:
        return shutil.disk_usage(directory).free < _LITTLE
    except OSError:
        return False


@contextlib.contextmanager
def _alone_is_fine() -> Iterator[None]:
    """Silence torch's warning that it saves or loads in one process, which is what one rank means."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        yield
