"""Rows since a cursor, for whoever asks again later, in this process or another."""

import json
from pathlib import Path

import pytest

from prl.rundir.metrics.store import MetricsStore
from prl.rundir.metrics.tail import TailRow, place_before_last


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRL_CACHE_DIR", str(tmp_path / "cache"))


def append(path: Path, *steps: int | None) -> None:
    with path.open("a") as file:
        for step in steps:
            file.write(json.dumps({"step": step, "time": 1.5, "a": step or 0, "b": "NaN", "producer": "p"}) + "\n")


def read(path: Path) -> MetricsStore:
    store = MetricsStore(path)
    store.refresh()
    return store


def steps(rows: list[TailRow]) -> list[int | None]:
    return [row.step for row in rows]


def test_pieces_that_follow_one_another(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    append(path, *range(7))
    store = read(path)
    tail = store.tail(limit=3)
    assert (steps(tail.rows), tail.more, tail.restarted) == ([4, 5, 6], False, False)
    append(path, 7, None, 5, 6)
    store.refresh()
    for reader in (store, read(path), store.newest(6)):
        first = reader.tail(tail.cursor, 3)
        assert (steps(first.rows), first.more) == ([7, None, 5], True)
        assert [row.supersedes for row in first.rows] == [False, False, True]
        rest = reader.tail(first.cursor, 3)
        assert (steps(rest.rows), rest.more) == ([6], False)
        assert reader.tail(rest.cursor).rows == []
        assert reader.tail(rest.cursor).cursor == rest.cursor
    values = first.rows[0].values
    assert (values["a"], str(values["b"]), first.rows[1].time) == (7, "nan", 1.5)


def test_a_replaced_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    append(path, *range(5))
    cursor = read(path).tail().cursor
    path.write_text("")  # the same file, and in the end of the same length
    append(path, 9, 8, 7, 6, 5)
    tail = read(path).tail(cursor, 2)
    assert (steps(tail.rows), tail.restarted) == ([6, 5], True)


def test_rows_that_a_store_of_the_newest_does_not_have(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    append(path, 0)
    cursor = read(path).tail().cursor
    append(path, *range(1, 9))
    tail = read(path).newest(3).tail(cursor)
    assert (steps(tail.rows), tail.restarted) == ([6, 7, 8], True)


def test_before_there_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    store = read(path)
    tail = store.tail()
    assert (tail.rows, tail.more) == ([], False)
    append(path, 1)
    store.refresh()
    assert steps(store.tail(tail.cursor).rows) == [1]


@pytest.mark.parametrize("cursor", ["", "x", "1-2", "1-2-3-4", "z-z-z"])
def test_what_is_no_cursor_is_refused(tmp_path: Path, cursor: str) -> None:
    with pytest.raises(ValueError, match="not a cursor"):
        read(tmp_path / "m.jsonl").tail(cursor)


@pytest.mark.parametrize("block", [1, 3, 1000])
def test_where_the_last_lines_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr("prl.rundir.metrics.tail._BLOCK", block)
    path = tmp_path / "lines"
    path.write_bytes(b"a\nbb\n\nccc\nnot complete")
    places = [place_before_last(path, rows) for rows in range(6)]
    assert [place.offset if place else None for place in places] == [10, 6, 5, 2, None, None]
    assert places[0] is not None
    assert places[0].before == b"a\nbb\n\nccc\n"
    assert place_before_last(tmp_path / "absent", 1) is None
