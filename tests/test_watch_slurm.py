"""Runs inside jobs of a real SLURM: what is said when a job waits, is cancelled, requeued, out of time, loses a node.

The run is a stand-in that writes a run directory from inside the job (``job_stand_in.py``): no launcher speaks of it,
so that all there is to know comes from its files and from SLURM. One is a real run.
"""

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mini_slurm import DEADLINE, MiniSlurm
from prl.cli.restart_plan import restart_plan
from prl.trainer.tiny import make_tiny_model
from prl.watch import Verdict, assess, gather
from prl.watch.conditions import FAILS, HOLDS
from prl.watch.facts import Facts
from prl.watch.verdict import DEGRADED, DOWN, FAILED, FINISHED, HEALTHY, QUEUED, REQUEUED, RUNNING, STOPPED
from real_run import configuration, wait_for
from sample_runs import NAME, SampleRun
from test_cli_status import call
from test_watch_live import alarms

STAND_IN = Path(__file__).parent / "job_stand_in.py"


class JobRun:
    """A run in a job of the cluster, looked at as by somebody who has not asked SLURM before."""

    def __init__(self, cluster: MiniSlurm, output_dir: Path, patch: pytest.MonkeyPatch) -> None:
        self.cluster, self.output_dir, self._patch, self._looks = cluster, output_dir, patch, 0
        self.root = output_dir / NAME

    def submit(self, *options: str, steps: int = 10_000) -> str:
        """Submit the script that lies in the run directory, as launchers do."""
        (self.root / "launcher/logs").mkdir(parents=True, exist_ok=True)
        script = self.root / "launcher/rl.sbatch"
        script.write_text(f"#!/bin/bash\nexec {sys.executable} {STAND_IN} {self.output_dir} {steps}\n")
        log = f"{self.root}/launcher/logs/job_%j.log"
        return self.cluster.ask("sbatch", "--parsable", "-o", log, "--open-mode=append", *options, str(script))

    def look(self) -> tuple[Facts, Verdict]:
        self._looks += 1
        self._patch.setenv("PRL_STATE_DIR", str(self.output_dir / f"state-{self._looks}"))
        facts = gather(self.root)
        return facts, assess(facts)

    def until(self, phase: str, right: Callable[[Facts, Verdict], object] = lambda facts, verdict: True) -> Verdict:
        """Look until the run is in this phase and ``right`` of it."""
        seen: list[str] = []

        def looked() -> Verdict | None:
            facts, verdict = self.look()
            seen.append(f"{verdict.phase} {verdict.health} {alarms(verdict)} {[job.state for job in facts.jobs]}")
            return verdict if verdict.phase == phase and right(facts, verdict) else None

        try:
            found: Verdict = wait_for(looked, phase, DEADLINE + 40)
        except AssertionError as error:
            raise AssertionError(f"{error}; seen: {list(dict.fromkeys(seen))}") from None
        return found


@pytest.fixture
def job_run(cluster: MiniSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobRun]:
    yield JobRun(cluster, tmp_path, monkeypatch)
    cluster.clear()


def moves(facts: Facts, verdict: Verdict) -> bool:
    return (facts.progress.trainer.value or 0) >= 3


def test_cancelled_with_the_controller_silent_in_between(job_run: JobRun) -> None:
    job_id = job_run.submit("-N2", "--comment", "\x1b[2J a run")
    verdict = job_run.until(RUNNING, moves)
    assert (verdict.health, alarms(verdict)) == (HEALTHY, [])
    facts, _ = job_run.look()
    assert [(job.id, job.state, job.source, job.problem) for job in facts.jobs] == [(job_id, "RUNNING", "squeue", None)]
    assert [node.name for node in facts.jobs[0].nodes] == ["n1", "n2"]
    with job_run.cluster.silent():
        # Nothing is known of the job: its counters say that it lives, and that SLURM is silent is said.
        facts, verdict = job_run.look()
        assert (verdict.phase, verdict.health, facts.jobs[0].as_of) == (RUNNING, HEALTHY, None)
        assert "slurm.silent" in [one.rule for one in verdict.findings]
    job_run.cluster.ask("scancel", job_id)
    verdict = job_run.until(STOPPED)
    assert (verdict.health, verdict.exit_code) == (DOWN, 2)
    assert f"job {job_id} was cancelled" in (verdict.reason or "")


def test_waits_in_the_queue(job_run: JobRun) -> None:
    SampleRun(job_run.output_dir)  # configured
    for log in job_run.root.rglob("*.log"):
        log.unlink()
    job_id = job_run.submit("-N1", "-H")
    verdict = job_run.until(QUEUED)
    # Held: it would wait for ever.
    assert (verdict.health, alarms(verdict)) == (DEGRADED, ["slurm.pending"])
    assert job_id in verdict.findings[0].message


@pytest.mark.faults
def test_requeued_and_out_of_time(job_run: JobRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Side by side: SLURM looks at time limits every 30 s only, and starts a requeued job after some seconds.
    limited = JobRun(job_run.cluster, tmp_path / "limited", monkeypatch)
    limited_id = limited.submit("-N1", "-t1")
    job_id = job_run.submit("-N1", "--requeue")
    near = limited.until(RUNNING, moves)
    assert (near.health, alarms(near)) == (DEGRADED, ["slurm.time-limit"])
    job_run.cluster.ask("scontrol", "update", f"jobid={limited_id}", "EndTime=now+1")
    job_run.until(RUNNING, moves)
    job_run.cluster.ask("scontrol", "requeue", job_id)
    waits = job_run.until(REQUEUED)
    assert (waits.health, alarms(waits)) == (DEGRADED, ["slurm.requeued"])
    assert "restarted 1 times" in waits.findings[0].message
    again = job_run.until(RUNNING, lambda facts, verdict: facts.attempt == 2 and moves(facts, verdict))
    assert (again.health, alarms(again)) == (HEALTHY, [])
    over = limited.until(FAILED)
    assert (over.health, alarms(over)[0]) == (DOWN, "slurm.ended")
    assert "time limit" in over.findings[0].message


def test_a_node_is_lost(job_run: JobRun) -> None:
    job_id = job_run.submit("-N3", "--no-requeue")
    job_run.until(RUNNING, moves)
    job_run.cluster.lose("n3")
    try:
        verdict = job_run.until(FAILED)
        assert (verdict.health, alarms(verdict)[0]) == (DOWN, "slurm.node-failure")
        assert job_id in verdict.findings[0].message
        assert "n3" in verdict.findings[0].message
    finally:
        job_run.cluster.restore("n3")


@pytest.mark.faults
def test_a_real_run_in_a_job(job_run: JobRun, tmp_path: Path) -> None:
    """It is found by its processes' own job; the controller is stopped; then the job is cancelled."""
    model = make_tiny_model(tmp_path / "tiny", hidden_size=32, num_layers=1)
    config = configuration(
        tmp_path, model, max_steps=10_000, output_dir=str(job_run.output_dir), run={"name": NAME}, ckpt=None
    )
    job_id = job_run.cluster.submit(f"exec {sys.executable} -m prl.cli.rl @ {config}", "-N1", "-o", "rl_%j.out")
    verdict = job_run.until(RUNNING, moves)
    assert [one for one in alarms(verdict) if not one.startswith("episodes.")] == []
    facts, _ = job_run.look()
    assert [(job.id, job.state) for job in facts.jobs] == [(job_id, "RUNNING")]
    assert facts.launcher is not None
    assert {process.state for process in facts.processes} == {"alive"}
    with job_run.cluster.away():
        facts, verdict = job_run.look()
        assert (verdict.phase, facts.jobs[0].id, facts.jobs[0].as_of) == (RUNNING, job_id, None)
        assert facts.jobs[0].problem
        step = facts.progress.trainer.value or 0
        job_run.until(RUNNING, lambda facts, verdict: (facts.progress.trainer.value or 0) > step)
    job_run.cluster.ask("scancel", job_id)
    verdict = job_run.until(STOPPED)
    assert (verdict.health, alarms(verdict)) == (DOWN, [])
    # The launcher's own word, or SLURM's where it was killed before it could write one.
    assert "SIGTERM" in (verdict.reason or "") or f"job {job_id} was cancelled" in (verdict.reason or "")


@pytest.mark.faults
def test_restart_as_its_plan_says(job_run: JobRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trainer is killed, the job holds its node; what the plan prints is typed, nothing else; the run goes on."""
    model = make_tiny_model(tmp_path / "tiny", hidden_size=32, num_layers=1)
    config = configuration(
        tmp_path, model, max_steps=10_000, output_dir=str(job_run.output_dir), run={"name": NAME}, ckpt={"interval": 2}
    )
    command = f"{sys.executable} -m prl.cli.rl @ {config}"
    script = tmp_path / "my-run.sbatch"
    script.write_text(f"#!/bin/bash\n#SBATCH --output=rl_%j.out\n{command}\nsleep 600\n")
    job_id = job_run.cluster.ask("sbatch", "--parsable", "-N1", str(script))
    job_run.until(RUNNING, lambda facts, verdict: moves(facts, verdict) and facts.checkpoints.complete)

    def planned() -> dict[str, Any]:
        monkeypatch.setenv("PRL_STATE_DIR", str(tmp_path / f"state-{time.monotonic_ns()}"))
        plan: dict[str, Any] = json.loads(CliRunner().invoke(restart_plan, [str(job_run.root), "--json"]).output)
        return plan

    def held(plan: dict[str, Any], name: str) -> Any:
        return next(one for one in plan["rows"] if one["name"] == name)

    assert planned()["warranted"] == "no"  # it does its work
    facts, _ = job_run.look()
    trainer = next(process for process in facts.processes if process.name == "trainer")
    os.kill(trainer.pid, signal.SIGKILL)
    verdict = job_run.until(
        FAILED, lambda facts, verdict: facts.launcher is not None and facts.launcher.phase == FAILED
    )
    assert "trainer" in (verdict.reason or "")

    # The script sleeps on: the plan says which job to end first, and that alone.
    plan = planned()
    assert (plan["warranted"], held(plan, "job ended")["state"]) == ("yes", FAILS)
    (cancel,) = re.findall(r"`(scancel [^`]*)`", plan["submission"])
    assert cancel == f"scancel {job_id}"
    assert held(plan, "job ended")["action"].endswith(cancel)
    job_run.cluster.ask(*cancel.split())
    wait_for(lambda: held(planned(), "job ended")["state"] == HOLDS, "the job to have ended", DEADLINE)

    plan = planned()
    assert [one["name"] for one in plan["rows"] if one["state"] == FAILS] == []
    step = plan["resume_step"]
    assert plan["command"]["line"].endswith(f"--resume.step {step}")
    assert "scancel" not in plan["submission"]
    (submit,) = re.findall(r"`(cd [^`]*)`", plan["submission"])
    assert submit == f"cd {job_run.cluster.work} && sbatch {script}"
    script.write_text(script.read_text().replace(command, plan["command"]["line"]))
    job_run.cluster.ask("bash", "-c", submit)

    def resumed() -> Any:
        monkeypatch.setenv("PRL_STATE_DIR", str(tmp_path / f"state-{time.monotonic_ns()}"))
        code, result = call(str(job_run.root), "--since-restart", "--json")
        answer = json.loads(result.stdout)
        seen.append((code, answer["result"], answer["attempt"]))
        return answer if code == 0 and answer["step"] is not None and answer["step"] > step else None

    seen: list[Any] = []
    answer = wait_for(resumed, "the run to go on", DEADLINE + 60)
    assert (answer["attempt"], answer["resume_step"], answer["result"]) == (2, step, "resumed"), seen
    facts, verdict = job_run.look()
    # The job of the new attempt, and nothing any more of the one that was cancelled.
    assert [(job.state, job.id != job_id) for job in facts.jobs] == [("RUNNING", True)]
    assert verdict.phase == RUNNING


def test_finished_and_holds_its_node(job_run: JobRun) -> None:
    job_id = job_run.submit("-N1", steps=3)
    verdict = job_run.until(FINISHED)
    assert verdict.health == HEALTHY
    # Five minutes later.
    facts, _ = job_run.look()
    later = assess(gather(job_run.root, facts.as_of + 400))
    assert (later.phase, later.health, alarms(later)) == (FINISHED, DEGRADED, ["slurm.finished-holding"])
    assert f"scancel {job_id}" in later.findings[0].action
