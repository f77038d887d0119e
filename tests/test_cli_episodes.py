"""``prl episodes``: the list, its conditions, groups, counts and search, as JSON and for people."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from prl.cli import episodes as module
from prl.cli.episodes import episodes as command
from prl.rundir.annotations.writer import AnnotationWriter
from prl.rundir.episodes.writer import EpisodeWriter
from sample_episodes import make_episode, make_failure

GOLDEN = Path(__file__).parent / "golden" / "episodes.json"
"""``PRL_UPDATE_GOLDEN=1`` writes the answer anew: read the difference."""

VALUES_ASKED_FOR: list[list[object]] = [
    [],
    ["--task", "w-18"],
    ["--agent", "agent"],
    ["--dispatch-step", "12.."],
    ["--sort", "dispatch_step"],
    ["--sort", "agents", "--limit", 2],
    ["--histogram", "dispatch_step"],
    ["--facets"],
    ["--groups", "task"],
]


@pytest.fixture(autouse=True)
def surroundings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRL_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr("time.time", lambda: 1_790_000_100.0)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Four episodes: the second of another task, the third failed, the last wrote something hostile."""
    traces = tmp_path / "demo" / "monitors" / "file" / "traces"
    writer = EpisodeWriter(traces, chunk_bytes=100_000)
    for number, record in enumerate([make_episode("e1"), make_episode("e2", score=0.25), make_failure("e3")]):
        if number == 1:
            record["task"] = {"type": "WordTask", "key": "w-18", "data": {}}
            record["group"] = {"id": "g5"}
        writer.append(record, arrival=1_790_000_050.0)
    hostile = make_episode("e4")
    hostile["traces"][0]["nodes"][1]["message"]["content"] = "\x1b[2Jneedle \x1b]0;title\x07 in the hay"
    hostile["env"] = {"id": "\x1b[31mred"}
    writer.append(hostile)
    writer.close(clean=False)
    updates = AnnotationWriter(traces, "orch", chunk_bytes=100_000)
    updates.append({"trace_id": "t-e1", "info": {"effective": True, "ship": {"step": 13}}, "branches": []})
    updates.close(clean=False)
    return tmp_path / "demo"


def call(*args: object) -> Result:
    return CliRunner().invoke(command, [str(arg) for arg in args], standalone_mode=False)


def answer(*args: object) -> dict[str, Any]:
    result = call(*args, "--json")
    assert result.exception is None, result.exception
    value: dict[str, Any] = json.loads(result.stdout)
    return value


def test_answer_is_as_recorded(run: Path) -> None:
    found = answer(run)
    text = json.dumps(found, indent=1).replace(str(run.parent), "") + "\n"
    if os.environ.get("PRL_UPDATE_GOLDEN"):
        GOLDEN.write_text(text)
    assert json.loads(text) == json.loads(GOLDEN.read_text())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", ["e3", "e4", "e2", "e1"]),
        ("--sort line --ascending", ["e1", "e2", "e3", "e4"]),
        ("--sort line --limit 2 --offset 1 --upto 3", ["e2", "e1"]),
        ("--env wordle --outcome ok", ["e2", "e1"]),
        ("--outcome error --outcome timeout", ["e3"]),
        ("--kind train --stop agent_completed --agent agent", ["e4", "e2", "e1"]),
        ("--task w-18", ["e2"]),
        ("--group g5", ["e2"]),
        ("--step 13", ["e1"]),
        ("--step ..12", []),
        ("--dispatch-step 12..", ["e3", "e4", "e2", "e1"]),
        ("--reward-min 0.2 --reward-max 0.5", ["e2"]),
        ("--effective", ["e1"]),
        ("--no-effective", []),
        ("--no-truncated", ["e3", "e4", "e2", "e1"]),
        ("--since 1790000050", ["e3"]),
        ("--since 55s", ["e3"]),
        ("--since 1h10s", ["e3", "e4", "e2", "e1"]),
        ("--since 49s", []),
        ("--until 2026-09-21T14:14:09", ["e4", "e2", "e1"]),
    ],
)
def test_conditions(run: Path, options: str, expected: list[str]) -> None:
    assert [row["id"] for row in answer(run, *options.split())["rows"]] == expected


def test_names_are_taken_as_they_were_shown(run: Path) -> None:
    shown = next(row["env"] for row in answer(run)["rows"] if row["id"] == "e4")
    assert shown == "red"
    assert [row["id"] for row in answer(run, "--env", shown)["rows"]] == ["e4"]


def test_pages_say_that_there_is_more(run: Path) -> None:
    page = answer(run, "--limit", 1)
    assert (page["counts"], page["truncated"], page["upto"]) == ({"episodes": 4, "chosen": 4}, True, 4)
    assert "and 3 more (--offset 1 --upto 4)" in call(run, "--limit", 1).stdout


def test_groups(run: Path) -> None:
    groups = answer(run, "--groups", "group", "--env", "wordle")
    assert [(row["name"], row["count"], row["ok"], row["first_episode"]) for row in groups["rows"]] == [
        ("g4", 2, 1, "e1"),
        ("g5", 1, 1, "e2"),
    ]
    assert answer(run, "--groups", "task", "--limit", 1)["truncated"]
    steps = answer(run, "--groups", "step", "--task", "w-17")
    assert [(row["step"], row["count"]) for row in steps["rows"]] == [(13, 1)]
    assert call(run, "--groups", "step", "--task", "w-17").stdout.splitlines()[1].split()[:4] == [
        "13",
        "wordle",
        "1",
        "100.0%",
    ]


def test_histogram_and_facets(run: Path) -> None:
    histogram = answer(run, "--histogram", "reward", "--bins", 2)
    assert [(row["start"], row["count"]) for row in histogram["rows"]] == [(0.0, 1), (0.5, 2)]
    assert histogram["counts"] == {"episodes": 4, "chosen": 4, "in_bins": 3}
    assert answer(run, "--facets", "--env", "wordle")["counts"] == {"episodes": 4, "chosen": 3}
    facets = answer(run, "--facets")["rows"]
    assert {"facet": "outcome", "value": "error", "episodes": 1} in facets
    assert "#" in call(run, "--histogram", "arrival").stdout and "outcome" in call(run, "--facets").stdout


def test_search(run: Path) -> None:
    found = answer(run, "--search", "needle")
    assert [(row["id"], row["line"], row["node"]) for row in found["rows"]] == [("e4", 4, 1)]
    assert found["cursor"] is None and not found["truncated"]
    assert answer(run, "--search", "needle", "--outcome", "error")["rows"] == []
    assert answer(run, "--search", "n[e]+dle", "--regex")["counts"]["hits"] == 1
    assert "needle" in call(run, "--search", "needle").stdout


def test_nothing_that_a_model_wrote_moves_a_cursor(run: Path) -> None:
    for options in ([], ["--search", "needle"], ["--facets"], ["--groups", "group"], ["--json"]):
        text = call(run, *options).stdout
        assert "\x1b" not in text and "\x07" not in text and "\\u001b" not in text


def test_numbers_without_a_form_in_json_are_named(run: Path) -> None:
    index = run / "monitors/file/traces/stream.index.jsonl"
    index.write_bytes(index.read_bytes().replace(b'"reward":0.25', b'"reward":Infinity'))
    found = answer(run, "--sort", "line", "--ascending")
    assert found["rows"][1]["reward"] is None and found["nonfinite"] == ["1/reward"]


def test_what_is_not_known_is_said(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traces = run / "monitors/file/traces"
    (traces / "stream.values.jsonl").unlink()
    index = traces / "stream.index.jsonl"
    end = index.stat().st_size
    index.write_bytes(index.read_bytes() + b"\0\0\n")
    assert answer(run)["unknown"] == [
        f"stream.index.jsonl: 1 place that cannot be read, the first at byte {end}: \\x00\\x00"
    ]
    monkeypatch.setattr(module, "_VALUES_BYTES", 1)
    assert [note.split(":")[0] for note in answer(run, "--task", "w-18")["unknown"][1:]] == [
        "task, agents and dispatch step of 3 episodes are not known yet"
    ]


@pytest.mark.parametrize("lost", ["deleted", "halved", "zeroed", "foreign"])
def test_values_are_made_from_the_records_whenever_they_are_asked_for(run: Path, lost: str) -> None:
    """A condition, an order, a histogram, a count and a page: all say the same of dispatch steps, tasks and agents."""
    expected = [answer(run, *options) for options in VALUES_ASKED_FOR]
    values = run / "monitors/file/traces/stream.values.jsonl"
    data = values.read_bytes()
    if lost == "deleted":
        values.unlink()
    elif lost == "halved":
        values.write_bytes(data[: len(data) // 2])
    elif lost == "zeroed":
        values.write_bytes(bytes(len(data)))
    else:
        values.write_bytes(data.replace(b'"id":"e', b'"id":"x'))
    for options, right in zip(VALUES_ASKED_FOR, expected, strict=True):
        found = answer(run, *options)
        assert (found["rows"], found["counts"]) == (right["rows"], right["counts"]), options
        assert not any("not known" in note for note in found["unknown"])


def test_what_a_search_passes_over_is_said(run: Path) -> None:
    stream = run / "monitors/file/traces/stream/00000.jsonl"
    lines = stream.read_bytes().splitlines(keepends=True)
    stream.write_bytes(b"".join([lines[0], lines[1][:100] + bytes(len(lines[1]) - 101) + b"\n", *lines[2:]]))
    found = answer(run, "--search", "needle")
    assert len(found["rows"]) == 1
    assert found["unknown"][0].startswith(f"search: 1 place that cannot be read, the first at byte {len(lines[0])}: {{")
    stream.unlink()
    found = answer(run, "--search", "needle")
    assert found["unknown"] == ["4 episodes cannot be opened or searched: their chunk is gone (chunk 0)"]


def test_an_offset_behind_the_last_says_so(run: Path) -> None:
    shown = call(run, "--offset", 99).stdout
    assert shown == "no more: 4 episodes, and --offset 99 --limit 100 shows none of them\n"
    assert call(run, "--env", "none").stdout == "none of 4 episodes\n"


def test_a_search_that_is_all_but_done_does_not_say_all_of_all(run: Path) -> None:
    shown = call(run, "--search", "guess", "--limit", 2).stdout.splitlines()[-1]
    searched, _, whole = shown.removeprefix("searched ").partition(";")[0].partition(" of ")
    assert whole and searched != whole


def test_run_without_episodes(tmp_path: Path) -> None:
    (tmp_path / "demo" / "configs").mkdir(parents=True)
    assert call(tmp_path / "demo").stdout == "no episode yet\n"
    assert answer(tmp_path / "demo")["rows"] == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--facets --search x", "one of them"),
        ("--groups step", "of one --task KEY"),
        ("--step 1..x", "is no step"),
        ("--since yesterday", "is no time"),
        ("--search ( --regex", "not a regular expression"),
        ("--search x --cursor !", "--search:"),
        ("--sort nothing", "is not one of"),
        ("--kind foo", "is not one of"),
    ],
)
def test_called_wrongly(run: Path, options: str, message: str) -> None:
    assert message in str(getattr(call(run, *options.split()).exception, "message", ""))
