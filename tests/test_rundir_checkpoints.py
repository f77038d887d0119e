"""Checkpoints are complete or absent, whoever finishes last and wherever a writer dies."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from prl.rundir import checkpoints as ck


def write_half(root: Path, step: int, half: str) -> bool:
    directory = ck.begin_half(root, step, half)
    (directory / {"trainer": ".metadata", "orchestrator": "progress.pt"}[half]).write_text(f"{half} {step}")
    return ck.publish_half(root, step, half)


@pytest.mark.parametrize("order", [ck.HALVES, ck.HALVES[::-1]])
def test_a_step_appears_with_its_second_half(tmp_path: Path, order: tuple[str, str]) -> None:
    assert not write_half(tmp_path, 5, order[0])
    assert ck.complete_steps(tmp_path) == []
    assert not (tmp_path / "step_5").exists()
    assert write_half(tmp_path, 5, order[1])
    assert ck.complete_steps(tmp_path) == [5]
    assert [p.name for p in tmp_path.iterdir()] == ["step_5"]


def test_two_writers_that_finish_at_the_same_moment_lose_nothing(tmp_path: Path) -> None:
    steps, together = range(300), threading.Barrier(2)

    def write_all(half: str) -> list[bool]:
        completed = []
        for step in steps:
            together.wait(20)
            completed.append(write_half(tmp_path, step, half))
        return completed

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(write_all, ck.HALVES)
    assert ck.complete_steps(tmp_path) == list(steps)
    assert all(one != other for one, other in zip(first, second, strict=True))


def test_a_checkpoint_whose_writer_died_before_its_last_rename_is_discarded(tmp_path: Path) -> None:
    (tmp_path / "step_5.whole.tmp" / "trainer").mkdir(parents=True)
    (tmp_path / "notes.tmp").mkdir()
    ck.discard_unfinished(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.tmp"]


def test_a_half_that_was_begun_but_not_published_does_not_count(tmp_path: Path) -> None:
    write_half(tmp_path, 5, "orchestrator")
    ck.begin_half(tmp_path, 5, "trainer")
    assert ck.complete_steps(tmp_path) == []
    ck.discard_unfinished(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_rewriting_a_step_replaces_the_abandoned_one(tmp_path: Path) -> None:
    for half in ck.HALVES:
        write_half(tmp_path, 5, half)
    (tmp_path / "step_5" / "old").touch()
    for half in ck.HALVES:
        write_half(tmp_path, 5, half)
    assert not (tmp_path / "step_5" / "old").exists()
    assert ck.complete_steps(tmp_path) == [5]


def test_a_foreign_half_directory_is_not_complete(tmp_path: Path) -> None:
    (tmp_path / "step_7" / "orchestrator").mkdir(parents=True)
    (tmp_path / "step_7" / "orchestrator" / "progress.pt").touch()
    assert ck.complete_steps(tmp_path) == []


def test_retention_keeps_the_newest_and_the_multiples(tmp_path: Path) -> None:
    for step in (10, 20, 25, 30):
        for half in ck.HALVES:
            write_half(tmp_path, step, half)
    ck.prune(tmp_path, keep_last=1, keep_interval=20)
    assert ck.complete_steps(tmp_path) == [20, 30]
    ck.prune(tmp_path, keep_last=None, keep_interval=None)
    assert ck.complete_steps(tmp_path) == [20, 30]


def test_a_run_of_one_half_needs_only_that(tmp_path: Path) -> None:
    directory = ck.begin_half(tmp_path, 3, "trainer")
    (directory / ".metadata").touch()
    assert ck.publish_half(tmp_path, 3, "trainer", ("trainer",))
    assert ck.complete_steps(tmp_path, ("trainer",)) == [3]
