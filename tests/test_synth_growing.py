"""A sample run that grows is at every moment a run in good order."""

import dataclasses
from pathlib import Path

import pytest

import prl
from prl.synth.growing import grow_run
from prl.synth.shape import RunShape

SHAPE = RunShape(state="running", steps=12, rollouts=8, group_size=4, eval_interval=5, step_seconds=5.0, ranks=1)
NOW = 1_800_000_000.0


def test_every_look_at_a_growing_run_finds_it_whole(tmp_path: Path) -> None:
    """After each wait the files agree: as many records as rows, no torn line, steps that only go up."""
    seen: list[tuple[int, int]] = []
    run = prl.open_run

    def look(_: float) -> bool:
        if not (tmp_path / "run/monitors/file/metrics.jsonl").exists():
            return True
        opened = run(tmp_path / "run", cached=False)
        assert not opened.episodes.remarks and not opened.metrics.damage.lines
        assert opened.metrics.pending_bytes == 0
        seen.append((opened.episodes.count, opened.info.step or 0))
        return len(seen) < 60

    grow_run(tmp_path / "run", SHAPE, recorded=3, wait=look, now=NOW)
    assert seen == sorted(seen)
    assert seen[-1][0] > seen[0][0] and seen[-1][1] >= 4


def test_the_recorded_steps_end_now(tmp_path: Path) -> None:
    waits: list[float] = []

    def count(seconds: float) -> bool:
        waits.append(seconds)
        return len(waits) < 40

    grow_run(tmp_path / "run", SHAPE, recorded=3, wait=count, now=NOW)
    store = prl.open_run(tmp_path / "run", cached=False).metrics
    third = store.series("trainer", "loss/mean", start=3, end=3)
    # A step's row is written when it was trained, at most one step before the end of the step.
    assert NOW - SHAPE.step_seconds < float(third.times[0]) <= NOW


def test_rollouts_are_in_flight(tmp_path: Path) -> None:
    left = 60

    def some(_: float) -> bool:
        nonlocal left
        left -= 1
        return left > 0

    grow_run(tmp_path / "run", SHAPE, recorded=2, wait=some)
    assert prl.open_run(tmp_path / "run", cached=False).live()


@pytest.mark.parametrize(
    "shape", [dataclasses.replace(SHAPE, state="finished"), dataclasses.replace(SHAPE, kind="sft")]
)
def test_what_cannot_grow_is_refused(tmp_path: Path, shape: RunShape) -> None:
    with pytest.raises(ValueError, match="what grows"):
        grow_run(tmp_path / "run", shape, recorded=3, wait=lambda _: True)
