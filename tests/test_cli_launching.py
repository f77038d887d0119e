"""The screen of a launch."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from prl.cli.launching import Screen, conclude
from prl.launch.events import Finished, LogLine, Outcome, Started, Step, Waiting
from prl.rundir.logs.console import setup_logging


def draw(*, terminal: bool) -> str:
    file = io.StringIO()
    console = Console(
        file=file, force_terminal=terminal, width=120, highlight=False, markup=False, soft_wrap=True, color_system=None
    )
    with Screen(console) as screen:
        logger = setup_logging("info", stream=screen)
        screen(Started("made-up", Path("/runs/made-up"), 1, 20, None, {}))
        screen(Waiting("the trainer to load the model", 3.0))
        logger.info("Started trainer [link=x]")
        screen._drawn = 0.0  # as if some time had passed
        screen(LogLine("10:00:00 SUCCESS Step 7 |   1.5s\x1b[2J"))
        screen(Step(7, 20, reward=0.71, loss=0.1, seconds=1.5))
        screen(Waiting("batch 8 (3 of 8 traces)", 0.4))
        screen(Finished(Outcome(0, "finished")))
    return file.getvalue()


def test_elsewhere_than_on_a_terminal_there_are_only_lines() -> None:
    text = draw(terminal=False)
    assert "\x1b" not in text  # what the trainer printed cannot drive a terminal
    lines = [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in text.splitlines() if not line.startswith("---")]
    assert lines == [
        "   INFO Waiting for the trainer to load the model, since 3.0s",
        "   INFO Started trainer [link=x]",
        "SUCCESS Step 7 |   1.5s",
    ]


def test_on_a_terminal_a_line_shows_step_reward_and_wait() -> None:
    text = draw(terminal=True)
    assert "step 0/20" in text
    assert "waiting for the trainer to load the model (3.0s)" in text
    assert "step 7/20" in text
    assert "reward 0.7100 · 1.5s a step · waiting for batch 8 (3 of 8 traces) (400ms)" in text
    assert "SUCCESS Step 7 |   1.5s\n" in text


def test_the_end_says_where_the_run_is_and_how_it_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert conclude(Outcome(1, "failed", run_dir=tmp_path), lambda path: f"the verdict on {path}") == 1
    assert capsys.readouterr().out == f"Run directory: {tmp_path}\nthe verdict on {tmp_path}\n"

    def broken(path: Path) -> str:
        raise ValueError("made up")

    assert conclude(Outcome(0, "finished", run_dir=tmp_path), broken) == 0  # what the run did stands
    assert "No verdict: ValueError: made up" in capsys.readouterr().err
    assert conclude(Outcome(64, "refused"), broken) == 64
    assert capsys.readouterr().out == ""
