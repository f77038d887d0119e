"""A real Chromium over a real server, for tests of the pages."""

import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import uvicorn

from conftest import require_tool
from prl.dashboard.app import create_app
from prl.dashboard.daemon import bind
from prl.dashboard.workspace import Workspace
from prl.rundir.recognition import run_id

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parent.parent
AXE = ROOT / "node_modules/axe-core/axe.min.js"
SHOWN = 15_000
"""Milliseconds within which something must appear. Long: these machines are shared."""


def named(runs: Path, name: str) -> str:
    """The id of a run."""
    return run_id(str((runs / name).resolve()))


@contextmanager
def serving(*dirs: Path) -> Iterator[str]:
    """The address of a dashboard over the runs below ``dirs``, in this process."""
    workspace = Workspace(list(dirs))
    workspace.start()
    bound = bind("127.0.0.1", 0)
    server = uvicorn.Server(
        uvicorn.Config(create_app(workspace), log_level="error", lifespan="off", timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        workspace.close()
        bound.close()


@contextmanager
def chromium() -> Iterator["Browser"]:
    """The system's Chromium. A machine without one skips; in CI that fails."""
    require_tool("chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """One page and everything it complained of."""

    def __init__(self, page: "Page", base: str) -> None:
        self.page = page
        self.base = base
        self.complaints: list[str] = []
        page.set_default_timeout(SHOWN)
        page.on("console", lambda said: self._hear(said.type, said.text))
        page.on("pageerror", lambda error: self.complaints.append(f"exception: {error}"))
        page.on("requestfailed", self._failed)

    def _hear(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(f"{kind}: {text}")

    def _failed(self, request: Any) -> None:
        # A question that was given up because another took its place is no failure.
        if request.failure != "net::ERR_ABORTED":
            self.complaints.append(f"failed: {request.url} {request.failure}")

    def open(self, **place: Any) -> "Tab":
        """Go to a place: its page, run and parameters."""
        self.page.goto(f"{self.base}/?{urlencode(place, doseq=True)}")
        return self

    def show(self, theme: str) -> None:
        """Let the system prefer a theme."""
        self.page.emulate_media(color_scheme="dark" if theme == "dark" else "light")

    def see(self, text: str, *, exact: bool = False) -> None:
        """Wait until a text is on the page."""
        self.page.get_by_text(text, exact=exact).first.wait_for()

    def until(self, expression: str) -> None:
        """Wait until a JavaScript expression is true. By asking again: the page's policy forbids to evaluate in it."""
        deadline = time.monotonic() + SHOWN / 1000
        while not self.page.evaluate(expression):
            assert time.monotonic() < deadline, f"not within {SHOWN} ms: {expression}"
            self.page.wait_for_timeout(50)

    def serious(self) -> list[str]:
        """What axe-core finds that is serious or worse, a line each: rule, what to do, where."""
        self.page.evaluate(AXE.read_text())
        found: dict[str, Any] = self.page.evaluate("axe.run({resultTypes: ['violations']})")
        return [
            f"{one['id']}: {one['help']}: {[node['target'] for node in one['nodes'][:5]]}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
        ]

    def overflows(self) -> int:
        """Pixels by which the page is wider than the window."""
        wide: int = self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        return max(0, wide)


@contextmanager
def tab(browser: "Browser", base: str, *, width: int = 1280, height: int = 900, theme: str = "light") -> Iterator[Tab]:
    """A new tab, with nothing stored. Fails at its end where the page complained of anything.

    Tabs of a browser share what it keeps of files: the pages' modules are loaded once.
    """
    from playwright.sync_api import Error

    context = browser.contexts[0] if browser.contexts else browser.new_context()
    opened = Tab(context.new_page(), base)
    opened.page.set_viewport_size({"width": width, "height": height})
    opened.show(theme)
    try:
        yield opened
        assert not opened.complaints, "\n".join(opened.complaints)
    finally:
        with suppress(Error):  # it stands on no page
            opened.page.evaluate("localStorage.clear()")
        opened.page.close()


def require_axe() -> None:
    """Skip where npm has not installed axe-core; in CI that fails."""
    import pytest

    if not AXE.exists():
        message = "axe-core is not installed: npm install"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(message)
