"""Phases, start-up stages and waiting, on run directories in every state."""

import socket
import time
from pathlib import Path

import pytest

from prl.rundir import status
from prl.watch import gather, status_of
from prl.watch.verdict import DEGRADED, DOWN, HEALTHY, UNKNOWN
from prl.watch.view import View
from sample_runs import T0, SampleRun, running


def shown(run: SampleRun, now: float) -> tuple[str, str]:
    verdict = status_of(run.root, now)
    return verdict.phase, verdict.health


def test_empty_and_configured(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    nothing = status_of(tmp_path / "empty", T0)
    assert (nothing.phase, nothing.health) == ("unknown", UNKNOWN)
    assert "neither a configuration nor a log" in (nothing.reason or "")
    run = SampleRun(tmp_path)
    assert shown(run, T0) == ("configured", HEALTHY)


def test_start_up_stages_in_order(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    start = run.status.started
    run.log("inference", (start, "INFO", "Serving"))
    run.write_status(phase=status.STARTING)

    def stage() -> tuple[str | None, str]:
        verdict = status_of(run.root, start + 30)
        assert (verdict.phase, verdict.health) == ("starting", HEALTHY)
        return verdict.stage, verdict.awaits or ""

    assert stage() == ("environment servers", "environment server reverse-text: no address yet")
    run.env_config.with_suffix(".address").write_text("tcp://127.0.0.1:1")
    waiting = "Waiting for inference server at http://localhost:8100 to start up (10s elapsed)"
    run.log("orchestrator", (start + 1, "INFO", waiting))
    assert stage() == ("inference", f"orchestrator: {waiting}")
    run.log("orchestrator", (start + 2, "SUCCESS", "Inference pool ready (1 engines) after 2.0s"))
    assert stage()[0] == "trainer"
    run.log("orchestrator", (start + 3, "INFO", "Waiting for trainer ranks [0] to connect"))
    assert stage() == ("first weights", "orchestrator: Waiting for trainer ranks [0] to connect")
    run.log("orchestrator", (start + 4, "SUCCESS", "Trainer ready: 1 ranks connected, policy v0 applied"))
    run.log("trainer", (start + 4, "INFO", "Starting training loop (max_steps=40)"))
    run.broadcast(0, start + 4, markers=1)
    assert stage() == ("first weights", "trainer waits for the orchestrator to accept policy v0")
    run.log("orchestrator", (start + 5, "INFO", "Starting orchestrator loop (max_steps=40)"))
    assert stage() == ("first batch", "orchestrator: first episode")
    run.episode(1, start + 6)
    assert stage() == ("first batch", "orchestrator: first batch (episodes are arriving)")
    run.metrics("orch", 1, start + 7, **{"time/step": 2.0})
    assert stage() == ("first step", "trainer: first step")
    run.write_status(waiting_for="the trainer to finish step 1")
    assert stage() == ("first step", "the trainer to finish step 1")
    run.metrics("trainer", 1, start + 29, **{"time/step": 2.0})
    assert shown(run, start + 30) == ("running", HEALTHY)


def test_sft_run_needs_no_orchestrator(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    run.env_config.unlink()
    run.status.processes = [run.process("trainer")]
    run.log("trainer", (T0, "INFO", "Starting training loop (max_steps=40)"))
    run.write_status(kind="sft", phase=status.STARTING)
    assert status_of(run.root, run.status.started + 5).stage == "first step"
    run.metrics("trainer", 1, run.status.started + 5, **{"loss/mean": 2.0, "time/step": 1.0})
    assert shown(run, run.status.started + 6) == ("running", HEALTHY)
    run.log("trainer", (T0 + 9, "SUCCESS", "SFT trainer finished"))
    run.end("trainer", 0, T0 + 9)
    run.write_status(phase=status.FINISHED, exit_code=0)
    assert shown(run, run.status.started + 9) == ("finished", HEALTHY)


def test_draining_finished_and_stopped(tmp_path: Path) -> None:
    run, now = running(tmp_path, steps=39)
    run.metrics("orch", 40, now, **{"time/step": 2.0})
    assert shown(run, now + 500) == ("draining", HEALTHY)  # the result takes its time
    assert shown(run, now + 1300) == ("draining", DOWN)
    run.finish(now)
    assert shown(run, now + 10_000) == ("finished", HEALTHY)
    run.write_status(phase=status.STOPPED, reason="stopped by SIGINT")
    verdict = status_of(run.root, now)
    assert (verdict.phase, verdict.health, verdict.reason) == ("stopped", DOWN, "stopped by SIGINT")


def test_drain_line_before_max_steps(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    run.log(
        "orchestrator", (now, "INFO", "Shipped the final batch — draining pipeline (cancelled 3 in-flight episodes)")
    )
    assert shown(run, now + 1)[0] == "draining"


def test_launcher_on_another_host_counts_while_its_word_is_fresh(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    for process in run.status.processes:
        process.host = "elsewhere"
    run.write_status(host="elsewhere", updated=now)
    assert shown(run, now + 5) == ("running", HEALTHY)
    old = status_of(run.root, now + 50)
    assert (old.phase, old.health) == ("unknown", UNKNOWN)
    assert "launcher on elsewhere has not written for 50.0s" in (old.reason or "")
    assert {process.state for process in old.processes} == {"unknown"}
    assert any("on elsewhere, which cannot be asked" in note for note in old.unknown)


def test_without_launcher_status_progress_decides(tmp_path: Path) -> None:
    # A run of another writer of this contract: no launcher/status.json.
    run, now = running(tmp_path)
    run.layout.status_json.unlink()
    assert shown(run, now) == ("running", HEALTHY)
    silent = status_of(run.root, now + 1000)
    assert (silent.phase, silent.health) == ("unknown", UNKNOWN)
    assert "nothing says whether the processes" in (silent.reason or "")
    run.log("trainer", (now, "ERROR", "Fatal error in train"), "Traceback (most recent call last):", "ValueError: x")
    crashed = status_of(run.root, now + 1000)
    assert (crashed.phase, crashed.health, crashed.findings[0].cause) == ("failed", DOWN, "ValueError: x")


def test_without_launcher_status_finish_lines_decide_unless_forced(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    run.finish(now)
    run.layout.status_json.unlink()
    assert shown(run, now + 1000) == ("finished", HEALTHY)
    forced = "Orchestrator shutdown did not complete within 300s; forcing process exit."
    run.log("orchestrator", (now + 300, "WARNING", forced))
    hidden = status_of(run.root, now + 1000)
    assert (hidden.phase, hidden.health, hidden.findings[0].rule) == ("failed", DOWN, "process.hidden-failure")


def test_launcher_that_died_after_the_work_was_done(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    run.finish(now)
    run.write_status(phase=status.RUNNING, started=1.0, ended=None, exit_code=None)
    assert shown(run, now) == ("finished", HEALTHY)


def test_orphans_of_a_dead_launcher_are_failing(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    run.write_status(started=1.0)
    verdict = status_of(run.root, now)
    assert (verdict.phase, verdict.health) == ("failing", DOWN)
    assert "still alive without it: inference (pid" in verdict.findings[0].message


def test_a_dry_run_after_the_run_changes_nothing(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    (run.layout.attempt_configs(2) / "resolved").mkdir(parents=True)
    run.layout.attempt_logs(2).mkdir()
    verdict = status_of(run.root, now)
    assert (verdict.attempt, verdict.phase) == (1, "running")


def test_a_resumed_attempt_is_judged_by_its_own_rows(tmp_path: Path) -> None:
    _, now = running(tmp_path, steps=12)
    again = SampleRun(tmp_path, attempt=2)
    again.log("trainer", (now + 100, "INFO", "Resuming training from checkpoint step 10 (checkpoints/step_10)"))
    again.write_status(started=time.time() + 1000, host="elsewhere", updated=now + 100, phase=status.STARTING)
    facts = gather(again.root, now + 105)
    assert facts.progress.trainer.value is None
    assert (View(facts).step, View(facts).phase) == (10, "starting")
    again.write_status(started=now + 90)
    again.metrics("trainer", 11, now + 110, **{"time/step": 2.0})
    verdict = status_of(again.root, now + 111)
    assert (verdict.step, verdict.phase, verdict.attempt) == (11, "running", 2)


def test_old_layout(tmp_path: Path) -> None:
    # Layout A: everything at the top, no producers, no attempts.
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs/trainer.json").write_text('{"max_steps": 9, "model": {"name": "m"}}')
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/trainer.log").write_text("10:00:00 SUCCESS Step 3 |    2.0s | Loss 0.1\n")
    (tmp_path / "metrics.jsonl").write_text(f'{{"step": 3, "time": {T0}, "perf/mfu": 1.0, "time/step": 2.0}}\n')
    verdict = status_of(tmp_path, T0 + 5)
    assert (verdict.step, verdict.max_steps, verdict.phase, verdict.attempt) == (3, 9, "running", None)


@pytest.mark.parametrize("error_rate", [0.5])
def test_degraded(tmp_path: Path, error_rate: float) -> None:
    run, _ = running(tmp_path)
    assert shown(run, run.step(13, error_rate=error_rate) + 1) == ("running", DEGRADED)


def test_this_host_is_named(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    assert status_of(run.root, now).host == socket.gethostname()
