"""The orchestrator's loop: from tasks to shipped batches, until ``max_steps`` have been shipped.

One episode on its way through: :class:`~prl.orchestrator.sources.SourcePool` draws its task,
:class:`~prl.orchestrator.dispatcher.Dispatcher` plays it in a group and judges it,
:class:`~prl.orchestrator.batcher.Batcher` scores the group and queues its traces,
:func:`~prl.orchestrator.packing.pack` makes them micro batches, and :meth:`Orchestrator._ship` sends those to the
trainer's ranks. Meanwhile :class:`~prl.orchestrator.watcher.WeightWatcher` takes new weights to the engines, and
:class:`~prl.orchestrator.gates.Gates` keeps both sides within a step of each other.

Left out in this form: evaluations, and a controller of concurrency (``concurrency.max_inflight`` is fixed).
"""

import asyncio
import contextlib
import logging
import time
from typing import NoReturn

from prl.config.common import checkpoint_root
from prl.config.orchestrator import OrchestratorConfig
from prl.monitors.base import Monitor
from prl.orchestrator import console
from prl.orchestrator.batcher import Batch, Batcher
from prl.orchestrator.dispatcher import Dispatcher
from prl.orchestrator.engine_metrics import EngineMetrics
from prl.orchestrator.engines import EnginePool
from prl.orchestrator.gates import Gates
from prl.orchestrator.lag import LoopLag
from prl.orchestrator.progress import Progress, find_resume, load_progress, save_progress
from prl.orchestrator.requests import RequestBuilder
from prl.orchestrator.shipping import annotations, pack_batch, progress_metrics
from prl.orchestrator.sources import SourcePool
from prl.orchestrator.startup import connect_sources, wait_for_trainer
from prl.orchestrator.watcher import WeightWatcher
from prl.rundir.layout import RunLayout
from prl.rundir.logs.console import success
from prl.transport.batches import BatchPublisher
from prl.transport.weights import WeightReceiver

logger = logging.getLogger(__name__)

SERVER_GONE_TIMEOUT = 60.0
"""Seconds that an environment server may be unreachable before the run gives up."""
_STATS_TIMEOUT = 5.0


class EnvServerGoneError(RuntimeError):
    """An environment server went away and did not come back."""


async def orchestrate(config: OrchestratorConfig, monitor: Monitor) -> None:
    """Start, run to ``max_steps`` and finish. Raises whatever ends the run before that."""
    async with contextlib.AsyncExitStack() as stack:
        logger.info(
            "Starting orchestrator: algorithm %s, batches of %d traces in groups of %d, max_off_policy_steps=%d",
            config.algo.type,
            config.batch_size,
            config.group_size,
            config.max_off_policy_steps,
        )
        alone = [source.name for source in config.train.source if config.group_size_of(source) == 1]
        if alone:
            logger.warning(
                "group_size is 1 for %s: grpo compares the episodes of a group, so one episode with one trainable "
                "agent never has an advantage and no batch will fill. Set orchestrator.group_size to 4 or more",
                ", ".join(alone),
            )
        resume = find_resume(config)
        requests = RequestBuilder(config)
        client = config.model.client
        logger.info(
            "Inference pool: model %s at %s, engines %s", requests.model, client.base_url, client.admin_base_url
        )
        engines = EnginePool(client)
        stack.push_async_callback(engines.close)
        publisher = BatchPublisher(config.rollout_transport, config.num_train_ranks)
        stack.callback(publisher.close)
        orchestrator = Orchestrator(config, monitor, engines, publisher, requests)
        sources = await connect_sources(config, orchestrator.pump)
        for source in sources:
            stack.callback(source.client.close)
        pool = SourcePool(sources, config.train.seed)
        await engines.wait_until_ready(config.log.interval)

        progress = Progress()
        if resume is not None:
            progress, state = load_progress(resume)
            pool.restore(state["train"])
            requests.count = int(state["requests"])
            logger.info("Resuming orchestrator from step %d (%s)", progress.step, resume)
        else:
            logger.info("Starting from scratch")
        await orchestrator.run(pool, progress)
    success(logger, "Orchestrator finished")


class Orchestrator:
    """The parts of the loop, wired together. :meth:`run` is called once."""

    def __init__(
        self,
        config: OrchestratorConfig,
        monitor: Monitor,
        engines: EnginePool,
        publisher: BatchPublisher,
        requests: RequestBuilder,
    ) -> None:
        self._config = config
        self._monitor = monitor
        self._engines = engines
        self._publisher = publisher
        self._requests = requests
        # An engine may run in another directory.
        self._broadcasts = RunLayout(config.output_dir.absolute()).broadcasts
        self._lag = LoopLag()
        self._dispatcher: Dispatcher | None = None
        self._last_ship = time.monotonic()

    def pump(self) -> None:
        """Dispatch what may be dispatched; nothing before the loop runs."""
        if self._dispatcher is not None:
            self._dispatcher.pump()

    async def run(self, pool: SourcePool, progress: Progress) -> None:
        """Wait for the trainer, then collect and ship until the end. Raises the first error of any part."""
        config = self._config
        logger.info("Weight broadcast: %s, in %s", config.weight_broadcast.type, self._broadcasts)
        receiver = WeightReceiver(self._broadcasts, config.weight_broadcast)
        watcher = WeightWatcher(receiver, self._engines)
        await wait_for_trainer(config, self._publisher, watcher, progress.step)

        self._pool = pool
        self._progress = progress
        self._watcher = watcher
        self._gates = Gates(
            progress.step + 1,
            config.max_off_policy_steps,
            config.policy_timeout,
            config.weight_broadcast.warn_interval,
        )
        self._batcher = Batcher(config, lambda: self._gates.step)
        logger.info("Starting orchestrator loop (max_steps=%s)", config.max_steps or "infinite")
        try:
            await self._loop()
        except BaseExceptionGroup as group:
            _raise_first(group)

    async def _loop(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            dispatcher = self._dispatcher = Dispatcher(
                config=self._config,
                pool=self._pool,
                gates=self._gates,
                monitor=self._monitor,
                requests=self._requests,
                batcher=self._batcher,
            )
            self._watcher.hook(self._on_pending, self._on_applied)
            background = [
                tasks.create_task(part)
                for part in (
                    dispatcher.run(),
                    self._watcher.run(),
                    self._lag.run(),
                    self._report_pipeline(),
                    self._report_engines(),
                    self._watch_servers(),
                )
            ]
            self._last_ship = time.monotonic()
            while self._config.max_steps is None or self._progress.step < self._config.max_steps:
                batch = await self._batcher.collect()
                self.pump()
                if batch is not None:
                    await self._gates.hold()
                    await self._ship(batch)
            cancelled = dispatcher.stop()
            logger.info(
                "Shipped the final batch — draining pipeline (cancelled %d in-flight train episodes)", cancelled
            )
            last = self._progress.step
            await self._gates.wait_for(last, f"Waiting for the final policy v{last} to be applied")
            for task in background:
                task.cancel()

    def _on_pending(self) -> None:
        if self._dispatcher is not None:
            self._dispatcher.freeze()
            self._dispatcher.cancel_stale()

    def _on_applied(self, version: int) -> None:
        self._gates.applied(version)
        if self._dispatcher is not None:
            self._dispatcher.thaw()

    async def _ship(self, batch: Batch) -> None:
        """Send a batch to the trainer, collect the next one, and record what was sent."""
        started = time.monotonic()
        packed = await pack_batch(batch, self._config)
        pack_seconds = time.monotonic() - started
        await self._publisher.publish(packed.ranks)
        waited = self._gates.take_waited()
        shipped_at = time.monotonic()
        step_seconds, self._last_ship = shipped_at - self._last_ship, shipped_at
        self._gates.shipped()
        self._batcher.drop_stale()
        if batch.step != self._config.max_steps:
            self.pump()

        self._monitor.annotate(annotations(batch, time.time()))
        metrics = progress_metrics(batch, self._progress)
        self._progress.step = batch.step
        metrics |= {
            "time/step": step_seconds,
            "time/pack": pack_seconds,
            "time/wait_for_policy": waited,
            "time/save_ckpt": self._checkpoint(batch.step),
            "step": batch.step,
        }
        for source in self._pool.sources:
            metrics[f"curriculum/{source.name}/sampler/epoch"] = source.cursor.epoch
            metrics[f"curriculum/{source.name}/sampler/cursor"] = source.cursor.position
        self._monitor.log(metrics, step=batch.step)
        console.log_step(batch, step_seconds, waited)

    def _checkpoint(self, step: int) -> float:
        """Save when it is time, and return the seconds that took. A full disk costs the checkpoint, not the run."""
        ckpt = self._config.ckpt
        final = step == self._config.max_steps
        if ckpt is None or not (final or (ckpt.interval is not None and step % ckpt.interval == 0)):
            return 0.0
        start = time.monotonic()
        logger.info("Saving %scheckpoint at step %d", "final " if final else "", step)
        try:
            root = checkpoint_root(ckpt, self._config.output_dir)
            save_progress(root, self._progress, self._pool, self._requests)
        except OSError as error:
            logger.error("The orchestrator's half of the checkpoint at step %d could not be saved: %s", step, error)
        return time.monotonic() - start

    async def _report_pipeline(self) -> None:
        """Every ``log.interval``: the pipeline line, and a row about dispatcher, watcher, event loop and servers."""
        dispatcher = self._dispatcher
        assert dispatcher is not None
        while True:
            await asyncio.sleep(self._config.log.interval)
            logger.info(
                "%s",
                console.pipeline_line(
                    self._batcher.size,
                    self._config.batch_size,
                    self._batcher.size_by_env,
                    dispatcher.buffered,
                    dispatcher.inflight,
                ),
            )
            row = dispatcher.take_metrics() | self._watcher.metrics() | self._lag.metrics()
            self._monitor.log(row | await self._server_metrics(), step=None)

    async def _server_metrics(self) -> dict[str, float]:
        sources = self._pool.sources
        answers = await asyncio.gather(*(source.client.stats(_STATS_TIMEOUT) for source in sources))
        row: dict[str, float] = {}
        for source, stats in zip(sources, answers, strict=True):
            if stats is None:
                continue
            head = f"env_server/{source.name}"
            row[f"{head}/active"] = sum(stats.active)
            row[f"{head}/workers"] = stats.workers
            row[f"{head}/restarts"] = stats.restarts
            for name in ("min", "mean", "p90", "p99", "max"):
                row[f"{head}/event_loop_lag/{name}"] = getattr(stats.lag, name)
        return row

    async def _report_engines(self) -> None:
        metrics = EngineMetrics()
        while True:
            row = metrics.row(await self._engines.metrics_pages(), time.monotonic())
            if row:
                self._monitor.log(row, step=None)
            await asyncio.sleep(self._config.metrics_interval)

    async def _watch_servers(self) -> None:
        """Raises EnvServerGoneError when a server has been away for too long."""
        while True:
            for source in self._pool.sources:
                lost_at = source.client.lost_at
                if lost_at is not None and time.monotonic() - lost_at > SERVER_GONE_TIMEOUT:
                    raise EnvServerGoneError(
                        f"environment server {source.name} at {source.client.address} has been gone for "
                        f"{SERVER_GONE_TIMEOUT:.0f}s; its log says why"
                    )
            await asyncio.sleep(1.0)


def _raise_first(group: BaseExceptionGroup[BaseException]) -> NoReturn:
    """Raise the first error of a task group by itself: the others are its consequences."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    raise error
