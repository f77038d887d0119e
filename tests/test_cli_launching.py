"""The screen of a launch."""

import io
import logging
import re
from pathlib import Path

import pytest
from rich.console import Console

from prl.cli.launching import Introducing, Screen, Showing, conclude, introduce
from prl.launch.events import Event, Finished, LogLine, Outcome, Started, Step, Waiting
from prl.rundir.logs.console import setup_logging
from prl.text.terminal import strip_escapes
from sample_runs import running


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


def on_terminal(width: int, *events: Event) -> str:
    file = io.StringIO()
    console = Console(
        file=file, force_terminal=True, width=width, highlight=False, markup=False, soft_wrap=True, color_system=None
    )
    with Screen(console) as screen:
        for event in events:
            screen._drawn = 0.0
            screen(event)
    return strip_escapes(file.getvalue())


@pytest.mark.parametrize(
    ("width", "bar", "cut"), [(200, True, False), (120, False, False), (60, False, True), (30, False, True)]
)
def test_the_step_is_readable_however_long_the_wait(width: int, bar: bool, cut: bool) -> None:
    what = "the trainer to load the model and the orchestrator to find everything"
    text = on_terminal(width, Started("made-up", Path("/runs/x"), 1, 1000, 500, {}), Waiting(what, 22.1))
    drawn = [line for line in text.split("\r") if "starting" in line]
    assert drawn
    assert all("step 500/1000 " in line and len(line.strip()) <= width for line in drawn)
    assert ("…" in drawn[0]) == cut
    assert ("━" in drawn[0]) == bar


def test_a_line_of_the_trainer_breaks_in_no_word() -> None:
    numbers = "10:00:00 SUCCESS Step 7 | " + " | ".join(f"name{i} {i}.1234" for i in range(9))
    words = "10:00:00 WARNING " + " ".join(f"word{i}" for i in range(20))
    lines = on_terminal(60, LogLine(numbers), LogLine(words)).splitlines()
    assert next(line for line in lines if "Step 7" in line).rstrip().endswith("…")
    assert re.findall(r"word\d+\b", "\n".join(lines)) == [f"word{i}" for i in range(20)]
    assert all(len(line.strip()) <= 60 for line in lines if "word" in line)


def test_a_date_is_shown_once() -> None:
    dates = [LogLine(f"--- 2026-11-{day} +0000 ---") for day in (29, 29, 30)]
    assert re.findall("11-..", on_terminal(80, *dates)) == ["11-29", "11-30"]


def test_on_a_terminal_the_warning_of_waiting_comes_once_in_ten_steps() -> None:
    warning = LogLine("10:00:00 WARNING Trainer waited 2.0s for a batch")
    events = [event for step in range(1, 22) for event in (Step(step, 30), warning)]
    assert on_terminal(80, *events).count("Trainer waited") == 3


def test_the_end_says_where_the_run_is_and_how_it_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert conclude(Outcome(1, "failed", run_dir=tmp_path), lambda path: f"the verdict on {path}") == 1
    assert capsys.readouterr().out == f"Run directory: {tmp_path}\nthe verdict on {tmp_path}\n"

    def broken(path: Path) -> str:
        raise ValueError("made up")

    assert conclude(Outcome(0, "finished", run_dir=tmp_path), broken) == 0  # what the run did stands
    assert "No verdict: ValueError: made up" in capsys.readouterr().err
    assert conclude(Outcome(64, "refused"), broken) == 64
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "events", [[Step(1, 4), Step(2, 4), Finished(Outcome(0, "finished"))], [Finished(Outcome(1, "failed"))]]
)
def test_a_run_is_introduced_once(events: list[Event], tmp_path: Path) -> None:
    shown: list[Event] = []
    introduced: list[Path] = []
    introducing = Introducing(shown.append, introduced.append)
    started = Started("made-up", tmp_path, 1, 20, None, {})
    for event in (Waiting("x", 1.0), started, LogLine("y"), *events):
        introducing(event)
    assert introduced == [tmp_path]
    assert len(shown) == 3 + len(events)


def test_a_launch_that_was_refused_is_not_introduced() -> None:
    introduced: list[Path] = []
    Introducing(lambda event: None, introduced.append)(Finished(Outcome(64, "refused")))
    assert introduced == []


def test_no_entry_is_no_reason_to_end_a_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def broken(path: Path) -> None:
        raise ValueError("made up")

    introducing = Introducing(lambda event: None, broken)
    logging.getLogger("prl").propagate = True
    introducing(Started("made-up", tmp_path, 1, 20, None, {}))
    introducing(Step(1, 4))
    assert "No entry in STATUS.md: ValueError: made up" in caplog.text


def test_the_introduction_stands_in_status_md(tmp_path: Path) -> None:
    run, _ = running(tmp_path)
    introduce(run.root)
    text = run.layout.status_md.read_text()
    assert f"**Run**: {run.name} (rl), model models/tiny, 40 steps" in text
    introduce(run.root)
    assert run.layout.status_md.read_text().count("**Run**") == 1  # once an attempt


def test_the_dashboard_is_asked_once_and_its_address_said_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Path] = []

    def ensure(path: Path) -> str:
        asked.append(path)
        return "http://localhost:7788/?run=made-up"

    showing = Showing(lambda event: None, ensure)
    for event in (
        Started("made-up", tmp_path, 1, 20, None, {}),
        Step(1, 4),
        Started("again", tmp_path, 2, 20, None, {}),
    ):
        showing(event)
    assert asked == [tmp_path]
    conclude(Outcome(0, "finished", run_dir=tmp_path), lambda path: "Healthy\n", showing.page)
    assert capsys.readouterr().out.splitlines()[-1] == "Dashboard: http://localhost:7788/?run=made-up"


def test_no_dashboard_is_no_reason_to_end_a_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def broken(path: Path) -> str:
        raise OSError("made up")

    logging.getLogger("prl").propagate = True
    Showing(lambda event: None, broken)(Started("made-up", tmp_path, 1, 20, None, {}))
    assert "No dashboard: made up" in caplog.text
