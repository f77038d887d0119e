"""JSON in and out of the HTTP routes, and errors in vLLM's form."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from aiohttp import web

from prl.inference.engine import EngineDeadError, QueueFullError
from prl.inference.errors import ApiError

logger = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def reply(body: object, status: int = 200) -> web.Response:
    """A JSON response."""
    return web.Response(body=orjson.dumps(body), status=status, content_type="application/json")


async def read_object(request: web.Request) -> dict[str, Any]:
    """The JSON object of a request's body. An empty body is an empty object."""
    raw = await request.read()
    if not raw:
        return {}
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise ApiError(400, f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise ApiError(400, "the body must be a JSON object")
    return body


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer errors with their status; log those that are not the client's."""
    try:
        return await handler(request)
    except ApiError as error:
        log = logger.error if error.status == 500 else logger.debug
        log("%s %s answered %d: %s", request.method, request.path, error.status, error.message)
        return reply(error.body(), error.status)
    except QueueFullError as error:
        return reply(ApiError(503, f"{error}; try again later or raise engine.max_waiting").body(), 503)
    except EngineDeadError as error:
        return reply(ApiError(500, f"the engine has stopped: {error}").body(), 500)
    except web.HTTPException:
        raise
    except Exception as error:
        logger.exception("%s %s failed", request.method, request.path)
        return reply(ApiError(500, f"{type(error).__name__}: {error}").body(), 500)
