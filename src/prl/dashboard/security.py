"""Who may ask, and what a browser may do with an answer: in front of everything else that is served.

A page of another site cannot read runs through a name that it points at this machine (DNS rebinding): the Host must
be a name of this server. It cannot post either: an Origin, when sent, must be the Host. Beyond loopback every request
carries the token, which a browser gets into a cookie by opening the printed address once. Left out: users and rights;
whoever has the token may see everything.
"""

import hmac
import ipaddress
from collections.abc import Collection
from hashlib import sha256
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import orjson
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from prl.dashboard.errors import ApiError

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names under which a server on loopback is asked. Any port: people tunnel from another one."""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Of every answer."""

_TOKEN_DAYS = 30


class Guard:
    """ASGI middleware. ``hosts``: further names of this server. ``token``: what every request must carry."""

    def __init__(self, app: ASGIApp, hosts: Collection[str] = (), token: str | None = None) -> None:
        self._app = app
        self._hosts = LOOPBACK | {host.lower().strip("[]") for host in hosts}
        self._token = token.encode() if token is not None else None
        # Cookies are shared by all ports of a host: each server has a name of its own.
        self._cookie = f"prl_{sha256(self._token or b'').hexdigest()[:12]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            answer = self._refusal(scope)
            await (answer or self._app)(scope, receive, _with_headers(send))
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = ", ".join(headers.getlist("host"))  # several are none
        if not self._is_own(host):
            return _error(403, "forbidden", f"{host[:200]!r} is no name of this server (--allow-host allows one)")
        if not all(_same_origin(origin, host) for origin in headers.getlist("origin")):
            return _error(403, "forbidden", "asked by a page of another origin")
        return None if self._token is None else self._without_token(scope, headers)

    def _is_own(self, host: str) -> bool:
        name = _name_of(host)
        # No page can have an address as its name unless it is served from there: rebinding needs a name.
        return name in self._hosts or (self._token is not None and _is_address(name))

    def _without_token(self, scope: Scope, headers: Headers) -> Response | None:
        """What to answer instead; None when the request has the token."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is_token(given.strip()):
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True, max_num_fields=None)
        if scope["method"] == "GET" and any(name == "token" and self._is_token(value) for name, value in query):
            rest = urlencode([pair for pair in query if pair[0] != "token"])
            return self._welcome(scope["path"], rest)
        if self._is_token(_cookie(headers, self._cookie)):
            return None
        refused = _error(401, "unauthorized", "open the address that the server printed, with its token")
        refused.headers["WWW-Authenticate"] = "Bearer"
        return refused

    def _is_token(self, given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode(errors="replace"), self._token or b"")

    def _welcome(self, path: str, query: str) -> Response:
        """Sets the cookie and goes on without the token in the address.

        By a page and not by a redirect: a browser that followed a link of another site here would go on with that
        site as the one that asks, and send no strict cookie.
        """
        target = quote("/" + path.lstrip("/")) + (f"?{query}" if query else "")
        shown = target.replace("&", "&amp;").replace('"', "%22").replace("<", "%3C")
        page = f'<!doctype html><meta http-equiv="refresh" content="0; url={shown}"><a href="{shown}">Go on</a>'
        answer = HTMLResponse(page, headers={"Cache-Control": "no-store"})
        token = (self._token or b"").decode()
        answer.set_cookie(self._cookie, token, max_age=_TOKEN_DAYS * 86400, httponly=True, samesite="strict")
        return answer


def _with_headers(send: Send) -> Send:
    async def sender(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
        await send(message)

    return sender


def _name_of(host: str) -> str:
    """The name in a Host header, without port and brackets, lower case; empty when it is none."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises for what is no port
    except ValueError:
        return ""
    return (parts.hostname or "") if parts.netloc == host and "@" not in host else ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _same_origin(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def _cookie(headers: Headers, name: str) -> str | None:
    """The last of a cookie's values. The others are of whatever else is served on this host, and in any form: the
    standard library gives up the whole header for one that it does not like."""
    pairs = (pair.partition("=") for header in headers.getlist("cookie") for pair in header.split(";"))
    return {key.strip(): value.strip() for key, _, value in pairs}.get(name)


def _error(status: int, kind: str, message: str) -> Response:
    error = ApiError(status, kind, message)
    return Response(orjson.dumps(error.to_json()), status, media_type="application/json")
