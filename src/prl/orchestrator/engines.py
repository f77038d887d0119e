"""The inference engines' admin plane: health, weight updates, metrics pages.

An engine swaps weights between two decode steps, with requests in flight. A connection error is retried, since a kept
connection can be closed by the server at the very moment it is used again; an engine that answers an update with an
error is fatal, because from then on it would sample from a policy that nobody knows.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp

from prl.config.orchestrator import ClientConfig
from prl.rundir.logs.console import success

logger = logging.getLogger(__name__)

_TRIES = 3
_HEALTH_TIMEOUT = 5.0
_METRICS_TIMEOUT = 5.0
_ERROR_TEXT = 500
"""Characters of an engine's answer that an error quotes."""


class EngineError(RuntimeError):
    """An engine refused what it was told, or could not be reached."""


class EnginePool:
    """All engines, addressed by ``model.client.admin_base_url``."""

    def __init__(self, config: ClientConfig) -> None:
        self.urls: Sequence[str] = [url.rstrip("/") for url in config.admin_base_url]
        self._config = config
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=config.admin_timeout, sock_connect=30),
            connector=aiohttp.TCPConnector(limit=0),
        )

    async def wait_until_ready(self, log_interval: float) -> None:
        """Wait until every engine is healthy. Raises TimeoutError after ``wait_for_ready_timeout`` seconds."""
        start = time.monotonic()
        for url in self.urls:
            said = -log_interval
            while not await self._is_healthy(url):
                elapsed = time.monotonic() - start
                if elapsed > self._config.wait_for_ready_timeout:
                    logger.error("Inference server is not ready after %d seconds. Aborting...", elapsed)
                    raise TimeoutError(f"the inference server at {url} was not healthy within {elapsed:.0f}s")
                if elapsed - said >= log_interval:
                    logger.info("Waiting for inference server at %s to start up (%ds elapsed)", url, elapsed)
                    said = elapsed
                await asyncio.sleep(self._config.ready_poll_interval)
        success(logger, "Inference pool ready (%d engines) after %.1fs", len(self.urls), time.monotonic() - start)

    async def update_weights(self, directory: Path, version: int) -> None:
        """Let every engine load ``directory`` (absolute): pause, update, resume, each at once on all of them.

        Raises EngineError.
        """
        body = {"weight_dir": str(directory), "version": version}
        await self._on_all("/pause?mode=keep", None)
        await self._on_all("/update_weights", body)
        await self._on_all("/resume", None)

    async def metrics_pages(self) -> list[str | None]:
        """Each engine's ``/metrics`` page, None where one does not answer."""
        return list(await asyncio.gather(*(self._metrics_page(url) for url in self.urls)))

    async def close(self) -> None:
        await self._session.close()

    async def _on_all(self, path: str, body: dict[str, Any] | None) -> None:
        await asyncio.gather(*(self._post(url + path, body) for url in self.urls))

    async def _post(self, url: str, body: dict[str, Any] | None) -> None:
        for attempt in range(1, _TRIES + 1):
            try:
                async with self._session.post(url, json=body) as response:
                    if response.status >= 400:
                        text = (await response.text())[:_ERROR_TEXT]
                        raise EngineError(f"{url} answered {response.status}: {text}")
                    await response.read()
                    return
            except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError) as error:
                if attempt == _TRIES:
                    raise EngineError(f"{url} could not be reached in {_TRIES} tries: {error!r}") from error
                logger.warning("%s: %r, trying again", url, error)
                await asyncio.sleep(0.1 * attempt)
            except TimeoutError as error:
                raise EngineError(f"{url} did not answer within {self._config.admin_timeout:.0f}s") from error

    async def _is_healthy(self, url: str) -> bool:
        try:
            async with self._session.get(f"{url}/health", timeout=aiohttp.ClientTimeout(_HEALTH_TIMEOUT)) as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False

    async def _metrics_page(self, url: str) -> str | None:
        try:
            async with self._session.get(f"{url}/metrics", timeout=aiohttp.ClientTimeout(_METRICS_TIMEOUT)) as response:
                return await response.text(errors="replace") if response.status == 200 else None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            logger.debug("%s/metrics: %r", url, error)
            return None
