"""Logs followed while they grow."""

import os
from pathlib import Path

import pytest

from prl.rundir.logs.follow import RESCAN, SETTLE, LogFollower
from prl.rundir.logs.merge import LogFilter

HEAD = "--- 2026-11-29 +0000 ---\n"


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def append(root: Path, name: str, text: str, attempt: int = 1) -> Path:
    path = root / f"logs/attempt_{attempt}" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(text)
    return path


def poll(follower: LogFollower, clock: Clock, seconds: float = SETTLE) -> list[str]:
    """What comes at once and after some time without new lines."""
    found = follower.poll()
    clock.now += seconds
    return [entry.message for entry in found + follower.poll()]


def test_new_lines_of_all_components_by_time(tmp_path: Path, clock: Clock) -> None:
    append(tmp_path, "trainer.log", HEAD + "10:00:00    INFO old\n")
    append(tmp_path, "orchestrator.log", HEAD)
    follower = LogFollower(tmp_path, now=clock)
    assert poll(follower, clock) == []
    append(tmp_path, "trainer.log", "10:00:02    INFO t2\n10:00:04    INFO t4\n")
    append(tmp_path, "orchestrator.log", "10:00:01    INFO o1\n10:00:03   ERROR o3\n")
    assert poll(follower, clock) == ["o1", "t2", "o3", "t4"]
    assert follower.trouble == ()


def test_a_traceback_and_a_torn_line_wait_until_they_are_whole(tmp_path: Path, clock: Clock) -> None:
    append(tmp_path, "trainer.log", HEAD)
    follower = LogFollower(tmp_path, now=clock)
    append(tmp_path, "trainer.log", "10:00:02   ERROR Fatal error in train\nTraceback (most recent call last):\n")
    assert follower.poll() == []
    clock.now += SETTLE / 2
    append(tmp_path, "trainer.log", "  File 'x'\nValueError: y\n10:00:03    INFO half a li")
    assert follower.poll() == []
    clock.now += SETTLE
    (entry,) = follower.poll()
    assert (entry.exception, entry.component) == ("ValueError: y", "trainer")
    assert [entry.message for entry in follower.finish()] == ["half a li"]


def test_files_and_attempts_that_come_later(tmp_path: Path, clock: Clock) -> None:
    append(tmp_path, "trainer.log", HEAD + "10:00:00    INFO old\n")
    follower = LogFollower(tmp_path, now=clock)
    append(tmp_path, "envs/train/gsm.log", HEAD + "10:00:01    INFO first word\n")
    clock.now += RESCAN
    assert poll(follower, clock) == ["first word"]
    append(tmp_path, "trainer.log", "10:00:02    INFO last word of 1")
    append(tmp_path, "trainer.log", HEAD + "11:00:00    INFO attempt 2\n", attempt=2)
    clock.now += RESCAN
    assert poll(follower, clock) == ["last word of 1", "attempt 2"]
    assert follower.attempt == 2
    pinned = LogFollower(tmp_path, 1, now=clock)
    clock.now += RESCAN
    assert (poll(pinned, clock), pinned.attempt) == ([], 1)


def test_replaced_and_cut_files_begin_anew(tmp_path: Path, clock: Clock) -> None:
    path = append(tmp_path, "trainer.log", HEAD + "10:00:00    INFO a long line that was here before\n")
    follower = LogFollower(tmp_path, now=clock)
    assert poll(follower, clock) == []
    path.write_text("10:00:05    INFO cut\n")
    assert poll(follower, clock) == ["cut"]
    path.rename(path.with_suffix(".1"))
    path.write_text("10:00:06    INFO rotated\n")
    assert poll(follower, clock) == ["rotated"]
    path.unlink()
    assert poll(follower, clock) == []
    os.mkfifo(path)
    poll(follower, clock)
    assert "named pipe" in follower.trouble[0]


def test_only_what_is_wanted_and_equal_lines_counted(tmp_path: Path, clock: Clock) -> None:
    append(tmp_path, "trainer.log", HEAD)
    append(tmp_path, "orchestrator.log", HEAD)
    follower = LogFollower(tmp_path, wanted=LogFilter(components=["trainer"], level="WARNING"), now=clock)
    append(tmp_path, "orchestrator.log", "10:00:01   ERROR other\n")
    append(tmp_path, "trainer.log", "10:00:01    INFO quiet\n" + "10:00:02 WARNING again\n" * 3)
    found = follower.poll()
    clock.now += SETTLE
    found += follower.poll()
    assert {entry.message for entry in found} == {"again"}
    assert sum(entry.count for entry in found) == 3  # the newest line waits for what may follow it


def test_from_the_start(tmp_path: Path, clock: Clock) -> None:
    append(tmp_path, "trainer.log", HEAD + "10:00:00    INFO old\n10:00:01    INFO new\n")
    follower = LogFollower(tmp_path, from_start=True, now=clock)
    assert poll(follower, clock) == ["old", "new"]
