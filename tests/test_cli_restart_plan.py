"""``prl restart-plan``: exit codes, screen and JSON."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from prl.cli.restart_plan import restart_plan as command
from prl.watch.facts import loads
from prl.watch.surroundings import CheckpointFact, Launch
from sample_runs import SampleRun, running

GOLDEN = Path(__file__).parent / "golden"
"""``PRL_UPDATE_GOLDEN=1`` writes the answers anew: read the difference."""


def call(*args: object) -> tuple[int, Result]:
    result = CliRunner().invoke(command, [str(arg) for arg in args], standalone_mode=False)
    assert result.exception is None or not isinstance(result.exception, AssertionError), result.exception
    return (result.return_value if result.exception is None else 64), result


def failed(tmp_path: Path) -> SampleRun:
    run, now = running(tmp_path)
    for name in ("trainer/.metadata", "orchestrator/progress.pt"):
        path = run.layout.checkpoint(10) / name
        path.parent.mkdir(parents=True)
        path.write_text("made up")
    surroundings = {
        "cwd": str(tmp_path),
        "python": {"interpreter": "/usr/bin/env"},
        "host": {"name": run.status.host},
    }
    (run.configs / "environment.json").write_text(json.dumps(surroundings))
    (tmp_path / "rl.toml").write_text("")
    run.log("trainer", (now, "ERROR", "Fatal error in train"), "torch.OutOfMemoryError: CUDA out of memory")
    for name in ("trainer", "orchestrator", "inference", "train env server reverse-text"):
        run.end(name, 1 if name == "trainer" else -15, now)
    run.write_status(phase="failed", exit_code=1, reason="trainer failed", ended=now, pid=2**22 + 5)
    return run


def test_plan_of_a_failed_run(tmp_path: Path) -> None:
    run = failed(tmp_path)
    before = sorted(path.name for path in run.root.rglob("*"))
    code, result = call(run.root)
    assert code == 0, result.stdout
    line = next(line.strip() for line in result.stdout.splitlines() if line.strip().startswith("cd "))
    assert line == (
        f"cd {tmp_path} && /usr/bin/env -m prl.cli.rl @ rl.toml --run.name {run.name} --output-dir {tmp_path} "
        "--resume.step 10"
    )
    assert "Restart warranted: the run is failed" in result.stdout
    assert sorted(path.name for path in run.root.rglob("*")) == before  # nothing was written


def test_answer_on_recorded_facts(tmp_path: Path) -> None:
    facts = loads((GOLDEN / "failed.facts.json").read_bytes())
    launch = Launch(
        command="uv run rl @ rl.toml --wandb.api_key abcdef0123456789",
        command_source="configs/attempt_1/command.txt",
        cwd="/home/me/project",
        interpreter="/home/me/project/.venv/bin/python",
        host="node1",
        ports=[8000, 8100],
    )
    states = [
        CheckpointFact(step, f"checkpoints/step_{step}", state, 4096, facts.as_of - 60, problem)
        for step, state, problem in ((4, "complete", None), (8, "complete", None), (12, "half", "no trainer/"))
    ]
    path = tmp_path / "facts.json"
    path.write_text(json.dumps(dataclasses.replace(facts, launch=launch, checkpoint_states=states).to_json()))
    _, result = call("--facts", path, "--json")
    golden = GOLDEN / "failed.restart-plan.json"
    if os.environ.get("PRL_UPDATE_GOLDEN"):
        golden.write_text(result.stdout)
    answer: dict[str, Any] = json.loads(result.stdout)
    assert answer == json.loads(golden.read_text())
    assert answer["resume_step"] == 8
    assert answer["command"]["line"].endswith("--resume.step 8")
    assert "abcdef0123456789" not in result.stdout
    assert sum(answer["counts"].values()) == len(answer["rows"])


@pytest.mark.parametrize("args", [("--facts", "no-such-file"), ("no-such-run",), ("run", "--facts", __file__)])
def test_called_wrongly(args: tuple[str, ...]) -> None:
    assert call(*args)[0] == 64


def test_healthy_run_exits_with_2() -> None:
    code, result = call("--facts", GOLDEN / "running.facts.json", "--json")
    answer = json.loads(result.stdout)
    assert (code, answer["ok"], answer["warranted"]) == (2, False, "no")
