"""What attempts were configured with, as the pages get it: whole, masked, and what differs."""

import json
import os
from pathlib import Path

import pytest

from dashboard_client import Answer
from dashboard_metrics import HOSTILE_KEYS, api, client_of, write_config
from prl.dashboard import run_configs
from prl.dashboard.routes import configs as routes
from prl.rundir.configs import AttemptConfigs
from prl.rundir.recognition import run_id

TOML = 'max_steps = 4\n[wandb]\napi_key = "0123456789abcdef"  # mine\n'


@pytest.fixture
def run(tmp_path: Path) -> Path:
    root = tmp_path / "demo"
    write_config(root, 1, trainer={"optim": {"lr": 1e-6}, "old": True}, orchestrator={"max_steps": 4})
    trainer = {
        "optim": {"lr": 2e-6},
        "api_key": "correct horse battery staple",
        "password": 12345678,
        "max_tokens": 64,
        "client": {"headers": {"Authorization": "Bearer abcdefgh12345678"}, "base_url": "http://u:pw@host/v1"},
        "prompt": "x" * 5000,
        "new": [1, {"a": None}],
    }
    write_config(root, 2, trainer=trainer, orchestrator={"max_steps": 4})
    second = root / "configs" / "attempt_2"
    (second / "command.txt").write_text("rl @ rl.toml --wandb.api_key=0123456789abcdef --max_steps 4\n")
    (second / "rl.toml").write_text(TOML)
    (second / "environment.json").write_text(
        json.dumps({"cwd": "/home/somebody", "environment": {"HF_TOKEN": "hf_abcdefghijklmnop"}})
    )
    return root


def test_the_newest_attempt_as_it_was_given_and_resolved(run: Path) -> None:
    answer = client_of(run.parent).get(api(run, "configs")).json
    assert (answer["attempt"], answer["attempts"]) == (2, [1, 2])
    assert answer["command"] == "rl @ rl.toml --wandb.api_key=*** --max_steps 4"
    assert answer["cwd"] == "/home/somebody"
    (file,) = answer["files"]
    assert file == {"name": "rl.toml", "text": 'max_steps = 4\n[wandb]\napi_key = "***"  # mine\n'}
    trainer = answer["documents"]["trainer"]
    assert (trainer["optim"], trainer["max_tokens"], trainer["new"]) == ({"lr": 2e-6}, 64, [1, {"a": None}])
    assert trainer["prompt"] == "x" * 5000
    assert answer["trouble"] == []


def test_no_secret_leaves(run: Path) -> None:
    client = client_of(run.parent)
    name = run_id(str(run.resolve()))
    for answer in (
        client.get(api(run, "configs")),
        client.get("/api/v1/config-diff", a=f"{name}:1", b=f"{name}:2"),
    ):
        assert answer.status == 200
        for secret in ("0123456789abcdef", "horse", "12345678", "hf_abc", ":pw@", "abcdefgh12345678"):
            assert secret not in answer.text
    # The files themselves are as they were.
    assert (run / "configs" / "attempt_2" / "rl.toml").read_text() == TOML


def test_one_attempt_and_one_that_is_not_there(run: Path) -> None:
    client = client_of(run.parent)
    first = client.get(api(run, "configs"), attempt=1).json
    assert (first["attempt"], first["documents"]["trainer"]["optim"]["lr"], first["command"]) == (1, 1e-6, None)
    missing = client.get(api(run, "configs"), attempt=7)
    assert (missing.status, missing.error) == (404, "not_found")


def test_what_differs_between_attempts(run: Path) -> None:
    client, name = client_of(run.parent), run_id(str(run.resolve()))
    answer = client.get("/api/v1/config-diff", a=f"{name}:1", b=name).json
    rows = {one["key"]: (one["before"], one["after"], one["kind"]) for one in answer["rows"]}
    assert rows["trainer.optim.lr"] == (1e-6, 2e-6, "changed")
    assert rows["trainer.old"] == (True, None, "removed")
    assert rows["trainer.max_tokens"] == (None, 64, "added")
    assert rows["trainer.password"] == (None, "***", "added")
    assert answer["counts"] == {"all": len(rows), "added": len(rows) - 2, "removed": 1, "changed": 1}
    assert (answer["a"]["attempt"], answer["b"]["attempt"], answer["truncated"]) == (1, 2, False)


@pytest.mark.parametrize("attempt", [":x", ":-1", ":1.5", ":", ":" + "9" * 40])
def test_an_attempt_is_a_number(run: Path, attempt: str) -> None:
    name = run_id(str(run.resolve()))
    answer = client_of(run.parent).get("/api/v1/config-diff", a=name + attempt, b=name)
    assert (answer.status, answer.error) == (400, "bad_parameter")


def test_a_run_whose_name_has_a_colon(tmp_path: Path) -> None:
    write_config(tmp_path / "a:2", 1, trainer={"x": 1})
    name = run_id(str((tmp_path / "a:2").resolve()))
    client = client_of(tmp_path)
    assert client.get("/api/v1/config-diff", a=name, b=f"{name}:1").json["rows"] == []


@pytest.mark.parametrize("key", HOSTILE_KEYS)
def test_hostile_keys(tmp_path: Path, key: str) -> None:
    write_config(tmp_path / "demo", 1, trainer={key: 1})
    write_config(tmp_path / "demo", 2, trainer={key: {"\x1b[2J": "<img src=x onerror=alert(1)>"}})
    run, client = tmp_path / "demo", client_of(tmp_path)
    answer = client.get(api(run, "configs")).json
    assert answer["documents"]["trainer"] == {key: {"\x1b[2J": "<img src=x onerror=alert(1)>"}}
    name = run_id(str(run.resolve()))
    (difference,) = client.get("/api/v1/config-diff", a=f"{name}:1", b=f"{name}:2").json["rows"]
    assert (difference["keys"], difference["kind"]) == (["trainer", key], "changed")


def test_what_lies_outside_or_is_no_file_is_not_served(tmp_path: Path) -> None:
    run = tmp_path / "demo"
    write_config(run, 1, trainer={})
    secret = tmp_path / "secret.toml"
    secret.write_text("secret = 1\n")
    (run / "configs" / "attempt_1" / "rl.toml").symlink_to(secret)
    (run / "configs" / "attempt_1" / "command.txt").symlink_to("/etc/hostname")
    (run / "configs" / "attempt_1" / "resolved" / "loop.json").symlink_to("loop.json")
    answer = client_of(tmp_path).get(api(run, "configs")).json
    assert (answer["files"], answer["command"]) == ([], None)
    assert list(answer["documents"]) == ["trainer"]
    assert any("rl.toml" in note for note in answer["trouble"])


def test_a_run_without_configurations(tmp_path: Path) -> None:
    (tmp_path / "demo" / "logs").mkdir(parents=True)
    answer = client_of(tmp_path).get(api(tmp_path / "demo", "configs")).json
    assert (answer["attempt"], answer["attempts"], answer["documents"], answer["files"]) == (None, [], {}, [])


def test_an_answer_is_made_again_when_a_file_changed_and_only_then(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by one of the same length and time, as a copy of an older one is."""
    monkeypatch.setattr(routes, "_SECONDS", 0.0)
    client, name = client_of(run.parent), run_id(str(run.resolve()))
    asked: tuple[tuple[str, dict[str, str]], ...] = (
        (api(run, "configs"), {}),
        ("/api/v1/config-diff", {"a": f"{name}:1", "b": f"{name}:2"}),
    )
    tags = [client.get(path, **query).etag for path, query in asked]

    def again() -> list[Answer]:
        return [client.again(path, tag, **query) for (path, query), tag in zip(asked, tags, strict=True)]

    def unread(*_: object) -> AttemptConfigs:
        raise AssertionError("nothing changed: no file is to be read")

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(run_configs, "read_configs", unread)
        assert [answer.status for answer in again()] == [304] * 2
    file = run / "configs/attempt_2/resolved/trainer.json"
    before, text = file.stat(), file.read_text()
    file.write_text(text.replace("2e-06", "3e-06"))
    assert file.read_text() != text
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    changed = again()
    assert [answer.status for answer in changed] == [200] * 2
    assert changed[0].json["documents"]["trainer"]["optim"] == {"lr": 3e-6}
