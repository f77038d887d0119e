"""Pictures of the dashboard's pages, in both themes: ``docs/pictures/<page>_<theme>.png``.

    python tools/screenshots.py                # all of them
    python tools/screenshots.py logs viewer    # these

Makes up runs in a temporary directory, one of them growing meanwhile, serves them in this process and lets the system's
Chromium look at them. Names are always the same; what is on a picture differs a little from time to time, because one
of the runs goes on.
"""

import contextlib
import json
import os
import shutil
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import uvicorn
from playwright.sync_api import Browser, Page, sync_playwright

from prl.dashboard.app import create_app
from prl.dashboard.daemon import bind
from prl.dashboard.workspace import Workspace
from prl.rundir.recognition import run_id
from prl.synth import RunShape, write_run
from prl.synth.growing import grow_run

PICTURES = Path(__file__).parent.parent / "docs/pictures"
SIZE = (1400, 900)
THEMES = ("light", "dark")
LIVE, BROKEN = "mixed-r7", "word-sort-r1"
RECORDED = 56
"""Steps of the live run when the first picture is made; a loss that is no number lies shortly before."""
WAIT_S = 120
SETTLE_MS = 1200
DAY = 86400.0
_GROWING = RunShape(
    name=LIVE,
    state="running",
    steps=5000,
    max_steps=200,
    rollouts=48,
    step_seconds=12.0,
    nonfinite_steps=(50,),
    chunk_bytes=8 << 20,
)


@dataclass(frozen=True)
class Shot:
    """A picture: where it is, and what is done there first."""

    name: str
    place: dict[str, Any]
    act: Callable[[Page], None] = lambda page: None


def main(names: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="prl-pictures-") as directory:
        os.environ["PRL_CACHE_DIR"] = str(Path(directory) / "cache")
        runs = Path(directory) / "outputs"
        with _runs(runs), _serving(runs) as base:
            shots = [shot for shot in _shots(runs, base) if not names or shot.name in names]
            _take(shots, base)
    size = sum(path.stat().st_size for path in PICTURES.glob("*.png"))
    print(f"{PICTURES}: {2 * len(shots)} pictures made, {size / 2**20:.1f} MiB in all")


@contextlib.contextmanager
def _runs(root: Path) -> Iterator[None]:
    """The runs. The live one grows until the end."""
    now = time.time()
    ended = (
        RunShape(name="mixed-r6", steps=80, rollouts=24, start=now - DAY, seed=6),
        RunShape(name="mixed-r5", steps=60, rollouts=48, start=now - 2 * DAY, seed=5),
        RunShape(name=BROKEN, state="failed", steps=40, attempts=2, rollouts=24, start=now - 3 * DAY, seed=3),
        RunShape(name="warm-up", kind="sft", steps=120, start=now - 4 * DAY, seed=4),
        RunShape(name="baseline-eval", kind="eval", steps=1, rollouts=64, start=now - 5 * DAY, seed=2),
    )
    for shape in ended:
        write_run(root / shape.run_name, shape)
    stopping = threading.Event()
    arguments = {"recorded": RECORDED, "wait": lambda seconds: not stopping.wait(max(0.0, seconds))}
    writer = threading.Thread(target=grow_run, args=(root / LIVE, _GROWING), kwargs=arguments, daemon=True)
    writer.start()
    try:
        yield
    finally:
        stopping.set()
        writer.join(timeout=20)


@contextlib.contextmanager
def _serving(runs: Path) -> Iterator[str]:
    """The address of a dashboard over the runs, once it has judged them all."""
    workspace = Workspace([runs])
    workspace.start()
    bound = bind("127.0.0.1", 0)
    config = uvicorn.Config(create_app(workspace), log_level="error", lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    base = f"http://127.0.0.1:{bound.getsockname()[1]}"
    try:
        _until_judged(base, sum(1 for path in runs.iterdir() if path.is_dir()))
        yield base
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        workspace.close()
        bound.close()


def _ask(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=WAIT_S) as answer:
        return json.load(answer)


def _until_judged(base: str, many: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            rows = _ask(f"{base}/api/v1/runs")["rows"]
            by_name = {row["name"]: row for row in rows}
            ready = len(rows) >= many and all(row["health"] for row in rows)
            if ready and by_name[LIVE]["phase"] == "running" and by_name[LIVE]["step"] > RECORDED:
                return
        time.sleep(0.5)
    raise SystemExit(f"the runs were not judged within {WAIT_S} s")


def _shots(runs: Path, base: str) -> list[Shot]:
    ids = {path.name: run_id(str(path.resolve())) for path in runs.iterdir()}
    live, broken = ids[LIVE], ids[BROKEN]
    step = RECORDED - 4
    wanted: dict[str, str | int] = {"step": step, "env": "word sort+hint", "sort": "output_tokens", "limit": 1}
    found = _ask(f"{base}/api/v1/runs/{live}/episodes?{urlencode(wanted)}")["rows"][0]
    compared = [live, ids["mixed-r6"], ids["mixed-r5"]]
    rail = _ask(f"{base}/api/v1/runs/{broken}/logs/rail")
    cause = next(one for one in rail["incidents"] if "memory" in one["text"])
    report = _ask(f"{base}/api/v1/runs/{ids['mixed-r6']}/reports")["rows"][-1]["name"]
    return [
        Shot("runs", {"select": compared, "compare": 1}),
        Shot("overview", {"page": "overview", "run": live, "at": step}),
        Shot("metrics", {"page": "metrics", "run": live, "key": "mismatch_kl/all/mean", "at": step}),
        Shot("traces", {"page": "traces", "run": live, "step": step, "sel": found["ref"]}),
        Shot("viewer", {"page": "traces", "run": live, "step": step, "episode": found["ref"], "overlay": "mismatch_kl"},
             lambda page: page.keyboard.press("w")),
        Shot("logs", {"page": "logs", "run": broken, "q": "memory", "file": cause["file"], "offset": cause["offset"]}),
        Shot("configs", {"page": "configs", "run": broken, "view": "diff"}),
        Shot("reports", {"page": "reports", "run": ids["mixed-r6"], "report": report}),
    ]  # fmt: skip


def _take(shots: list[Shot], base: str) -> None:
    PICTURES.mkdir(exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        try:
            for shot in shots:
                for theme in THEMES:
                    _picture(browser, base, shot, theme)
        finally:
            browser.close()


def _picture(browser: Browser, base: str, shot: Shot, theme: str) -> None:
    context = browser.new_context(viewport={"width": SIZE[0], "height": SIZE[1]})
    page = context.new_page()
    page.goto(f"{base}/?{urlencode({**shot.place, 'theme': theme}, doseq=True)}")
    page.wait_for_function(
        "() => document.querySelector('main')?.innerText.trim() && !document.querySelector('.waiting')"
    )
    page.wait_for_timeout(SETTLE_MS)
    shot.act(page)
    page.wait_for_timeout(SETTLE_MS)
    page.screenshot(path=PICTURES / f"{shot.name}_{theme}.png")
    context.close()


if __name__ == "__main__":
    main(sys.argv[1:])
