"""A trainer rank as a process: title, log, monitor, exit status.

Every rank logs to its standard output; torchrun's filter decides whose lines reach ``trainer.log``.
"""

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from prl.config.common import LogConfig, MonitorsConfig
from prl.config.sft import SFTConfig
from prl.config.trainer import TrainerConfig
from prl.monitors.base import Monitor, NullMonitor
from prl.monitors.file import open_monitor
from prl.rundir.logs.console import log_fatal, setup_logging
from prl.rundir.titles import SFT_TRAINER, TRAINER, set_process_title
from prl.trainer.parallel import World, join_world

PRODUCER = "trainer"

SFT_TIMEOUT = 3600.0
"""Seconds that a collective of supervised fine-tuning may take."""

logger = logging.getLogger(__name__)


def run_rl(config: TrainerConfig) -> int:
    """Be one rank of the RL trainer. Returns the exit status: 0, or 1 after an error that was logged."""
    set_process_title(TRAINER)

    def train(world: World, monitor: Monitor) -> None:
        from prl.trainer.train import RLTrainer

        RLTrainer(config, world, monitor).run()

    return _run(
        train,
        run_dir=config.output_dir,
        log=config.log,
        monitors=config.monitors,
        seed=config.seed,
        timeout=config.dist_timeout_seconds,
        threads=config.model.num_threads,
    )


def run_sft(config: SFTConfig) -> int:
    """Be one rank of supervised fine-tuning. Returns the exit status as :func:`run_rl`."""
    set_process_title(SFT_TRAINER)

    def train(world: World, monitor: Monitor) -> None:
        from prl.trainer.sft import SFTTrainer

        SFTTrainer(config, world, monitor).run()

    return _run(
        train,
        run_dir=config.run_dir,
        log=config.log,
        monitors=config.monitors,
        seed=config.seed,
        timeout=SFT_TIMEOUT,
        threads=config.num_threads,
    )


def end(status: int) -> NoReturn:
    """End this process with an exit status; what it printed is out.

    One rank of several ends without the interpreter's teardown. Threads of gloo outlive its groups there, and now and
    then abort the process ("terminate called without an active exception"), so that a run which had finished would be
    told as failed.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        os._exit(status)
    sys.exit(status)


def _run(
    train: Callable[[World, Monitor], None],
    *,
    run_dir: Path,
    log: LogConfig,
    monitors: MonitorsConfig,
    seed: int,
    timeout: float,
    threads: int,
) -> int:
    setup_logging(log.level, json_logging=log.json_logging)
    monitor: Monitor = NullMonitor()
    clean = False
    try:
        world = _enter(timeout, threads, seed)
        if world.is_main:
            run_dir.mkdir(parents=True, exist_ok=True)
            monitor = open_monitor(run_dir, PRODUCER, monitors)
        train(world, monitor)
        world.leave()
        clean = True
    except Exception:
        log_fatal(logger, "train")
    finally:
        monitor.close(clean=clean)
    return 0 if clean else 1


def _enter(timeout: float, threads: int, seed: int) -> World:
    import torch
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    world = join_world(timeout, threads)
    torch.manual_seed(seed)
    logger.info("Starting trainer (rank %d of %d, device %s)", world.rank, world.size, world.device)
    return world
