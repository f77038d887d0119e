"""The counters of progress, whoever wrote the run and in whichever layout."""

import os
import shutil
from pathlib import Path

import pytest

from prl.synth import RunShape, write_run
from prl.synth.shape import ENVIRONMENTS, Layout
from prl.watch import assess, gather
from prl.watch.facts import Clock
from prl.watch.view import View
from sample_runs import T0, SampleRun, running


@pytest.mark.parametrize(
    ("ahead", "quiet", "idle"),
    [
        (5.0, 0.0, 0.0),  # clocks of two hosts differ a little
        (3600.0, 0.0, 0.0),  # the writer's clock is an hour ahead: its rows are as old as their file
        (3600.0, 300.0, 300.0),  # and a file that is written on without a step moves nothing
        (1e12, 0.0, 0.0),  # milliseconds
    ],
)
def test_a_step_in_the_future_is_not_progress_for_ever(tmp_path: Path, ahead: float, quiet: float, idle: float) -> None:
    run, now = running(tmp_path)
    shutil.rmtree(run.layout.traces)
    run.layout.trainer_step.unlink(missing_ok=True)
    run.metrics("trainer", 13, now + ahead, **{"time/step": 2.0})
    if quiet:
        run.metrics("orch", None, now + ahead + quiet, **{"watcher/policy_version": 11})
    metrics = run.layout.metrics
    os.utime(metrics, (now + quiet, now + quiet))
    view = View(gather(run.root, now + quiet + 400))
    assert (view.step, view.idle) == (13, pytest.approx(idle + 400 - (ahead if ahead < 60 else 0), abs=2))


def test_the_step_that_a_launcher_goes_on_from_is_no_progress(tmp_path: Path) -> None:
    """It writes that step down before anything starts: the attempt has done nothing and is starting."""
    run = SampleRun(tmp_path, attempt=2)
    run.write_resolved(trainer={"max_steps": 40, "resume": {"step": 8}}, orchestrator={"resume": {"step": 8}})
    run.start_up()
    now = T0 + 20
    run.write_status(updated=now)
    for step, told in ((8, None), (9, now)):
        run.layout.trainer_step.write_text(f"{step}\n")
        os.utime(run.layout.trainer_step, (now, now))
        facts = gather(run.root, now + 5)
        assert (facts.progress.trainer.value, facts.progress.trainer.time) == (step, told)
        assert assess(facts).phase == ("starting" if told is None else "running")


@pytest.mark.parametrize("layout", ["A", "B", "C"])
def test_runs_of_prime_rl(tmp_path: Path, layout: Layout) -> None:
    shape = RunShape(
        layout=layout,
        writer="prime-rl",
        state="running",
        steps=8,
        rollouts=8,
        answer_tokens=8,
        environments=ENVIRONMENTS[:1],
        eval_interval=0,
        checkpoint_interval=3,
    )
    facts = gather(write_run(tmp_path / "run", shape))
    progress = facts.progress
    assert (facts.run.kind, facts.run.layout, facts.run.max_steps) == ("rl", layout, 16)
    assert (progress.trainer.value, progress.orchestrator.value) == (8, 8)
    assert progress.median_step == pytest.approx(20.0, abs=3.0)
    assert progress.episodes.time is not None
    assert progress.pipeline.time is not None
    assert (progress.broadcast.value, progress.checkpoint.value) == (8, 6)
    assert 6 in facts.checkpoints.complete
    assert facts.launcher is None
    assert facts.search is not None
    assert facts.launched
    assert facts.find("trainer", "loss/mean") is not None


def test_clocks_of_the_stall_table(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    run.log("orchestrator", (now, "INFO", "Train batch 96/128 (75.0%); 210 inflight episodes (train=158, eval=52)"))
    run.metrics("orch", None, now, **{"inference/server0.0/num_requests_running": 3.0})
    run.broadcast(13, now, markers=1)
    facts = gather(run.root, now)
    progress = facts.progress
    assert progress.pipeline == Clock(210, now, "logs/attempt_1/orchestrator.log")
    assert facts.pipeline is not None
    assert (facts.pipeline.queued, facts.pipeline.wanted) == (96, 128)
    assert (facts.pipeline.inflight_train, facts.pipeline.inflight_eval) == (158, 52)
    assert progress.inference == Clock(1, now, "monitors/file/metrics.jsonl")
    assert progress.broadcast == Clock(13, now, "broadcasts/step_13")
    assert [engine.name for engine in facts.engines if engine.state != "gone"] == ["server0.0"]


def test_the_file_with_the_step_tells_of_a_step_that_nothing_else_does(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    path = run.root / "trainer_step"
    for text, value in (("13\n", 13), ("x", 12), ("9" * 30, 12), ("", 12)):
        path.write_text(text)
        os.utime(path, (now + 1, now + 1))
        assert gather(run.root, now + 2).progress.trainer.value == value


def test_a_step_of_an_earlier_attempt_has_no_time(tmp_path: Path) -> None:
    SampleRun(tmp_path, attempt=1)
    run = SampleRun(tmp_path, attempt=2)
    run.log("trainer", (T0, "INFO", "Starting training loop (max_steps=40)"))
    run.write_status(started=T0)
    (run.root / "trainer_step").write_text("7")
    os.utime(run.root / "trainer_step", (T0 - 100, T0 - 100))
    assert gather(run.root, T0 + 5).progress.trainer == Clock(7, None, "trainer_step")


def test_a_copied_run_got_on_when_its_rows_say_so(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    before = gather(run.root, now).progress.trainer
    (run.root / "trainer_step").write_text(str(before.value))
    os.utime(run.root / "trainer_step", (now + 5000, now + 5000))
    assert gather(run.root, now + 5001).progress.trainer == before
