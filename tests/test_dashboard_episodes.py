"""The list of episodes, its counts and groups, and downloads, against values reckoned here from the files."""

import csv
import io
import json
import statistics
import time
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dashboard_runs import RunClient, write_episodes
from prl.dashboard.episode_export import safe_cell
from prl.dashboard.episode_filters import HISTOGRAMS, OUTCOMES, SORTS
from prl.dashboard.episode_rows import reference
from prl.rundir.episodes import filters
from prl.rundir.episodes.facets import NUMERIC
from prl.rundir.episodes.orders import SORTABLE
from prl.synth import RunShape, write_run
from prl.synth.shape import ENVIRONMENTS
from sample_episodes import make_episode, make_failure

SHAPE = RunShape(steps=6, rollouts=32, environments=ENVIRONMENTS, error_rate=0.1, eval_interval=3)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("outputs") / "run"
    write_run(root, SHAPE)
    return root


@pytest.fixture(scope="module")
def run(root: Path) -> RunClient:
    return RunClient(root)


def rows_of(root: Path) -> list[dict[str, Any]]:
    """Index and value rows joined, with what the orchestrator told at ship time: read without the library."""
    traces = root / "monitors/file/traces"
    index = [json.loads(line) for line in (traces / "stream.index.jsonl").read_text().splitlines()]
    values = [json.loads(line) for line in (traces / "stream.values.jsonl").read_text().splitlines()]
    shipped: dict[str, int] = {}
    for line in (traces / "annotations/orch.index.jsonl").read_text().splitlines():
        update = json.loads(line)
        if update["info"].get("effective") and "ship" in update["info"]:
            shipped[update["trace_id"]] = update["info"]["ship"]["step"]
    for row, value in zip(index, values, strict=True):
        steps = [shipped[name] for name in row["trace_ids"] if name in shipped]
        row |= {"task": value["task"]["key"], "traces": value["traces"], "ship_step": min(steps, default=None)}
        row["dispatch_step"] = value["dispatch_step"]
    return index


def test_a_page_has_the_newest_and_every_row_what_the_files_say(run: RunClient, root: Path) -> None:
    answer = run.json("episodes", limit=20)
    expected = sorted(rows_of(root), key=lambda row: (row["arrival"], row["line"]), reverse=True)
    assert answer["total"] == answer["all"] == len(expected) and answer["new"] == 0
    assert [row["line"] for row in answer["rows"]] == [row["line"] for row in expected[:20]]
    for shown, row in zip(answer["rows"], expected, strict=False):
        for name in ("id", "kind", "env", "group", "ok", "reward", "turns", "branches", "ship_step", "task"):
            assert shown[name] == row[name], name
        lag = row["ship_step"] - row["dispatch_step"] if row["ship_step"] is not None else None
        assert shown["ship_step"] is None or shown["lag"] == lag
        scoring = [trace["timing"]["scoring"] for trace in row["traces"] if "scoring" in trace["timing"]]
        told = shown["timing"]["scoring"] if shown["timing"] else None
        assert told == (pytest.approx(statistics.fmean(scoring)) if scoring else None)


def test_every_order_and_filter_chooses_what_it_says(run: RunClient, root: Path) -> None:
    expected = rows_of(root)
    for sort in ("reward", "duration", "output_tokens", "step"):
        column = "ship_step" if sort == "step" else sort
        rows = run.json("episodes", sort=sort, order="asc", limit=512)["rows"]
        values = [row[column] for row in rows]
        known = [value for value in values if value is not None]
        assert known == sorted(row[column] for row in expected if row[column] is not None)
        assert values[len(known) :] == [None] * (len(values) - len(known)), "what is unknown stands last"
    chosen = run.json("episodes", env=["duel", "reverse-text"], reward="0.2..1", step="2..3", limit=512)
    assert {row["line"] for row in chosen["rows"]} == {
        row["line"]
        for row in expected
        if row["env"] in ("duel", "reverse-text")
        and row["reward"] is not None
        and 0.2 <= row["reward"] <= 1
        and row["ship_step"] in (2, 3)
    }
    assert run.json("episodes", agent="solver")["total"] == sum(
        row["env"] == "duel" and row["traces"] != [] for row in expected
    )
    assert run.json("episodes", step="..")["total"] == sum(row["ship_step"] is not None for row in expected)
    assert run.json("episodes", env="no such")["total"] == 0


def test_names_of_orders_and_outcomes_are_the_table_s() -> None:
    assert set(SORTS.values()) <= set(SORTABLE) and set(HISTOGRAMS.values()) <= set(NUMERIC)
    assert tuple(filters.OUTCOMES) == OUTCOMES


def test_facets_count_and_tell_which_condition_takes_most_away(run: RunClient, root: Path) -> None:
    expected = rows_of(root)
    answer = run.json("episodes/facets", env="duel", outcome="error")
    failed = [row for row in expected if row["ok"] is False]
    assert answer["facets"]["env"] == dict(Counter(row["env"] for row in failed))
    assert answer["total"] == sum(row["env"] == "duel" for row in failed)
    assert answer["without"] == {
        "env": len(failed),
        "outcome": sum(row["env"] == "duel" for row in expected),
    }
    steps = [row["ship_step"] for row in expected if row["ship_step"] is not None]
    rewards = [row["reward"] for row in expected if row["reward"] is not None]
    assert answer["steps"] == [min(steps), max(steps)]
    assert answer["reward"] == [min(rewards), max(rewards)]


def test_a_histogram_has_every_episode_in_a_bin(run: RunClient, root: Path) -> None:
    answer = run.json("episodes/histogram", by="step", bins=10)
    counted = Counter(row["ship_step"] for row in rows_of(root) if row["ship_step"] is not None)
    assert answer["by"] == "step"
    for place, count in enumerate(answer["counts"]):
        low = answer["start"] + place * answer["width"]
        assert count == sum(n for step, n in counted.items() if low <= step < low + answer["width"])


def test_upto_keeps_to_the_list_while_episodes_arrive(tmp_path: Path) -> None:
    root = write_episodes(tmp_path / "run", [make_episode("a"), make_episode("b")])
    run = RunClient(root)
    first = run.json("episodes", limit=1)
    etag = run.answer("episodes", limit=1).etag
    assert run.client.again(f"{run.base}/episodes", etag, limit=1).status == 304
    write_episodes(root, [make_episode("c")])
    run = RunClient(root)
    kept = run.json("episodes", limit=10, upto=first["upto"])
    assert [row["id"] for row in kept["rows"]] == ["b", "a"] and kept["new"] == 1
    assert run.client.again(f"{run.base}/episodes", etag, limit=1).status == 200


def test_notes_say_what_is_odd(tmp_path: Path) -> None:
    same = [make_episode(name, score=0.5) for name in ("a", "b")]
    cut = make_episode("cut", score=0.1)
    cut["group"]["id"] = "other"
    cut["traces"][0]["stop_condition"] = "max_turns"
    late = make_episode("late")
    late["is_timeout"] = True
    run = RunClient(write_episodes(tmp_path / "run", [*same, cut, late, make_failure("f")]))
    late_group = run.json("episodes", sort="line", order="asc")["rows"]
    notes = {row["id"]: row["note"] for row in late_group}
    assert notes["cut"] == {"kind": "truncated", "text": "truncated"}
    assert notes["late"] == {"kind": "timeout", "text": "timeout"}
    assert notes["f"] == {"kind": "error", "text": "1 error"}
    assert notes["a"]["kind"] is None, "its group has another reward, that of the late one"
    alone = RunClient(write_episodes(tmp_path / "alone", same)).json("episodes")["rows"]
    assert {row["note"]["kind"] for row in alone} == {"equal"}


def test_groups_have_their_rewards_and_come_in_pages(run: RunClient, root: Path) -> None:
    by_group = defaultdict(list)
    for row in rows_of(root):
        if row["group"] is not None and row["reward"] is not None:
            by_group[row["group"]].append(row["reward"])
    whole = run.json("episodes/groups", limit=128)
    pages = [run.json("episodes/groups", limit=7, offset=offset)["rows"] for offset in (0, 7)]
    assert [row["group"] for page in pages for row in page] == [row["group"] for row in whole["rows"][:14]]
    assert run.json("episodes/groups", offset=10_000)["rows"] == []
    for row in whole["rows"]:
        rewards = by_group.get(row["group"], [])
        assert row["reward_mean"] == (pytest.approx(statistics.fmean(rewards)) if rewards else None)
        assert row["equal"] == (row["count"] > 1 and len(set(rewards)) == 1)


def test_one_task_over_the_run(run: RunClient, root: Path) -> None:
    task = next(row["task"] for row in rows_of(root) if row["ship_step"] is not None)
    expected = defaultdict(list)
    for row in rows_of(root):
        if row["task"] == task and row["ship_step"] is not None:
            expected[row["ship_step"]].append(row)
    rows = run.json("episodes/task", task=task)["rows"]
    assert {row["step"] for row in rows} == set(expected)
    for row in rows:
        members = expected[row["step"]]
        assert row["count"] == len(members) and row["episodes"] == [member["id"] for member in members]
        assert row["solved"] == sum((member["reward"] or 0.0) >= 1 for member in members)


@pytest.mark.parametrize("name", ["a/b", "facets", "@3", "..", "x\ny", "back\\slash", "", "y" * 300])
def test_what_no_address_can_hold_is_opened_by_its_line(name: str) -> None:
    assert reference({"id": name, "line": 7}) == "@7"


@pytest.mark.parametrize(
    "name", ["plain", "100%", "a?b#c", "<img src=x onerror=alert(1)>", "word sort+hint", "naïve ☃"]
)
def test_every_other_id_opens_its_episode(tmp_path: Path, name: str) -> None:
    run = RunClient(write_episodes(tmp_path / "run", [make_episode("first"), make_episode(name)]))
    assert reference({"id": name, "line": 2}) == name
    assert run.json(f"episodes/{name}")["row"]["id"] == name


def test_ids_that_are_paths_or_routes_open_all_the_same(tmp_path: Path) -> None:
    names = ["a/b", "facets", "../../etc/passwd", "x/tokens"]
    run = RunClient(write_episodes(tmp_path / "run", [make_episode(name) for name in names]))
    for row in run.json("episodes")["rows"]:
        answer = run.json(f"episodes/{row['ref']}")
        assert answer["row"]["id"] == row["id"] and run.json(f"episodes/{row['ref']}/tokens")["total"] > 0
    assert run.json("episodes/a/b")["row"]["id"] == "a/b"


@pytest.mark.parametrize(
    "query",
    [
        {"limit": 513},
        {"offset": -1},
        {"sort": "at"},
        {"outcome": "fine"},
        {"reward": "low"},
        {"nonsense": 1},
        {"step": "nan"},
    ],
)
def test_bad_parameters_are_named(run: RunClient, query: dict[str, Any]) -> None:
    answer = run.answer("episodes", **query)
    assert answer.status == 400 and answer.error == "bad_parameter"
    assert next(iter(query)) in answer.json["error"]["message"]


def test_a_table_as_csv_has_values_by_name(run: RunClient, root: Path) -> None:
    answer = run.answer("episodes/export", format="csv", env="duel")
    assert answer.headers["content-disposition"] == 'attachment; filename="run-episodes.csv"'
    table = list(csv.DictReader(io.StringIO(answer.text)))
    expected = [row for row in rows_of(root) if row["env"] == "duel"]
    assert [int(row["line"]) for row in table] == [row["line"] for row in expected]
    for shown, row in zip(table, expected, strict=True):
        scores = [trace["rewards"]["correct"] for trace in row["traces"] if trace["rewards"].get("correct")]
        told = shown["rewards/correct"]
        if len(scores) == len(row["traces"]) and scores:
            assert float(told) == pytest.approx(statistics.fmean(score["score"] for score in scores))
        assert shown["ok"] == ("true" if row["ok"] else "false")


def test_cells_of_a_table_are_no_formulas(tmp_path: Path) -> None:
    evil = make_episode("=1+1")
    evil["env"]["name"] = "@SUM(A1)"
    evil["traces"][0]["metrics"] = {"-cmd|' /C calc'!A0": 1.0}
    evil["traces"][0]["rewards"] = {"win": {"score": -0.5, "weight": 1.0}}
    run = RunClient(write_episodes(tmp_path / "run", [evil]))
    header, row = csv.reader(io.StringIO(run.answer("episodes/export", format="csv").text))
    cells = dict(zip(header, row, strict=True))
    assert cells["id"] == "'=1+1" and cells["env"] == "'@SUM(A1)"
    assert cells["reward"] == "-0.5", "a number is no formula"
    assert safe_cell("\t=1") == "'\t=1"


def test_records_are_exported_with_what_was_learned_later(tmp_path: Path) -> None:
    updates = {
        "orch": [{"trace_id": "t-a", "info": {"effective": True, "ship": {"step": 5, "time": 1.0}}, "branches": []}]
    }
    root = write_episodes(tmp_path / "run", [make_episode("a"), make_episode("b")], updates, sealed=True)
    answer = RunClient(root).answer("episodes/export", step=5)
    records = [json.loads(line) for line in answer.text.splitlines()]
    assert [record["id"] for record in records] == ["a"]
    assert records[0]["traces"][0]["info"]["ship"]["step"] == 5
    assert records[0]["traces"][0]["nodes"][1]["message"]["content"] == "slate"


def test_a_record_that_is_gone_leaves_a_line(tmp_path: Path) -> None:
    root = write_episodes(tmp_path / "run", [make_episode("a")])
    run = RunClient(root)
    assert run.json("episodes")["total"] == 1
    (root / "monitors/file/traces/stream/00000.jsonl").write_bytes(b"")
    line = json.loads(run.answer("episodes/export").text)
    assert line["id"] == "a" and "cannot be read" in line["unreadable"]
    answer = run.answer("episodes/a")
    assert answer.status == 503 and answer.error == "unreadable"


@pytest.mark.parametrize("layout", ["A", "B", "C"])
def test_runs_of_prime_rl_in_each_layout(tmp_path: Path, layout: Any) -> None:
    shape = replace(SHAPE, steps=2, rollouts=8, layout=layout, writer="prime-rl", error_rate=0.0)
    write_run(tmp_path / "run", shape)
    run = RunClient(tmp_path / "run")
    answer = run.json("episodes", limit=4)
    assert answer["total"] >= 16 or layout == "A"
    for row in answer["rows"]:
        opened = run.json(f"episodes/{row['ref']}")
        assert opened["row"]["id"] == row["id"] and opened["traces"][0]["nodes"]
        window = run.json(f"episodes/{row['ref']}/tokens")
        assert window["texts"] is None and window["tokenizer"]["reason"]


def test_torn_and_foreign_lines_cost_no_good_one(tmp_path: Path) -> None:
    root = write_episodes(tmp_path / "run", [make_episode("a"), make_episode("b")])
    index = root / "monitors/file/traces/stream.index.jsonl"
    index.write_bytes(b"\0" * 64 + b"\n[1, 2]\n" + index.read_bytes() + b'{"line": 3, "id": "to')
    answer = RunClient(root).json("episodes")
    assert {row["id"] for row in answer["rows"]} == {"a", "b"}


def test_a_run_without_episodes_has_none(tmp_path: Path) -> None:
    (tmp_path / "run" / "configs").mkdir(parents=True)
    run = RunClient(tmp_path / "run")
    assert run.json("episodes")["rows"] == [] and run.json("episodes/facets")["steps"] is None
    assert run.answer("episodes/any").status == 404
    assert run.answer("episodes/export").content == b""


def test_an_episode_index_that_leaves_the_run_is_not_read(tmp_path: Path) -> None:
    outside = write_episodes(tmp_path / "elsewhere", [make_episode("secret")])
    root = write_episodes(tmp_path / "outputs" / "run", [make_episode("a")])
    stream = root / "monitors/file/traces/stream"
    stream.joinpath("00001.jsonl").symlink_to(outside / "monitors/file/traces/stream/00000.jsonl")
    assert [row["id"] for row in RunClient(root).json("episodes")["rows"]] == ["a"]


def test_values_that_a_writer_left_out_are_made_in_the_background(tmp_path: Path) -> None:
    root = write_episodes(tmp_path / "run", [make_episode(name) for name in "abc"])
    (root / "monitors/file/traces/stream.values.jsonl").unlink()
    run = RunClient(root)
    deadline = time.monotonic() + 20
    while (answer := run.json("episodes"))["values_missing"] and time.monotonic() < deadline:
        time.sleep(0.02)
    assert [row["task"] for row in answer["rows"]] == ["w-17"] * 3 and answer["values_missing"] == 0
    assert run.json("episodes", task="w-17", agent="agent")["total"] == 3
