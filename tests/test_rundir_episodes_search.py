"""Searching recorded episodes: what a reader means is found, wherever and however it is stored."""

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
import pyzstd
from hypothesis import given
from hypothesis import strategies as st

from prl.rundir.chunks import seal
from prl.rundir.episodes.search import HITS_PER_RECORD, SearchPage, search_episodes, without_arrays
from prl.rundir.episodes.texts import FIELDS
from prl.rundir.search import Query


def record(name: str, *contents: str, **more: Any) -> dict[str, Any]:
    nodes = [
        {"message": {"role": "user", "content": text}, "token_ids": list(range(500)), "mask": [True] * 500}
        for text in contents
    ]
    return {"id": name, "traces": [{"id": f"t-{name}", "nodes": nodes}], **more}


def write(traces: Path, *chunks: list[dict[str, Any]], sealed: bool = False) -> None:
    (traces / "stream").mkdir(parents=True, exist_ok=True)
    for number, records in enumerate(chunks):
        path = traces / "stream" / f"{number:05d}.jsonl"
        path.write_bytes(b"".join(orjson.dumps(entry) + b"\n" for entry in records))
        if sealed:
            seal(traces / "stream", number, traces / "w")


def names(page: SearchPage) -> list[str | None]:
    return [hit.episode_id for hit in page.hits]


def every_page(traces: Path, query: Query, **how: Any) -> list[str | None]:
    found, cursor = [], None
    for _ in range(1000):
        page = search_episodes(traces, query, cursor=cursor, **how)
        found += names(page)
        cursor = page.cursor
        if page.done:
            return found
    raise AssertionError("a search without an end")


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("damage", ["zeros", "torn", "text"])
def test_damaged_records_are_counted_though_their_bytes_do_not_match(
    tmp_path: Path, damage: str, newest_first: bool
) -> None:
    write(tmp_path, [record(f"e{n}", "needle" if n in (0, 5) else "nothing") for n in range(6)])
    path = tmp_path / "stream" / "00000.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    size = len(lines[2])
    lines[2] = {"zeros": lines[2][:40] + bytes(size - 80) + lines[2][-40:], "torn": lines[2][: size // 2] + b"\n",
                "text": b"out of memory\n"}[damage]  # fmt: skip
    path.write_bytes(b"".join(lines))
    page = search_episodes(tmp_path, Query("needle"), newest_first=newest_first)
    assert sorted(map(str, names(page))) == ["e0", "e5"]
    assert (page.damage.lines, page.damage.first_offset) == (1, len(lines[0]) + len(lines[1]))


def test_chunks_that_are_gone_are_counted(tmp_path: Path) -> None:
    write(tmp_path, [record("e1", "needle")], [record("e2", "needle")], [record("e3", "needle")])
    (tmp_path / "stream" / "00001.jsonl").unlink()
    page = search_episodes(tmp_path, Query("needle"))
    assert names(page) == ["e3", "e1"]
    assert (page.damage.lines, page.damage.sample) == (1, "(chunk 1 is gone)")


@pytest.mark.parametrize("sealed", [False, True])
def test_hits_say_where_they_are(tmp_path: Path, sealed: bool) -> None:
    write(
        tmp_path,
        [record("e1", "none", "a needle here"), record("e2", "nothing")],
        [record("e3", "NEEDLE")],
        sealed=sealed,
    )
    page = search_episodes(tmp_path, Query("needle"))
    assert names(page) == ["e3", "e1"], "newest first"
    hit = page.hits[1]
    assert (hit.chunk, hit.offset, hit.trace_id, hit.node, hit.role, hit.field) == (0, 0, "t-e1", 1, "user", "content")
    assert hit.excerpt.text[hit.excerpt.start : hit.excerpt.end] == "needle"
    assert names(search_episodes(tmp_path, Query("needle"), newest_first=False)) == ["e1", "e3"]
    assert names(search_episodes(tmp_path, Query("needle", ignore_case=False))) == ["e1"]
    assert names(search_episodes(tmp_path, Query("absent"))) == []


@pytest.mark.parametrize(
    "text",
    [
        'say "x"',
        "two\nlines",
        "a\\b",
        "café",
        "Ünïcode",
        "日本語",
        "😀 smile",
        "tab\there",
        "\x00nul",
        "</script>",
        "ПРИВЕТ",
    ],
)
@pytest.mark.parametrize("dump", [orjson.dumps, lambda value: json.dumps(value).encode()], ids=["raw", "escaped"])
def test_a_text_is_found_however_json_spells_it(tmp_path: Path, text: str, dump: Any) -> None:
    (tmp_path / "stream").mkdir()
    (tmp_path / "stream" / "00000.jsonl").write_bytes(dump(record("e1", f"..{text}..")) + b"\n")
    for query in (Query(text), Query(text, ignore_case=False), Query(text.swapcase())):
        page = search_episodes(tmp_path, query)
        assert names(page) == ["e1"]
        part = page.hits[0].excerpt
        assert part.text[part.start : part.end] == text


def test_keys_ids_and_numbers_do_not_match_unless_asked(tmp_path: Path) -> None:
    write(tmp_path, [record("e1", "hello", task={"key": "w-17", "data": {"word": "crane"}})])
    for absent in ("token_ids", "content", "499", "t-e1", "w-17", "true"):
        assert names(search_episodes(tmp_path, Query(absent))) == []
    assert names(search_episodes(tmp_path, Query("t-e1"), fields=FIELDS)) == ["e1"]
    assert names(search_episodes(tmp_path, Query("crane"))) == ["e1"]
    assert names(search_episodes(tmp_path, Query("crane"), fields=["content"])) == []


def test_regular_expressions_with_and_without_a_literal(tmp_path: Path) -> None:
    write(tmp_path, [record("e1", "step 12 done"), record("e2", "no\nfoo42")])
    assert names(search_episodes(tmp_path, Query(r"step \d+", regex=True))) == ["e1"]
    assert names(search_episodes(tmp_path, Query(r"^\w{3}\d\d$", regex=True))) == ["e2"]


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("sealed", [False, True])
def test_pages_give_each_record_once_and_survive_sealing(tmp_path: Path, newest_first: bool, sealed: bool) -> None:
    chunks = [[record(f"e{chunk}{i}", "needle") for i in range(7)] for chunk in range(3)]
    write(tmp_path, *chunks, sealed=sealed)
    order = [entry["id"] for chunk in chunks for entry in chunk]
    order = order[::-1] if newest_first else order
    assert every_page(tmp_path, Query("needle"), max_hits=2, newest_first=newest_first) == order
    assert every_page(tmp_path, Query("needle"), max_bytes=1, newest_first=newest_first) == order
    first = search_episodes(tmp_path, Query("needle"), max_hits=10, newest_first=newest_first)
    if not sealed:
        seal(tmp_path / "stream", 1, tmp_path / "w")
    rest = search_episodes(tmp_path, Query("needle"), cursor=first.cursor, newest_first=newest_first)
    assert names(first) + names(rest) == order


def test_a_replaced_stream_is_searched_from_its_beginning(tmp_path: Path) -> None:
    write(tmp_path, [record(f"e{i}", "needle") for i in range(5)])
    page = search_episodes(tmp_path, Query("needle"), max_hits=2)
    write(tmp_path, [record(f"f{i}", "another needle") for i in range(5)])
    again = search_episodes(tmp_path, Query("needle"), cursor=page.cursor)
    assert again.restarted
    assert names(again) == ["f4", "f3", "f2", "f1", "f0"]


def test_a_record_with_many_matches_gives_a_few_and_says_how_many(tmp_path: Path) -> None:
    write(tmp_path, [record("e1", *["needle"] * 50), record("e2", "needle")])
    page = search_episodes(tmp_path, Query("needle"), newest_first=False)
    assert names(page) == ["e1"] * HITS_PER_RECORD + ["e2"]
    assert page.hits[0].texts == 50
    assert len(search_episodes(tmp_path, Query("needle"), newest_first=False, max_hits=3).hits) == 3


def test_a_record_longer_than_a_block_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, [record("e1", "x" * 5_000_000 + " needle " + "needle " * 1000), record("e2", "y")])
    decoded: list[int] = []
    real = orjson.loads
    monkeypatch.setattr(orjson, "loads", lambda line: decoded.append(len(line)) or real(line))
    for newest_first in (False, True):
        decoded.clear()
        assert every_page(tmp_path, Query("needle"), max_hits=1, newest_first=newest_first) == ["e1"]
        assert len(decoded) == 1


def test_bad_lines_are_counted_and_cost_no_good_one(tmp_path: Path) -> None:
    write(tmp_path, [record("e1", "needle")], [record("e3", "needle")])
    first = tmp_path / "stream" / "00000.jsonl"
    first.write_bytes(
        first.read_bytes()
        + b'needle \xff\n[1]\n{"needle": 1\n'
        + orjson.dumps(record("e2", "needle"))
        + b'\n{"id": "needle'
    )
    last = tmp_path / "stream" / "00001.jsonl"
    last.write_bytes(last.read_bytes() + orjson.dumps(record("e4", "needle")))
    for newest_first in (False, True):
        page = search_episodes(tmp_path, Query("needle"), newest_first=newest_first)
        assert sorted(map(str, names(page))) == ["e1", "e2", "e3"], "a record still being written is left out"
        assert page.damage.lines == 4
    assert search_episodes(tmp_path / "absent", Query("x")) == SearchPage()


def test_a_damaged_frame_costs_what_it_holds(tmp_path: Path) -> None:
    records = [record(f"e{i}", "needle " + chr(97 + i) * 1_500_000) for i in range(9)]
    write(tmp_path, records, sealed=True)
    sealed = tmp_path / "stream" / "00000.jsonl.zst"
    whole = bytearray(sealed.read_bytes())
    second = pyzstd.get_frame_size(bytes(whole))
    whole[second + 20 : second + 60] = b"\0" * 40
    sealed.write_bytes(whole)
    for newest_first in (False, True):
        page = search_episodes(tmp_path, Query("needle"), newest_first=newest_first)
        assert {"e0", "e1", "e6", "e7", "e8"} <= set(names(page))
        assert page.damage.lines


def test_a_chunk_without_a_seek_table_is_read_forwards(tmp_path: Path) -> None:
    write(tmp_path, [record("e1", "needle"), record("e2", "needle")])
    plain = tmp_path / "stream" / "00000.jsonl"
    (tmp_path / "stream" / "00000.jsonl.zst").write_bytes(pyzstd.compress(plain.read_bytes()))
    plain.unlink()
    assert every_page(tmp_path, Query("needle"), max_hits=1) == ["e1", "e2"]


def test_older_layouts(tmp_path: Path) -> None:
    (tmp_path / "rollouts/step_3/train/all").mkdir(parents=True)
    trace = record("e1", "a needle")["traces"][0]
    (tmp_path / "rollouts/step_3/train/all/traces.jsonl").write_bytes(orjson.dumps(trace) + b"\n")
    page = search_episodes(tmp_path, Query("needle"))
    assert [(hit.trace_id, hit.node) for hit in page.hits] == [("t-e1", 0)]


def test_progress_is_told(tmp_path: Path) -> None:
    write(tmp_path, [record("e1", "x" * 3_000_000)], [record("e2", "y")])
    told: list[tuple[int, int]] = []
    page = search_episodes(tmp_path, Query("absent"), progress=lambda *how_far: told.append(how_far))
    assert [scanned for scanned, _ in told] == sorted(scanned for scanned, _ in told)
    assert told[-1] == (page.total_bytes, page.total_bytes) == (page.scanned_bytes, page.scanned_bytes)


SCALARS = st.integers() | st.booleans() | st.none() | st.text('":[]{},\\1ab', max_size=8)
VALUES = st.recursive(
    SCALARS | st.sampled_from([list(range(90)), [0.5, None, True] * 30, [*range(60), "x"]]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('":[\\a', max_size=4), inner, max_size=4),
    max_leaves=8,
)


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for part in value.values() for text in strings(part)]
    if isinstance(value, list):
        return [text for part in value for text in strings(part)]
    return [value] if isinstance(value, str) else []


@given(st.dictionaries(st.text('":[\\a', max_size=4), VALUES, max_size=4), st.booleans())
def test_emptied_arrays_cost_no_text(value: dict[str, Any], spaced: bool) -> None:
    line = (json.dumps(value) if spaced else json.dumps(value, separators=(",", ":"))).encode()
    assert strings(json.loads(without_arrays(line))) == strings(value)


def test_arrays_of_numbers_are_emptied() -> None:
    assert without_arrays(b'{"a":[' + b"1," * 99 + b'1],"b":[1,2]}') == b'{"a":[],"b":[1,2]}'
    assert without_arrays(b'{"a": [' + b"1, " * 99 + b"1]}") == b'{"a": []}'
    assert without_arrays(b'{"a":[' + b"1," * 99) == b'{"a":[' + b"1," * 99
