"""The overview in one answer: tiles, charts, marks and limits against values computed from the file."""

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from dashboard_client import Client
from dashboard_metrics import START, api, client_of, row, write_config, write_rows
from prl.dashboard.overview import MAX_VALUES
from prl.rundir.metrics.reader import read_metrics
from prl.synth import RunShape, write_run
from prl.synth.shape import ENVIRONMENTS
from prl.watch import status_of

GOLDEN = Path(__file__).parent / "golden" / "overview.json"
"""``PRL_UPDATE_GOLDEN=1`` writes the answer anew: read the difference."""


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("outputs")
    write_run(root / "rl", RunShape(attempts=2, rollouts=16, episodes=False, annotations=False, nonfinite_steps=(35,)))
    write_run(root / "sft", RunShape(kind="sft", steps=30, episodes=False))
    write_run(root / "eval", RunShape(kind="eval", steps=3, rollouts=16, environments=ENVIRONMENTS[:1], episodes=False))
    write_run(
        root / "old", RunShape(layout="A", writer="prime-rl", steps=20, rollouts=8, episodes=False, annotations=False)
    )
    return root


def charts(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {chart["id"]: chart for section in answer["sections"] for chart in section["charts"]}


def tiles(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {tile["label"]: tile for tile in answer["tiles"]}


def test_lines_are_the_files_points(runs: Path) -> None:
    answer = client_of(runs).get(api(runs / "rl", "overview")).json
    history = read_metrics(runs / "rl" / "monitors" / "file" / "metrics.jsonl")
    lines = [line for chart in charts(answer).values() for line in chart["lines"]]
    assert len(lines) > 50
    stepped = 0
    for line in lines:
        points = history.series(line["producer"], line["key"])
        dropped = [place for place, word in line["nonfinite"] if word == "dropped"]
        assert line["total"] == len(points) + len(dropped)
        if points[0].step is None:
            assert (line["axis"], line["x"]) == ("step", sorted(line["x"]))
            continue
        stepped += 1
        told = dict(zip(line["x"], line["y"], strict=True))
        assert sorted({*(point.step for point in points), *dropped}) == line["x"]
        assert all(told[point.step] == pytest.approx(point.value, rel=1e-4) for point in points)
    assert stepped > 40


def test_sections_come_in_their_order_and_empty_ones_say_why(runs: Path) -> None:
    client = client_of(runs)
    found = {name: client.get(api(runs / name, "overview")).json for name in ("rl", "sft", "eval", "old")}
    order = ["train", "eval", "stability", "performance", "inference"]
    assert [one["id"] for one in found["rl"]["sections"]] == order
    assert [one["id"] for one in found["sft"]["sections"]] == ["train", "stability", "performance"]
    assert [one["id"] for one in found["eval"]["sections"]] == ["eval", "performance", "inference"]
    # The oldest writers sent the engines' metrics elsewhere.
    assert [one["section"] for one in found["old"]["missing"]] == ["inference"]
    assert found["rl"]["missing"] == []
    assert all(one["note"] and one["title"] for one in found["rl"]["sections"])


def test_reward_tiles_have_the_change_since_the_start(runs: Path) -> None:
    answer = client_of(runs).get(api(runs / "rl", "overview")).json
    history = read_metrics(runs / "rl" / "monitors" / "file" / "metrics.jsonl")
    points = history.series("orch", "train/reverse-text/effective/agent/reward/mean")
    tile = tiles(answer)["Reward, reverse-text"]
    assert tile["value"] == pytest.approx(points[-1].value, rel=1e-5)
    assert tile["change"] == pytest.approx(points[-1].value - points[0].value, rel=1e-4)
    assert (tile["change_label"], tile["format"]) == ("since start", "number")
    assert tile["link"]["params"]["key"] == "orch:train/reverse-text/effective/agent/reward/mean"
    assert 2 <= len(tile["spark"]) <= 42
    scores = history.series("orch", "eval/reverse-text/effective/agent/avg@1")
    score = tiles(answer)["Eval, reverse-text avg@1"]
    assert score["change"] == pytest.approx(scores[-1].value - scores[-2].value, rel=1e-4)
    assert score["change_label"] == f"since step {scores[-2].step}"


def test_rates_and_times_are_told_of_the_last_steps(runs: Path) -> None:
    answer = client_of(runs).get(api(runs / "rl", "overview")).json
    history = read_metrics(runs / "rl" / "monitors" / "file" / "metrics.jsonl")
    errors = [point.value for point in history.series("orch", "train/agg/all/has_error/mean")]
    tile = tiles(answer)["Errors"]
    assert tile["value"] == pytest.approx(sum(errors[-10:]) / 10, rel=1e-4)
    assert (tile["note"], tile["format"]) == ("mean of 10 steps", "percent")
    times = sorted(point.value for point in history.series("trainer", "time/step")[-10:])
    assert tiles(answer)["Step time"]["value"] == pytest.approx((times[4] + times[5]) / 2, rel=1e-5)


def test_the_bottleneck_is_the_verdicts(runs: Path) -> None:
    answer = client_of(runs).get(api(runs / "rl", "overview")).json["bottleneck"]
    said = status_of(runs / "rl").bottleneck
    assert said is not None
    assert (answer["first_step"], answer["last_step"], answer["seconds"]) == (
        said.first_step,
        said.last_step,
        pytest.approx(said.seconds),
    )
    assert [(one["cause"], pytest.approx(one["share"])) for one in answer["shares"]] == [
        (share.cause, share.share) for share in said.shares
    ]


def test_marks_of_attempts_checkpoints_and_evaluations(runs: Path) -> None:
    marks = client_of(runs).get(api(runs / "rl", "overview")).json["marks"]
    first, second = marks["attempts"]
    assert (first["attempt"], first["step"], first["resumed_from"]) == (1, 1, None)
    assert second["attempt"] == 2
    assert second["resumed_from"] == second["step"] - 1 > 0
    assert [one["step"] for one in marks["checkpoints"]] == [10, 20, 30, 40]
    assert marks["evals"] == [10, 20, 30, 40]


def test_a_checkpoint_that_was_removed_was_still_saved(runs: Path) -> None:
    marks = client_of(runs).get(api(runs / "sft", "overview")).json["marks"]
    there = {path.name for path in (runs / "sft" / "checkpoints").iterdir()}
    assert marks["checkpoints"]
    for one in marks["checkpoints"]:
        assert (one["state"] == "removed") == (f"step_{one['step']}" not in there)


def test_a_value_that_was_left_out_is_a_mark_and_no_gap(runs: Path) -> None:
    line = charts(client_of(runs).get(api(runs / "rl", "overview")).json)["loss"]["lines"][0]
    assert [35.0, "dropped"] in line["nonfinite"]
    assert line["y"][line["x"].index(35)] is None


def test_limits_are_the_watch_sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        row(step, START + step, optim__grad_norm=0.5, mismatch_kl__all__mean=0.01, entropy__all__mean=1.0, time__step=1)
        for step in range(1, 21)
    ]
    run = write_rows(tmp_path / "demo", rows)
    found = charts(client_of(tmp_path).get(api(run, "overview")).json)
    assert found["optim/grad_norm"]["limit"] == {"value": pytest.approx(5.0), "above": True}  # 10 x the median
    assert found["mismatch_kl"]["limit"] == {"value": 0.05, "above": True}
    assert found["entropy"]["limit"] == {"value": pytest.approx(0.3), "above": False}  # 0.3 x the beginning
    rules = tmp_path / "rules.toml"
    rules.write_text("[training]\nkl_high = 0.2\n")
    monkeypatch.setenv("PRL_RULES", str(rules))
    answer = client_of(tmp_path).get(api(run, "overview")).json
    assert charts(answer)["mismatch_kl"]["limit"]["value"] == 0.2
    assert {"key": "mismatch_kl/all/mean", "limit": 0.2, "above": True} in answer["marks"]["alarms"]


def test_too_few_values_have_no_usual_one(tmp_path: Path) -> None:
    run = write_rows(tmp_path / "demo", [row(step, START + step, optim__grad_norm=0.5) for step in range(1, 4)])
    assert charts(client_of(tmp_path).get(api(run, "overview")).json)["optim/grad_norm"]["limit"] is None


def test_what_was_not_measured_is_not_zero(tmp_path: Path) -> None:
    source = [{"name": "gsm", "env": {"taskset": {"id": "gsm"}}}]
    orchestrator = {"train": {"source": source}, "eval": {"source": source}, "max_steps": 10}
    write_config(tmp_path / "demo", 1, orchestrator=orchestrator, trainer={})
    answer = client_of(tmp_path).get(api(tmp_path / "demo", "overview")).json
    found = tiles(answer)
    assert {label: tile["value"] for label, tile in found.items()} == dict.fromkeys(found)
    assert found["Eval, gsm"]["change_label"] == "not evaluated yet"
    assert [one["section"] for one in answer["missing"]] == [
        "train",
        "eval",
        "stability",
        "performance",
        "inference",
    ]
    assert "no metrics yet" in answer["missing"][0]["why"]


def test_a_value_that_is_not_finite_is_no_number(tmp_path: Path) -> None:
    run = write_rows(
        tmp_path / "demo",
        [
            row(step, START + step, "orch", **{"train/agg/effective/agent/reward/mean": value})
            for step, value in ((1, 0.5), (2, math.nan))
        ],
    )
    tile = tiles(client_of(tmp_path).get(api(run, "overview")).json)["Reward"]
    assert (tile["value"], tile["change"], tile["spark"]) == (None, None, [0.5, None])


def test_many_environments_share_a_bounded_answer(tmp_path: Path) -> None:
    kinds = ("effective/agent/reward/mean", "all/agent/is_trainable/mean", "all/has_error/mean")
    keys = [f"train/env{env:02d}/{kind}" for env in range(40) for kind in kinds]
    rows = [{"step": step, "time": START + step, **dict.fromkeys(keys, 0.1 * step)} for step in range(1, 1001)]
    run = write_rows(tmp_path / "demo", rows)
    answer = client_of(tmp_path).get(api(run, "overview"))
    lines = [line for chart in charts(answer.json).values() for line in chart["lines"]]
    assert sum(len(line["x"]) for line in lines) <= MAX_VALUES * 1.2
    assert len(answer.content) < 150_000
    assert charts(answer.json)["reward_by_env"]["left_out"] == 28
    assert len(answer.json["tiles"]) < 15


@pytest.mark.parametrize("axis", ["step", "time", "tokens"])
def test_axes(runs: Path, axis: str) -> None:
    answer = client_of(runs).get(api(runs / "rl", "overview"), axis=axis).json
    lines = [line for chart in charts(answer).values() for line in chart["lines"]]
    assert {line["axis"] for line in lines} == {axis}
    assert all(line["x"] == sorted(line["x"]) for line in lines)
    assert all(len(line["x"]) == len(line["y"]) for line in lines)


def test_the_same_answer_is_not_given_twice(runs: Path) -> None:
    client: Client = client_of(runs)
    answer = client.get(api(runs / "rl", "overview"))
    assert client.again(api(runs / "rl", "overview"), answer.etag).status == 304
    assert len(answer.content) < 150_000


def test_panels_and_meanings(runs: Path) -> None:
    client = client_of(runs)
    answer = client.get("/api/v1/panels")
    assert {"common_metrics", "rl", "sft", "eval", "metrics"} <= answer.json.keys()
    assert client.again("/api/v1/panels", answer.etag).status == 304
    assert client.get("/api/v1/metrics-info", key="optim/grad_norm").json["title"] == "Gradient norm"
    assert client.get("/api/v1/metrics-info", key="my/own").error == "not_found"


def test_the_form_of_the_answer(tmp_path: Path) -> None:
    keys = ("mean", "p10", "p90")
    rows = []
    for step in range(1, 4):
        values = {
            f"train/agg/effective/agent/reward/{key}": 0.25 * step + bump
            for key, bump in zip(keys, (0, -0.125, 0.125), strict=True)
        }
        rows.append(row(step, START + 20 * step, "orch", **values))
        rows.append(row(step, START + 20 * step + 1, time__step=20.0, optim__grad_norm=math.inf if step == 2 else 0.5))
    run = write_rows(tmp_path / "demo", rows)
    write_config(run, 1, trainer={"max_steps": 3}, orchestrator={"max_steps": 3})
    answer = client_of(tmp_path).get(api(run, "overview")).json
    answer["as_of"] = 0.0
    for attempt in answer["marks"]["attempts"]:
        attempt |= {"time": 0.0, "step": None, "resumed_from": None}
    for section in answer["sections"]:
        for chart in section["charts"]:
            chart["about"] = ""
    text = json.dumps(answer, indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("PRL_UPDATE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()
