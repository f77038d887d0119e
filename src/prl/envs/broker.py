"""The environment server: one address for many worker processes, which it starts, watches and replaces.

verifiers' own broker keeps sending episodes to a dead worker and never answers for those it was playing. This one
answers them with an error of type ``EnvWorkerDied``, starts another worker, and lets requests wait until one can play.
It imports no environment and no verifiers: it relays bytes (:mod:`prl.transport.env_wire`), so it starts at once, is
small, and no environment can bring it down. Left out: growing and shrinking; the number of workers is configured.
"""

import asyncio
import itertools
import logging
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import msgspec
import zmq

from prl.config.envs import EnvServerConfig
from prl.envs.channel import Channel
from prl.envs.lag import lag_stats, worst
from prl.envs.worker_process import CANNOT_START, PULSE, Pulse, WorkerProcess
from prl.rundir import atomic
from prl.transport import env_wire
from prl.transport.env_wire import EnvServerStats, LagStats

logger = logging.getLogger(__name__)

PULSE_INTERVAL = 0.5
"""Seconds between two looks at every worker."""
RESTART_WINDOW = 600.0
"""Seconds within which ``serve.restart_limit`` counts."""

_CONTROL = b"control"
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class EnvServerError(RuntimeError):
    """The server cannot go on: no worker can be started, or too many died."""


@dataclass(slots=True)
class _Request:
    """A request of a client that a worker answers: ``run`` or ``tasks``."""

    client: bytes
    id: bytes
    method: bytes
    body: bytes
    token: bytes
    """Names it towards the workers; clients' own ids may collide."""


@dataclass(slots=True)
class _Slot:
    """A place for a worker. The process in it may be replaced."""

    index: int
    worker: WorkerProcess | None = None
    playing: dict[bytes, _Request] = field(default_factory=dict)
    lags: list[float] = field(default_factory=list)

    @property
    def ready(self) -> bool:
        return self.worker is not None and self.worker.ready

    def take_lags(self) -> list[float]:
        """Samples of the interval that ends now. A worker that gave none stands still: its silence is the sample."""
        lags, self.lags = self.lags, []
        return lags or ([self.worker.silence()] if self.worker is not None and self.worker.ready else [])

    @property
    def active(self) -> int:
        return sum(request.method == env_wire.RUN for request in self.playing.values())


class EnvBroker:
    """Serves one environment. :meth:`run` is the whole life of it."""

    def __init__(self, config: EnvServerConfig) -> None:
        self.config = config
        self.address = ""
        self._slots = [_Slot(index) for index in range(config.serve.workers)]
        self._waiting: dict[bytes, _Request] = {}
        """Requests that no worker has room for, by token, oldest first."""
        self._tokens: dict[tuple[bytes, bytes], bytes] = {}
        """Token of a run by (client, request id), for cancels."""
        self._counter = itertools.count(1)
        self._replaced: deque[float] = deque()
        self._restarts = 0
        self._was_ready = False
        self._lag = LagStats()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._frontend: Channel

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until ``stop`` is set. Raises :class:`EnvServerError` when it cannot go on."""
        self._frontend = Channel(self._context.socket(zmq.ROUTER), self._on_request)
        stopped = asyncio.create_task(stop.wait())
        tasks: list[asyncio.Task[Any]] = [stopped]
        try:
            self._frontend.socket.bind("tcp://127.0.0.1:0")
            self.address = self._frontend.socket.getsockopt_string(zmq.LAST_ENDPOINT)
            self._frontend.open()
            tasks += [asyncio.create_task(self._keep(slot, stop)) for slot in self._slots]
            tasks += [asyncio.create_task(self._report())]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stopped}:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # First of all: a client learns at once that its server is gone, and workers are given nothing new.
            self._frontend.close()
            self._waiting.clear()
            await asyncio.gather(*(slot.worker.stop() for slot in self._slots if slot.worker is not None))
            self._context.term()
            logger.info("EnvServerPool down: address=%s", self.address)

    # --- workers ------------------------------------------------------------------------------------------------

    async def _keep(self, slot: _Slot, stop: asyncio.Event) -> None:
        """Keep a worker in ``slot`` until ``stop``."""
        while True:
            worker = await WorkerProcess.start(slot.index, self.config, self._context, self._on_worker)
            slot.worker = worker
            worker.channel.send([_CONTROL, env_wire.HEALTH, _encode({})])
            await self._watch(worker)
            if stop.is_set():
                return
            code = worker.exit.result()
            logger.error("EnvServerPool: worker %d exited with code %d", slot.index, code)
            slot.worker = None
            worker.close()
            self._fail(slot, f"{env_wire.WORKER_DIED}: {worker.describe_end(code)} while playing this episode")
            self._count_restart(slot, worker, code)

    async def _watch(self, worker: WorkerProcess) -> None:
        """Return when the process has ended, which is brought about when it stops answering."""
        serve = self.config.serve
        while not worker.exit.done():
            limit = serve.heartbeat_timeout if worker.ready else serve.startup_timeout
            if worker.silence() > limit:
                logger.error("Environment worker %d (pid %d) has not answered for %gs", worker.index, worker.pid, limit)
                worker.kill()
            elif worker.ready:
                worker.pulse()
            await asyncio.wait({worker.exit}, timeout=min(PULSE_INTERVAL, serve.interval))

    def _count_restart(self, slot: _Slot, worker: WorkerProcess, code: int) -> None:
        if not self._was_ready and (code == CANNOT_START or worker.hung):
            reason = "could not load the environment" if code == CANNOT_START else "did not start in time"
            raise EnvServerError(f"worker {slot.index} {reason}; what it logged stands above")
        now = time.monotonic()
        while self._replaced and now - self._replaced[0] > RESTART_WINDOW:
            self._replaced.popleft()
        limit = self.config.serve.restart_limit
        if len(self._replaced) >= limit:
            raise EnvServerError(
                f"worker {slot.index} ended and {limit} were replaced within {RESTART_WINDOW / 60:g} minutes "
                "(serve.restart_limit): no more are started"
            )
        self._replaced.append(now)
        self._restarts += 1

    def _fail(self, slot: _Slot, error: str) -> None:
        lost, slot.playing = slot.playing, {}
        for request in lost.values():
            self._answer(request, {"success": False, "error": error})

    def _became_ready(self, slot: _Slot) -> None:
        assert slot.worker is not None
        slot.worker.ready = True
        first, self._was_ready = not self._was_ready, True
        serve = self.config.serve
        if first:
            atomic.write_text(self.config.address_file, self.address)
        logger.info(
            "EnvServerPool up: address=%s workers=%d/%d multiplex=%d elastic=False",
            self.address,
            sum(each.ready for each in self._slots),
            serve.workers,
            serve.max_concurrent,
        )
        self._dispatch()

    def _on_worker(self, index: int, frames: list[bytes]) -> None:
        slot = self._slots[index]
        token, kind, data = frames
        if slot.worker is None:
            return
        slot.worker.heard = time.monotonic()
        if token == PULSE:
            slot.lags += msgspec.msgpack.decode(data, type=Pulse).lags
        elif token == _CONTROL:
            if not slot.worker.ready:
                self._became_ready(slot)
        elif (request := slot.playing.get(token)) is not None:
            self._frontend.send([request.client, request.id, kind, data])
            if kind == env_wire.REPLY:
                del slot.playing[token]
                self._tokens.pop((request.client, request.id), None)
                self._dispatch()

    # --- requests -----------------------------------------------------------------------------------------------

    def _on_request(self, frames: list[bytes]) -> None:
        if len(frames) != 4:
            logger.warning("request failed: a message of %d frames, expected 4", len(frames))
            return
        client, request_id, method, body = frames
        request = _Request(client, request_id, method, body, b"%d" % next(self._counter))
        if method in (env_wire.RUN, env_wire.TASKS):
            self._tokens[client, request_id] = request.token
            self._waiting[request.token] = request
            self._dispatch()
        elif method == env_wire.HEALTH:
            ready = any(slot.ready for slot in self._slots)
            self._answer(request, {"success": ready, "error": None if ready else "EnvServerStarting: no worker yet"})
        elif method == env_wire.STATS:
            self._answer(request, {"success": True, "error": None, **msgspec.to_builtins(self.stats())})
        elif method == env_wire.CANCEL:
            self._answer(request, {"success": True, "error": None, "cancelled": self._cancel(client, body)})
        else:
            name = method[:40].decode(errors="replace")
            self._answer(request, {"success": False, "error": f"UnknownMethod: {name!r}"})

    def _dispatch(self) -> None:
        """Hand waiting requests to the least busy workers with room, oldest first."""
        limit = self.config.serve.max_concurrent
        while self._waiting:
            free = [slot for slot in self._slots if slot.ready and len(slot.playing) < limit]
            if not free:
                return
            slot = min(free, key=lambda each: len(each.playing))
            request = self._waiting.pop(next(iter(self._waiting)))
            slot.playing[request.token] = request
            assert slot.worker is not None
            slot.worker.channel.send([request.token, request.method, request.body])

    def _cancel(self, client: bytes, body: bytes) -> bool:
        """Whether there was something to cancel. The run itself is answered by whoever had it."""
        try:
            target = str(_decode(body)["request_id"]).encode()
        except (msgspec.MsgspecError, KeyError, TypeError):
            return False
        token = self._tokens.get((client, target))
        if token is None:
            return False
        request = self._waiting.pop(token, None)
        if request is not None:
            self._answer(request, {"success": False, "error": "Cancelled: before a worker had room for it"})
            return True
        for slot in self._slots:
            if token in slot.playing and slot.worker is not None:
                slot.worker.channel.send([_CONTROL, env_wire.CANCEL, _encode({"request_id": token.decode()})])
        return True

    def _answer(self, request: _Request, reply: dict[str, Any]) -> None:
        self._tokens.pop((request.client, request.id), None)
        self._frontend.send([request.client, request.id, env_wire.REPLY, _encode(reply)])

    # --- state --------------------------------------------------------------------------------------------------

    def stats(self) -> EnvServerStats:
        """Workers and active episodes now; the lag of the last whole interval."""
        return EnvServerStats(
            workers=sum(slot.ready for slot in self._slots),
            configured_workers=len(self._slots),
            active=[slot.active for slot in self._slots],
            restarts=self._restarts,
            lag=self._lag,
        )

    async def _report(self) -> None:
        """Two lines per interval: event-loop lag, and where the active tasks are."""
        while True:
            await asyncio.sleep(self.config.serve.interval)
            if not self._was_ready:
                continue
            lag = self._lag = worst([lag_stats(slot.take_lags()) for slot in self._slots])
            logger.info(
                "Event loop lag: min %.1fms, mean %.1fms, p90 %.1fms, p99 %.1fms, max %.1fms (%d samples)",
                *(1e3 * value for value in (lag.min, lag.mean, lag.p90, lag.p99, lag.max)),
                lag.n,
            )
            active = self.stats().active
            logger.info(
                "Active tasks: %d (%s); %d waiting",
                sum(active),
                ", ".join(f"worker {index}: {count}" for index, count in enumerate(active)),
                len(self._waiting),
            )
