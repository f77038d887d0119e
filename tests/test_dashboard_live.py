"""The pages over a run that is really trained meanwhile: they follow it from its start to its end without a reload."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import prl
from browser import serving, tab
from env_doubles import MODULES
from prl.rundir.recognition import run_id
from prl.trainer.tiny import make_tiny_model
from real_run import configuration, running

if TYPE_CHECKING:
    from playwright.sync_api import Browser

STEPS = 30


def test_pages_follow_a_run_from_start_to_end(
    tmp_path: Path, browser: "Browser", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(MODULES))
    source = [{"env": {"taskset": {"id": "moody-env"}}, "timeout": 30, "serve": {"interval": 0.5}}]
    config = configuration(
        tmp_path,
        make_tiny_model(tmp_path / "model", hidden_size=32, num_layers=1),
        max_steps=STEPS,
        orchestrator={"train": {"source": source}},
    )
    with running(config) as run:
        run.wait_for_step(1)
        name = run_id(str(run.layout.root.resolve()))
        with serving(run.layout.root.parent) as base, tab(browser, base) as overview, tab(browser, base) as traces:
            overview.open(run=name)
            traces.open(run=name, page="traces")
            overview.page.locator(".run-header", has_text="Running").wait_for()
            traces.page.locator("main .table tbody tr").first.wait_for()
            seen = int(re.findall(r"\d+", overview.page.locator(".run-header .prog").inner_text())[0])
            overview.until(f"+document.querySelector('.run-header .prog').innerText.match(/\\d+/)[0] > {seen}")
            assert run.end() == 0, run.text[-3000:]
            overview.page.locator(".run-header", has_text="Finished").wait_for()
            overview.page.locator(".run-header", has_text="Healthy").wait_for()
            done = prl.open_run(run.layout.root, cached=False)
            assert len(done.series("reward").y) == STEPS
            words = "document.querySelector('.run-header .prog').innerText.replace(/\\s+/g, ' ')"
            overview.until(f"{words}.includes('{STEPS} / {STEPS}')")
            traces.until(f"document.querySelector('main').innerText.includes('{done.episodes.count:,}')")
