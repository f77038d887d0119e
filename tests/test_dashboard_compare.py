"""Runs side by side: lines, what differs in their configurations, values at the last step they share."""

import json
from pathlib import Path
from typing import Any

import pytest

from dashboard_metrics import HOSTILE_KEYS, START, client_of, row, write_config, write_rows
from prl.dashboard.comparison import telling_parts
from prl.rundir.recognition import run_id

REWARD = "train/agg/effective/agent/reward/mean"


def make(root: Path, name: str, *, steps: int, seconds: float, start: float = START, **trainer: Any) -> str:
    """A run whose reward is a tenth of the step, and its id."""
    rows = []
    for step in range(1, steps + 1):
        time = start + seconds * step
        rows.append(row(step, time, "orch", **{REWARD: step / 10, "progress/tokens": 100.0}))
        rows.append(row(step, time, time__step=seconds))
    write_rows(root / name, rows)
    write_config(root / name, 1, trainer=trainer)
    return run_id(str((root / name).resolve()))


@pytest.fixture
def ids(tmp_path: Path) -> list[str]:
    return [
        make(tmp_path, "one", steps=10, seconds=10.0, optim={"lr": 1e-6}, same=1, gone={"a": 1, "b": 2}),
        make(tmp_path, "two", steps=6, seconds=20.0, start=START + 86_400, optim={"lr": 2e-6}, same=1.0),
        make(tmp_path, "three", steps=8, seconds=5.0, optim={"lr": 1e-6}, same=1, api_key="hush hush", list=[1, 2]),
    ]


def test_lines_lie_over_each_other(tmp_path: Path, ids: list[str]) -> None:
    client = client_of(tmp_path)
    answer = client.get("/api/v1/compare", run=ids).json
    assert [one["id"] for one in answer["runs"]] == ids
    assert [one["name"] for one in answer["runs"]] == ["one", "two", "three"]
    assert [(line["run"], line["key"], len(line["x"])) for line in answer["lines"]] == [
        (ids[0], REWARD, 10),
        (ids[1], REWARD, 6),
        (ids[2], REWARD, 8),
    ]
    timed = client.get("/api/v1/compare", run=ids, axis="time").json
    # Seconds since each run's first row, though one began a day later.
    assert [line["x"][:2] for line in timed["lines"]] == [[0.0, 10.0], [0.0, 20.0], [0.0, 5.0]]
    tokens = client.get("/api/v1/compare", run=ids, axis="tokens", key="time/step").json
    assert [line["x"][:2] for line in tokens["lines"]] == [[100, 200]] * 3
    part = client.get("/api/v1/compare", run=ids, axis="time", start=20, end=40).json
    assert [line["x"] for line in part["lines"]] == [[20.0, 30.0, 40.0], [20.0, 40.0], [20.0, 25.0, 30.0, 35.0]]


def test_values_at_the_last_step_they_share(tmp_path: Path, ids: list[str]) -> None:
    at = client_of(tmp_path).get("/api/v1/compare", run=ids).json["at"]
    rows = {one["label"]: one for one in at["rows"]}
    assert at["step"] == 6
    assert rows["Reward"]["values"] == pytest.approx([0.6, 0.6, 0.6])
    assert rows["Step time"]["values"] == [10.0, 20.0, 5.0]
    assert (rows["Wall time"]["values"], rows["Wall time"]["format"]) == ([50.0, 100.0, 25.0], "seconds")
    assert rows["Tokens"]["values"] == [600.0, 600.0, 600.0]


def test_what_differs_in_the_configurations(tmp_path: Path, ids: list[str]) -> None:
    answer = client_of(tmp_path).get("/api/v1/compare", run=ids)
    config = answer.json["config"]
    found = {one["key"]: one["values"] for one in config["differ"]}
    unset = {"set": False}
    assert found == {
        "trainer.api_key": [unset, unset, "***"],
        "trainer.gone": ['{"a": 1, "b": 2}', unset, unset],
        "trainer.list": [unset, unset, "[1, 2]"],
        "trainer.optim.lr": [1e-6, 2e-6, 1e-6],
    }
    assert (config["total"], config["truncated"]) == (4, False)
    assert "hush" not in answer.text


def test_a_run_without_what_is_asked_for_stays_in_the_comparison(tmp_path: Path, ids: list[str]) -> None:
    (tmp_path / "empty" / "logs").mkdir(parents=True)
    empty = run_id(str((tmp_path / "empty").resolve()))
    answer = client_of(tmp_path).get("/api/v1/compare", run=[ids[0], empty], key=["reward", "no such"]).json
    assert [one["missing"] for one in answer["runs"]] == [["no such"], ["reward", "no such"]]
    assert [line["run"] for line in answer["lines"]] == [ids[0]]
    assert answer["at"] is None


@pytest.mark.parametrize("count", [0, 1, 7])
def test_two_to_six(tmp_path: Path, count: int) -> None:
    ids = [make(tmp_path, f"run{number}", steps=1, seconds=1.0) for number in range(count)]
    answer = client_of(tmp_path).get("/api/v1/compare", run=ids)
    assert (answer.status, answer.error) == (400, "bad_parameter")


def test_runs_that_are_not_there(tmp_path: Path, ids: list[str]) -> None:
    client = client_of(tmp_path)
    assert client.get("/api/v1/compare", run=[ids[0], ids[0]]).error == "bad_parameter"
    assert client.get("/api/v1/compare", run=[ids[0], "none~00000000"]).error == "not_found"
    assert client.get("/api/v1/compare", run=[ids[0], "../one"]).error == "not_found"


def test_a_version_changes_when_any_of_the_runs_does(tmp_path: Path, ids: list[str]) -> None:
    client = client_of(tmp_path)
    answer = client.get("/api/v1/compare", run=ids)
    assert client.again("/api/v1/compare", answer.etag, run=ids).status == 304


@pytest.mark.parametrize("key", HOSTILE_KEYS)
def test_hostile_names_of_metrics_and_of_values(tmp_path: Path, key: str) -> None:
    ids = []
    for name, value in (("a", 1), ("b", 2)):
        write_rows(tmp_path / name, [{"step": 1, "time": START, "producer": "orch", key: value}])
        write_config(tmp_path / name, 1, trainer={key: {key: value}})
        ids.append(run_id(str((tmp_path / name).resolve())))
    answer = client_of(tmp_path).get("/api/v1/compare", run=ids, key=f"orch:{key}")
    assert answer.status == 200
    assert [(line["key"], line["y"]) for line in answer.json["lines"]] == [(key, [1.0]), (key, [2.0])]
    (differ,) = answer.json["config"]["differ"]
    assert (differ["keys"], json.dumps(differ["values"])) in (
        (["trainer", key, key], "[1, 2]"),
        (["trainer", key, key], '["***", "***"]'),
    )


def test_keys_are_told_apart_by_what_differs_in_them() -> None:
    """A run of two agents has a reward of each: whole keys would hide the agents' names behind what they share."""
    keys = [f"train/agg/effective/{agent}/reward/mean" for agent in ("proposer", "solver")]
    assert [telling_parts(key, keys) for key in keys] == ["proposer", "solver"]
    assert telling_parts("loss/mean", ["loss/mean"] * 2) == ""
    assert telling_parts("a/b/c", ["a/b", "a/b/c"]) == "c"
