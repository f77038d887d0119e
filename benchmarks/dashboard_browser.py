"""The pages of the dashboard in Chromium, and many tabs on a live run. Cases of ``benchmarks/dashboard.py``.

What is seen is timed in the page: an observer notes when an element first stands there, and the next frame counts.
"""

import multiprocessing
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from dashboard_data import Data
from dashboard_server import Case, Server, server
from dashboard_visits import SEEN, overview_page, runs_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WAIT_MS = 60_000
FRAME_MS = 1000 / 60


@contextmanager
def chromium() -> Iterator["Browser"]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            yield browser
        finally:
            browser.close()


def _tab(browser: "Browser", running: Server, scripts: dict[str, str]) -> "Page":
    """A new tab that notes when each of ``scripts`` is first true."""
    page = browser.new_context(viewport={"width": 1400, "height": 900}).new_page()
    page.set_default_timeout(WAIT_MS)
    page.add_init_script(SEEN + "".join(f"window.seen({name!r}, {test});" for name, test in scripts.items()))
    return page


def _when(page: "Page", name: str) -> float:
    """When something was first seen, ms from the start of the navigation."""
    deadline = time.monotonic() + WAIT_MS / 1e3
    while (found := page.evaluate(f"window.seenAt?.[{name!r}]")) is None:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{name} was not seen within {WAIT_MS} ms")
        page.wait_for_timeout(10)
    return float(found)


def _timed(page: "Page", act: str, done: str) -> float:
    """Milliseconds from an action in the page to the frame after a condition holds."""
    taken: float = page.evaluate(
        f"""() => new Promise((resolve, reject) => {{
          const begun = performance.now();
          const look = () => {{
            if (({done})()) window.requestAnimationFrame(() => resolve(performance.now() - begun));
            else if (performance.now() - begun > {WAIT_MS}) reject(new Error('not done'));
            else window.requestAnimationFrame(look);
          }};
          ({act})();
          look();
        }})"""
    )
    return taken


def episodes_page(data: Data, cache: Path, repeat: int) -> Iterator[Case]:
    rows = "() => document.querySelectorAll('main .table tbody tr[data-index]').length > 5"
    first = "document.querySelector('main .table tbody tr[data-index]')?.innerText"
    with chromium() as browser, server(data.big, cache) as running:
        running.of_run("episodes", sort="reward")
        page = _tab(browser, running, {"rows": rows})
        page.goto(f"http://127.0.0.1:{running.port}/?run={running.run}&page=traces")
        yield Case("episodes page, rows drawn", _when(page, "rows"), "ms")
        taken = []
        for _ in range(repeat):
            page.evaluate(f"() => {{ window.before = {first}; }}")
            click = """() => [...document.querySelectorAll('main .table th button')]
              .find((button) => /^Reward/.test(button.innerText.trim())).click()"""
            taken.append(_timed(page, click, f"() => {first} !== window.before"))
        yield Case("episodes page, sort to paint", median(taken), "ms", 150)


def _viewer(running: Server, episode: str) -> str:
    return f"http://127.0.0.1:{running.port}/?run={running.run}&page=traces&episode={episode}"


def _another(episode: str) -> tuple[str, str]:
    """Going to another episode as a link does, and how to see that its tokens are drawn."""
    act = f"""() => {{
      window.shown = document.querySelector('.tk');
      history.pushState(null, '', location.search.replace(/episode=[^&]*/, 'episode=' + {episode!r}));
      window.dispatchEvent(new PopStateEvent('popstate'));
    }}"""
    return act, "() => document.querySelectorAll('.tk').length > 200 && document.querySelector('.tk') !== window.shown"


def _overlay(name: str) -> tuple[str, str]:
    """Choosing an overlay, and how to see that it is chosen."""
    button = f"(one) => one.innerText.trim() === {name!r}"
    act = f"() => [...document.querySelectorAll('.seg button')].find({button}).click()"
    return act, f"() => [...document.querySelectorAll('.seg button[aria-pressed=true]')].some({button})"


def viewer_page(data: Data, cache: Path, repeat: int) -> Iterator[Case]:
    drawn = "() => document.querySelectorAll('.tk').length > 200"
    with chromium() as browser:
        with server(data.tokens, cache) as running:
            ids = [row["id"] for row in running.of_run("episodes")[2]["rows"]]
            running.of_run(f"episodes/{ids[-1]}")
            opened = []
            for name in ids[:3]:
                page = _tab(browser, running, {"tokens": drawn})
                page.goto(f"{_viewer(running, name)}&overlay=mismatch_kl")
                opened.append(_when(page, "tokens"))
            yield Case("viewer opened by its address, tokens drawn", min(opened), "ms")
            following = [_timed(page, *_another(name)) for name in ids[3:6]]
            yield Case("viewer, another episode to paint", min(following), "ms", 100)
            overlays = ["Entropy", "Mismatch KL"] * repeat
            # One frame passes before any change can be seen.
            switched = [_timed(page, *_overlay(wanted)) - FRAME_MS for wanted in overlays]
            yield Case("viewer, overlay switch beyond a frame", median(switched), "ms", 16)
        with server(data.long, cache) as running:
            name = running.of_run("episodes", sort="output_tokens")[2]["rows"][0]["id"]
            page = _tab(browser, running, {"tokens": drawn})
            page.goto(f"{_viewer(running, name)}&overlay=entropy")
            _when(page, "tokens")
            page.wait_for_timeout(1000)
            yield Case("100,000 tokens, ms a frame while scrolling", 1000 / _frames(page), "ms", 20)


def _frames(page: "Page") -> float:
    """Frames a second while what scrolls furthest is scrolled by a third of the window a frame."""
    frames: float = page.evaluate(
        """() => new Promise((resolve) => {
          const boxes = [...document.querySelectorAll('main *'), document.scrollingElement];
          const still = (box) => getComputedStyle(box).overflowY === 'visible' && box !== document.scrollingElement;
          const room = (box) => (still(box) ? 0 : box.scrollHeight - box.clientHeight);
          const box = boxes.reduce((best, one) => (room(one) > room(best) ? one : best));
          const begun = performance.now();
          let drawn = 0;
          const next = () => {
            box.scrollTop += 300;
            drawn += 1;
            if (drawn < 120) window.requestAnimationFrame(next);
            else resolve((drawn * 1000) / (performance.now() - begun));
          };
          window.requestAnimationFrame(next);
        })"""
    )
    return frames


def _grow(root: str, seconds: float, recorded: int, pace: float) -> None:
    """Write a live run for a while; ``pace``: how many times as fast as time passes."""
    from prl.synth import RunShape
    from prl.synth.growing import grow_run

    end = time.monotonic() + seconds

    def wait(due: float) -> bool:
        time.sleep(min(due / pace, 1.0) if pace == 1 else 0.002)
        return time.monotonic() < end

    shape = RunShape(state="running", steps=100_000, max_steps=200_000, rollouts=32, step_seconds=8.0)
    grow_run(Path(root), shape, recorded=recorded, wait=wait)


def many_tabs(data: Data, cache: Path, repeat: int) -> Iterator[Case]:
    """Twenty tabs on a run that grows as runs do: the server's share of a core."""
    del repeat
    output = cache / "outputs"
    writer = multiprocessing.get_context("spawn").Process(target=_grow, args=(str(output / "live"), 150.0, 60, 1.0))
    writer.start()
    try:
        while not (output / "live/launcher/status.json").exists():
            time.sleep(0.1)
        with chromium() as browser, server(output, cache) as running:
            pages = ("overview", "traces", "metrics", "logs")
            for number in range(20):
                page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
                page.goto(f"http://127.0.0.1:{running.port}/?run={running.run}&page={pages[number % len(pages)]}")
            page.wait_for_timeout(10_000)
            before, begun = running.process.cpu_times(), time.monotonic()
            page.wait_for_timeout(40_000)
            after, taken = running.process.cpu_times(), time.monotonic() - begun
            busy = (after.user + after.system - before.user - before.system) / taken
            yield Case("20 tabs on a live run, share of a core", 100 * busy, "%", 10)
    finally:
        writer.kill()
        writer.join()


def an_hour(data: Data, cache: Path, repeat: int) -> Iterator[Case]:
    """Somebody looks while a run writes at many times its speed: what the server's memory does, beside that of one
    which opens the run afterwards. The run itself grows, and what is known of it; nothing else is to."""
    del data, repeat
    output = cache / "outputs"
    writer = multiprocessing.get_context("spawn").Process(target=_grow, args=(str(output / "live"), 90.0, 20, 1000.0))
    writer.start()
    try:
        while not (output / "live/launcher/status.json").exists():
            time.sleep(0.1)
        with server(output, cache) as running:
            stopping = threading.Event()
            looker = threading.Thread(target=_look, args=(running, stopping))
            looker.start()
            time.sleep(20)
            early = running.megabytes
            writer.join()
            late = running.megabytes
            stopping.set()
            looker.join()
            steps = running.ask("/api/v1/runs")[2]["rows"][0]["step"]
            yield Case("run's time that was written meanwhile", steps * 8.0 / 3600, "h")
            yield Case("memory 20 s after its beginning", early, "MB")
            yield Case("memory after it", late, "MB")
        with server(output, cache) as fresh:
            for _ in range(3):
                _ask_all(fresh)
            yield Case("memory of a server that opens the run only then", fresh.megabytes, "MB")
            yield Case("memory after it, beside that", late / fresh.megabytes, "times", 1.1)
    finally:
        writer.kill()
        writer.join()


def _look(running: Server, stopping: threading.Event) -> None:
    while not stopping.wait(0.5):
        _ask_all(running)


def _ask_all(running: Server) -> None:
    running.ask("/api/v1/pulse", run=running.run)
    for path in ("overview", "episodes", "logs", "live"):
        running.of_run(path)


BROWSER: tuple[Any, ...] = (overview_page, runs_page, episodes_page, viewer_page)
LOAD: tuple[Any, ...] = (many_tabs, an_hour)
