"""One worker process as the broker sees it: how it is started, whether it still answers, how it ended.

The worker gets its configuration as one JSON line on standard input, which then stays open: its end tells the worker
that the broker is gone. It writes its log to the broker's own standard output and error.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Callable

import msgspec
import zmq

from prl.config.envs import EnvServerConfig
from prl.envs.channel import Channel

logger = logging.getLogger(__name__)

PULSE = b"pulse"
"""Method by which the broker asks a worker whether its loop turns; answered by :class:`Pulse`."""

CANNOT_START = 3
"""Exit status of a worker whose environment cannot be loaded: another try would end the same way."""

TERMINATION_GRACE = 5.0
"""Seconds between asking a worker to end and killing it."""

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def _fresh_address() -> str:
    """An endpoint on this host. On Linux it has no file, so nothing stays when broker and worker are killed."""
    name = f"prl-env-{uuid.uuid4().hex}"
    return f"ipc://@{name}" if sys.platform == "linux" else f"ipc://{tempfile.gettempdir()}/{name}"


class WorkerSpec(msgspec.Struct, frozen=True):
    """What a worker is told on its standard input."""

    index: int
    parent: int
    """The broker's process id."""
    address: str
    """ZMQ endpoint to bind."""
    config: str
    """``EnvServerConfig`` as JSON."""


class Pulse(msgspec.Struct, frozen=True):
    """A worker's sign of life."""

    lags: list[float]
    """Event-loop lag samples, in seconds, since the previous pulse."""
    success: bool = True


class WorkerProcess:
    """A running worker process and the socket to it."""

    def __init__(self, index: int, process: asyncio.subprocess.Process, channel: Channel) -> None:
        self.index = index
        self.pid = process.pid
        self.channel = channel
        self.ready = False
        self.hung = False
        """Killed because it stopped answering."""
        self.heard = time.monotonic()
        self.exit = asyncio.create_task(process.wait())
        self._process = process

    @classmethod
    async def start(
        cls,
        index: int,
        config: EnvServerConfig,
        context: zmq.Context[zmq.Socket[bytes]],
        on_message: Callable[[int, list[bytes]], None],
    ) -> "WorkerProcess":
        """Start worker ``index``; its messages arrive as ``on_message(index, frames)``. Raises OSError."""
        # PYTHONDONTWRITEBYTECODE would compile verifiers' 5,500 modules anew in each worker: seconds of CPU.
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        address = _fresh_address()
        # -P: the working directory is no part of the import path, so no file in it can stand in for a module.
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "prl.envs.worker", stdin=asyncio.subprocess.PIPE, env=_ONE_THREAD | environment
        )
        assert process.stdin is not None
        spec = WorkerSpec(index, os.getpid(), address, config.model_dump_json())
        process.stdin.write(msgspec.json.encode(spec) + b"\n")
        channel = Channel(context.socket(zmq.DEALER), lambda frames: on_message(index, frames))
        channel.socket.connect(address)
        channel.open()
        return cls(index, process, channel)

    def pulse(self) -> None:
        """Ask for a sign of life."""
        self.channel.send([PULSE, PULSE, b"\x80"])

    def silence(self) -> float:
        """Seconds since the worker was last heard of."""
        return time.monotonic() - self.heard

    def kill(self) -> None:
        """SIGKILL, for a worker that stopped answering."""
        self.hung = True
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    def describe_end(self, code: int) -> str:
        """How it ended, for the error of the episodes it was playing."""
        who = f"worker {self.index} (pid {self.pid})"
        if self.hung:
            return f"{who} stopped answering and was ended"
        if code < 0:
            return f"{who} was killed by signal {-code}"
        return f"{who} exited with code {code}"

    async def stop(self) -> None:
        """End the process: SIGTERM, then SIGKILL after a grace period. Returns when it is gone."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self.exit), TERMINATION_GRACE)
        if not self.exit.done():
            logger.warning("Environment worker %d (pid %d) did not end on SIGTERM; killing it", self.index, self.pid)
            self.kill()
            await self.exit
        self.close()

    def close(self) -> None:
        """Release the socket and the pipe of a process that has ended."""
        self.channel.close()
        if self._process.stdin is not None:
            self._process.stdin.close()
