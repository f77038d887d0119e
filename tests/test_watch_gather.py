"""Gathering never fails, whatever a run directory holds, and changes nothing in it."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prl.rundir import status
from prl.synth import RunShape, write_run
from prl.watch import assess, gather, proctable, render, status_of
from prl.watch.facts import loads
from prl.watch.lines import WINDOW
from sample_runs import T0, SampleRun, running


def files(root: Path) -> dict[str, tuple[int, float]]:
    return {str(path): (path.stat().st_size, path.stat().st_mtime) for path in root.rglob("*") if path.is_file()}


def test_identity_and_clocks(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    facts = gather(run.root, now)
    assert (facts.run.kind, facts.run.layout, facts.run.max_steps, facts.run.model) == ("rl", "C", 40, "models/tiny")
    assert facts.run.envs == ["reverse-text"]
    progress = facts.progress
    assert (progress.trainer.value, progress.orchestrator.value, progress.policy.value) == (12, 12, 11)
    assert (progress.episodes.value, progress.median_step) == (192, 2.0)
    assert progress.trainer.time == now - 1
    assert [series.last for series in facts.series if series.key == "optim/grad_norm"] == [0.25]
    assert facts.disk is not None
    assert facts.unknown == []


def test_episodes_of_the_first_releases_are_named(tmp_path: Path) -> None:
    """They hold rewards without traces. Nothing is told of them, and nobody must think that there were none."""
    run, now = running(tmp_path)
    (run.root / "rollouts/step_1").mkdir(parents=True)
    (run.root / "rollouts/step_1/train_rollouts.jsonl").write_text('{"reward": 1.0}\n')
    (note,) = gather(run.root, now).unknown
    assert note.startswith("rollouts/step_1/train_rollouts.jsonl: ")
    assert "not read" in note


def test_word_of_a_launcher_whose_clock_is_ahead_is_as_old_as_its_file(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    for process in run.status.processes:
        process.host = "elsewhere"
    run.write_status(host="elsewhere", updated=now + 3600)
    for age, state in ((10, "alive"), (600, "unknown")):
        os.utime(run.layout.status_json, (now, now))
        launcher = gather(run.root, now + age).launcher
        assert launcher is not None
        assert (launcher.state, launcher.updated) == (state, now)


def test_bounds_come_from_the_configuration(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    client = {"wait_for_ready_timeout": 11}
    run.write_resolved(
        orchestrator={"env_startup_timeout": 7, "trainer_ready_timeout": 8.5, "model": {"client": client}},
        trainer={"batch_timeout": 9, "ckpt": {"output_dir": str(tmp_path / "elsewhere")}},
    )
    done = tmp_path / "elsewhere/checkpoints/step_4"
    for mark in ("trainer/.metadata", "orchestrator/progress.pt"):
        (done / mark).parent.mkdir(parents=True)
        (done / mark).write_bytes(b"x")
    (tmp_path / "elsewhere/checkpoints/step_5/orchestrator").mkdir(parents=True)
    facts = gather(run.root, T0)
    known = facts.run
    assert (known.env_startup_timeout, known.sync_timeout, known.batch_timeout) == (7.0, 8.5, 9.0)
    assert known.inference_ready_timeout == 11.0
    assert (facts.checkpoints.complete, facts.checkpoints.half) == ([4], [5])


def test_a_supervised_run_may_keep_its_checkpoints_elsewhere(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    run.write_status(kind="sft")
    run.write_resolved(sft={"ckpt": {"output_dir": str(tmp_path / "elsewhere")}})
    (tmp_path / "elsewhere/checkpoints/step_4/trainer").mkdir(parents=True)
    (tmp_path / "elsewhere/checkpoints/step_4/trainer/.metadata").write_bytes(b"x")
    assert gather(run.root, T0).checkpoints.complete == [4]


@pytest.mark.parametrize("value", [True, 10**400, "", None, [], {"a": 1}, "\ud800"])
def test_a_configuration_of_any_values_is_read(tmp_path: Path, value: object) -> None:
    run = SampleRun(tmp_path)
    client = {"wait_for_ready_timeout": value, "base_url": value}
    settings = {"interval": value, "output_dir": value, "keep_last": value}
    run.write_resolved(
        orchestrator={"max_steps": value, "env_startup_timeout": value, "model": {"name": value, "client": client}},
        trainer={"ckpt": settings, "batch_timeout": value, "resume": value},
        inference={"server": {"host": value, "port": value}, "backend_port": value},
    )
    facts = gather(run.root, T0)
    assert loads(json.dumps(facts.to_json(), allow_nan=False)) == facts
    assert (facts.run.max_steps, facts.run.batch_timeout, facts.engines) == (None, 3600.0, [])


def test_nothing_is_written(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    before = files(run.root)
    render(status_of(run.root, now))
    assert files(run.root) == before


def test_large_files_are_read_at_their_ends_only(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    path = run.logs / "inference.log"
    with path.open("ab") as file:
        file.write(b"10:00:01    INFO GET /health 200\n" * (WINDOW // 30))
    facts = gather(run.root, now)
    log = next(log for log in facts.logs if log.component == "inference")
    assert log.skipped == log.size - WINDOW
    assert any("inference.log" in note and "not looked at" in note for note in facts.unknown)


def test_damaged_metrics_are_told_with_place_and_sample(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    size = run.layout.metrics.stat().st_size
    with run.layout.metrics.open("ab") as file:
        file.write(b"\x00" * 20 + b'\n{"step": 13')
    (note,) = gather(run.root, now).unknown
    assert f"1 unreadable lines, the first at byte {size}" in note


def test_without_metrics_the_step_lines_tell_progress(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    run.layout.metrics.unlink()
    facts = gather(run.root, now)
    assert (facts.progress.trainer.value, facts.progress.orchestrator.value, facts.progress.median_step) == (
        12,
        12,
        2.0,
    )
    assert status_of(run.root, now).health == "Healthy"
    assert status_of(run.root, now + 100).findings[0].rule == "progress.stalled"


def test_real_processes_alive_then_killed(tmp_path: Path) -> None:
    run, _ = running(tmp_path)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        process = run.process("trainer")
        process.pid, process.started = child.pid, psutil.Process(child.pid).create_time()
        run.write_status()
        assert [p.state for p in gather(run.root).processes] == ["alive"] * 4
        child.kill()
        deadline = time.monotonic() + 10
        while (state := gather(run.root).processes[-1].state) == "alive" and time.monotonic() < deadline:
            time.sleep(0.01)
        assert state == "gone"  # not yet reaped: a zombie does no work
    finally:
        child.kill()
        child.communicate()
    assert gather(run.root).processes[-1].state == "gone"


def test_a_run_that_ends_while_it_is_looked_at_has_lost_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last word is written after the launcher's was read, and before the process table is."""
    run, now = running(tmp_path, 40)
    run.write_status(pid=2**22 + 5)
    read_table = proctable.read_table

    def read_late() -> proctable.ProcessTable:
        run.finish(now)
        return read_table()

    monkeypatch.setattr(proctable, "read_table", read_late)
    verdict = status_of(run.root, now)
    assert (verdict.phase, verdict.health, verdict.findings) == ("finished", "Healthy", [])


def test_status_of_the_wrong_types_is_no_status(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    raw = json.loads(run.layout.status_json.read_text())
    for change in (
        {"started": "yesterday"},
        {"pid": None},
        {"pid": True},
        {"updated": 10**400},
        {"ports": {"engine": "8100"}},
        {"ports": 3},
        {"processes": [{"name": "x"}]},
        {"processes": 3},
    ):
        run.layout.status_json.write_text(json.dumps({**raw, **change}))
        assert gather(run.root, now).launcher is None


Victim = tuple[Path, float, dict[Path, bytes]]


@pytest.fixture(scope="module")
def victims(tmp_path_factory: pytest.TempPathFactory) -> list[Victim]:
    """A run of this project inside a SLURM job, and one of prime-rl in the oldest layout."""
    run, now = running(tmp_path_factory.mktemp("runs"))
    run.write_status(phase=status.RUNNING)
    run.write_resolved(inference={"server": {"port": 8000}}, rl={"ckpt": {"interval": 4, "keep_last": 2}})
    for name, text in {
        "launcher/logs/job_42.log": "HOSTNAMES=n1 n2\nADMIN_URLS=http://n1:8100\n[n1] component exited with code 1 - "
        "waiting up to 3600s for others\n",
        "launcher/rl.sbatch": "#SBATCH --time=1:00\n",
        "launcher/job.json": '{"job_id": 42}',
        "configs/attempt_1/environment.json": '{"cwd": "/", "environment": {"SLURM_JOB_ID": "42"}}',
        "checkpoints/step_4/trainer/.metadata": "__0_0.distcp",
        "checkpoints/step_4/orchestrator/progress.pt": "x",
        "trainer_step": "12",
        "logs/attempt_1/trainer/torchrun/x/attempt_0/1/stderr.log": "torch.OutOfMemoryError: CUDA out of memory\n",
    }.items():
        (run.root / name).parent.mkdir(parents=True, exist_ok=True)
        (run.root / name).write_text(text)
    shape = RunShape(layout="A", writer="prime-rl", state="running", steps=4, rollouts=8, answer_tokens=8)
    old = write_run(tmp_path_factory.mktemp("runs") / "old", shape)
    contents = ({path: path.read_bytes() for path in root.rglob("*") if path.is_file()} for root in (run.root, old))
    first, second = contents
    return [(run.root, now, first), (old, now, second)]


@settings(max_examples=120, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_any_damage_gives_a_verdict(victims: list[Victim], seed: int) -> None:
    draw = random.Random(seed)
    root, now, whole = draw.choice(victims)
    path = draw.choice(sorted(whole))
    data = whole[path]
    place = draw.randrange(len(data) + 1)
    kind = draw.choice(("cut", "noise", "missing", "directory", "repeat", "link"))
    try:
        path.unlink()
        if kind == "directory":
            path.mkdir()
        elif kind == "link":
            path.symlink_to(draw.choice(("nowhere", "/etc/hostname", path.name, "..")))
        elif kind != "missing":
            changed = {
                "cut": data[:place],
                "noise": data[:place] + draw.randbytes(20) + data[place + 20 :],
                "repeat": data + data[:place],
            }[kind]
            path.write_bytes(changed)
        facts = gather(root, now, ask_engines=False, ask_slurm=False)
        assert loads(json.dumps(facts.to_json(), allow_nan=False)) == facts
        verdict = assess(facts)
        assert verdict.health in ("Healthy", "Degraded", "Down", "Unknown")
        assert not any(finding.rule == "rule.failed" for finding in verdict.findings)
        assert render(verdict)
    finally:
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        os.utime(path, (now, now))


def test_a_pipe_in_the_place_of_any_file_is_waited_for_by_nobody(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    run.broadcast(13, now)
    replaced = [path for path in run.root.rglob("*") if path.is_file() and not path.is_symlink()]
    for path in replaced:
        path.unlink()
        os.mkfifo(path)
    facts = gather(run.root, now)
    assert [log.file for log in facts.logs if log.problem and "named pipe" in log.problem]
    assert any("metrics" in note and "named pipe" in note for note in facts.unknown)


@pytest.mark.parametrize(
    ("text", "reason"), [('{"run_id": "0', "not JSON"), ("[]", "a JSON list, not an object"), ("{}", "missing")]
)
def test_a_broken_word_of_the_launcher_is_told_as_broken(tmp_path: Path, text: str, reason: str) -> None:
    run, now = running(tmp_path)
    run.layout.status_json.write_text(text)
    (note,) = (note for note in gather(run.root, now).unknown if note.startswith("processes"))
    assert "launcher/status.json cannot be read" in note
    assert reason in note


def test_a_truncated_configuration_is_told(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    path = run.resolved / "trainer.json"
    path.write_bytes(path.read_bytes()[:9])
    (note,) = (note for note in gather(run.root, now).unknown if note.startswith("configuration"))
    assert "resolved/trainer.json cannot be read (not JSON" in note
