"""The orchestrator's half of a checkpoint: counters, and where every source stands in its tasks.

Written right after step N was shipped, so up to two trainer steps before the trainer's half of the same step; the
checkpoint is complete when both are there. Lost at a resume: episodes in flight, partial groups and queued traces.
Left out: a checkpoint at an abnormal end. Its other half would hardly ever come.
"""

import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from prl.config.common import checkpoint_root
from prl.config.orchestrator import OrchestratorConfig
from prl.orchestrator.requests import RequestBuilder
from prl.orchestrator.sources import SourcePool
from prl.rundir import checkpoints
from prl.rundir.layout import step_number
from prl.rundir.torch_zip import load_plain, save_plain

logger = logging.getLogger(__name__)

_FILE = "progress.pt"


@dataclass(slots=True)
class Progress:
    """Counters over the whole run, as of the last shipped step."""

    step: int = 0
    total_tokens: int = 0
    total_samples: int = 0
    """Traces that ended."""
    total_problems: int = 0
    """Groups that ended."""


def save_progress(root: Path, progress: Progress, pool: SourcePool, requests: RequestBuilder) -> None:
    """Write and publish this half of the checkpoint of ``progress.step``. Raises OSError."""
    state = {"progress": asdict(progress), "train": pool.state(), "requests": requests.count}
    half = checkpoints.begin_half(root, progress.step, checkpoints.ORCHESTRATOR)
    save_plain(half / _FILE, state)
    checkpoints.publish_half(root, progress.step, checkpoints.ORCHESTRATOR)


def find_resume(config: OrchestratorConfig) -> Path | None:
    """The ``step_N`` directory to resume from; None to start from scratch.

    Raises FileNotFoundError when a checkpoint that was asked for is not there or not complete, and ValueError when
    nothing would be left to train.
    """
    if config.resume is None:
        return None
    root = checkpoint_root(config.ckpt, config.output_dir)
    if config.resume.dir is not None:
        directory = config.resume.dir
    elif config.resume.step is not None:
        directory = root / f"step_{config.resume.step}"
    else:
        steps = checkpoints.complete_steps(root)
        if not steps:
            logger.warning("No complete checkpoint found in %s", root)
            return None
        directory = root / f"step_{steps[-1]}"
        logger.info("Found latest complete checkpoint in %s: step %d", root, steps[-1])
    if not checkpoints.is_complete(directory):
        raise FileNotFoundError(
            f"{directory}: no complete checkpoint; complete steps in {root}: {checkpoints.complete_steps(root)}"
        )
    step = step_number(directory)
    if step is not None and config.max_steps is not None and step >= config.max_steps:
        raise ValueError(
            f"{directory}: max_steps = {config.max_steps} is reached, nothing is left to train; "
            "resume an earlier step or raise max_steps"
        )
    return directory


def load_progress(directory: Path) -> tuple[Progress, dict[str, Any]]:
    """Counters and the rest of the state of a checkpoint. Raises OSError or ValueError, naming the file."""
    path = directory / checkpoints.ORCHESTRATOR / _FILE
    state = load_plain(path)
    try:
        return Progress(**state["progress"]), state
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path}: not an orchestrator's progress ({error!r})") from error
