"""A caller of an ASGI application, without a socket: what a browser would get, status, headers and JSON.

    client = Client(create_app(Workspace([tmp_path])))
    answer = client.get("/api/v1/runs/demo~1234abcd/metrics/series", key=["orch:a", "trainer:b"], points=40)
    assert answer.status == 200 and answer.json["series"]

Left out: redirects and cookies kept between calls (``Answer.headers`` has what a server set).
"""

import asyncio
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import quote, urlencode

HOST = "localhost:7788"


@dataclass(frozen=True)
class Answer:
    """``body``: as sent, so compressed when ``content-encoding`` says so. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @cached_property
    def content(self) -> bytes:
        """The body, decompressed."""
        return gzip.decompress(self.body) if self.headers.get("content-encoding") == "gzip" else self.body

    @property
    def text(self) -> str:
        return self.content.decode()

    @cached_property
    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def etag(self) -> str:
        return self.headers["etag"]

    @property
    def error(self) -> str:
        """The ``kind`` of an error's body."""
        kind: str = self.json["error"]["kind"]
        return kind


class Client:
    """Calls an ASGI application. ``headers`` go with every call."""

    def __init__(self, app: Any, headers: Mapping[str, str] | None = None) -> None:
        self.app = app
        self.headers = {"host": HOST, "accept-encoding": "gzip", **(headers or {})}

    def get(self, path: str, headers: Mapping[str, str] | None = None, /, **query: Any) -> Answer:
        """``query``: a list is the parameter given several times, None is left out, booleans are 1 and 0."""
        return self.call("GET", path, query=urlencode(list(_pairs(query))), headers=headers)

    def again(self, path: str, etag: str, /, **query: Any) -> Answer:
        """The same with ``If-None-Match``: 304 when nothing changed."""
        return self.get(path, {"if-none-match": etag}, **query)

    def post(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Answer:
        """``body`` as JSON; bytes are sent as they are."""
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.call("POST", path, body=sent, headers={"content-type": "application/json", **(headers or {})})

    def call(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request. ``path`` may hold any character; it is decoded text, as in ASGI."""
        sent = {**self.headers, **{name.lower(): value for name, value in (headers or {}).items()}}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": quote(path, safe="/").encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in sent.items()],
            "client": ("127.0.0.1", 50_000),
            "server": ("127.0.0.1", 7788),
        }
        return asyncio.run(_exchange(self.app, scope, body))


def _pairs(query: Mapping[str, Any]) -> Any:
    for name, given in query.items():
        for value in given if isinstance(given, list | tuple) else [given]:
            if value is not None:
                yield name, int(value) if isinstance(value, bool) else value


async def _exchange(app: Any, scope: dict[str, Any], body: bytes) -> Answer:
    start: dict[str, Any] = {}
    pieces: list[bytes] = []
    sent = False

    async def receive() -> dict[str, Any]:
        nonlocal sent
        if sent:
            await asyncio.Event().wait()  # a client that stays connected says nothing more
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
        else:
            pieces.append(message.get("body", b""))

    await app(scope, receive, send)
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in start["headers"]}
    return Answer(start["status"], headers, b"".join(pieces))
