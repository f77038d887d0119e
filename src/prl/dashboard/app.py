"""The ASGI application: routes of the API, the static pages, and what HTTP asks of both."""

import logging
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route as HttpRoute

from prl.dashboard.answers import Answer, AnswerCache, encode, etag_of
from prl.dashboard.errors import ApiError, NotModified
from prl.dashboard.front import VERSION, FrontPage
from prl.dashboard.parameters import validate
from prl.dashboard.routes import ROUTES
from prl.dashboard.routing import PROCESS, Call, Download, Route
from prl.dashboard.security import Guard
from prl.dashboard.static_files import StaticFiles
from prl.dashboard.workspace import Workspace
from prl.watch.outward import safe

STATIC = Path(__file__).parent / "static"
MAX_BODY = 64 << 10
"""Bytes of a request's body."""
_log = logging.getLogger(__name__)


def create_app(workspace: Workspace, *, allow_hosts: Collection[str] = (), token: str | None = None) -> Starlette:
    """The application over the runs of a workspace.

    ``allow_hosts``: names of this server beside those of loopback. ``token``: what every request must carry, for a
    server that others can reach.
    """
    answers, files, front = AnswerCache(), StaticFiles(STATIC), FrontPage(STATIC)
    app = Starlette(
        routes=[
            *(HttpRoute(route.path, _endpoint(route, workspace, answers), methods=[route.method]) for route in ROUTES),
            HttpRoute("/", _front(front)),
            HttpRoute("/static/{name:path}", _file(files, front)),
        ],
        middleware=[Middleware(Guard, hosts=allow_hosts, token=token)],
        exception_handlers={404: _unknown, 405: _wrong_method},
    )
    # It would lead to an address made of the Host, which is another behind a proxy that rewrites paths or speaks TLS.
    app.router.redirect_slashes = False
    return app


def _endpoint(route: Route, workspace: Workspace, answers: AnswerCache) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        known = request.headers.get("if-none-match")
        if any("\0" in value for value in request.path_params.values()):
            return await _unknown(request, None)  # no name on any disk
        try:
            call = Call(
                workspace,
                path=request.path_params,
                query=validate(route.parameters, request.query_params.multi_items()),
                body=await _body(request) if route.method == "POST" else None,
                client=request.headers.get("prl-client"),
            )
            query = str(request.url.query)
            if route.quick:
                made = _make(route, call, answers, query, known)
            else:
                made = await run_in_threadpool(_make, route, call, answers, query, known)
        except NotModified as same:
            return Response(status_code=304, headers={"ETag": str(same), "Cache-Control": "no-cache"})
        except Exception as error:
            return _failed(request, error)
        return _response(made, packed=takes_gzip(request.headers.get("accept-encoding", "")))

    return endpoint


def _failed(request: Request, error: Exception) -> Response:
    """What a route that raised answers. One broken run never breaks another: only its own routes fail."""
    match error:
        case ApiError():
            return _error(error)
        case FileNotFoundError() | NotADirectoryError():
            return _error(ApiError(410, "gone", f"it is not there any more: {_place(error)}"))
        case ClientDisconnect():
            return Response(status_code=400)  # nobody is there to read it
        case OSError():
            return _error(ApiError(503, "unreadable", f"cannot be read: {_place(error)}"))
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _error(ApiError(500, "internal", f"{safe(request.url.path)} failed; the server's log says where"))


def _place(error: OSError) -> str:
    """The file that an error of the system is about, and what it was."""
    where = f"{error.filename}: " if error.filename is not None else ""
    return safe(f"{where}{error.strerror or error}")


def _make(route: Route, call: Call, answers: AnswerCache, query: str, known: str | None) -> Answer | Download:
    """The answer. Raises NotModified with the ETag."""
    made: Answer | Download
    if route.version is None:
        made = _encoded(route.handler(call), None)
    else:
        version = f"{PROCESS}.{route.version(call)}"
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
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
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


def takes_gzip(accepted: str) -> bool:
    """Whether a client takes gzip, by its ``Accept-Encoding``.

    >>> takes_gzip("br, gzip"), takes_gzip("gzip;q=0, br"), takes_gzip("*")
    (True, False, False)
    """
    for coding in accepted.lower().split(","):
        name, _, weight = coding.replace(" ", "").partition(";q=")
        if name in ("gzip", "x-gzip"):
            return not weight or weight.strip("0.") != ""
    return False


def _response(made: Answer | Download, *, packed: bool) -> Response:
    if isinstance(made, Download):
        headers = {"Content-Disposition": f'attachment; filename="{made.name}"', "Cache-Control": "no-store"}
        return StreamingResponse(made.pieces, headers=headers, media_type=made.media_type)
    headers = {"ETag": made.etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if made.packed and packed:
        headers["Content-Encoding"] = "gzip"
    return Response(made.body if packed else made.unpacked(), headers=headers, media_type=made.media_type)


def _front(front: FrontPage) -> Callable[[Request], Awaitable[Response]]:
    """Serves the document of the page that the address names."""

    async def endpoint(request: Request) -> Response:
        query = request.query_params
        usual = "overview" if query.get("run") else "runs"
        return _static(request, front.get(query.get("page", usual)), "no-cache")

    return endpoint


def _file(files: StaticFiles, front: FrontPage) -> Callable[[Request], Awaitable[Response]]:
    """Serves the file of the pages that the path names, with the version of all of them before its name or without."""

    async def endpoint(request: Request) -> Response:
        version, _, name = request.path_params["name"].partition("/")
        versioned = VERSION.fullmatch(version) is not None
        found = files.get(name if versioned else request.path_params["name"])
        if found is None:
            return await _unknown(request, None)
        # A tab with an older document asks under a name that was of other files: what it gets is not kept for good.
        newest = versioned and version == front.version
        return _static(request, found, "public, max-age=31536000, immutable" if newest else "no-cache")

    return endpoint


def _static(request: Request, found: Answer, cache: str) -> Response:
    if request.headers.get("if-none-match") == found.etag:
        return Response(status_code=304, headers={"ETag": found.etag, "Cache-Control": cache})
    response = _response(found, packed=takes_gzip(request.headers.get("accept-encoding", "")))
    response.headers["Cache-Control"] = cache
    return response


async def _unknown(request: Request, error: Exception | None) -> Response:
    return _error(ApiError(404, "not_found", f"nothing is served at {safe(request.url.path)}"))


async def _wrong_method(request: Request, error: Exception) -> Response:
    allowed = error.headers if isinstance(error, HTTPException) else None
    return _error(ApiError(405, "method", f"{safe(request.url.path)} takes no {safe(request.method)}", allowed))


def _error(error: ApiError) -> Response:
    # A browser keeps a 410 for good unless it is told not to, and a run's directory may come back.
    headers = {"Cache-Control": "no-store", **error.headers}
    return Response(orjson.dumps(error.to_json()), error.status, headers, "application/json")
