"""A worker of an environment server: verifiers' own server for one environment, in a process of its own.

Added to it are the methods ``tasks`` (the orchestrator owns the order of tasks without importing an environment) and
``pulse`` (a sign of life with event-loop lag for the broker). Left out: everything across processes, which is the
broker's. Run as ``python -m prl.envs.worker`` with one JSON line on standard input (:class:`WorkerSpec`); the process
ends when that pipe does.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from verifiers.v1.configs.client import TrainClientConfig
from verifiers.v1.configs.env import EnvConfig
from verifiers.v1.serve.delta import DeltaStreamer, TraceSummary, dump, pack
from verifiers.v1.serve.server import EnvServer
from verifiers.v1.serve.types import RunRequest, RunResponse
from verifiers.v1.trace import Trace

from prl.config.envs import EnvServerConfig
from prl.envs import finite
from prl.envs.lag import LagProbe
from prl.envs.seats import resolve_seats
from prl.envs.tuning import tune
from prl.envs.worker_process import CANNOT_START, PULSE, Pulse, WorkerSpec
from prl.rundir.logs.console import log_fatal, setup_logging
from prl.rundir.process import die_with_parent
from prl.rundir.titles import ENV_WORKER, set_process_title
from prl.transport import env_wire

BUNDLED = Path(__file__).parent / "bundled"
"""Environments that come with this package. Last on the import path, so that installed ones of the same name win."""

FLUSH_DELAY = 0.25
"""Seconds that changes of a trace wait for others, so that they share a delta. The monitor writes rollouts in flight
every 0.5 s by default, so little is seen later. Against 0.02 s an episode costs 0.6 ms less CPU, with 128 in flight."""

ABORT_TIMEOUT = 3.0
"""Seconds that cancelled episodes have to clean up. The broker kills a worker that takes much longer."""

logger = logging.getLogger("prl.envs.worker")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class UnendingTasksetError(ValueError):
    """The taskset yields tasks for ever, so it has no length and no last page."""


class PatientStreamer(DeltaStreamer):
    """Sends what changed after a short wait instead of at once."""

    _scheduled: asyncio.Handle | None

    def _changed(self, trace: Trace) -> None:
        if self._scheduled is None:
            self._scheduled = asyncio.get_running_loop().call_later(FLUSH_DELAY, self._start_flush)


class EnvWorker(EnvServer):
    """verifiers' server with ``tasks`` and ``pulse``, that sends no number that is not one."""

    def __init__(self, config: EnvConfig, address: str) -> None:
        super().__init__(config, address=address)
        self.probe = LagProbe()
        self._tasks: list[Any] | None = None

    async def _handle(self, client_id: bytes, request_id: bytes, method: bytes, payload: bytes) -> None:
        if method == PULSE:
            reply = _encode(Pulse(self.probe.take()))
        elif method == env_wire.TASKS:
            reply = await self._task_page(payload)
        else:
            await super()._handle(client_id, request_id, method, payload)
            return
        await self.frontend.send_multipart([client_id, request_id, env_wire.REPLY, reply])

    async def _task_page(self, payload: bytes) -> bytes:
        """The encoded reply to ``tasks {offset, limit}``. A taskset that cannot be loaded is the reply's error."""
        try:
            page = _decode(payload)
            offset, limit = int(page["offset"]), int(page["limit"])
            if self._tasks is None:
                # In a thread: a taskset may read files or download, and episodes go on meanwhile.
                self._tasks = await asyncio.to_thread(self._load_tasks)
            tasks = [task.data.model_dump(mode="json") for task in self._tasks[offset : offset + limit]]
            return _encode(
                {
                    "success": True,
                    "error": None,
                    "type": self.task_cls.__name__,
                    "total": len(self._tasks),
                    "tasks": tasks,
                }
            )
        except Exception as error:
            logger.exception("request failed: tasks of %s", self.taskset_id)
            return _encode({"success": False, "error": f"{type(error).__name__}: {error}"})

    def _load_tasks(self) -> list[Any]:
        taskset = self.env.taskset
        if not taskset.bounded:
            raise UnendingTasksetError(f"{type(taskset).__name__} is INFINITE; bound it in its own configuration")
        return list(taskset)

    async def abort(self) -> None:
        """Cancel what is being played and wait until each run was answered, while it still can be.

        verifiers closes the socket first, on which every cancelled run then fails, and waits for those it left behind.
        """
        running = list(self._running.values())
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=ABORT_TIMEOUT)

    async def _run(self, req: RunRequest, client_id: bytes, request_id: bytes) -> RunResponse:
        ctx = self._context(req.client, req.model, req.sampling)
        (slot,) = self.env.slots(self._build_task(req.task_data))

        async def send_delta(delta: dict[str, Any]) -> None:
            frames = [client_id, request_id, env_wire.DELTA, pack(finite.finite_delta(delta))]
            await self.frontend.send_multipart(frames)

        async with PatientStreamer(lambda: slot.traces, send_delta) as streamer:
            episode = await self.env.run_slot(slot, ctx, on_trace=streamer.watch)
            for trace in episode.traces:
                episode.ok &= not finite.settle(trace)
        return RunResponse(
            head=dump(episode, exclude={"traces"}),
            traces=[
                TraceSummary(id=trace.id, nodes=len(trace.nodes), calls=len(trace.calls)) for trace in episode.traces
            ],
        )


def load(config: EnvServerConfig, address: str) -> EnvWorker:
    """Import the environment, tune this process for it and bind ``address``.

    Raises whatever the environment raises, and SeatRefusedError.
    """
    sys.path[:0] = [str(config.path.resolve())] if config.path is not None else []
    sys.path.append(str(BUNDLED))
    env = resolve_seats(config.env, serve=config.serve, timeout=config.timeout)
    finite.install()
    worker = EnvWorker(env, address)
    logger.debug("Tuned by %s", ", ".join(tune(worker.env)))
    return worker


async def serve(worker: EnvWorker, config: EnvServerConfig) -> None:
    """Serve until SIGTERM or the end of standard input."""
    loop = asyncio.get_running_loop()
    serving = asyncio.create_task(worker.run())
    told = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, told.set)
    # A terminal sends Ctrl-C to every process of the run; the broker is the one that decides what it means.
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    loop.add_reader(sys.stdin.fileno(), _at_end_of_input, told.set)
    background = [
        asyncio.create_task(part) for part in (worker.probe.run(), warm(config), _end_when(told, worker, serving))
    ]
    try:
        await serving
    finally:
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)


def _at_end_of_input(act: Callable[[], None]) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        act()


async def _end_when(told: asyncio.Event, worker: EnvWorker, serving: "asyncio.Task[None]") -> None:
    await told.wait()
    await worker.abort()
    serving.cancel()


async def warm(config: EnvServerConfig) -> None:
    """Load transformers and the tokenizer beside the first requests, so that the first episode need not (2 to 4 s)."""
    if config.tokenizer is None:
        return
    from verifiers.v1.clients.train import ElasticRendererPool

    try:
        client = TrainClientConfig.model_validate(
            {"renderer": config.renderer, "renderer_model_name": str(config.tokenizer)}
        )
        pool = ElasticRendererPool(str(config.tokenizer), client.renderer, multiplex=client.multiplex)
        await pool.grow()
    except Exception as error:
        # The first episode will meet the same error and report it where it belongs.
        logger.warning("Tokenizer %s could not be loaded ahead: %s: %s", config.tokenizer, type(error).__name__, error)


def main() -> int:
    """The process. Returns its exit status: 0, or ``CANNOT_START`` with a traceback in the log."""
    die_with_parent(signal.SIGKILL)
    spec = msgspec.json.decode(sys.stdin.buffer.readline(), type=WorkerSpec)
    if os.getppid() != spec.parent:
        return 0  # the broker died while this module was being imported
    config = EnvServerConfig.model_validate_json(spec.config)
    set_process_title(ENV_WORKER.format(index=spec.index))
    setup_logging(config.log.level, json_logging=config.log.json_logging)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(serve(load(config, spec.address), config))
    # verifiers ends a process that lacks a vendor's account with SystemExit.
    except (Exception, SystemExit):
        log_fatal(logger, "run_server")
        return CANNOT_START
    return 0


if __name__ == "__main__":
    sys.exit(main())
