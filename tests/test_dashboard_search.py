"""Text search over episodes through the API."""

from pathlib import Path

import pytest

from dashboard_runs import RunClient, message, write_episodes
from sample_episodes import make_episode


@pytest.fixture
def run(tmp_path: Path) -> RunClient:
    records = []
    for number in range(12):
        record = make_episode(f"e/{number}" if number == 3 else f"e{number}", score=number / 12)
        record["traces"][0]["nodes"] = [message("user", "go"), message("assistant", f'say "Zebra" {number}', 0)]
        records.append(record)
    return RunClient(write_episodes(tmp_path / "run", records))


def test_hits_say_where_they_stand_and_pages_go_on(run: RunClient) -> None:
    hits, cursor = [], None
    while True:
        answer = run.json("episodes/search", q='"zebra', limit=5, cursor=cursor)
        hits += answer["hits"]
        cursor = answer["cursor"]
        if answer["done"]:
            break
    assert [hit["line"] for hit in hits] == list(range(12, 0, -1))
    assert all(hit["excerpt"][hit["start"] : hit["end"]] == '"Zebra' for hit in hits)
    assert (hits[0]["field"], hits[0]["node"], hits[0]["role"], hits[0]["trace"]) == (
        "content",
        1,
        "assistant",
        "t-e11",
    )
    assert hits[8]["episode_id"] == "e/3" and hits[8]["ref"] == "@4"
    assert run.json("episodes/@4")["row"]["id"] == "e/3"
    assert answer["scanned_bytes"] == answer["total_bytes"]


def test_filters_choose_among_the_hits(run: RunClient) -> None:
    hits = run.json("episodes/search", q="zebra", reward="0.5..0.7")["hits"]
    assert [hit["line"] for hit in hits] == [9, 8, 7]
    assert run.json("episodes/search", q="zebra", env="elsewhere")["hits"] == []


def test_case_and_expressions(run: RunClient) -> None:
    assert run.json("episodes/search", q="zebra", case=True)["hits"] == []
    hits = run.json("episodes/search", q=r"Zebra. 1\d$", regex=True, case=True)["hits"]
    assert [hit["line"] for hit in hits] == [12, 11]


@pytest.mark.parametrize("query", [{}, {"q": ""}, {"q": "("}, {"q": "x", "cursor": "junk"}, {"q": "x", "limit": 0}])
def test_bad_questions_are_told(run: RunClient, query: dict[str, str]) -> None:
    assert run.answer("episodes/search", **query, regex=query.get("q") == "(").error == "bad_parameter"


def test_what_cannot_be_read_is_counted(tmp_path: Path) -> None:
    root = write_episodes(tmp_path / "run", [make_episode("a"), make_episode("b")])
    chunk = root / "monitors/file/traces/stream/00000.jsonl"
    chunk.write_bytes(b"\0" * 32 + b"\n" + chunk.read_bytes() + b'{"torn": ')
    answer = RunClient(root).json("episodes/search", q="slate")
    assert {hit["episode_id"] for hit in answer["hits"]} <= {"a", "b"} and answer["damaged"] == 1
