"""Training batches from the orchestrator to the trainer's ranks, over ZMQ.

One message a rank and step: topic ``data_rank|<r>|``, then a msgpack :class:`RankBatch`. Against the reference's wire
it also carries the step and the policy version, so that a rank refuses a batch that is not the one it expects. The
publisher binds ``port``; a rank says READY to ``port + 1`` once it listens. The publisher is an XPUB socket: it sees
subscriptions arrive, and so knows that a first batch cannot be lost to a subscriber that is still connecting.
"""

import time
from collections.abc import Callable, Sequence

import msgspec
import zmq
import zmq.asyncio

from prl.config.common import RolloutTransportConfig


class MicroBatch(msgspec.Struct, array_like=True, frozen=True):
    """Sequences packed end to end: every list has one entry per token, or one per sequence where said.

    A sequence is one branch of a trace. Tokens outside ``loss_mask`` are context (prompt, environment) and carry
    advantage 0 and log-probability 0. Padding sequences, which only keep ranks aligned, have no loss token.
    """

    token_ids: list[int]
    loss_mask: list[bool]
    advantages: list[float]
    logprobs: list[float]
    """Sampler's log-probability of each loss token, after temperature."""
    position_ids: list[int]
    """Restart at 0 with every sequence."""
    sequence_lengths: list[int]
    """Per sequence; they sum to ``len(token_ids)``."""
    temperatures: list[float]
    """Per sequence."""
    env_names: list[str]
    """Per sequence."""
    trace_ids: list[str]
    """Per sequence."""
    branch_indices: list[int]
    """Per sequence."""


class RankBatch(msgspec.Struct, array_like=True, frozen=True):
    """All micro batches of one rank for one step. Every rank gets the same number of them."""

    step: int
    policy_version: int
    """Version the trainer must be at when it consumes the batch: ``step - 1``."""
    micro_batches: list[MicroBatch]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(RankBatch)


def _topic(rank: int) -> bytes:
    return f"data_rank|{rank}|".encode()


class BatchPublisher:
    """The orchestrator's end. Lives in one asyncio loop."""

    def __init__(self, config: RolloutTransportConfig, num_ranks: int) -> None:
        self.num_ranks = num_ranks
        self._context = zmq.asyncio.Context()
        self._publisher = self._context.socket(zmq.XPUB)
        self._publisher.setsockopt(zmq.SNDHWM, config.hwm)
        self._publisher.setsockopt(zmq.LINGER, 5000)
        self._ready = self._context.socket(zmq.PULL)
        host = "127.0.0.1" if config.host == "localhost" else "*"
        self._publisher.bind(f"tcp://{host}:{config.port}")
        self._ready.bind(f"tcp://{host}:{config.port + 1}")
        self._ready_ranks: set[int] = set()
        self._subscribed: set[bytes] = set()

    @property
    def missing(self) -> list[int]:
        """Ranks that have not said READY or whose subscription has not arrived."""
        return [r for r in range(self.num_ranks) if r not in self._ready_ranks or _topic(r) not in self._subscribed]

    async def wait_for_ranks(self, timeout: float, on_wait: Callable[[list[int]], None] | None = None) -> None:
        """Wait until every rank listens. Raises TimeoutError naming the missing ranks."""
        deadline = time.monotonic() + timeout
        poller = zmq.asyncio.Poller()
        poller.register(self._publisher, zmq.POLLIN)
        poller.register(self._ready, zmq.POLLIN)
        while self.missing:
            if time.monotonic() > deadline:
                raise TimeoutError(f"trainer ranks {self.missing} did not connect within {timeout:.0f}s")
            events = dict(await poller.poll(timeout=1000))
            if self._publisher in events:
                frame = await self._publisher.recv()
                if frame[:1] == b"\x01":
                    self._subscribed.add(frame[1:])
            if self._ready in events:
                self._ready_ranks.add(int(await self._ready.recv()))
            if not events and on_wait:
                on_wait(self.missing)

    async def publish(self, batches: Sequence[RankBatch]) -> None:
        """Send each rank its batch; ``batches[r]`` is for rank ``r``."""
        for rank, batch in enumerate(batches):
            await self._publisher.send_multipart([_topic(rank), _ENCODER.encode(batch)])

    def close(self) -> None:
        self._publisher.close()
        self._ready.close(linger=0)
        self._context.term()


class BatchReceiver:
    """One trainer rank's end. Blocking."""

    def __init__(self, config: RolloutTransportConfig, rank: int) -> None:
        self.rank = rank
        self._context = zmq.Context()
        self._subscriber = self._context.socket(zmq.SUB)
        self._subscriber.setsockopt(zmq.RCVHWM, config.hwm)
        self._subscriber.setsockopt(zmq.SUBSCRIBE, _topic(rank))
        host = "127.0.0.1" if config.host == "localhost" else config.host
        self._subscriber.connect(f"tcp://{host}:{config.port}")
        self._ready = self._context.socket(zmq.PUSH)
        self._ready.setsockopt(zmq.LINGER, 0)
        self._ready.connect(f"tcp://{host}:{config.port + 1}")

    def announce(self) -> None:
        """Tell the orchestrator that this rank listens. Returns at once, also while nobody is bound yet."""
        self._ready.send(str(self.rank).encode())

    def receive(self, timeout: float) -> RankBatch | None:
        """The next batch, or None when none came within ``timeout`` seconds."""
        if not self._subscriber.poll(int(timeout * 1000)):
            return None
        _, body = self._subscriber.recv_multipart()
        return _DECODER.decode(body)

    def close(self) -> None:
        self._subscriber.close(linger=0)
        self._ready.close()
        self._context.term()
