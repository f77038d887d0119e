"""Rollouts in flight through the API."""

import json
from pathlib import Path

import pytest

from dashboard_runs import RunClient, message
from prl.rundir.live.writer import live_name


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("prl.dashboard.rollouts.LIVE_SECONDS", 0.0)


DISPATCH = {
    "id": "d1",
    "kind": "train",
    "env": "words",
    "group": "g",
    "task": "w",
    "policy_version": 3,
    "step": 4,
    "started": 100.0,
}


def deltas(name: str) -> list[dict[str, object]]:
    opened = {"version": 1, "id": name, "agent": {"name": "solver"}, "task": {"key": "w"}}
    return [
        {"trace": name, "open": opened, "set": {"timing": {"start": 101.0}}, "dispatch": DISPATCH},
        {
            "trace": name,
            "nodes": [message("user", "guess") | {"semantic_parents": []}],
            "pending": [{"role": "assistant", "content": "sl"}],
        },
    ]


@pytest.fixture
def run(tmp_path: Path) -> RunClient:
    live = tmp_path / "outputs" / "run" / "monitors/file/traces/live"
    (live / "pending").mkdir(parents=True)
    for name in ("t1", "odd/ id%20"):
        (live / live_name(name)).write_text("".join(json.dumps(delta) + "\n" for delta in deltas(name)))
    (live / "pending" / "d2.json").write_text(json.dumps({"id": "d2", "env": "words", "started": 120.0}))
    return RunClient(tmp_path / "outputs" / "run")


def live_directory(run: RunClient, tmp_path: Path) -> Path:
    return tmp_path / "outputs" / "run" / "monitors/file/traces/live"


def test_rollouts_stand_by_phase(run: RunClient) -> None:
    answer = run.json("live")
    assert answer["stages"]["pending"] == 1 and answer["stages"]["running"] == 2 and answer["total"] == 3
    pending, *rows = answer["rows"]
    assert pending["trace"] is None and pending["dispatch"] == "d2" and pending["started"] == 120.0
    row = next(row for row in rows if row["trace"] == "t1")
    assert (row["agent"], row["env"], row["step"], row["policy_version"], row["last"]) == (
        "solver",
        "words",
        4,
        3,
        "sl",
    )


@pytest.mark.parametrize("name", ["t1", "odd/ id%20"])
def test_one_is_a_trace_with_what_is_pending(run: RunClient, name: str) -> None:
    answer = run.json(f"live/{name}")
    assert answer["trace"]["id"] == name and answer["trace"]["agent"] == "solver"
    assert answer["trace"]["nodes"][0]["parts"] == [{"type": "text", "text": "guess"}]
    assert answer["pending"] == [{"role": "assistant", "parts": [{"type": "text", "text": "sl"}]}]
    assert answer["dispatch"]["id"] == "d1"


def test_only_news_are_sent_again(run: RunClient, tmp_path: Path) -> None:
    first = run.answer("live")
    assert run.client.again(f"{run.base}/live", first.etag).status == 304
    with (live_directory(run, tmp_path) / live_name("t1")).open("a") as file:
        file.write(json.dumps({"trace": "t1", "set": {"is_completed": True, "ok": True}}) + "\n")
    second = run.client.again(f"{run.base}/live", first.etag)
    assert second.status == 200 and second.json["stages"]["done"] == 1


def test_what_is_not_there_or_leaves_the_run_is_not_found(run: RunClient, tmp_path: Path) -> None:
    assert run.answer("live/nobody").status == 404
    outside = tmp_path / "outside.jsonl"
    outside.write_text("".join(json.dumps(delta) + "\n" for delta in deltas("out")))
    (live_directory(run, tmp_path) / live_name("out")).symlink_to(outside)
    assert run.answer("live/out").status == 404
    assert run.json("live")["total"] == 3
    assert run.answer("live/../../../../../etc/passwd").status == 404


def test_a_damaged_file_is_counted_and_costs_no_other(run: RunClient, tmp_path: Path) -> None:
    (live_directory(run, tmp_path) / live_name("t1")).write_text("{broken\n")
    answer = run.json("live")
    assert answer["total"] == 2 and answer["left_out"] == 1
