"""What must be there before the loop begins: environment servers, engines, the trainer and its first weights.

Every wait has a bound and says, at once and at intervals, what it waits for and since when.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from prl.config.envs import TrainSourceConfig
from prl.config.orchestrator import OrchestratorConfig
from prl.orchestrator.env_client import EnvClient
from prl.orchestrator.sources import Source
from prl.orchestrator.watcher import WeightWatcher
from prl.rundir.logs.console import success
from prl.transport.batches import BatchPublisher

logger = logging.getLogger(__name__)

T = TypeVar("T")

_HEALTH_TIMEOUT = 2.0
_TASKS_TIMEOUT = 120.0


async def wait_until(
    check: Callable[[], Awaitable[T | None]], what: str, *, timeout: float, poll: float, log_interval: float
) -> T:
    """The first value of ``check`` that is not None.

    Raises TimeoutError, naming ``what``, after ``timeout`` seconds.
    """
    start = time.monotonic()
    said = -log_interval
    while (value := await check()) is None:
        waited = time.monotonic() - start
        if waited > timeout:
            raise TimeoutError(f"waited {waited:.0f}s for {what}")
        if waited - said >= log_interval:
            logger.info("Waiting for %s, since %.0fs", what, waited)
            said = waited
        await asyncio.sleep(poll)
    return value


async def connect_sources(config: OrchestratorConfig, on_change: Callable[[], None]) -> list[Source]:
    """A connected source per configured environment, with its tasks loaded.

    Raises TimeoutError or ValueError, naming the environment and what it was waited for.
    """
    names = ", ".join(source.name for source in config.train.source)
    logger.info("Loading train environments: %s", names)
    start = time.monotonic()
    connecting = [asyncio.ensure_future(_connect(config, source, on_change)) for source in config.train.source]
    try:
        sources = await asyncio.gather(*connecting)
    except BaseException:
        # The clients of those that did connect would keep their sockets open.
        for done in await asyncio.gather(*_cancelled(connecting), return_exceptions=True):
            if isinstance(done, Source):
                done.client.close()
        raise
    counts = ", ".join(f"{source.name} ({source.cursor.total} tasks)" for source in sources)
    success(logger, "Train environments ready after %.1fs: %s", time.monotonic() - start, counts)
    return sources


async def wait_for_trainer(
    config: OrchestratorConfig, publisher: BatchPublisher, watcher: WeightWatcher, version: int
) -> None:
    """Wait for every rank to listen and for the startup broadcast of ``version``, whichever comes first.

    Raises TimeoutError naming the missing ranks or the missing version.
    """
    timeout = config.trainer_ready_timeout
    last_said = [time.monotonic()]

    def say(missing: list[int]) -> None:
        if time.monotonic() - last_said[0] >= config.log.interval:
            last_said[0] = time.monotonic()
            logger.info("Waiting for trainer ranks %s to connect", missing)

    async def take_startup_weights() -> None:
        taking = asyncio.ensure_future(watcher.take(version))
        what = f"the trainer's startup broadcast of v{version}"

        async def finished() -> bool | None:
            return taking.done() or None

        try:
            await wait_until(
                finished,
                what,
                timeout=timeout,
                poll=config.weight_broadcast.poll_interval,
                log_interval=config.log.interval,
            )
            await taking
        finally:
            taking.cancel()

    ranks = asyncio.ensure_future(publisher.wait_for_ranks(timeout, say))
    weights = asyncio.ensure_future(take_startup_weights())
    try:
        await asyncio.gather(ranks, weights)
    finally:
        await asyncio.gather(*_cancelled([ranks, weights]), return_exceptions=True)
    success(logger, "Trainer ready: %d ranks connected, policy v%d applied", config.num_train_ranks, version)


async def _connect(config: OrchestratorConfig, source: TrainSourceConfig, on_change: Callable[[], None]) -> Source:
    address = source.serve.address or await _published_address(config, source.name)
    client = EnvClient(source.name, address, on_change)
    try:

        async def healthy() -> bool | None:
            return await client.health(_HEALTH_TIMEOUT) or None

        await _wait(config, healthy, f"environment server {source.name} at {address} to be healthy")
        tasks = await client.tasks(_TASKS_TIMEOUT)
        return Source(source, config.group_size_of(source), client, tasks, config.train.seed)
    except BaseException:
        client.close()
        raise


async def _published_address(config: OrchestratorConfig, name: str) -> str:
    if config.env_address_dir is None:
        raise ValueError(
            f"environment {name} has no address: set train.source.serve.address, or env_address_dir where its server "
            "publishes it"
        )
    path: Path = config.env_address_dir / "train" / f"{name}.address"

    async def published() -> str | None:
        return _read_address(path)

    return await _wait(config, published, f"environment server {name} to publish its address in {path}")


def _read_address(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except OSError:
        return None


async def _wait(config: OrchestratorConfig, check: Callable[[], Awaitable[T | None]], what: str) -> T:
    return await wait_until(
        check,
        what,
        timeout=config.env_startup_timeout,
        poll=config.model.client.ready_poll_interval,
        log_interval=config.log.interval,
    )


def _cancelled(futures: Sequence["asyncio.Future[T]"]) -> Sequence["asyncio.Future[T]"]:
    for future in futures:
        future.cancel()
    return futures
