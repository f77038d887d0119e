"""Batches that an orchestrator left on disk."""

import os
from pathlib import Path

from made_up_runs import aged, write
from prl.rundir.batches import list_batches


def test_parts_of_each_step(tmp_path: Path) -> None:
    files = {"batches/step_10/rank_0.bin": "xx", "batches/step_10/rank_1.bin": "xxx", "batches/step_2/rank_0.bin": "x"}
    first, second = list_batches(aged(write(tmp_path, files), 50.0))
    assert (first.step, first.ranks, first.changed) == (2, {0: 1}, 50.0)
    assert (second.step, second.ranks, second.bytes, second.path) == (10, {0: 2, 1: 3}, 5, tmp_path / "batches/step_10")


def test_part_that_is_being_written(tmp_path: Path) -> None:
    (batch,) = list_batches(write(tmp_path, {"batches/step_1/rank_0.bin.tmp": "x", "batches/step_1/rank_1.tmp": ""}))
    assert (batch.ranks, batch.unfinished) == ({}, ("rank_0.bin.tmp", "rank_1.tmp"))


def test_oldest_layout_has_them_beside_the_episodes(tmp_path: Path) -> None:
    files = {"rollouts/step_1/rank_0.bin": "x", "rollouts/step_1/train/all/traces.jsonl": "", "rollouts/step_2/a": ""}
    assert [(batch.step, batch.ranks) for batch in list_batches(write(tmp_path, files))] == [(1, {0: 1})]


def test_other_names_and_links_out_are_passed_over(tmp_path: Path) -> None:
    far = write(tmp_path / "far", {"rank_0.bin": "secret"})
    names = ("step_-1/rank_0.bin", "step_1.tmp/rank_0.bin", "step_3/rank_x.bin", "step_4/rank_0.bin.zst", "step_5")
    run = write(tmp_path / "run", {f"batches/{name}": "x" for name in names})
    (run / "batches/step_6").symlink_to(far)
    (run / "batches/step_7").mkdir()
    (run / "batches/step_7/rank_0.bin").symlink_to(far / "rank_0.bin")
    os.mkfifo(run / "batches/step_8")
    assert list_batches(run) == []
    assert list_batches(tmp_path / "absent") == []
