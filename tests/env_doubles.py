"""What tests of environments need around them: an engine that says what it is told, a client of the wire, a server."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import msgspec
import zmq
from aiohttp import web
from verifiers.v1.serve.delta import EpisodeAssembly
from verifiers.v1.serve.types import RunResponse

MODULES = Path(__file__).parent / "env_modules"
END = 258
"""Id of ``<|im_end|>`` in the byte-level tokenizer: 256 bytes, then the special tokens."""
DEADLINE = 120.0
"""Seconds that anything here is waited for: more than a slow machine needs, so that only a hang exceeds it."""


def eventually(condition: Callable[[], Any], what: str, deadline: float = DEADLINE) -> Any:
    """The first true value of ``condition()``; fails when there is none in time."""
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError(f"not within {deadline:g}s: {what}")


class FakeEngine:
    """Answers ``/v1/models`` and ``/inference/v1/generate`` on a free port, from a thread of its own.

    ``say(prompt text) -> completion text`` is the model. ``status`` other than 200 is answered instead of a completion,
    ``spoil(reply)`` may break a reply, and while ``hold`` is set requests wait.
    """

    def __init__(self) -> None:
        self.say: Callable[[str], str] = lambda prompt: "hi"
        self.status = 200
        self.spoil: Callable[[dict[str, Any]], None] = lambda reply: None
        self.hold = threading.Event()
        self.requests: list[dict[str, Any]] = []
        self.sessions: list[str] = []
        self.keys: list[str] = []
        self.port = 0

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._runner = web.AppRunner(self._app(), access_log=None, shutdown_timeout=0.1)
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(DEADLINE)
        return self

    def __exit__(self, *exc: object) -> None:
        self.hold.clear()
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(DEADLINE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE)
        self._loop.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def reset(self) -> None:
        self.say, self.status, self.spoil = lambda prompt: "hi", 200, lambda reply: None
        self.hold.clear()
        for seen in (self.requests, self.sessions, self.keys):
            seen.clear()

    def _app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/inference/v1/generate", self._generate)
        return app

    async def _start(self) -> None:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "tiny", "max_model_len": 512}]})

    async def _generate(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.requests.append(body)
        self.sessions.append(request.headers.get("X-Session-ID", ""))
        self.keys.append(request.headers.get("Authorization", ""))
        while self.hold.is_set():  # noqa: ASYNC110 - set and cleared from another thread
            await asyncio.sleep(0.01)
        if self.status != 200:
            return web.json_response({"error": "engine is unwell"}, status=self.status)
        ids = [*self.say(bytes(token for token in body["token_ids"] if token < 256).decode()).encode(), END]
        content = [{"token": f"token_id:{token}", "logprob": -0.5} for token in ids]
        choice = {"index": 0, "token_ids": ids, "finish_reason": "stop", "logprobs": {"content": content}}
        reply = {"request_id": "r", "choices": [choice]}
        self.spoil(reply)
        return web.json_response(reply)


class WireClient:
    """A client of :mod:`prl.transport.env_wire`, one message at a time."""

    def __init__(self, address: str) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.connect(address)
        self._sent = 0
        self._replies: dict[bytes, dict[str, Any]] = {}
        self.deltas: dict[bytes, list[dict[str, Any]]] = {}

    def close(self) -> None:
        self._socket.close(linger=0)
        self._context.term()

    def send(self, method: bytes, body: dict[str, Any]) -> bytes:
        self._sent += 1
        request_id = b"%d" % self._sent
        self._socket.send_multipart([request_id, method, msgspec.msgpack.encode(body)])
        return request_id

    def reply(self, request_id: bytes, deadline: float = DEADLINE) -> dict[str, Any]:
        end = time.monotonic() + deadline
        while request_id not in self._replies:
            left = end - time.monotonic()
            assert left > 0, f"no reply to request {request_id!r} within {deadline:g}s"
            self._take(left)
        return self._replies.pop(request_id)

    def replies(self, request_ids: list[bytes], count: int, deadline: float = DEADLINE) -> list[dict[str, Any]]:
        """At least ``count`` replies to ``request_ids``, whichever come first."""
        end = time.monotonic() + deadline
        while len(arrived := [self._replies[each] for each in request_ids if each in self._replies]) < count:
            left = end - time.monotonic()
            assert left > 0, f"not {count} replies within {deadline:g}s"
            self._take(left)
        return arrived

    def call(self, method: bytes, body: dict[str, Any]) -> dict[str, Any]:
        return self.reply(self.send(method, body))

    def episode(self, request_id: bytes) -> dict[str, Any]:
        """The assembled record of a run that ends well."""
        reply = self.reply(request_id)
        assert reply["success"], reply["error"]
        assembly = EpisodeAssembly()
        for delta in self.deltas[request_id]:
            assembly.apply(delta)
        return assembly.finish(reply["head"], RunResponse.model_validate(reply).traces)

    def _take(self, seconds: float) -> None:
        if not self._socket.poll(int(1000 * seconds)):
            return
        request_id, kind, data = self._socket.recv_multipart()
        body = msgspec.msgpack.decode(data)
        if kind == b"delta":
            self.deltas.setdefault(request_id, []).append(body)
        else:
            self._replies[request_id] = body


def run_body(engine: FakeEngine, tokenizer: Path, task: dict[str, Any], **sampling: Any) -> dict[str, Any]:
    """The body of a ``run``."""
    return {
        "task_data": task,
        "client": {
            "type": "train",
            "base_url": engine.url,
            "renderer": {"name": "default"},
            "renderer_model_name": str(tokenizer),
            "api_key_var": "VLLM_API_KEY",
        },
        "model": "tiny",
        "sampling": {"temperature": 1.0, "max_completion_tokens": 16, **sampling},
    }


class EnvServerProcess:
    """``env-server @ <name>.json`` as the launcher starts it, its log in a file."""

    def __init__(self, directory: Path, env: dict[str, Any], **config: Any) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.address_file = directory / "env.address"
        self.log_file = directory / "env.log"
        resolved = {"env": env, "name": "test", "address_file": str(self.address_file), "path": str(MODULES), **config}
        (directory / "env.json").write_text(json.dumps(resolved))
        # Rollouts of a worker that is killed leave their directories under the home directory.
        environment = {
            **os.environ,
            "HOME": str(directory),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HF_HUB_OFFLINE": "1",
            "VLLM_API_KEY": "s3cret",
        }
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "prl.cli.env_server", "@", str(directory / "env.json")],
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def address(self) -> str:
        """Where it can be asked, once it can."""
        eventually(lambda: self.address_file.exists() or self.process.poll() is not None, "the address file")
        assert self.address_file.exists(), self.log
        return self.address_file.read_text()

    def stop(self) -> None:
        """End it and everything it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(DEADLINE)


@contextlib.contextmanager
def env_server(directory: Path, env: dict[str, Any], **config: Any) -> Iterator[EnvServerProcess]:
    server = EnvServerProcess(directory, env, **config)
    try:
        yield server
    finally:
        server.stop()
