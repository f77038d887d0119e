"""Real runs looked at while they work: well from the first second to the last, and each fault named once it shows."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from env_doubles import MODULES
from prl.trainer.tiny import make_tiny_model
from prl.watch import Verdict, check_in, status_of
from prl.watch.verdict import (
    DEGRADED,
    DOWN,
    FAILED,
    FAILING,
    FINISHED,
    HEALTHY,
    INFO,
    RUNNING,
    STARTING,
)
from real_run import Run, configuration, running, wait_for

DEMO = Path(__file__).parent.parent / "examples/reverse_text/demo.py"
TRUE_ANYWAY = ("memory.short", "disk.filling", "episodes.truncation")
"""What may be so whatever is tested: of this machine, and of a model that was never taught to end an answer."""


@pytest.fixture(autouse=True)
def own_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(MODULES))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("model") / "tiny", hidden_size=32, num_layers=1)


def alarms(verdict: Verdict) -> list[str]:
    """The rules that speak, the gravest first, without information and what is so anyway."""
    return [one.rule for one in verdict.findings if one.severity != INFO and one.rule not in TRUE_ANYWAY]


def until(run: Run, right: Callable[[Verdict], bool], what: str) -> Verdict:
    """Look until a verdict is right."""

    def look() -> Verdict | None:
        verdict = status_of(run.layout.root)
        return verdict if right(verdict) else None

    found: Verdict = wait_for(look, what)
    return found


def entry(run: Run) -> str:
    """What a check-in writes now."""
    return check_in(run.layout.root).entry


def moody(root: Path, model: Path, max_steps: int = 1000, lr: float = 1e-4, **mood: object) -> Path:
    """A run on an environment in this mood: its rewards are random, so that there is something to train on."""
    source = [{"env": {"taskset": {"id": "moody-env", **mood}}, "timeout": 30, "serve": {"interval": 0.5}}]
    return configuration(
        root,
        model,
        max_steps=max_steps,
        ckpt=None,
        trainer={"optim": {"lr": lr}},
        orchestrator={"train": {"source": source}, "metrics_interval": 0.5},
    )


def test_a_run_is_well_from_its_first_second_to_its_last(tmp_path: Path, model: Path) -> None:
    phases: list[str] = []
    with running(moody(tmp_path, model, max_steps=24)) as run:
        wait_for(run.status, "the launcher's word")
        while run.process.poll() is None:
            verdict = status_of(run.layout.root)
            assert (verdict.phase, alarms(verdict)) == (verdict.phase, [])
            assert verdict.health in (HEALTHY, DEGRADED), verdict.reason
            if verdict.phase not in phases:
                phases.append(verdict.phase)
            time.sleep(1)  # how often somebody looks, not how long anything takes
        assert run.end() == 0, run.text[-3000:]
    last = status_of(run.layout.root)
    assert (last.phase, last.health, alarms(last), last.step) == (FINISHED, HEALTHY, [], 24)
    assert phases[:2] == [STARTING, RUNNING]


@pytest.mark.faults
@pytest.mark.timeout(900)  # two trainings, of minutes each where the machine is shared
def test_the_demo_is_well_from_its_first_second_to_its_last(tmp_path: Path) -> None:
    """A model that was taught first: nothing is excused, advice aside. Both runs of it are looked at."""
    last: dict[str, Verdict] = {}
    with (tmp_path / "demo.out").open("wb") as output:
        demo = subprocess.Popen(
            [sys.executable, str(DEMO), "--output-dir", str(tmp_path / "outputs")],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        while demo.poll() is None:
            for word in tmp_path.glob("outputs/**/launcher/status.json"):
                verdict = last[word.parent.parent.name] = status_of(word.parent.parent)
                excused = TRUE_ANYWAY[:2]
                assert [one.rule for one in verdict.findings if one.severity != INFO and one.rule not in excused] == []
            time.sleep(1)  # how often somebody looks
        assert demo.returncode == 0, (tmp_path / "demo.out").read_text()[-3000:]
    finally:
        if demo.poll() is None:
            os.killpg(demo.pid, signal.SIGTERM)
            demo.wait(60)
    ends = [status_of(path.parent.parent) for path in tmp_path.glob("outputs/**/launcher/status.json")]
    assert len(last) == 2
    assert [(one.phase, one.health) for one in ends] == [(FINISHED, HEALTHY)] * 2


def test_processes_that_are_stopped_and_killed(tmp_path: Path, model: Path) -> None:
    with running(moody(tmp_path, model)) as run:
        run.wait_for_step(2)
        trainer = run.find("trainer")
        trainer.send_signal(signal.SIGSTOP)
        wait_for(lambda: trainer.status() == psutil.STATUS_STOPPED, "the trainer's stop")
        stopped = check_in(run.layout.root)
        assert alarms(stopped.verdict)[0] == "process.stopped"
        assert f"kill -CONT {trainer.pid}" in stopped.verdict.findings[0].action
        assert "Stopped by a signal" in stopped.entry
        trainer.send_signal(signal.SIGCONT)
        run.wait_for_step(run.step() + 2)
        until(run, lambda verdict: not alarms(verdict), "a verdict without alarms after the trainer went on")

        # The line in the environment's log is there once the server has noticed.
        worker = run.titled("Verifiers::EnvWorker0")
        worker.kill()
        log = run.layout.attempt_logs(1) / "envs/train/moody-env.log"
        wait_for(lambda: "exited with code -9" in log.read_text(), "the worker's death in the log")
        told = check_in(run.layout.root)
        # With its only worker gone, all that was in flight fails, which may be told beside it.
        assert "process.worker-gone" in alarms(told.verdict)
        assert "exited with code -9" in told.entry

        engine = run.find("inference")
        engine.kill()
        wait_for(lambda: not engine.is_running() or engine.status() == psutil.STATUS_ZOMBIE, "the engine's end")
        first = status_of(run.layout.root)
        assert (first.phase, first.health) in ((FAILING, DOWN), (FAILED, DOWN))
        assert "inference" in first.findings[0].message
        assert run.end() == 1
    last = check_in(run.layout.root)
    assert (last.verdict.phase, last.verdict.health, alarms(last.verdict)[0]) == (FAILED, DOWN, "process.run-failed")
    assert "inference was killed by signal 9" in last.entry


@pytest.mark.faults
def test_an_environment_that_fails_a_third_of_its_episodes(tmp_path: Path, model: Path) -> None:
    with running(moody(tmp_path, model, failing=0.3)) as run:
        run.wait_for_step(3)
        verdict = until(run, lambda verdict: bool(alarms(verdict)), "an alarm")
        finding = verdict.findings[0]
        assert (finding.rule, verdict.health, verdict.phase) == ("episodes.error-rate", DEGRADED, RUNNING)
        assert "moody-env" in finding.message
        assert "TaskError" in (finding.cause or "")
        assert "episodes.error-rate" in entry(run)


@pytest.mark.faults
def test_a_reward_that_never_changes(tmp_path: Path, model: Path) -> None:
    """No group has a signal, so nothing can be shipped and no step is ever made."""
    with running(moody(tmp_path, model, constant=True)) as run:
        verdict = until(run, lambda verdict: bool(alarms(verdict)), "an alarm")
        assert alarms(verdict)[0] == "episodes.no-signal"
        assert "episodes.no-signal" in entry(run)


@pytest.mark.faults
def test_a_learning_rate_a_thousand_times_too_high(tmp_path: Path, model: Path) -> None:
    with running(moody(tmp_path, model, lr=0.1)) as run:
        first = until(run, lambda verdict: bool(alarms(verdict)), "an alarm")
        assert alarms(first)[0] == "training.mismatch-kl"
        worse = until(run, lambda verdict: verdict.health == DOWN, "a verdict that it is down")
        assert alarms(worse)[0] == "training.mismatch-kl"
        assert "training.mismatch-kl" in entry(run)
