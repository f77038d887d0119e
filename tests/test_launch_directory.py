"""Which run directory a launch may have, and what it does to one it goes on with."""

import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from launch_stand_ins import make_checkpoint
from prl.launch import directory
from prl.launch.directory import (
    check_directory,
    new_attempt,
    point_latest,
    refuse_foreign_checkpoints,
    remove_run,
    remove_stale,
    set_aside,
    starting_alone,
)
from prl.launch.exits import CONFIGURATION, RUN_DIRECTORY, RefusedError
from prl.rundir.layout import RunLayout
from prl.rundir.status import RUNNING, LauncherStatus


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    return RunLayout(tmp_path / "outputs" / "made-up")


def use(layout: RunLayout) -> None:
    """As a run leaves it."""
    attempt = new_attempt(layout)
    (attempt.logs / "trainer.log").write_text("10:00:00    INFO Starting\n")
    layout.file_monitor.mkdir(parents=True)


def check(layout: RunLayout, *, resuming: bool = False, clean: bool = False) -> bool:
    return check_directory(layout, layout.root.parent, resuming=resuming, clean=clean)


def refusal(layout: RunLayout, *, resuming: bool = False, clean: bool = False) -> tuple[int, str]:
    with pytest.raises(RefusedError) as refused:
        check(layout, resuming=resuming, clean=clean)
    return refused.value.exit_code, str(refused.value)


def test_a_directory_that_no_run_has_used_is_accepted(layout: RunLayout) -> None:
    assert check(layout) is False
    attempt = new_attempt(layout)  # what a dry run leaves
    (attempt.configs / "command.txt").write_text("rl\n")
    layout.launcher.mkdir()
    layout.status_md.write_text("a check-in\n")
    assert check(layout) is False


def test_launchers_start_one_after_the_other(layout: RunLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second looks at the directory only once the first has said that it is at work there."""
    order = []

    def second() -> None:
        with starting_alone(layout.root):
            order.append("second")

    with ThreadPoolExecutor(1) as pool:
        with starting_alone(layout.root):
            waiting = pool.submit(second)
            with pytest.raises(TimeoutError):
                waiting.result(0.2)
            order.append("first")
        waiting.result(20)
    assert order == ["first", "second"]
    monkeypatch.setattr(directory, "START_SECONDS", 0.0)
    with (
        starting_alone(layout.root),
        pytest.raises(RefusedError, match="another launcher has been starting"),
        starting_alone(layout.root),
    ):
        pass
    assert not layout.root.parent.exists()


def test_a_used_directory_is_refused_with_what_to_do(layout: RunLayout) -> None:
    use(layout)
    code, message = refusal(layout)
    assert code == RUN_DIRECTORY
    assert all(word in message for word in ("logs", "monitors", "--resume", "--clean", "--run.name"))
    assert check(layout, resuming=True) is False
    assert check(layout, clean=True) is True
    assert refusal(layout, resuming=True, clean=True)[0] == CONFIGURATION


def test_clean_removes_only_runs_below_the_output_directory(
    layout: RunLayout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(layout)
    with pytest.raises(RefusedError, match="only what lies below output_dir"):
        check_directory(layout, tmp_path / "elsewhere", resuming=False, clean=True)
    with pytest.raises(RefusedError, match="only what lies below output_dir"):
        check_directory(layout, layout.root, resuming=False, clean=True)
    documents = RunLayout(layout.root.parent / "documents")
    documents.root.mkdir()
    (documents.root / "thesis.txt").write_text("years of work")
    assert "does not look like one" in refusal(documents, clean=True)[1]
    link = RunLayout(layout.root.parent / "link")
    link.root.symlink_to(layout.root)
    assert "only what lies below" in refusal(link, clean=True)[1]
    monkeypatch.setenv("NEVER_CLEAN", "1")
    assert "NEVER_CLEAN" in refusal(layout, clean=True)[1]
    monkeypatch.delenv("NEVER_CLEAN")
    assert check(layout, clean=True)
    remove_run(layout)
    assert not layout.root.exists()


def test_a_launcher_at_work_keeps_everybody_out(layout: RunLayout) -> None:
    use(layout)
    layout.launcher.mkdir()
    now = time.time()
    mine = psutil.Process().create_time()
    status = LauncherStatus(
        "id", "made-up", "rl", 1, RUNNING, socket.gethostname(), os.getpid(), started=mine, updated=now
    )
    status.write(layout.status_json)
    assert refusal(layout, resuming=True) == (
        RUN_DIRECTORY,
        f"{layout.root}: its launcher is at work (process {os.getpid()} on {status.host}); end it first",
    )
    assert "at work" in refusal(layout, clean=True)[1]
    status.started -= 100.0  # the pid was used again by another process
    status.write(layout.status_json)
    assert check(layout, resuming=True) is False
    status.host = "another-host"  # only the age of its word tells
    status.write(layout.status_json)
    assert "another-host" in refusal(layout, resuming=True)[1]
    status.updated -= 3600.0
    status.write(layout.status_json)
    assert check(layout, resuming=True) is False


def test_attempts_are_numbered_on_and_latest_follows(layout: RunLayout) -> None:
    first = new_attempt(layout)
    point_latest(layout, first)
    layout.attempt_logs(7).mkdir()  # configurations were removed by hand, the logs were not
    later = new_attempt(layout)
    assert (first.number, later.number) == (1, 8)
    point_latest(layout, later, only_if_missing=True)
    assert (layout.logs / "latest").readlink() == Path("attempt_1")
    point_latest(layout, later)
    assert {(tree / "latest").readlink() for tree in (layout.logs, layout.configs)} == {Path("attempt_8")}


def test_an_abandoned_future_is_removed(layout: RunLayout) -> None:
    for step in (3, 4, 5):
        layout.broadcast(step).mkdir(parents=True)
        (layout.root / "batches" / f"step_{step}").mkdir(parents=True)
    (layout.checkpoints / "step_6.tmp").mkdir(parents=True)
    layout.trainer_step.write_text("5\n")
    remove_stale(layout, layout.checkpoints, 4)
    # Version 4 is offered again by the trainer that resumes from it; batch 4 was consumed.
    assert [path.name for path in layout.broadcasts.iterdir()] == ["step_3"]
    assert sorted(path.name for path in (layout.root / "batches").iterdir()) == ["step_3", "step_4"]
    assert list(layout.checkpoints.iterdir()) == []
    assert layout.trainer_step.read_text() == "4\n"
    remove_stale(layout, layout.checkpoints, None)
    assert list(layout.broadcasts.iterdir()) == []
    assert not layout.trainer_step.exists()


def test_later_checkpoints_are_set_aside_not_lost(layout: RunLayout) -> None:
    for step in (5, 10, 15):
        make_checkpoint(layout.checkpoints, step)
    attempt = new_attempt(layout)
    assert set_aside(layout.checkpoints, 5, attempt) == [10, 15]
    shelf = layout.checkpoints / "abandoned.attempt_1"
    assert sorted(path.name for path in shelf.iterdir()) == ["step_10", "step_15"]
    assert set_aside(layout.checkpoints, 5, attempt) == []


def test_a_separate_checkpoint_directory_in_use_is_refused(tmp_path: Path) -> None:
    refuse_foreign_checkpoints(tmp_path / "absent")
    make_checkpoint(tmp_path, 3)
    with pytest.raises(RefusedError, match="steps 3"):
        refuse_foreign_checkpoints(tmp_path)
