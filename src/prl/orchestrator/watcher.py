"""Takes new policy versions from the trainer to the engines (the orchestrator's end of the broadcast handshake).

Per version: the trainer offers it; dispatch freezes and stale work is cancelled, before the engines waste more on it;
the offer is acknowledged and the trainer writes; the engines load it; the version counts as applied, dispatch goes on
and the gates are judged anew. Versions come one by one: the next is always the one applied plus 1, so what an earlier
attempt left in ``broadcasts/`` is never mistaken for an offer.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from prl.orchestrator.engines import EnginePool
from prl.transport.weights import WeightReceiver

logger = logging.getLogger(__name__)


class WeightWatcher:
    def __init__(self, receiver: WeightReceiver, engines: EnginePool) -> None:
        self._receiver = receiver
        self._engines = engines
        self._on_pending: Callable[[], None] = lambda: None
        self._on_applied: Callable[[int], None] = lambda version: None
        self._updates = 0
        self._last_update = 0.0
        self._last_wait = 0.0
        self.version = -1
        """The version that the engines run; -1 before the first."""

    def hook(self, on_pending: Callable[[], None], on_applied: Callable[[int], None]) -> None:
        """From now on call ``on_pending()`` when a version is offered, and ``on_applied(version)`` when it runs."""
        self._on_pending = on_pending
        self._on_applied = on_applied

    async def take(self, version: int) -> None:
        """Wait without a bound until ``version`` is offered, and apply it.

        Raises TimeoutError when an accepted version does not get finished, EngineError when an engine does not take
        it. Who calls this bounds the wait for the offer.
        """
        while True:
            offer = self._receiver.open_offer(version)
            if offer is not None:
                break
            await asyncio.sleep(self._receiver.config.poll_interval)
        self._on_pending()
        start = time.monotonic()
        self._receiver.acknowledge(offer)
        await self._receiver.wait_finished(offer)
        written = time.monotonic()
        await self._engines.update_weights(offer.path, version)
        done = time.monotonic()
        self._last_wait, self._last_update = written - start, done - written
        self._updates += 1
        self.version = version
        logger.debug(
            "Policy v%d applied: written in %.3fs, loaded in %.3fs", version, self._last_wait, self._last_update
        )
        self._on_applied(version)

    async def run(self) -> None:
        """Apply versions as they come, for ever."""
        while True:
            await self.take(self.version + 1)

    def metrics(self) -> dict[str, float]:
        return {
            "watcher/policy_version": self.version,
            "watcher/update_count": self._updates,
            "watcher/last_update_weights_time": self._last_update,
            "watcher/last_wait_for_ckpt_time": self._last_wait,
        }
