"""A model call from the chat harness to the interception server of the same process, without HTTP in between.

The interception server handles a request with one coroutine: it checks limits and stops, asks the engine, commits the
turn to the message graph and records the call. :class:`Loopback` gives that coroutine a request object instead of
bytes on a socket; the same code runs, to the same trace.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import orjson
from multidict import CIMultiDict
from verifiers.v1.dialects.chat import ChatDialect
from verifiers.v1.interception import InterceptionServer

from prl.envs.harness import Post

_PATH = ChatDialect.routes[0]
_DIALECT = ChatDialect()


class LoopbackRequest(dict[Any, Any]):
    """The part of ``aiohttp.web.Request`` that the handler of a chat completion uses."""

    path = _PATH

    def __init__(self, secret: str, body: bytes) -> None:
        super().__init__()
        self.headers = CIMultiDict({"Authorization": f"Bearer {secret}"})
        self._body = body
        self._read_bytes: bytes | None = None
        """Set to None by the handler once it has parsed the body."""

    async def read(self) -> bytes:
        return self._body


class Loopback:
    """Posts to whichever server holds the rollout's secret; over ``fallback`` when none in this process does."""

    def __init__(self, servers: Callable[[], Iterable[InterceptionServer]], fallback: Post) -> None:
        self._servers = servers
        self._fallback = fallback
        self._handlers: dict[int, Callable[[Any], Any]] = {}

    async def post(self, endpoint: str, secret: str, body: dict[str, Any]) -> tuple[int, bytes]:
        """As :data:`prl.envs.harness.Post`."""
        server = next((server for server in self._servers() if secret in server.sessions), None)
        if server is None:
            return await self._fallback(endpoint, secret, body)
        handler = self._handlers.get(id(server))
        if handler is None:
            handler = self._handlers[id(server)] = server._handler_for(_DIALECT)
        # A task of its own, as an HTTP server would give it: the session cancels its handlers when the rollout ends.
        response = await asyncio.create_task(handler(LoopbackRequest(secret, orjson.dumps(body))))
        return response.status, response.body if isinstance(response.body, bytes) else b""
