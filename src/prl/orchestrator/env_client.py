"""A client of one environment server (:mod:`prl.transport.env_wire`) that never waits without a bound.

Three things end a request that gets no reply: the deadline of its episode, the loss of the connection (the server's
process died, or its host stopped answering the transport's heartbeats), and the caller. Each is an error with a type,
and carries the traces that had arrived until then. The socket is read straight from the event loop's selector: an
asyncio socket costs a future and a task switch a message, and an episode has half a dozen messages. Left out: retries.
A failed episode is a fact about the run and is recorded as one.
"""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import zmq
from zmq.utils.monitor import parse_monitor_message

from prl.rundir.live.fold import apply_delta
from prl.transport import env_wire
from prl.transport.env_wire import EnvServerStats, error_type

logger = logging.getLogger(__name__)

TIMEOUT = "Timeout"
SERVER_LOST = "EnvServerLost"
INCOMPLETE = "IncompleteEpisode"

_TASKS_PER_PAGE = 1000
_MESSAGES_PER_TURN = 256
"""Messages taken in one turn of the event loop, so that a burst does not starve everything else."""
_HEARTBEAT_MS = 5_000
_HEARTBEAT_TIMEOUT_MS = 30_000

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class EnvRequestError(Exception):
    """A request that failed. ``type`` is one word; ``traces`` is what had streamed in before."""

    def __init__(self, kind: str, message: str, traces: list[dict[str, Any]] | None = None) -> None:
        super().__init__(f"{kind}: {message}")
        self.type = kind
        self.message = message
        self.traces = traces or []


class _TaskPage(msgspec.Struct):
    success: bool
    error: str | None = None
    type: str = ""
    total: int = 0
    tasks: list[msgspec.Raw] = []


class _StatsReply(msgspec.Struct):
    success: bool


@dataclass(frozen=True, slots=True)
class TaskSet:
    """All tasks of an environment. An item stays the server's own msgpack, which goes back as it came."""

    type: str
    items: list[msgspec.Raw]


@dataclass(slots=True)
class _Pending:
    reply: asyncio.Future[bytes]
    on_delta: Callable[[dict[str, Any]], None] | None = None
    traces: dict[str, dict[str, Any]] = field(default_factory=dict)


class EnvClient:
    """One server. Belongs to the event loop in which it was made."""

    def __init__(self, name: str, address: str, on_change: Callable[[], None] | None = None) -> None:
        self.name = name
        self.address = address
        self.connected = False
        self.lost_at: float | None = None
        """Monotonic time at which an established connection went away; None while it stands."""
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._pending: dict[bytes, _Pending] = {}
        self._ids = itertools.count(1)
        self._read_scheduled = False
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        for option, value in (
            (zmq.LINGER, 0),
            (zmq.SNDHWM, 0),
            (zmq.RCVHWM, 0),
            (zmq.HEARTBEAT_IVL, _HEARTBEAT_MS),
            (zmq.HEARTBEAT_TIMEOUT, _HEARTBEAT_TIMEOUT_MS),
        ):
            self._socket.setsockopt(option, value)
        self._events = self._socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        self._socket.connect(address)
        self._loop.add_reader(self._socket.fileno(), self._read)
        self._loop.add_reader(self._events.fileno(), self._read_events)
        # A socket signals its descriptor only after a read that found nothing.
        self._loop.call_soon(self._read_events)

    async def run(
        self,
        task_data: msgspec.Raw,
        client: msgspec.Raw,
        model: str,
        sampling: Mapping[str, Any],
        *,
        timeout: float,
        on_delta: Callable[[dict[str, Any]], None] | None = None,
    ) -> dict[str, Any]:
        """Play one episode and return its record. Cancelling the caller cancels the episode.

        Raises EnvRequestError: ``Timeout`` after ``timeout`` seconds, ``EnvServerLost``, ``IncompleteEpisode`` when
        the stream and the final counts disagree, else the type that the server gave.
        """
        body = _encode({"task_data": task_data, "client": client, "model": model, "sampling": sampling})
        request_id, pending = self._send(env_wire.RUN, body, on_delta)
        try:
            async with asyncio.timeout(timeout):
                reply = _decode(await pending.reply)
            if not reply.get("success"):
                error = str(reply.get("error"))
                raise EnvRequestError(error_type(error), error.partition(":")[2].strip() or error)
            return _assemble(reply, pending.traces)
        except TimeoutError:
            self._cancel(request_id)
            raise EnvRequestError(
                TIMEOUT, f"the episode did not end within {timeout:g}s", _streamed(pending.traces)
            ) from None
        except asyncio.CancelledError:
            self._cancel(request_id)
            raise
        except EnvRequestError as error:
            error.traces = _streamed(pending.traces)
            raise
        finally:
            self._pending.pop(request_id, None)

    async def health(self, timeout: float) -> bool:
        """Whether at least one worker can play. False when the server does not answer within ``timeout`` seconds."""
        try:
            reply = _decode(await self._request(env_wire.HEALTH, {}, timeout))
        except (TimeoutError, EnvRequestError):
            return False
        return bool(reply.get("success"))

    async def stats(self, timeout: float) -> EnvServerStats | None:
        """The server's state over its last interval, or None when it does not say."""
        try:
            data = await self._request(env_wire.STATS, {}, timeout)
            if not msgspec.msgpack.decode(data, type=_StatsReply).success:
                return None
            return msgspec.msgpack.decode(data, type=EnvServerStats)
        except (TimeoutError, EnvRequestError, msgspec.MsgspecError):
            return None

    async def tasks(self, timeout: float) -> TaskSet:
        """Every task of the environment, in its own order. Raises EnvRequestError or TimeoutError."""
        items: list[msgspec.Raw] = []
        while True:
            body = {"offset": len(items), "limit": _TASKS_PER_PAGE}
            page = msgspec.msgpack.decode(await self._request(env_wire.TASKS, body, timeout), type=_TaskPage)
            if not page.success:
                raise EnvRequestError(error_type(page.error or ""), page.error or "no tasks")
            items += page.tasks
            if not page.tasks or len(items) >= page.total:
                return TaskSet(page.type, items)

    def close(self) -> None:
        self._loop.remove_reader(self._socket.fileno())
        self._loop.remove_reader(self._events.fileno())
        self._socket.disable_monitor()
        self._events.close(linger=0)
        self._socket.close(linger=0)
        self._context.term()

    def _send(
        self, method: bytes, body: bytes, on_delta: Callable[[dict[str, Any]], None] | None = None
    ) -> tuple[bytes, _Pending]:
        request_id = b"%d" % next(self._ids)
        pending = self._pending[request_id] = _Pending(self._loop.create_future(), on_delta)
        self._socket.send_multipart([request_id, method, body])
        self._schedule_read()
        return request_id, pending

    async def _request(self, method: bytes, body: Mapping[str, Any], timeout: float) -> bytes:
        request_id, pending = self._send(method, _encode(body))
        try:
            async with asyncio.timeout(timeout):
                return await pending.reply
        finally:
            self._pending.pop(request_id, None)

    def _cancel(self, request_id: bytes) -> None:
        """Tell the server to stop playing. Its answer has nobody waiting for it and is dropped."""
        if self.connected:
            body = _encode({"request_id": request_id.decode()})
            self._socket.send_multipart([b"c" + request_id, env_wire.CANCEL, body])
            self._schedule_read()

    def _schedule_read(self) -> None:
        # The socket's descriptor signals edges only, and a send can swallow one: so look again after each.
        if not self._read_scheduled:
            self._read_scheduled = True
            self._loop.call_soon(self._read)

    def _read(self) -> None:
        self._read_scheduled = False
        if self._socket.closed:
            return
        for _ in range(_MESSAGES_PER_TURN):
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._deliver(frames)
        self._schedule_read()

    def _deliver(self, frames: list[bytes]) -> None:
        if len(frames) != 3:
            logger.warning("Dropping a message of %d frames from environment server %s", len(frames), self.name)
            return
        request_id, kind, data = frames
        pending = self._pending.get(request_id)
        if pending is None:
            return
        if kind == env_wire.REPLY:
            if not pending.reply.done():
                pending.reply.set_result(data)
            return
        try:
            delta = _decode(data)
            apply_delta(pending.traces, delta)
        except (msgspec.MsgspecError, UnicodeDecodeError, AttributeError) as error:
            # The counts of the reply will not match, and the episode fails as incomplete.
            logger.warning("Dropping an unreadable delta from environment server %s: %s", self.name, error)
            return
        if pending.on_delta is not None:
            pending.on_delta(delta)

    def _read_events(self) -> None:
        while not self._events.closed:
            try:
                frames = self._events.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if parse_monitor_message(frames)["event"] == zmq.EVENT_DISCONNECTED:
                self._lose()
            else:
                self.connected, self.lost_at = True, None
            if self._on_change is not None:
                self._on_change()

    def _lose(self) -> None:
        """The server is gone, and with it what it was playing: nobody will answer these requests."""
        self.connected = False
        if self.lost_at is None:
            self.lost_at = time.monotonic()
        for pending in self._pending.values():
            if not pending.reply.done():
                pending.reply.set_exception(
                    EnvRequestError(SERVER_LOST, f"the connection to {self.address} broke while it ran")
                )


def _assemble(reply: Mapping[str, Any], traces: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The episode's record from its head and the traces that streamed in, in the server's order."""
    whole = []
    for summary in reply.get("traces") or []:
        trace = traces.get(summary["id"])
        if trace is None:
            raise EnvRequestError(INCOMPLETE, f"trace {summary['id']} did not arrive")
        for part in ("nodes", "calls"):
            if len(trace[part]) != summary[part]:
                raise EnvRequestError(
                    INCOMPLETE, f"trace {summary['id']}: {len(trace[part])} of {summary[part]} {part} arrived"
                )
        whole.append({key: value for key, value in trace.items() if key != "pending"})
    return {**reply["head"], "traces": whole}


def _streamed(traces: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in trace.items() if key != "pending"} for trace in traces.values()]
