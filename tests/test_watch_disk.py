"""How fast a disk fills by the run's own record, and checkpoints in short."""

import os
from pathlib import Path

from prl.rundir.checkpoint_states import read_checkpoints
from prl.watch import disk
from prl.watch.facts import Series
from prl.watch.series import Metrics
from sample_runs import T0, SampleRun

GIB = 1024**3


def used(times: list[float], values: list[float | None]) -> Metrics:
    steps: list[int | None] = list(range(len(times)))
    return Metrics(series=[Series("trainer", "system/ckpt_disk_used_gib", steps, times, values)], source="m")


def checkpoint(run: SampleRun, step: int, *halves: str) -> None:
    for half in halves or ("trainer", "orchestrator"):
        directory = run.layout.checkpoints / f"step_{step}" / half
        directory.mkdir(parents=True)
        (directory / {"trainer": ".metadata", "orchestrator": "progress.pt"}[half]).write_bytes(b"x" * 500)


def growth(run: SampleRun, metrics: Metrics, **ckpt: int) -> tuple[float | None, str | None]:
    found = disk.disk_facts(run.root, metrics, read_checkpoints(run.root, {"trainer": {"ckpt": ckpt}}, T0))
    assert found is not None
    return found.growth, found.growth_source


def test_what_the_trainer_wrote_of_its_disk_comes_first(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    rate, source = growth(run, used([100.0, 150.0, 200.0], [1.0, None, 1.5]), keep_last=1)
    assert (rate, source) == (None, None)  # two values are no trend
    rate, source = growth(run, used([100.0, 150.0, 200.0], [1.0, 1.0, 1.5]))
    assert (rate, source) == (GIB / 200, "m: system/ckpt_disk_used_gib")


def test_without_it_checkpoints_traces_and_metrics_add_up(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    assert growth(run, Metrics()) == (None, None)
    for step in (10, 20, 30):
        checkpoint(run, step)
    metrics = Metrics(trainer_median=5.0, bytes_per_second=2.0, source="m")
    assert growth(run, metrics) == (1000 / 50 + 2.0, "checkpoints + m")
    assert growth(run, metrics, keep_last=3)[0] == 2.0  # one is removed for each that is written
    index = run.layout.traces / "stream.index.jsonl"
    index.write_text("".join(f'{{"arrival": {T0 + n}, "offset": {n * 10}, "chunk": 0}}\n' for n in range(100)))
    assert growth(run, metrics, keep_last=3) == (12.0, "checkpoints + traces + m")


def test_a_second_try_at_a_complete_checkpoint_does_not_spoil_it(tmp_path: Path) -> None:
    """The step is resumed from what is complete; what was begun anew beside it says only that something was written."""
    run = SampleRun(tmp_path)
    checkpoint(run, 10)
    half = run.layout.checkpoints / "step_10.tmp/trainer.tmp"
    half.mkdir(parents=True)
    for path in (half, half.parent):
        os.utime(path, (T0, T0))
    found = read_checkpoints(run.root, {"trainer": {}}, T0 + 3600)
    assert [(state.step, state.state) for state in found.states] == [(10, "complete"), (10, "stuck")]
    short, states = disk.checkpoint_facts(run.root, found)
    assert (short.complete, short.unfinished, short.changed) == ([10], ["step_10.tmp"], T0)
    assert [(one.step, one.state) for one in states] == [(10, "complete")]


def test_checkpoints_that_may_be_there_are_told(tmp_path: Path) -> None:
    """A place that a configuration names and this host does not have, and one that leads out of the run."""
    run = SampleRun(tmp_path)
    told = {"trainer": {"ckpt": {"output_dir": str(tmp_path / "not-mounted")}}}
    short, _ = disk.checkpoint_facts(run.root, read_checkpoints(run.root, told, T0))
    assert short.problem == f"{tmp_path}/not-mounted: not there, or not on this host"
    (tmp_path / "not-mounted").mkdir()
    short, _ = disk.checkpoint_facts(run.root, read_checkpoints(run.root, told, T0))
    assert short.problem is None
    (tmp_path / "elsewhere").mkdir()
    run.layout.checkpoints.symlink_to(tmp_path / "elsewhere")
    short, _ = disk.checkpoint_facts(run.root, read_checkpoints(run.root, {"trainer": {}}, T0))
    assert "leaves the run directory" in (short.problem or "")


def test_checkpoints_in_short(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    checkpoint(run, 10)
    checkpoint(run, 20, "orchestrator")
    (run.layout.checkpoints / "step_30.tmp/trainer").mkdir(parents=True)
    for path in (run.layout.checkpoints / "step_30.tmp/trainer", run.layout.checkpoints / "step_30.tmp"):
        os.utime(path, (T0, T0))
    found = read_checkpoints(run.root, {"trainer": {}}, T0 + 5)
    short, states = disk.checkpoint_facts(run.root, found)
    assert (short.complete, short.half, short.unfinished, short.changed) == ([10], [20], ["step_30.tmp"], T0)
    assert short.source == "checkpoints"
    assert [(one.step, one.state, one.path) for one in states] == [
        (10, "complete", "checkpoints/step_10"),
        (20, "half", "checkpoints/step_20"),
        (30, "writing", "checkpoints/step_30.tmp"),
    ]
    assert disk.checkpoint_clock(run.root, found).source in ("checkpoints/step_10", "checkpoints/step_20")
