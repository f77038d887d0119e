"""A ZMQ socket read straight from the event loop's selector.

zmq.asyncio costs a future and a task switch per message, and the broker relays half a dozen messages per episode. The
socket's descriptor signals edges only, and a send can swallow one, so a read is scheduled after each send as well.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

import zmq

logger = logging.getLogger(__name__)

_MESSAGES_PER_TURN = 256
"""Messages taken in one turn of the event loop, so that a burst does not starve everything else."""


class Channel:
    """Calls ``on_message(frames)`` for every message of ``socket``. Belongs to the running event loop.

    The socket is made unbounded and never lingers: who talks to it bounds what is in flight. A message whose handler
    raises is logged and dropped; the channel goes on.
    """

    def __init__(self, socket: zmq.Socket[bytes], on_message: Callable[[list[bytes]], None]) -> None:
        self.socket = socket
        self._on_message = on_message
        self._loop = asyncio.get_running_loop()
        self._read_scheduled = False
        for option in (zmq.LINGER, zmq.SNDHWM, zmq.RCVHWM):
            socket.setsockopt(option, 0)

    def open(self) -> None:
        """Start reading, once the socket is bound or connected."""
        self._loop.add_reader(self.socket.fileno(), self._read)
        self._schedule_read()

    def send(self, frames: Sequence[bytes]) -> None:
        """Send without waiting. To a peer that is gone: nothing happens."""
        if not self.socket.closed:
            self.socket.send_multipart(frames, zmq.NOBLOCK, copy=True)
            self._schedule_read()

    def close(self) -> None:
        """Stop reading and close. Idempotent."""
        if not self.socket.closed:
            self._loop.remove_reader(self.socket.fileno())
            self.socket.close(linger=0)

    def _schedule_read(self) -> None:
        if not self._read_scheduled:
            self._read_scheduled = True
            self._loop.call_soon(self._read)

    def _read(self) -> None:
        self._read_scheduled = False
        for _ in range(_MESSAGES_PER_TURN):
            if self.socket.closed:
                return
            try:
                frames = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            try:
                self._on_message(frames)
            except Exception:
                logger.exception("request failed: a message of %d frames could not be handled", len(frames))
        self._schedule_read()
