"""Pages as a browser that nobody drives loads them. Cases of ``benchmarks/dashboard.py``.

Playwright listens to every request, which makes each of the sixty files of a page several times as slow. Here a
Chromium is only told where to go and asked afterwards what it saw. A first visit is one of a browser that has no file
of the page; later ones find what it kept.
"""

import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from websockets.sync.client import ClientConnection, connect

from dashboard_data import Data
from dashboard_server import Case, server

WAIT_SECONDS = 60.0
SEEN = """
window.seen = (name, test) => {
  window.seenAt ??= {};
  const look = () => {
    if (name in window.seenAt) return;
    if (!test()) { window.requestAnimationFrame(look); return; }
    window.requestAnimationFrame(() => { window.seenAt[name] ??= performance.now(); });
  };
  window.requestAnimationFrame(look);
};
"""
"""Notes when something first stood on the page: in the frame after an element is there."""
TILE = "() => [...document.querySelectorAll('.tile .v')].some((value) => /\\d/.test(value.textContent))"
CHARTS = """() => document.querySelectorAll('.chart canvas').length > 0
  && !document.querySelector('.skeleton, .overview-page .waiting')"""
ROWS = "() => document.querySelectorAll('main tbody tr[data-index]').length > 10"
_BYTES = """[...performance.getEntriesByType('resource'), ...performance.getEntriesByType('navigation')]
  .reduce((sum, entry) => sum + entry.transferSize, 0)"""


class Visitor:
    """A tab of a Chromium of its own."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._calls = 0

    def call(self, method: str, **parameters: Any) -> Any:
        self._calls += 1
        self._socket.send(json.dumps({"id": self._calls, "method": method, "params": parameters}))
        while (said := json.loads(self._socket.recv(WAIT_SECONDS))).get("id") != self._calls:
            pass
        if "error" in said:
            raise RuntimeError(f"{method}: {said['error']}")
        return said["result"]

    def ask(self, expression: str) -> Any:
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def look_for(self, **tests: str) -> None:
        """What to note the time of, on every page from now on."""
        source = SEEN + "".join(f"window.seen({name!r}, {test});" for name, test in tests.items())
        self.call("Page.addScriptToEvaluateOnNewDocument", source=source)

    def visit(self, url: str, *names: str) -> list[float]:
        """Milliseconds from the start of the navigation until each of ``names`` was seen. Asks seldom: it disturbs."""
        self.call("Page.enable")
        self.call("Page.navigate", url=url)
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            time.sleep(0.25)
            seen = self.ask("window.seenAt") or {}
            if all(name in seen for name in names):
                return [float(seen[name]) for name in names]
            if time.monotonic() > deadline:
                raise RuntimeError(f"{url}: {set(names) - set(seen)} not seen within {WAIT_SECONDS:.0f} s")


@contextmanager
def visitor() -> Iterator[Visitor]:
    """A browser that was never anywhere, past its own start."""
    chromium = shutil.which("chromium") or "chromium"
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--window-size=1400,900"]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [chromium, *options, f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            named = Path(profile) / "DevToolsActivePort"
            deadline = time.monotonic() + WAIT_SECONDS
            while not named.exists() or "\n" not in named.read_text():
                if time.monotonic() > deadline:
                    raise RuntimeError("Chromium did not start")
                time.sleep(0.05)
            port = named.read_text().split("\n", 1)[0]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
                tabs = [one for one in json.load(answer) if one["type"] == "page"]
            time.sleep(2.0)
            with connect(tabs[0]["webSocketDebuggerUrl"], max_size=None) as socket:
                yield Visitor(socket)
        finally:
            process.kill()
            process.wait()


def overview_page(data: Data, cache: Path, repeat: int) -> Iterator[Case]:
    cold, whole = [], []
    for _ in range(3):
        shutil.rmtree(cache, ignore_errors=True)
        with visitor() as tab, server(data.big, cache) as running:
            tab.look_for(tile=TILE)
            begun = time.perf_counter()
            cold += tab.visit(f"http://127.0.0.1:{running.port}/?run={running.run}", "tile")
            while running.of_run("overview", points=200)[2]["partial"]:
                time.sleep(0.02)
            whole.append((time.perf_counter() - begun) * 1e3)
    yield Case("overview, first useful paint: first visit, server just started, no cache", median(cold), "ms", 300)
    yield Case("overview, all of the metrics read then", median(whole), "ms", 3000)
    with server(data.big, cache) as running:
        running.of_run("overview", points=200)
        address = f"http://127.0.0.1:{running.port}/?run={running.run}"
        yield from _first_visits(address)
        with visitor() as tab:
            tab.look_for(tile=TILE, charts=CHARTS)
            visits = [tab.visit(f"{address}&visit={number}", "tile", "charts") for number in range(repeat + 1)][1:]
            yield Case("overview, first useful paint, later visits", median(one[0] for one in visits), "ms", 300)
            yield Case("overview, all charts, later visits", median(one[1] for one in visits), "ms", 1000)
            tab.call("HeapProfiler.collectGarbage")
            heap = tab.call("Runtime.getHeapUsage")["usedSize"]
            yield Case("overview, browser heap", heap / 2**20, "MB", 60)


def _first_visits(address: str) -> Iterator[Case]:
    found, size = [], 0.0
    for _ in range(3):
        with visitor() as tab:
            tab.look_for(tile=TILE, charts=CHARTS)
            found.append(tab.visit(address, "tile", "charts"))
            size = float(tab.ask(_BYTES))
    yield Case("overview, first useful paint, first visit", median(one[0] for one in found), "ms", 300)
    yield Case("overview, all charts, first visit", median(one[1] for one in found), "ms", 1000)
    yield Case("overview, bytes, first visit", size / 1e3, "kB", 300)


def runs_page(data: Data, cache: Path, repeat: int) -> Iterator[Case]:
    with server(data.many, cache, find=False) as running:
        while running.ask("/api/v1/runs")[2]["scanning"]:
            time.sleep(0.05)
        address = f"http://127.0.0.1:{running.port}/"
        first = []
        for _ in range(3):
            with visitor() as tab:
                tab.look_for(rows=ROWS)
                first += tab.visit(address, "rows")
        yield Case("page of 1,000 runs, first visit", median(first), "ms", 300)
        with visitor() as tab:
            tab.look_for(rows=ROWS)
            later = [tab.visit(f"{address}?visit={number}", "rows")[0] for number in range(repeat + 1)][1:]
            yield Case("page of 1,000 runs, later visits", median(later), "ms", 300)
