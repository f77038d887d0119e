"""Real runs with real faults: what dies, what recovers, what is said of it, and what stays readable.

Every component is killed in turn. The run ends or recovers as stated, with the exit status that says so, names the
component, leaves no process behind, and everything written until then can be read.
"""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from prl.rundir import checkpoints
from prl.rundir.episodes.reader import iter_episodes
from prl.rundir.jsonl import Damage
from prl.rundir.metrics.reader import read_metrics
from prl.rundir.status import FAILED, FINISHED, STOPPED, read_status
from prl.trainer.tiny import make_tiny_model
from prl.watch import status_of
from real_run import Run, configuration, running, wait_for


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("model") / "tiny", hidden_size=32, num_layers=1)


def check_readable(run: Run) -> None:
    """No damaged line but a torn last one, and the index agrees with the stream."""
    history = read_metrics(run.layout.metrics)
    assert history.damage.lines == 0
    damage = Damage()
    episodes = list(iter_episodes(run.layout.traces, damage))
    assert damage.lines == 0
    assert episodes


def check_told(run: Run, phase: str, health: str, *words: str) -> None:
    """What a check-in says of the run now."""
    told = status_of(run.layout.root)
    assert (told.phase, told.health) == (phase, health)
    said = f"{told.reason} {[(one.rule, one.message, one.cause) for one in told.findings]}"
    assert [word for word in words if word not in said] == []


def check_gone(run: Run) -> None:
    wait_for(lambda: not run.orphans(), f"the end of {run.orphans()}", 30)


def test_deaths_and_resumes(tmp_path: Path, model: Path) -> None:
    """One run directory through the deaths of a worker, the trainer, the orchestrator and the launcher."""
    config = configuration(tmp_path, model, max_steps=40)

    with running(config) as run:
        run.wait_for_step(1)
        worker = run.titled("Verifiers::EnvWorker0")
        worker.suspend()  # so that it dies with episodes in flight
        wait_for(lambda: list((run.layout.traces / "live/pending").glob("*.json")), "an episode in flight")
        worker.send_signal(signal.SIGKILL)
        killed_at = run.step()
        run.wait_for_step(killed_at + 4)  # beyond what was in flight: the replacement plays
        log = (run.layout.attempt_logs(1) / "envs/train/reverse-text.log").read_text()
        assert "worker 0 exited with code -9" in log
        errors = [str(e.record["errors"]) + str(e.record.get("traces")) for e in iter_episodes(run.layout.traces)]
        assert any("EnvWorkerDied" in text for text in errors)

        run.titled("PRL::Trainer").send_signal(signal.SIGKILL)
        assert run.end() == 1
        assert "Trainer failed" in run.text
        assert "SIGKILL" in run.text
        check_told(run, FAILED, "Down", "process.run-failed", "trainer", "SIGKILL")
        check_gone(run)
        check_readable(run)
        status = read_status(run.layout.status_json)
        assert status
        assert (status.phase, status.exit_code) == (FAILED, 1)

    first = checkpoints.complete_steps(run.layout.checkpoints)
    assert first
    with running(config) as refused:  # a used directory
        assert refused.end() == 65
        assert "--resume" in refused.text

    with running(config, "--resume") as run:
        run.wait_for_step(first[-1] + 2)
        run.find("orchestrator").send_signal(signal.SIGKILL)
        assert run.end() == 1
        assert "Orchestrator failed with exit code -9" in run.text
        check_told(run, FAILED, "Down", "process.run-failed", "orchestrator was killed by signal 9")
        check_gone(run)
        check_readable(run)

    second = checkpoints.complete_steps(run.layout.checkpoints)
    assert second[-1] > first[-1]
    with running(config, "--resume") as run:
        run.wait_for_step(second[-1] + 2)
        run.process.send_signal(signal.SIGKILL)
        run.process.wait()
        check_gone(run)
        check_readable(run)
        wait_for(
            lambda: (s := read_status(run.layout.status_json)) and s.phase == FAILED,
            "the launcher's death in status.json",
            30,
        )
        check_told(run, FAILED, "Down", "launcher")

    third = checkpoints.complete_steps(run.layout.checkpoints)
    last = third[-1] + 3
    with running(config, "--resume", "--max_steps", str(last)) as run:
        assert run.end() == 0, run.text[-4000:]
        assert "Training finished!" in run.text
        check_told(run, FINISHED, "Healthy")
        check_gone(run)
        check_readable(run)
        status = read_status(run.layout.status_json)
        assert status
        assert (status.phase, status.attempt, status.step) == (FINISHED, 4, last)

    # The timelines of four attempts read as one, without a gap.
    history = read_metrics(run.layout.metrics)
    for producer, key in (("trainer", "loss/mean"), ("orch", "progress/tokens")):
        assert [point.step for point in history.series(producer, key)] == list(range(1, last + 1))
    with running(config, "--resume", "--max_steps", str(last)) as refused:
        assert refused.end() == 64
        assert str(last) in refused.text


@pytest.mark.parametrize(("name", "title"), [("inference", "Inference"), ("train env server reverse-text", "server")])
def test_a_server_that_dies_ends_the_run(tmp_path: Path, model: Path, name: str, title: str) -> None:
    with running(configuration(tmp_path, model, max_steps=1000)) as run:
        run.wait_for_step(1)
        run.find(name).send_signal(signal.SIGKILL)
        assert run.end() == 1
        line = next(line for line in run.text.splitlines() if "failed with exit code -9" in line)
        assert title in line
        check_told(run, FAILED, "Down", "process.run-failed", f"{name} was killed by signal 9")
        check_gone(run)
        check_readable(run)


@pytest.mark.parametrize(("signum", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_the_run(tmp_path: Path, model: Path, signum: signal.Signals, exit_code: int) -> None:
    with running(configuration(tmp_path, model, max_steps=1000)) as run:
        run.wait_for_step(1)
        run.process.send_signal(signum)
        assert run.end() == exit_code
        check_told(run, STOPPED, "Down", signum.name)
        check_gone(run)
        check_readable(run)
        status = read_status(run.layout.status_json)
        assert status
        assert status.phase == STOPPED


def test_an_environment_that_cannot_be_imported_is_named(tmp_path: Path, model: Path) -> None:
    source = [{"env": {"taskset": {"id": "no-such-environment"}}}]
    with running(configuration(tmp_path, model, orchestrator={"train": {"source": source}})) as run:
        assert run.end() in (1, 64)
        assert "no_such_environment" in run.text or "no-such-environment" in run.text
        check_gone(run)


def test_two_runs_on_one_host(tmp_path: Path, model: Path) -> None:
    """Default ports move together; each run trains with its own engine."""
    roots = [tmp_path / "a", tmp_path / "b"]
    for root in roots:
        root.mkdir()
    with running(configuration(roots[0], model)) as first, running(configuration(roots[1], model)) as second:
        assert [first.end(), second.end()] == [0, 0], first.text[-2000:] + second.text[-2000:]
    ports = []
    for run in (first, second):
        resolved = json.loads((run.layout.attempt_configs(1) / "resolved/rl.json").read_text())
        ports.append((resolved["inference"]["server"]["port"], resolved["rollout_transport"]["port"]))
        check_gone(run)
    assert not set(ports[0]) & set(ports[1])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MB, mounted for the test (needs root)."""
    if os.geteuid() != 0:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("mounting a small tmpfs needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(disk)], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_full_disk_is_loud_and_the_run_goes_on_when_space_returns(
    tmp_path: Path, model: Path, small_disk: Path
) -> None:
    config = configuration(tmp_path, model, max_steps=1000, output_dir=str(small_disk), ckpt=None)
    with running(config) as run:
        run.wait_for_step(2)
        ballast = small_disk / "ballast"
        with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:  # block by block down to the last free byte, as other writers race for it
                file.write(b"\0" * 4096)

        def loud() -> bool:
            assert run.process.poll() is None, run.text[-3000:]
            return "No space left" in run.text

        wait_for(loud, "an error line on the full disk")
        told = status_of(run.layout.root)
        assert (told.findings[0].rule, told.health) in (("disk.full", "Down"), ("disk.full", "Degraded"))
        stuck = run.step()
        ballast.unlink()
        run.wait_for_step(stuck + 3)
        run.process.send_signal(signal.SIGTERM)
        assert run.end() == 143
        check_gone(run)
    history = read_metrics(run.layout.metrics)
    steps = [point.step for point in history.series("trainer", "loss/mean")]
    assert steps[-1] is not None
    assert steps[-1] > stuck
