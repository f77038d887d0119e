"""The two gates that keep the orchestrator and the trainer within one step of each other.

Let S be the batch under collection and V the policy version that the engines run. New work is dispatched only while
``(S - 1) - V <= lag``; a collected batch S is shipped only once ``V >= S - 1 - TARGET_LAG``. ``lag`` is ``TARGET_LAG``
= 1, and 0 where no staleness at all is allowed, since work dispatched any later would be thrown away on arrival. A
batch whose gate is closed is held; completions go on arriving meanwhile.
"""

import asyncio
import logging
import time

logger = logging.getLogger(__name__)

TARGET_LAG = 1


class PolicyTimeoutError(TimeoutError):
    """A policy version did not come in time."""


class Gates:
    """Where both sides stand, and what that allows. Belongs to one event loop."""

    def __init__(self, step: int, max_off_policy_steps: int, timeout: float, warn_interval: float) -> None:
        self.step = step
        """S: the batch under collection, from 1."""
        self.version = step - 1
        """V: the version that the engines run."""
        self._lag = min(TARGET_LAG, max_off_policy_steps)
        self._timeout = timeout
        self._warn_interval = warn_interval
        self._changed = asyncio.Event()
        self._closed_at: float | None = None
        self._waited = 0.0

    @property
    def dispatch_open(self) -> bool:
        return self.step - 1 - self.version <= self._lag

    def shipped(self) -> None:
        """The batch under collection has left; the next one is collected."""
        self.step += 1
        self._evaluate()

    def applied(self, version: int) -> None:
        """The engines run ``version`` now."""
        self.version = version
        self._evaluate()
        self._changed.set()

    async def hold(self) -> None:
        """Wait until the collected batch may leave. Raises PolicyTimeoutError."""
        need = self.step - 1 - TARGET_LAG
        await self.wait_for(need, f"Holding batch {self.step} until inference applies policy v{need}")

    async def wait_for(self, version: int, why: str) -> None:
        """Wait until the engines run ``version``, saying ``why`` at once and at intervals.

        Raises PolicyTimeoutError.
        """
        start = time.monotonic()
        said = -self._warn_interval
        while self.version < version:
            waited = time.monotonic() - start
            if waited > self._timeout:
                raise PolicyTimeoutError(
                    f"{why}: it did not come within {self._timeout:.0f}s (the engines run v{self.version}); "
                    "the trainer has stopped broadcasting, its log says why"
                )
            if waited - said >= self._warn_interval:
                since = f", since {waited:.0f}s" if said >= 0 else ""
                logger.info("%s (currently v%d)%s", why, self.version, since)
                said = waited
            self._changed.clear()
            try:
                async with asyncio.timeout(min(self._warn_interval, self._timeout)):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def take_waited(self) -> float:
        """Seconds since the last call during which dispatch stood still for want of a policy.

        A held batch is part of it: whenever a batch is held, dispatch is closed as well.
        """
        now = time.monotonic()
        if self._closed_at is not None:
            self._waited += now - self._closed_at
            self._closed_at = now
        waited, self._waited = self._waited, 0.0
        return waited

    def _evaluate(self) -> None:
        now = time.monotonic()
        if self.dispatch_open and self._closed_at is not None:
            self._waited += now - self._closed_at
            self._closed_at = None
            logger.info("Resuming dispatcher (policy v%d)", self.version)
        elif not self.dispatch_open and self._closed_at is None:
            self._closed_at = now
            need = self.step - 1 - self._lag
            logger.info("Pausing dispatcher until inference applies policy v%d (currently v%d)", need, self.version)
