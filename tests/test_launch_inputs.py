"""What a run is made of is looked at before anything starts, without importing it."""

import sys
from pathlib import Path
from typing import Any

import pytest

from prl.config import TrainSourceConfig
from prl.launch.exits import CONFIGURATION, RefusedError
from prl.launch.inputs import check_conversations, check_sources


def check(env: dict[str, Any], *, env_vars: dict[str, str] | None = None, **changes: Any) -> None:
    check_sources([TrainSourceConfig(env=env, **changes)], env_vars or {})


def refusal(env: dict[str, Any], **changes: Any) -> str:
    with pytest.raises(RefusedError) as refused:
        check(env, **changes)
    assert refused.value.exit_code == CONFIGURATION
    return str(refused.value)


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """A module that must not be imported, and a directory that is none."""
    directory = tmp_path / "modules"
    (directory / "hollow_game").mkdir(parents=True)
    (directory / "made_up_game.py").write_text("raise RuntimeError('imported')\n")
    return directory


@pytest.mark.parametrize("name", ["made-up-game", "made_up_game", "Made-Up-Game", "owner/made-up-game@1.2"])
def test_a_module_in_the_sources_directory_is_found(modules: Path, name: str) -> None:
    check({"taskset": {"id": name}}, path=modules)
    assert "made_up_game" not in sys.modules
    assert "orchestrator.train.source[0].env.taskset.id" in refusal({"taskset": {"id": name}})


def test_other_places_of_a_module(modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check({"taskset": {"id": "made-up-game"}}, env_vars={"PYTHONPATH": f"/absent:{modules}"})
    monkeypatch.chdir(modules)
    check({"taskset": {"id": "made-up-game"}})


@pytest.mark.parametrize(
    "env",
    [
        {"taskset": {"id": "reverse-text"}},  # comes with this package
        {"taskset": {"id": "textarena"}, "id": "single-agent"},  # come with verifiers
        {"taskset": {"id": "guess-number"}, "player": {"harness": {"id": "prl-chat"}}},
    ],
)
def test_modules_that_come_with_packages_are_found(env: dict[str, Any]) -> None:
    check(env)


def test_what_is_not_there_is_named_with_the_places(modules: Path) -> None:
    message = refusal({"taskset": {"id": "no-such-game"}}, path=modules)
    assert "env.taskset.id = 'no-such-game'" in message
    assert "'no_such_game'" in message
    assert str(modules) in message
    assert "env.taskset.id = 'hollow-game'" in refusal({"taskset": {"id": "hollow-game"}}, path=modules)
    known = {"taskset": {"id": "reverse-text"}}
    assert "env.id = 'no-env'" in refusal({**known, "id": "no-env"})
    assert "env.agent.harness.id = 'absent'" in refusal({**known, "agent": {"harness": {"id": "absent"}}})


def test_a_server_elsewhere_has_modules_of_its_own() -> None:
    check({"taskset": {"id": "no-such-game"}}, serve={"address": "tcp://10.0.0.7:5000"})


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "No such file"),
        (b"\n\n", "holds no conversation"),
        (b"\nhello\n", "line 2"),
        (b"[]\n", "line 1"),
        (b'{"text": "x"}\n', "line 1"),
        (b"\xff\xfe\n", "line 1"),
    ],
)
def test_data_that_does_not_begin_with_a_conversation(tmp_path: Path, content: bytes | None, told: str) -> None:
    path = tmp_path / "data.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RefusedError, match=told) as refused:
        check_conversations(path)
    assert refused.value.exit_code == CONFIGURATION
    assert f"data.path = '{path}'" in str(refused.value)
    path.write_bytes(b'\n{"messages": []}\nrest is for the trainer')
    check_conversations(path)
