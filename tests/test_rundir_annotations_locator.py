"""Where updates lie: by indexes that agree with their streams, by the streams where they do not."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prl.rundir.annotations import locator as module
from prl.rundir.annotations.locator import UpdateLocator
from prl.rundir.annotations.positions import Positions, hash_ids
from prl.rundir.annotations.rows import LineIds, record_id
from prl.rundir.annotations.writer import AnnotationWriter
from prl.rundir.chunks import Sealer


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRL_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture(params=[True, False], ids=["mapped", "searched"])
def mapped(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def write(traces: Path, ids: list[str], producer: str = "orch", *, chunk_bytes: int = 600, start: int = 0) -> None:
    """Updates numbered from ``start`` in their ``info``, a few of them a chunk."""
    writer = AnnotationWriter(traces, producer, chunk_bytes=chunk_bytes)
    for number, trace_id in enumerate(ids, start):
        writer.append({"trace_id": trace_id, "info": {"n": number}, "branches": [{"index": 0, "advantages": [0.5]}]})
    writer.close(clean=False)


def numbers(locator: UpdateLocator, trace_id: str) -> list[int]:
    return [update["info"]["n"] for update in locator.updates([trace_id]).get(trace_id, [])]


def index_of(traces: Path, producer: str = "orch") -> Path:
    return traces / "annotations" / f"{producer}.index.jsonl"


def test_an_index_that_is_a_directory_is_no_producer(tmp_path: Path) -> None:
    write(tmp_path, ["a"])
    index_of(tmp_path).unlink()
    index_of(tmp_path).mkdir()
    assert module.producers(tmp_path) == ["orch"]
    assert numbers(UpdateLocator(tmp_path), "a") == [0]


def test_updates_come_by_producer_and_in_the_order_written(tmp_path: Path, mapped: bool) -> None:
    write(tmp_path, ["a", "b", "a", "c"], "trainer", start=10)
    write(tmp_path, ["b", "a"], "orch")
    locator = UpdateLocator(tmp_path, mapped=mapped)
    for _ in range(2):
        assert numbers(locator, "a") == [1, 10, 12], "orch before trainer, and each as written"
        assert locator.updates(["c", "nobody"]).keys() == {"c"}
    assert locator.problems == []
    assert UpdateLocator(tmp_path / "absent", mapped=mapped).updates(["a"]) == {}


@pytest.mark.parametrize("trace_id", ["caf\u00e9", 'with "quotes" and \\', "line\u2028end", "a/b", "x" * 70, ""])
def test_ids_of_any_form(tmp_path: Path, mapped: bool, trace_id: str) -> None:
    write(tmp_path, ["x", trace_id, "xx"])
    index = index_of(tmp_path)
    rows = [json.loads(line) for line in index.read_bytes().split(b"\n")[:-1]]
    for form in ({}, {"ensure_ascii": False}):  # as other writers put them
        index.write_text("".join(json.dumps(row, **form) + "\n" for row in rows))
        assert numbers(UpdateLocator(tmp_path, mapped=mapped), trace_id) == [1]


def test_an_index_grows_between_two_looks(tmp_path: Path, mapped: bool) -> None:
    locator = UpdateLocator(tmp_path, mapped=mapped)
    for round_number in range(4):
        write(tmp_path, ["a", "b", "c"], start=3 * round_number)
        assert numbers(locator, "b") == [3 * n + 1 for n in range(round_number + 1)]
    assert locator.problems == []


def test_a_record_whose_row_is_still_missing_is_found(tmp_path: Path, mapped: bool) -> None:
    write(tmp_path, ["a", "b", "c", "a"])
    index = index_of(tmp_path)
    rows = index.read_bytes().splitlines(keepends=True)
    locator = UpdateLocator(tmp_path, mapped=mapped)
    for known in (1, 2, 4):
        index.write_bytes(b"".join(rows[:known]) + b'{"trace_id":"a","chu' * (known < 4))
        assert numbers(locator, "a") == [0, 3], "a row that is not complete yet is none"
        assert locator.problems == []


def test_an_absent_index_is_replaced_by_the_stream_and_not_written(tmp_path: Path, mapped: bool) -> None:
    write(tmp_path, ["a", "b", "a"])
    index_of(tmp_path).unlink()
    locator = UpdateLocator(tmp_path, mapped=mapped)
    assert numbers(locator, "a") == [0, 2]
    assert "no rows" in locator.problems[0]
    assert not index_of(tmp_path).exists()
    write(tmp_path, ["a"], start=3)  # the writer makes its index again
    assert numbers(locator, "a") == [0, 2, 3]
    assert locator.problems == []


@pytest.mark.parametrize("damage", [b"\0" * 64 + b"\n", b'{"trace_id":"a","chunk":0\n', b"[1]\n", b"caf\xe9\n"])
def test_a_bad_line_costs_no_update(tmp_path: Path, mapped: bool, damage: bytes) -> None:
    write(tmp_path, ["a", "b", "a", "c"])
    index = index_of(tmp_path)
    rows = index.read_bytes().splitlines(keepends=True)
    index.write_bytes(rows[0] + rows[1] + damage + rows[3])  # in place of the second row of "a"
    locator = UpdateLocator(tmp_path, mapped=mapped)
    assert numbers(locator, "a") == [0, 2]
    assert "no rows" in locator.problems[0]


def test_an_index_of_another_stream_is_not_believed(tmp_path: Path, mapped: bool) -> None:
    write(tmp_path, ["a", "b", "a"])
    write(tmp_path / "other", ["b", "a", "c"])
    index_of(tmp_path).write_bytes(index_of(tmp_path / "other").read_bytes())
    locator = UpdateLocator(tmp_path, mapped=mapped)
    assert numbers(locator, "a") == [0, 2]
    assert locator.updates(["c"]) == {}
    assert "not of its stream" in locator.problems[0]


def test_a_row_that_leads_astray_in_the_middle(tmp_path: Path, mapped: bool) -> None:
    write(tmp_path, ["a", "b", "c"], chunk_bytes=10_000)
    index = index_of(tmp_path)
    index.write_bytes(index.read_bytes().replace(b'"a"', b'"x"').replace(b'"b"', b'"a"'))
    locator = UpdateLocator(tmp_path, mapped=mapped)
    assert numbers(locator, "a") == [0]
    assert locator.updates(["x"]) == {}


def test_an_index_longer_than_its_stream(tmp_path: Path, mapped: bool) -> None:
    write(tmp_path, ["a", "b", "a", "b"], chunk_bytes=100)
    for chunk in sorted((tmp_path / "annotations" / "orch").iterdir())[2:]:
        chunk.unlink()
    assert numbers(UpdateLocator(tmp_path, mapped=mapped), "a") == [0], "what is left of the stream"


def test_a_run_that_was_made_again_under_the_same_name(tmp_path: Path) -> None:
    locator = UpdateLocator(tmp_path)
    for ids in (["a", "b", "a"], ["b", "b", "a", "c"]):
        write(tmp_path, ids)
        assert numbers(locator, "a") == [n for n, trace_id in enumerate(ids) if trace_id == "a"]
        for path in [*(tmp_path / "annotations" / "orch").iterdir(), index_of(tmp_path)]:
            path.unlink()


def test_sealed_chunks(tmp_path: Path, mapped: bool) -> None:
    sealer = Sealer(tmp_path / ".sealing")
    writer = AnnotationWriter(tmp_path, "trainer", chunk_bytes=300, sealer=sealer)
    for number, trace_id in enumerate("abcabc"):
        writer.append({"trace_id": trace_id, "info": {"n": number}})
    writer.close(clean=True)
    assert sealer.close(20)
    index_of(tmp_path, "trainer").write_bytes(index_of(tmp_path, "trainer").read_bytes().splitlines(True)[0])
    assert numbers(UpdateLocator(tmp_path, mapped=mapped), "b") == [1, 4]


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A map that grows by a few rows a look and is kept from the first on."""
    for name, value in (("GROWTH", 1), ("BLOCK", 500), ("_KEPT_FROM", 1), ("_BATCH", 2)):
        monkeypatch.setattr(module, name, value)
    yield


@pytest.mark.usefixtures("small_parts")
def test_maps_grow_in_parts_and_are_kept(tmp_path: Path) -> None:
    ids = [f"t{n % 7}" for n in range(60)]
    write(tmp_path, ids)
    expected = [n for n, trace_id in enumerate(ids) if trace_id == "t3"]
    for _ in range(4):
        locator = UpdateLocator(tmp_path)
        assert [numbers(locator, "t3") for _ in range(4)] == [expected] * 4
    assert list((tmp_path / "cache" / "annotations-index-1").glob("*.columns"))
    index_of(tmp_path).unlink()
    for _ in range(2):
        assert numbers(UpdateLocator(tmp_path), "t3") == expected
    assert list((tmp_path / "cache" / "annotations-stream-1").glob("*.columns"))
    write(tmp_path, ["t3"], start=60)
    index_of(tmp_path).unlink()
    assert numbers(UpdateLocator(tmp_path), "t3") == [*expected, 60], "what was kept is continued"


@pytest.mark.usefixtures("small_parts")
def test_damaged_and_foreign_caches_are_made_again(tmp_path: Path) -> None:
    write(tmp_path, ["a", "b", "a"])
    assert numbers(UpdateLocator(tmp_path), "a") == [0, 2]
    for path in (tmp_path / "cache").glob("*/*.columns"):
        path.write_bytes(path.read_bytes()[:-9])
    assert numbers(UpdateLocator(tmp_path), "a") == [0, 2]
    other = tmp_path / "again"
    write(other, ["b", "a", "a"])
    (tmp_path / "annotations").rename(tmp_path / "gone")
    (other / "annotations").rename(tmp_path / "annotations")
    assert numbers(UpdateLocator(tmp_path), "a") == [1, 2], "another run in the same place"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=30), max_size=6), st.binary(max_size=80))
def test_index_files_of_any_bytes(tmp_path: Path, lines: list[bytes], end: bytes) -> None:
    if not index_of(tmp_path).exists():
        write(tmp_path, ["a", "b", "a"])
    index_of(tmp_path).write_bytes(b"\n".join([*lines, end]))
    for mapped in (True, False):
        assert numbers(UpdateLocator(tmp_path, mapped=mapped), "a") == [0, 2]


@given(st.lists(st.tuples(st.text(max_size=20), st.sampled_from([None, (",", ":")])), max_size=8), st.integers(0, 9))
def test_ids_of_lines_are_those_the_decoder_finds(rows: list[tuple[str, Any]], offset: int) -> None:
    lines = [
        json.dumps({"trace_id": trace_id, "chunk": 0}, ensure_ascii=bool(n % 2), separators=separators).encode(
            errors="surrogatepass"
        )
        for n, (trace_id, separators) in enumerate(rows)
    ]
    found = LineIds(b"".join(line + b"\n" for line in lines), offset)
    whole = [(line, trace_id) for line, (trace_id, _) in zip(lines, rows, strict=True)]
    assert found.hashes.tolist() == hash_ids([trace_id for _, trace_id in whole]).tolist()
    assert found.strangers == 0
    assert [record_id(line) for line in lines] == [trace_id for _, trace_id in whole]


@given(st.lists(st.lists(st.text(max_size=3), max_size=9), max_size=9))
def test_positions_are_all_found_however_they_were_added(batches: list[list[str]]) -> None:
    import numpy as np

    positions, expected = Positions(), dict[str, list[tuple[int, int]]]()
    offset = 0
    for chunk, batch in enumerate(batches):
        offsets = np.arange(offset, offset + len(batch), dtype=np.uint64)
        positions.add(hash_ids(batch), np.full(len(batch), chunk, np.uint32), offsets)
        for place, text in enumerate(batch, offset):
            expected.setdefault(text, []).append((chunk, place))
        offset += len(batch)
    again = Positions.of(positions.columns())
    assert again is not None
    for text, places in expected.items():
        assert positions.find(text) == again.find(text) == places
    assert positions.find("not there") == []
    assert Positions.of({}) is None


def test_updates_are_counted_without_being_read(tmp_path: Path, mapped: bool) -> None:
    write(tmp_path, ["a", "b", "a"], "trainer")
    write(tmp_path, ["a"], "orch")
    locator = UpdateLocator(tmp_path, mapped=mapped)
    assert locator.count(["a", "b", "nobody"]) == 4 and locator.count([]) == 0
    write(tmp_path, ["b"], "orch")
    assert locator.count(["b"]) == 2
    index_of(tmp_path, "trainer").unlink()
    assert UpdateLocator(tmp_path, mapped=mapped).count(["a"]) == 3, "without an index the stream tells"
