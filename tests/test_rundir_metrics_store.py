"""The store of metrics: the same answers as the simple history, however the file grows and whoever read it before."""

import json
import math
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prl.rundir import cache
from prl.rundir.following import Block
from prl.rundir.metrics import intake, segments, store, stored
from prl.rundir.metrics.reader import MetricsHistory, Point
from prl.rundir.metrics.store import MetricsStore

KEYS = ["a", "b", "c", "perf/mfu", "eval/x/avg@2", "eval/y", "timing/train", "timing/train/x", "loss[delta=1.3]", ""]
NUMBERS = st.sampled_from([0, 1, 2.5, -1, True, 2**63, 10**400, math.nan, math.inf, -math.inf, "NaN", "-Infinity"])
OTHERS = st.sampled_from([None, "text", [], {"a": 1}])
STEPS = st.one_of(st.integers(0, 5), st.sampled_from([None, True, 2.0, 1.5, "3", 2**62 + 1, -(10**400), math.inf]))
TIMES = st.one_of(st.integers(0, 9), st.sampled_from([None, "soon", math.nan, 3.5]))
FIELDS = {"step": STEPS, "time": TIMES, "producer": st.sampled_from(["orch", "trainer", "", None, 7])}
ROWS = st.builds(
    lambda fields, values: json.dumps({**fields, **values}).encode(),
    st.fixed_dictionaries({}, optional=FIELDS),
    st.dictionaries(st.sampled_from(KEYS), st.one_of(NUMBERS, NUMBERS, OTHERS), max_size=5),
)
BAD_LINES = st.sampled_from([b"", b" ", b"\0" * 9, b'{"a": 1', b"[1]", b'{"caf\xe9": 1}', '{"\u2028": 1}'.encode()])
LINES = st.lists(st.one_of(ROWS, ROWS, ROWS, ROWS, BAD_LINES), max_size=30).map(lambda lines: b"\n".join([*lines, b""]))


@pytest.fixture(autouse=True)
def small_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that happens to large files happens to small ones: merging, keeping, forgetting layouts."""
    monkeypatch.setenv("PRL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(segments, "FAN_IN", 2)
    monkeypatch.setattr(intake, "_MAX_LAYOUTS", 3)
    monkeypatch.setattr(store, "_SAVE_BYTES", 1)
    monkeypatch.setattr(store, "_SPILL_POINTS", 30)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield tmp_path_factory.mktemp("store")


def write(path: Path, *rows: object) -> Path:
    with path.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def close(points: list[Point]) -> list[tuple[int | None, float | None, str]]:
    """Points that compare equal when they are the same, NaN too."""
    return [(point.step, point.time, repr(float(point.value))) for point in points]


def points_of(data: store.SeriesData) -> list[Point]:
    return [
        Point(None if math.isnan(step) else int(step), None if math.isnan(time) else time, value)
        for step, time, value in zip(data.steps.tolist(), data.times.tolist(), data.y.tolist(), strict=True)
    ]


def assert_same(found: MetricsStore, history: MetricsHistory) -> None:
    assert found.rows == history.rows
    assert found.last_time == history.last_time
    assert found.damage == history.damage
    assert found.names() == history.names()
    for producer, key in history.names():
        points = history.series(producer, key)
        stepped = [point for point in points if point.step is not None]
        on_steps, on_time = found.series(producer, key), found.series(producer, key, axis="time")
        if stepped or not points:
            assert on_steps.axis == "step"
            assert close(points_of(on_steps)) == close(stepped)
            assert on_steps.x.tolist() == [point.step for point in stepped]
        timed = sorted((point for point in points if point.time is not None), key=lambda point: point.time or 0)
        assert sorted(close(points_of(on_time)), key=repr) == sorted(close(timed), key=repr)
        assert on_time.x.tolist() == [point.time for point in timed]
        old = history.superseded(producer, key)
        assert close(points_of(found.superseded(producer, key))) == close(old)
        assert found.extent(producer, key) == store.Extent(len(stepped), len(points) - len(stepped), len(old))
    for producer in ("orch", "trainer", "", "nobody"):
        assert found.last_step(producer) == history.last_step(producer)
        for step in range(6):
            wanted = {key: repr(float(value)) for key, value in history.step_row(producer, step).items()}
            assert {key: repr(value) for key, value in found.step_row(producer, step).items()} == wanted
    for writer in (None, "orch", "trainer", "nobody"):
        last, wanted_last = found.last_values(writer), history.last_values(writer)
        assert {name: close([point]) for name, point in last.items()} == {
            name: close([point]) for name, point in wanted_last.items()
        }


@settings(max_examples=100, deadline=None)
@given(
    parts=st.lists(
        st.tuples(LINES, st.integers(1, 400), st.booleans(), st.sampled_from([False] * 5 + [True])), max_size=6
    ),
    cached=st.booleans(),
)
def test_the_store_answers_as_the_history(work: Path, parts: list[tuple[bytes, int, bool, bool]], cached: bool) -> None:
    path = Path(tempfile.mkdtemp(dir=work)) / "metrics.jsonl"
    found = MetricsStore(path, cached=cached)
    for lines, piece, another, replaced in parts:
        if replaced:
            path.unlink(missing_ok=True)
        with path.open("ab") as file:
            file.write(lines)
        if another:
            found = MetricsStore(path, cached=cached)
        while not found.refresh(piece):
            pass
        history = MetricsHistory(path)
        history.refresh()
        assert_same(found, history)


@settings(max_examples=250, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 6), st.sets(st.sampled_from(["a", "b", "c", "d", "eval/e"]), min_size=1, max_size=2)),
        max_size=40,
    ),
    piece=st.integers(30, 900),
    other=st.integers(0, 40),
)
def test_a_producer_may_go_back_as_it_likes(
    work: Path, rows: list[tuple[int, set[str]]], piece: int, other: int
) -> None:
    path = Path(tempfile.mkdtemp(dir=work)) / "metrics.jsonl"
    found, history = MetricsStore(path), MetricsHistory(path)
    for index, (step, keys) in enumerate(rows):
        write(path, {"step": step, "time": index, **dict.fromkeys(sorted(keys), index), "producer": "orch"})
        if index == other:
            found.refresh(piece)
            found = MetricsStore(path)
    while not found.refresh(piece):
        pass
    history.refresh()
    assert_same(found, history)


@settings(deadline=None)
@given(data=st.binary(max_size=300).map(lambda data: data.replace(b"x", b"\n").replace(b"y", b'{"step":1,"a":2}')))
def test_any_bytes_are_read_as_far_as_they_go(work: Path, data: bytes) -> None:
    path = Path(tempfile.mkdtemp(dir=work)) / "metrics.jsonl"
    path.write_bytes(data)
    history = MetricsHistory(path)
    history.refresh()
    assert_same(read(path), history)


def row(step: int | None, time: float, producer: str = "orch", **values: float) -> dict[str, Any]:
    return {"step": step, "time": time, **values, "producer": producer}


def read(path: Path, **options: bool) -> MetricsStore:
    found = MetricsStore(path, **options)
    assert found.refresh()
    return found


def test_a_torn_last_line_is_not_complete_yet(tmp_path: Path) -> None:
    path = write(tmp_path / "m.jsonl", row(1, 1, a=1), row(2, 2, a=2))
    with path.open("ab") as file:
        file.write(b'{"step": 3, "a": 0.4')
    found = read(path)
    assert (found.rows, found.damage.lines, found.pending_bytes) == (2, 0, 20)
    with path.open("ab") as file:
        file.write(b', "producer": "orch"}\n')
    found.refresh()
    assert found.series("orch", "a").y.tolist() == [1, 2, 0.4]


@pytest.mark.parametrize(("end", "rows", "damaged"), [(b'{"step": 3, "a": 3}', 3, 0), (b'{"step": 3, "a": 0.', 2, 1)])
def test_a_last_line_is_taken_when_its_writer_is_gone(tmp_path: Path, end: bytes, rows: int, damaged: int) -> None:
    path = write(tmp_path / "m.jsonl", row(1, 1, a=1), row(2, 2, a=2))
    with path.open("ab") as file:
        file.write(end)
    found = read(path)
    assert found.rows == 2, "it may still be growing"
    found.finish()
    assert (found.rows, found.damage.lines) == (rows, damaged)


def test_bad_lines_cost_nothing_but_themselves(tmp_path: Path) -> None:
    path = write(tmp_path / "m.jsonl", row(1, 1, a=1))
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"\0" * 64 + b"\n" + b'{"step": 2, "a": 2, "caf\xe9": 1}\n')
        file.write('{"step": 3, "a": 3, "x": "\u2028"}\n'.encode())
    found = read(path)
    assert found.series("orch", "a").y.tolist() == [1, 2, 3]
    assert (found.damage.lines, found.damage.first_offset, found.damage.replaced) == (1, size, 1)
    assert found.damage.sample.startswith("\\x00")
    assert ("orch", "caf\ufffd") in found.names()


def test_what_is_not_finite_is_a_value(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(
        b'{"step": 1, "loss": NaN, "adv": -Infinity}\n{"step": 2, "loss": "NaN", "adv": "-Infinity"}\n'
        b'{"step": 3, "loss": null, "adv": 1}\n{"step": 4, "loss": 0.5, "adv": "wide"}\n{"step": 5, "adv": [1]}\n'
    )
    found = read(path)
    loss, adv = found.series("orch", "loss"), found.series("orch", "adv")
    assert [str(value) for value in loss.y.tolist()] == ["nan", "nan", "0.5"], "null is no value"
    assert loss.steps.tolist() == [1, 2, 4]
    assert adv.y.tolist() == [-math.inf, -math.inf, 1]
    assert found.drift == {"adv": 2}


def test_rows_without_a_step_have_their_own_axis(tmp_path: Path) -> None:
    path = write(tmp_path / "m.jsonl", row(1, 10, a=1), row(None, 42.5, inflight=40), row(2, 50, a=2, inflight=3))
    found = read(path)
    assert found.series("orch", "a").x.tolist() == [1, 2]
    assert found.series("orch", "inflight").x.tolist() == [2], "never drawn at step 0"
    both = found.series("orch", "inflight", axis="time")
    assert (both.axis, both.x.tolist(), both.y.tolist()) == ("time", [42.5, 50], [40, 3])
    write(path, row(None, 60, queued=1))
    found.refresh()
    assert (found.series("orch", "queued").axis, found.series("orch", "queued").x.tolist()) == ("time", [60])


def test_the_same_key_of_two_producers_is_two_series(tmp_path: Path) -> None:
    key = "time/step"
    rows = row(7, 1, "trainer", **{key: 30}), row(9, 2, **{key: 12}), row(8, 3, "trainer", **{key: 31})
    found = read(write(tmp_path / "m.jsonl", *rows))
    assert found.series("trainer", key).y.tolist() == [30, 31]
    assert found.series("orch", key).y.tolist() == [12]


def test_a_window_and_fewer_points(tmp_path: Path) -> None:
    path = write(tmp_path / "m.jsonl", *(row(step, 10 * step, a=step % 100) for step in range(5000)))
    write(path, {"step": 5000, "time": 50_000, "a": "NaN", "producer": "orch"})
    found = read(path)
    part = found.series("orch", "a", start=10, end=12)
    assert (part.x.tolist(), part.total) == ([10, 11, 12], 3)
    assert found.series("orch", "a", axis="time", start=49_990).x.tolist() == [49_990, 50_000]
    few = found.many([("orch", "a"), ("orch", "b")], points=100)
    assert len(few["orch", "b"].x) == 0
    data = few["orch", "a"]
    assert (data.total, 50 < len(data.x) <= 102, np.isnan(data.y[-1])) == (5001, True, True)
    assert (np.nanmin(data.y), np.nanmax(data.y)) == (0, 99)


def test_thousands_of_sparse_series_take_memory_by_point(tmp_path: Path) -> None:
    sparse = [{f"k{(step * 7 + n * 50) % 4000}": n for n in range(80)} for step in range(500)]
    path = write(tmp_path / "m.jsonl", *(row(step, step, **values) for step, values in enumerate(sparse)))
    found = read(path, cached=False)
    held = sum(array.nbytes for part in found._columns.segments.segments for array in (part.rows, part.values))
    assert len(found.names()) > 3000
    assert held == 500 * 80 * 12


@pytest.mark.parametrize("kind", ["absent", "directory", "pipe", "empty"])
def test_no_metrics_yet(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "metrics.jsonl"
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "empty":
        path.touch()
    found = read(path)
    assert (found.rows, found.names(), found.last_values(), found.absent) == (0, [], {}, kind == "absent")
    assert (found.trouble is not None) == (kind in ("directory", "pipe"))
    assert found.tail().rows == []
    assert len(found.newest().names()) == 0


def test_a_newer_schema_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    found = read(write(tmp_path / "m.jsonl", {"schema_version": 99, "kind": "metric", "data": {}}))
    assert (found.names(), found.drift, found.schema_version) == ([], {"kind": 1, "data": 1}, 99)


def test_the_newest_rows_of_a_long_file(tmp_path: Path) -> None:
    path = write(tmp_path / "m.jsonl", *(row(step, step, a=step) for step in range(30)))
    found = MetricsStore(path)
    newest = found.newest(3)
    assert (newest.series("orch", "a").y.tolist(), newest.whole, newest.complete) == ([27, 28, 29], False, True)
    whole = found.newest(30)
    assert (whole.rows, found.newest(2000).whole, found.rows) == (30, True, 0)
    write(path, row(30, 30, a=30))
    newest.refresh()
    assert newest.rows == 4
    path.unlink()
    write(path, row(1, 1, a=1))
    newest.refresh()
    assert (newest.rows, newest.whole) == (1, True)


def test_a_read_may_be_bounded_and_says_when_something_changed(tmp_path: Path) -> None:
    path = write(tmp_path / "m.jsonl", *(row(step, step, a=step) for step in range(100)))
    found = MetricsStore(path)
    assert not found.refresh(200)
    assert 0 < found.rows < 100
    assert found.refresh()
    version = found.version
    assert found.refresh()
    assert found.version == version
    write(path, row(100, 100, a=1))
    found.refresh()
    assert found.version > version


def test_another_process_goes_on_where_the_first_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "m.jsonl", *(row(step, step, a=step) for step in range(50)))
    read(path)
    write(path, row(20, 60, a=0.5))
    sizes: list[int] = []
    add = intake.Columns.add

    def counted(columns: intake.Columns, block: Block) -> None:
        sizes.append(len(block.data))
        add(columns, block)

    monkeypatch.setattr(intake.Columns, "add", counted)
    found = read(path)
    assert sizes == [len(path.read_bytes().splitlines()[-1]) + 1]
    assert found.series("orch", "a").y.tolist() == [*range(20), 0.5]
    assert found.superseded("orch", "a").y.tolist() == list(range(20, 50))
    assert found.tail(limit=1).rows[0].supersedes


def test_a_cache_that_is_damaged_or_foreign_is_made_again(tmp_path: Path) -> None:
    path = write(tmp_path / "m.jsonl", *(row(step, step, a=step, b=1) for step in range(50)))
    read(path)
    kept = cache.cache_path(path, stored.KIND)
    whole = cache.load(kept)
    assert whole is not None
    for name in whole.columns:
        for changed in (whole.columns[name][:-1], whole.columns[name].astype(np.float32)):
            cache.save(kept, whole.meta, {**whole.columns, name: changed})
            assert read(path).series("orch", "a").y.tolist() == list(range(50))
    for name in whole.meta:
        cache.save(kept, {**whole.meta, name: None}, whole.columns)
        assert read(path).series("orch", "b").total == 50
    cache.save(kept, whole.meta, {**whole.columns, "0 rows": whole.columns["0 rows"] + 50})
    assert read(path).last_step("orch") == 49


def test_what_is_too_much_for_memory_goes_to_the_cache_while_the_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_SAVE_BYTES", 2**40)
    monkeypatch.setattr(store, "READ_BLOCK", 500)
    monkeypatch.setattr(segments, "FAN_IN", 1000)
    path = write(tmp_path / "m.jsonl", *(row(step, step, a=step) for step in range(200)))
    found = read(path)
    assert found.series("orch", "a").y.tolist() == list(range(200))
    kept = stored.load(path)
    assert kept is not None
    assert 0 < kept[1].offset < path.stat().st_size
    assert any(isinstance(part.values.base, np.memmap) for part in found._columns.segments.segments)


def test_without_a_cache_directory_everything_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PRL_CACHE_DIR", str(tmp_path / "file" / "below"))
    path = write(tmp_path / "m.jsonl", row(1, 1, a=1))
    assert read(path).series("orch", "a").y.tolist() == [1]


def test_nothing_is_written_beside_the_metrics(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    read(write(run / "metrics.jsonl", row(1, 1, a=1)))
    assert [path.name for path in run.iterdir()] == ["metrics.jsonl"]
