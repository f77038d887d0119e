"""The call to the engine, over one aiohttp session per endpoint.

verifiers' train client asks through the OpenAI SDK on httpx, of which it uses two methods: ``get("/models")`` and a
``post`` of token ids to ``/inference/v1/generate``. :class:`EngineClient` has these two, with the same body, headers
and errors, at a seventh of the CPU time. The strict checks of the answer (counts, token labels, finite
log-probabilities) stay where they are, in ``renderers.client``.
"""

from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
from verifiers.v1.configs.client import BaseClientConfig, resolve_api_key, resolve_headers
from verifiers.v1.errors import ProviderError

KEEPALIVE = 3.0
"""Seconds an idle connection is kept: less than the 5 s after which uvicorn, and so vLLM, closes it."""

_BODY_IN_ERROR = 2000


@dataclass(frozen=True)
class EngineReply:
    """Stands for the ``httpx.Response`` that the caller reads ``content`` of."""

    content: bytes


class EngineClient:
    """What ``renderers.client.generate`` needs of an ``AsyncOpenAI``. Made inside a running event loop or before it."""

    def __init__(self, config: BaseClientConfig) -> None:
        self.base_url = config.base_url
        self._headers = {
            "Authorization": f"Bearer {resolve_api_key(config)}",
            "Content-Type": "application/json",
            "Accept": "application/json",
            **resolve_headers(config),
        }
        limits = config.timeout
        self._timeout = aiohttp.ClientTimeout(
            total=None, connect=limits.pool, sock_connect=limits.connect, sock_read=limits.read
        )
        self._session: aiohttp.ClientSession | None = None

    async def get(self, path: str, *, cast_to: Any = None) -> Any:
        """The JSON at ``base_url + path``. Raises ProviderError."""
        return orjson.loads(await self._ask("GET", self.base_url.rstrip("/") + path, None, {}))

    async def post(
        self, url: str, *, body: dict[str, Any], cast_to: Any = None, options: dict[str, Any] | None = None
    ) -> EngineReply:
        """POST ``body`` as JSON to ``url``. Raises ProviderError with the engine's status, or 503 and 504."""
        # Token ids may come as numpy integers from a renderer; bodies hold no other foreign types.
        data = orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
        return EngineReply(await self._ask("POST", url, data, (options or {}).get("headers") or {}))

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _ask(self, method: str, url: str, data: bytes | None, headers: dict[str, str]) -> bytes:
        try:
            try:
                return await self._ask_once(method, url, data, headers)
            except aiohttp.ServerDisconnectedError:
                # The engine closed an idle connection just as it was taken from the pool; a new one tells whether it
                # still lives. Sampling again is safe: nothing of the first request was recorded.
                return await self._ask_once(method, url, data, headers)
        except aiohttp.ServerTimeoutError as error:
            raise ProviderError(f"engine at {url} timed out: {error}", status_code=504) from error
        except aiohttp.ClientError as error:
            raise ProviderError(
                f"engine at {url} cannot be reached: {type(error).__name__}: {error}", status_code=503
            ) from error

    async def _ask_once(self, method: str, url: str, data: bytes | None, headers: dict[str, str]) -> bytes:
        if self._session is None:
            # The number of connections is bounded by the episodes in flight, not here.
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE),
                timeout=self._timeout,
                headers=self._headers,
                auto_decompress=False,
                skip_auto_headers=("Accept-Encoding",),
            )
        async with self._session.request(method, url, data=data, headers=headers) as response:
            body = await response.read()
            if response.status >= 400:
                text = body[:_BODY_IN_ERROR].decode(errors="replace")
                raise ProviderError(f"Error code: {response.status} - {text}", status_code=response.status)
            return body
