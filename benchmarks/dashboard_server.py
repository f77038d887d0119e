"""A dashboard in a process of its own and what is asked of it, for ``benchmarks/dashboard.py``."""

import gzip
import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import quote, urlencode

import psutil

START_SECONDS = 60.0


@dataclass(frozen=True)
class Case:
    """One figure: what is measured, in which unit, what is to be reached."""

    name: str
    value: float
    unit: str
    target: float | None = None

    @property
    def holds(self) -> bool | None:
        return None if self.target is None else self.value <= self.target


class Server:
    """A dashboard in a process of its own, and one connection to it."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, started: float) -> None:
        self.process = psutil.Process(process.pid)
        self.port = port
        self.started = started
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self.run = ""

    def ask(self, path: str, **query: Any) -> tuple[float, int, Any]:
        """Seconds until the answer was read, its bytes on the wire, and what it says."""
        target = f"{path}?{urlencode(query, doseq=True)}" if query else path
        begun = time.perf_counter()
        self.connection.request("GET", target, headers={"Accept-Encoding": "gzip", "Prl-Client": "benchmark"})
        response = self.connection.getresponse()
        body = response.read()
        taken = time.perf_counter() - begun
        if response.status != 200:
            raise RuntimeError(f"{target}: {response.status} {body[:300]!r}")
        packed = response.headers.get("Content-Encoding") == "gzip"
        return taken, len(body), json.loads(gzip.decompress(body) if packed else body)

    def of_run(self, path: str, **query: Any) -> tuple[float, int, Any]:
        return self.ask(f"/api/v1/runs/{quote(self.run, safe='~')}/{path}", **query)

    def calls(self, repeat: int, ask: Callable[[int], tuple[float, int, Any]]) -> float:
        """The median time of several calls, ms."""
        return median(ask(number)[0] for number in range(repeat)) * 1e3

    @property
    def megabytes(self) -> float:
        return float(self.process.memory_info().rss) / 2**20


@contextmanager
def server(directory: Path, cache: Path, *, find: bool = True) -> Iterator[Server]:
    """A server over an output directory; with ``find`` the id of its first run is known."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-m", "prl.cli.dashboard", str(directory), "--isolated", "--port", str(port)]
    begun = time.perf_counter()
    process = subprocess.Popen(command, env={**environment, "PRL_CACHE_DIR": str(cache)})
    try:
        while True:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                connection.request("GET", "/api/health")
                connection.getresponse().read()
                break
            except OSError:
                if time.perf_counter() - begun > START_SECONDS or process.poll() is not None:
                    raise RuntimeError("the server did not start") from None
                time.sleep(0.002)
        found = Server(process, port, time.perf_counter() - begun)
        if find:
            deadline = time.monotonic() + START_SECONDS
            while not (rows := found.ask("/api/v1/runs")[2]["rows"]) and time.monotonic() < deadline:
                time.sleep(0.01)
            found.run = rows[0]["id"]
        yield found
    finally:
        process.terminate()
        process.wait()
