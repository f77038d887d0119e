"""The ASGI application: routes of the API, the static pages, and what HTTP asks of both."""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount
from starlette.routing import Route as HttpRoute
from starlette.staticfiles import StaticFiles

from prl.dashboard.answers import Answer, AnswerCache, encode, etag_of
from prl.dashboard.errors import ApiError, NotModified
from prl.dashboard.parameters import validate
from prl.dashboard.routes import ROUTES
from prl.dashboard.routing import Call, Download, Route
from prl.dashboard.workspace import Workspace

STATIC = Path(__file__).parent / "static"
MAX_BODY = 64 << 10
"""Bytes of a request's body."""
_log = logging.getLogger(__name__)


def create_app(workspace: Workspace) -> Starlette:
    """The application over the runs of a workspace."""
    answers = AnswerCache()
    routes: list[BaseRoute] = [
        HttpRoute(route.path, _endpoint(route, workspace, answers), methods=[route.method]) for route in ROUTES
    ]
    routes.append(HttpRoute("/", _page))
    routes.append(Mount("/static", StaticFiles(directory=STATIC)))
    return Starlette(routes=routes, exception_handlers={404: _unknown, 405: _unknown})


def _endpoint(route: Route, workspace: Workspace, answers: AnswerCache) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            body = await _body(request) if route.method == "POST" else None
            call = Call(
                workspace,
                path=request.path_params,
                query=validate(route.parameters, request.query_params.multi_items()),
                body=body,
                client=request.headers.get("prl-client"),
            )
            known = request.headers.get("if-none-match")
            made = await run_in_threadpool(_make, route, call, answers, str(request.url.query), known)
        except NotModified as same:
            return Response(status_code=304, headers={"ETag": str(same), "Cache-Control": "no-cache"})
        except ApiError as error:
            return _error(error)
        except Exception:
            # One broken run never breaks another: its route fails, with the reason in the server's log.
            _log.exception("%s %s failed", route.method, request.url.path)
            failed = ApiError(500, "internal", f"{request.url.path} failed; the server's log says where")
            return _error(failed)
        return _response(made, packed="gzip" in request.headers.get("accept-encoding", ""))

    return endpoint


def _make(route: Route, call: Call, answers: AnswerCache, query: str, known: str | None) -> Answer | Download:
    """The answer, in a worker thread. Raises NotModified with the ETag."""
    made: Answer | Download
    if route.version is None:
        made = _encoded(route.handler(call), None)
    else:
        version = route.version(call)
        if known == etag_of(version.encode()):
            raise NotModified(known)
        key = f"{route.path} {sorted(call.path.items())} {query}"
        made = answers.get(key, version, lambda: _encoded(route.handler(call), version))
    if isinstance(made, Answer) and known == made.etag:
        raise NotModified(known)
    return made


def _encoded(content: Any, version: str | None) -> Any:
    """The answer's bytes, or what the handler made of itself: an Answer, a Download."""
    return content if isinstance(content, Answer | Download) else encode(content, version)


async def _body(request: Request) -> Any:
    """The body of a POST as JSON. Raises ApiError."""
    # A form cannot send this type, so that a foreign page cannot post without asking first.
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise ApiError(415, "media_type", "the body is to be application/json")
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > MAX_BODY:
            raise ApiError(413, "too_large", f"the body is longer than {MAX_BODY} bytes")
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise ApiError(400, "bad_body", f"the body is no JSON: {error}") from None


def _response(made: Answer | Download, *, packed: bool) -> Response:
    if isinstance(made, Download):
        headers = {"Content-Disposition": f'attachment; filename="{made.name}"', "Cache-Control": "no-store"}
        return StreamingResponse(made.pieces, headers=headers, media_type=made.media_type)
    headers = {"ETag": made.etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if made.packed and packed:
        headers["Content-Encoding"] = "gzip"
    return Response(made.body if packed else made.unpacked(), headers=headers, media_type=made.media_type)


async def _page(request: Request) -> Response:
    return FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})


async def _unknown(request: Request, error: Exception) -> Response:
    return _error(ApiError(404, "not_found", f"nothing is served at {request.url.path}"))


def _error(error: ApiError) -> Response:
    return Response(orjson.dumps(error.to_json()), error.status, error.headers, "application/json")
