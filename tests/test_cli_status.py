"""``prl status``: exit codes, screen and JSON."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from prl.cli.answers import MAX_ROWS
from prl.cli.status import status as command
from prl.rundir import status
from prl.watch import gather
from prl.watch.facts import Facts, LogError, Process, loads
from sample_runs import T0, SampleRun, running

GOLDEN = Path(__file__).parent / "golden"
"""Recorded facts and the answers on them. ``PRL_UPDATE_GOLDEN=1`` writes the answers anew: read the difference."""


def call(*args: object) -> tuple[int, Result]:
    result = CliRunner().invoke(command, [str(arg) for arg in args], standalone_mode=False)
    assert result.exception is None or not isinstance(result.exception, AssertionError), result.exception
    return (result.return_value if result.exception is None else 64), result


def save(facts: Facts, path: Path) -> Path:
    path.write_text(json.dumps(facts.to_json()))
    return path


def healthy(run: SampleRun, now: float) -> float:
    return now


def degraded(run: SampleRun, now: float) -> float:
    return run.step(13, error_rate=0.4) + 1


def down(run: SampleRun, now: float) -> float:
    return now + 1000


def unknown(run: SampleRun, now: float) -> float:
    run.layout.status_json.unlink()
    return now + 1000


def finished(run: SampleRun, now: float) -> float:
    run.finish(now)
    return now + 1000


@pytest.mark.parametrize(
    ("case", "code", "health"),
    [
        (healthy, 0, "Healthy"),
        (finished, 0, "Healthy"),
        (degraded, 1, "Degraded"),
        (down, 2, "Down"),
        (unknown, 3, "Unknown"),
    ],
)
def test_exit_code_is_the_health(
    tmp_path: Path, case: Callable[[SampleRun, float], float], code: int, health: str
) -> None:
    run, now = running(tmp_path)
    facts = save(gather(run.root, case(run, now)), tmp_path / "facts.json")
    assert call("--facts", facts)[0] == code
    got, result = call("--facts", facts, "--json")
    answer = json.loads(result.stdout)
    assert (got, answer["health"], answer["ok"]) == (code, health, code == 0)


@pytest.mark.parametrize("name", ["running", "failed"])
def test_answer_on_recorded_facts(name: str) -> None:
    _, result = call("--facts", GOLDEN / f"{name}.facts.json", "--json")
    path = GOLDEN / f"{name}.status.json"
    if os.environ.get("PRL_UPDATE_GOLDEN"):
        path.write_text(result.stdout)
    assert json.loads(result.stdout) == json.loads(path.read_text())
    assert json.loads(result.stdout)["schema_version"] == 1


@pytest.mark.parametrize("name", ["running", "failed"])
def test_answer_of_since_restart(name: str) -> None:
    code, result = call("--facts", GOLDEN / f"{name}.facts.json", "--since-restart", "--json")
    path = GOLDEN / f"{name}.since-restart.json"
    if os.environ.get("PRL_UPDATE_GOLDEN"):
        path.write_text(result.stdout)
    answer = json.loads(result.stdout)
    assert answer == json.loads(path.read_text())
    assert (code, answer["result"]) == ((0, "resumed") if name == "running" else (2, "not resumed"))
    _, shown = call("--facts", GOLDEN / f"{name}.facts.json", "--since-restart")
    assert all(row["text"] in shown.stdout for row in answer["rows"])


def test_run_by_name_below_the_output_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = running(tmp_path)
    run.finish(T0 + 50)
    monkeypatch.setenv("PRL_OUTPUT_DIR", str(tmp_path))
    for args in ((), ("reverse-text--tiny",), (run.root,)):
        code, result = call(*args)
        assert (code, result.stdout.splitlines()[1]) == (0, "Healthy: finished, step 12 / 40")


def test_saved_facts_give_the_same_verdict_and_hold_no_secret(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    run.log(
        "trainer", (now, "ERROR", "Fatal error in train"), "Traceback (most recent call last):", "E: api_key=abc123x"
    )
    run.end("trainer", 1, now)
    run.write_status(phase=status.FAILED, exit_code=1)
    path = tmp_path / "facts.json"
    code, first = call(run.root, "--json", "--save-facts", path)
    assert "abc123x" not in path.read_text() + first.stdout
    assert loads(path.read_bytes()).run.name == run.name
    again, second = call("--facts", path, "--json")
    assert (code, json.loads(first.stdout)) == (again, json.loads(second.stdout))


def test_long_lists_are_cut_and_counted(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    facts = gather(run.root, now)
    error = LogError("x", "x.log", 0, now, now, True, "boom", "boom", False)
    many = replace(facts, errors=[replace(error, file=f"{n}.log") for n in range(150)])
    answer = json.loads(call("--facts", save(many, tmp_path / "f.json"), "--json")[1].stdout)
    assert (len(answer["errors"]), answer["counts"]["errors"], answer["truncated"]) == (MAX_ROWS, 150, True)


def test_wrong_facts_and_double_targets_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    path.write_text('{"schema_version": 7}')
    code, result = call("--facts", path)
    assert (code, "schema version 1 (found 7)" in str(result.exception)) == (64, True)
    assert "not both" in str(call("some-run", "--facts", path)[1].exception)
    run, _ = running(tmp_path)
    assert "Is a directory" not in str(call(run.root, "--save-facts", tmp_path / "no/such/f.json")[1].stdout)
    assert "No such file" in str(call(run.root, "--save-facts", tmp_path / "no/such/f.json")[1].exception)


def write_golden() -> None:
    """Recorded facts from sample runs, with the values of this machine replaced. Run by hand, from this directory."""
    import tempfile

    def still(facts: Facts) -> Facts:
        processes = [replace(p, pid=4242, host="node1", started=T0, as_of=facts.as_of) for p in facts.processes]
        launcher = facts.launcher and replace(facts.launcher, pid=4241, host="node1", started=T0)
        run = replace(facts.run, dir=f"/runs/{facts.run.name}")
        return replace(
            facts, host="node1", run=run, launcher=launcher, processes=processes, disk=None, attempt_started=T0
        )

    with tempfile.TemporaryDirectory() as directory:
        run, now = running(Path(directory))
        (GOLDEN / "running.facts.json").write_text(json.dumps(still(gather(run.root, now)).to_json(), indent=1) + "\n")
        run.log(
            "trainer", (now, "ERROR", "Fatal error in train"), "Traceback (most recent call last):", "ValueError: x"
        )
        run.log("launcher", (now + 1, "ERROR", "Error: Trainer failed with exit code 1: ValueError: x (trainer.log)"))
        run.end("trainer", 1, now + 1)
        run.end("orchestrator", 1, now + 2)
        run.write_status(phase=status.FAILED, exit_code=1, reason="trainer: ValueError: x", ended=now + 3)
        facts = still(gather(run.root, now + 60))
        (GOLDEN / "failed.facts.json").write_text(json.dumps(facts.to_json(), indent=1) + "\n")


def test_process_shape_is_stable() -> None:
    # Programs read these names; an answer written anew would change silently with them.
    assert set(Process.__dataclass_fields__) == {
        "name", "title", "pid", "host", "state", "started", "log", "as_of", "exit_code", "reason", "ended",
        "stopped", "zombie", "members", "expected", "parent", "source",
    }  # fmt: skip


if __name__ == "__main__":
    write_golden()


def test_a_reader_that_went_away_leaves_the_exit_status(tmp_path: Path) -> None:
    run, _ = running(tmp_path)
    run.finish(T0 + 50)
    for arguments in ([str(run.root)], [str(run.root), "--json"]):
        read, write = os.pipe()
        os.close(read)
        argv = [sys.executable, "-m", "prl.cli.main", "status", *arguments]
        try:
            done = subprocess.run(argv, stdout=write, stderr=subprocess.PIPE, check=False)
        finally:
            os.close(write)
        assert (done.returncode, done.stderr) == (0, b"")
