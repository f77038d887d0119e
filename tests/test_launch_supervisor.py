"""Supervision, over real processes that stand in for the components."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from launch_stand_ins import StandIns, wait_until

Make = Callable[..., StandIns]
FATAL = [
    "--- 2026-01-05 +0000 ---",
    "10:00:00    INFO Starting up",
    "10:00:01   ERROR Fatal error in {function}",
    "Traceback (most recent call last):",
    '  File "made_up.py", line 1, in step',
    "    work()",
    "{exception}",
]


def fatal(function: str, exception: str) -> list[str]:
    return [line.format(function=function, exception=exception) for line in FATAL]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[StandIns] = []

    def build(**components: dict[str, Any]) -> StandIns:
        made.append(StandIns(tmp_path, **components))
        return made[-1]

    yield build
    for run in made:
        run.clean_up()


def staying(**changes: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Four components at work until something happens to them."""
    return {
        role: {"stay": True, **changes.get(role, {})} for role in ("inference", "env_server", "orchestrator", "trainer")
    }


def all_up(run: StandIns) -> None:
    for role in ("inference", "env_server", "orchestrator", "trainer"):
        run.pid(role)


def test_a_run_ends_well_when_trainer_and_orchestrator_do(make: Make) -> None:
    run = make()
    assert run.run() == 0
    status = run.status()
    assert [p["name"] for p in status["processes"]] == [
        "inference",
        "train env server word-game",
        "orchestrator",
        "trainer",
    ]
    assert (status["phase"], status["exit_code"], status["waiting_for"]) == ("finished", 0, None)
    assert [p["exit_code"] for p in status["processes"]] == [-15, -15, 0, 0]  # servers are asked to end
    assert all(p["ended"] and p["pid"] and p["started"] for p in status["processes"])
    assert run.living() == []
    log = (run.run_dir / "logs" / "attempt_1" / "launcher.log").read_text()
    assert " SUCCESS Training finished!" in log
    assert "\x1b" not in log
    seen = [event["event"] for event in run.events()]
    assert (seen[0], seen[1:5], seen[-1]) == ("Started", ["ComponentUp"] * 4, "Finished")


def test_components_get_the_environment_of_the_contract(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    run = make(trainer={"environ": str(tmp_path / "environ.json")})
    run.config["env_vars"] = {"MADE_UP": "yes", "OMP_NUM_THREADS": "3"}
    assert run.run() == 0
    environ = json.loads((tmp_path / "environ.json").read_text())
    assert environ["MADE_UP"] == "yes"
    assert environ["OMP_NUM_THREADS"] == "3"  # the user's word is stronger than the default of 1
    assert environ["PRL_RUN_NAME"] == "made-up"
    assert environ["PRL_RUN_ID"] == run.status()["run_id"]
    assert {environ[name] for name in ("PYTHONUNBUFFERED", "SPT_NOENV")} == {"1"}
    assert "PYTHONDONTWRITEBYTECODE" not in environ


def test_the_cause_is_told_not_the_exit_code_alone(make: Make) -> None:
    components = staying(trainer={"say": fatal("train", "ValueError: made up trouble"), "exit": 1})
    run = make(**components)
    assert run.run() == 1
    assert "ERROR Error: Trainer failed with exit code 1: ValueError: made up trouble (logs/attempt_1/trainer.log)" in (
        run.output()
    )
    status = run.status()
    assert (status["phase"], status["exit_code"]) == ("failed", 1)
    assert status["reason"] == "trainer: ValueError: made up trouble"
    reasons = {p["name"]: p["reason"] for p in status["processes"]}
    assert reasons["trainer"] == "ValueError: made up trouble"
    assert reasons["inference"] == "ended by the launcher"
    assert run.living() == []


@pytest.mark.parametrize(
    ("role", "name", "behaviour", "cause"),
    [
        ("inference", "inference", {"exit": 0}, "ended while the run still needed it"),
        ("env_server", "train env server word-game", {"exit": 3, "say": ["no luck"]}, "no luck"),
        (
            "orchestrator",
            "orchestrator",
            {"exit": 0, "say": fatal("run_orchestrator", "KeyError: 'x'")},
            "KeyError: 'x'",
        ),
    ],
)
def test_ending_early_is_a_failure(make: Make, role: str, name: str, behaviour: dict[str, Any], cause: str) -> None:
    """A server must not end at all; an orchestrator that crashed may end with status 0 all the same."""
    run = make(**staying(**{role: behaviour}))
    assert run.run() == 1
    assert run.status()["reason"] == f"{name}: {cause}"
    assert f"Error: {name[0].upper()}{name[1:]} failed with exit code {behaviour['exit']}" in run.output()
    assert run.living() == []


@pytest.mark.parametrize("role", ["inference", "env_server", "orchestrator", "trainer"])
def test_kill_9_of_a_component_ends_the_run_and_its_orphans(make: Make, role: str) -> None:
    run = make(**staying(**{role: {"child": True}}))
    run.config["shutdown_timeout"] = 0.5  # the orphan is deaf to SIGTERM
    run.start()
    all_up(run)
    os.kill(run.pid(role), signal.SIGKILL)
    assert run.wait() == 1
    assert "killed by SIGKILL" in run.status()["reason"]
    assert run.status()["reason"].startswith(role.replace("env_server", "train env server word-game"))
    assert run.living() == []


def test_the_first_to_die_of_itself_is_blamed(make: Make, tmp_path: Path) -> None:
    go = str(tmp_path / "go")
    run = make(
        **staying(
            orchestrator={
                "wait_for": go,
                "exit": 1,
                "say": fatal("run_orchestrator", "ConnectionRefusedError: made up"),
            },
            inference={"wait_for": go, "exit": 1, "say": fatal("run_server", "MemoryError: made up")},
        )
    )
    run.start()
    all_up(run)
    Path(go).touch()
    assert run.wait() == 1
    assert run.status()["reason"] == "inference: MemoryError: made up"


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_everything(make: Make, signum: int, code: int) -> None:
    run = make(**staying(env_server={"child": True}))
    run.config["shutdown_timeout"] = 0.5
    run.start()
    all_up(run)
    assert run.process is not None
    os.kill(run.process.pid, signum)
    assert run.wait() == code
    status = run.status()
    assert (status["phase"], status["exit_code"]) == ("stopped", code)
    assert "WARNING Received" in run.output()
    assert run.living() == []


def test_a_second_interrupt_kills_at_once(make: Make) -> None:
    run = make(**staying(trainer={"ignore_term": True}))
    run.config["shutdown_timeout"] = 600.0
    run.start()
    all_up(run)
    assert run.process is not None
    os.kill(run.process.pid, signal.SIGINT)
    wait_until(lambda: "again: kill them at once" in run.output(), "the first interrupt to be told")
    os.kill(run.process.pid, signal.SIGINT)
    assert run.wait() == 130
    assert next(p for p in run.status()["processes"] if p["name"] == "trainer")["exit_code"] == -9
    assert "Killed processes as asked: " in run.output()
    assert run.living() == []


def test_kill_9_of_the_launcher_leaves_nothing(make: Make) -> None:
    run = make(**staying(trainer={"ignore_term": True}, env_server={"child": True}))
    run.config["shutdown_timeout"] = 0.5
    run.start()
    all_up(run)
    assert run.process is not None
    wait_until(lambda: run.status()["waiting_for"], "the launcher to watch")
    os.kill(run.process.pid, signal.SIGKILL)
    run.wait()
    wait_until(lambda: run.living() == [], "the watchdog to end everything and go")
    status = run.status()
    assert (status["phase"], status["pid"]) == ("failed", run.process.pid)
    assert "was killed" in status["reason"]
    assert "was killed" in (run.run_dir / "logs" / "attempt_1" / "launcher.log").read_text()


def test_a_supervised_run_is_watched_over_alike(make: Make) -> None:
    run = make(**staying())
    run.kind = "sft"
    run.config = {
        **{key: run.config[key] for key in ("output_dir", "run", "model")},
        "data": {"path": str(run.root / "data.jsonl")},
        "max_steps": 2,
    }
    (run.root / "data.jsonl").write_text('{"messages": []}\n')
    run.components["trainer"] = {"say": ["10:00:00   ERROR no conversations"], "exit": 1}
    assert run.run() == 1
    assert run.status()["kind"] == "sft"
    assert run.status()["reason"] == "trainer: no conversations"


def test_a_killed_rank_under_torchrun_is_named(make: Make) -> None:
    run = make(**staying())
    run.torchrun = True
    run.config["deployment"] = {"num_train_gpus": 2}
    run.start()
    ranks = [run.pid(f"trainer.{rank}") for rank in range(2)]
    os.kill(ranks[1], signal.SIGKILL)
    assert run.wait() == 1
    assert f"trainer: rank 1 (pid {ranks[1]}) killed by SIGKILL" in run.status()["reason"]
    assert run.living() == []
