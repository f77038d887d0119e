"""The episode table: filters, orders, pages, summaries and values; how it grows; what it makes of derived files that
are absent, short, long or foreign; bad rows.
"""

import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prl.rundir import jsonl
from prl.rundir.annotations.writer import AnnotationWriter
from prl.rundir.chunks import Sealer, seal
from prl.rundir.episodes import gaps
from prl.rundir.episodes import stream as stream_module
from prl.rundir.episodes import table as table_module
from prl.rundir.episodes.filters import Filters
from prl.rundir.episodes.store import Points
from prl.rundir.episodes.table import EpisodeTable
from prl.rundir.episodes.writer import EpisodeWriter
from sample_episodes import make_episode, make_failure, make_trace

INDEX, VALUES = "stream.index.jsonl", "stream.values.jsonl"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRL_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records without a row are seen at once; the test of the waiting itself sets its own."""
    monkeypatch.setattr(stream_module, "GRACE", -1.0)


def traces_of(tmp_path: Path) -> Path:
    traces = tmp_path / "run" / "monitors" / "file" / "traces"
    traces.mkdir(parents=True, exist_ok=True)
    return traces


def episode(number: int, **changes: Any) -> dict[str, Any]:
    """Episode ``e<number>``: four to a group of one task, alternately of two environments, rewards ascending."""
    record = make_episode(f"e{number}", score=changes.pop("score", number / 10))
    trace = record["traces"][0]
    record["env"] = {"id": "words", "name": ("wordle", "gsm")[number % 2]}
    record["group"] = {"id": f"g{number // 4}"}
    record["task"] = {"type": "WordTask", "key": f"w-{number // 4}", "hash": None, "data": {}}
    trace["info"]["dispatch"] = {"step": number // 2, "time": 1000.0 + number}
    trace["info"]["arrival"] = {"step": number // 2 + 1, "time": 2000.0 + 10 * number}
    return {**record, **changes}


def write(traces: Path, numbers: Iterator[int] | range, *, clean: bool = False, chunk_bytes: int = 10_000) -> None:
    sealer = Sealer(traces / ".sealing") if clean else None
    writer = EpisodeWriter(traces, chunk_bytes=chunk_bytes, sealer=sealer)
    for number in numbers:
        writer.append(episode(number))
    writer.close(clean=clean)
    if sealer is not None:
        assert sealer.close(10)


def ship(traces: Path, *updates: tuple[str, dict[str, Any]], producer: str = "orch") -> None:
    writer = AnnotationWriter(traces, producer, chunk_bytes=10_000)
    for trace_id, info in updates:
        writer.append({"trace_id": trace_id, "info": info, "branches": []})
    writer.close(clean=False)


def opened(traces: Path, **options: Any) -> EpisodeTable:
    table = EpisodeTable(traces, **options)
    table.refresh()
    return table


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["id"] for row in rows]


def everything(table: EpisodeTable) -> list[dict[str, Any]]:
    return table.page(sort="line", descending=False, limit=1000).rows


def rewrite(path: Path, change: Any) -> None:
    """Change the rows of a file: ``change(number, row)`` gives the row, or bytes in its place."""
    lines = path.read_bytes().splitlines()
    changed = [change(number, json.loads(line)) for number, line in enumerate(lines)]
    path.write_bytes(b"".join(row if isinstance(row, bytes) else jsonl.encode(row) for row in changed))


# --- what it says -----------------------------------------------------------------------------------------------


def test_row_of_an_episode(tmp_path: Path) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(3))
    ship(traces, ("t-e1", {"effective": True, "ship": {"step": 7, "time": 3000.0}}))
    table = opened(traces)
    row = table.row("e1")
    assert row is not None
    index = json.loads((traces / INDEX).read_bytes().splitlines()[1])
    assert {name: row[name] for name in index} == index, "every field of the index row"
    others = {name: value for name, value in row.items() if name not in index}
    assert others == {
        "row": 1,
        "ship_step": 7,
        "effective": True,
        "task": "w-0",
        "agents": ["agent"],
        "dispatch_step": 0,
        "arrival_step": 1,
        "policy_start": 11,
        "policy_end": 12,
    }
    assert row == table.row(trace_id="t-e1") == table.row(line=2) == table.place_row(row["chunk"], row["offset"])
    assert table.row("e9") is None and table.row(trace_id="t-e9") is None and table.row(line=99) is None


def test_unknown_is_not_zero(tmp_path: Path) -> None:
    traces = traces_of(tmp_path)
    writer = EpisodeWriter(traces, chunk_bytes=10_000)
    writer.append(make_failure())
    writer.append(episode(1, score=None))
    writer.close(clean=False)
    failed, unscored = everything(opened(traces))
    assert (failed["reward"], failed["arrival"], failed["agents"], failed["ok"]) == (None, None, None, False)
    assert (failed["dispatch_step"], failed["task"]) == (12, "w-17"), "the step of the work it was sent out for"
    assert (unscored["reward"], unscored["ship_step"], unscored["effective"]) == (None, None, None)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (Filters(), range(12)),
        (Filters(env="gsm"), range(1, 12, 2)),
        (Filters(env=("gsm", "wordle")), range(12)),
        (Filters(env="chess"), []),
        (Filters(kind="train"), range(12)),
        (Filters(group="g1"), range(4, 8)),
        (Filters(task=("w-0", "w-2")), [*range(4), *range(8, 12)]),
        (Filters(agent="agent"), range(12)),
        (Filters(agent="judge"), []),
        (Filters(reward_min=0.5, reward_max=0.7), [5, 6, 7]),
        (Filters(since=2050.0, until=2060.0), [5, 6]),
        (Filters(dispatch_step=2), [4, 5]),
        (Filters(dispatch_step=(4, None)), range(8, 12)),
        (Filters(ship_step=3), [1]),
        (Filters(ship_step=(None, 9)), [1, 2]),
        (Filters(effective=False), [4]),
        (Filters(truncated=True), []),
        (Filters(outcome="ok", stop_condition="agent_completed"), range(12)),
        (Filters(outcome=("error", "timeout", "truncated")), []),
    ],
)
def test_filters(tmp_path: Path, filters: Filters, expected: list[int]) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(12))
    ship(
        traces,
        ("t-e1", {"effective": True, "ship": {"step": 3}}),
        ("t-e2", {"effective": True, "ship": {"step": 9}}),
        ("t-e4", {"effective": False, "ship": {"step": 4}}),
    )
    table = opened(traces)
    page = table.page(filters, sort="line", descending=False)
    assert ids(page.rows) == [f"e{number}" for number in expected]
    assert page.total == len(page.rows) == len(table.select(filters))


def test_step_is_the_smallest_that_calls_it_effective(tmp_path: Path) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(1))
    ship(
        traces,
        ("t-e0", {"effective": False, "ship": {"step": 1}}),
        ("t-e0", {"effective": True, "ship": {"step": 6}}),
        ("t-e0", {"effective": True, "ship": {"step": 5}}),
    )
    ship(traces, ("t-e0", {}), producer="trainer")
    table = opened(traces)
    assert table.column("ship_step").tolist() == [5]
    ship(traces, ("t-e0", {"effective": True, "ship": {"step": 4}}), producer="other")
    assert table.refresh()
    assert table.column("ship_step").tolist() == [4]


def test_advantage_is_the_mean_of_what_was_told_last_of_each_trace(tmp_path: Path) -> None:
    """The index row is written before a group is scored: what it lacks, the update of the ship has."""
    traces = traces_of(tmp_path)
    pair = make_trace("t-b")
    pair["info"]["advantage"] = 9.0
    writer = EpisodeWriter(traces, chunk_bytes=10_000)
    writer.append(episode(0))
    writer.append(episode(1, traces=[make_trace("t-a"), pair]))
    writer.append(episode(2))
    writer.close(clean=False)
    assert [row["advantage"] for row in everything(opened(traces))] == [None, 9.0, None], "as it was recorded"
    told = [("t-e0", 0.5), ("t-a", 3.0), ("t-b", -1.0), ("t-e0", -0.25), ("t-later", 2.0), ("t-e2", None)]
    ship(traces, *((name, {"effective": True, "advantage": value}) for name, value in told))
    table = opened(traces)
    assert [row["advantage"] for row in everything(table)] == [-0.25, 1.0, None]
    assert table.values(names=["advantage"])["advantage"][:2].tolist() == [-0.25, 1.0]
    assert ids(table.page(sort="advantage").rows) == ["e1", "e0", "e2"]
    ship(traces, ("t-b", {"advantage": 5.0}))
    write_one = EpisodeWriter(traces, chunk_bytes=10_000)
    write_one.append(episode(3, traces=[make_trace("t-later")]))
    write_one.close(clean=False)
    table.refresh()
    assert [row["advantage"] for row in everything(table)] == [-0.25, 4.0, None, 2.0]
    assert ids(table.page(sort="advantage").rows) == ["e1", "e3", "e0", "e2"]
    index = traces / "annotations" / "orch.index.jsonl"
    shutil.rmtree(traces / "annotations" / "orch")
    index.unlink()
    ship(traces, ("t-a", {"advantage": 1.0}))
    table.refresh()
    assert [row["advantage"] for row in everything(table)] == [None, 1.0, None, None], "another file tells of others"


def test_update_that_comes_before_its_row_waits(tmp_path: Path) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(1))
    ship(traces, ("t-e1", {"effective": True, "ship": {"step": 2}}))
    table = opened(traces)
    write(traces, range(1, 2))
    table.refresh()
    assert table.column("ship_step").tolist() == [-1, 2]


def test_orders_with_what_is_unknown_last(tmp_path: Path) -> None:
    traces = traces_of(tmp_path)
    writer = EpisodeWriter(traces, chunk_bytes=100_000)
    for number, score in enumerate([0.5, None, 0.25, 0.5]):
        writer.append(episode(number, score=score))
    writer.close(clean=False)
    table = opened(traces)
    assert ids(table.page(sort="reward", descending=False).rows) == ["e2", "e0", "e3", "e1"]
    assert ids(table.page(sort="reward").rows) == ["e3", "e0", "e2", "e1"]
    assert ids(table.page(sort="env").rows) == ["e2", "e0", "e3", "e1"], "by text: wordle before gsm"
    assert ids(table.page().rows) == ["e3", "e2", "e1", "e0"], "newest first"


@pytest.mark.parametrize("column", ["reward", "group", "ship_step", "arrival"])
def test_order_grows_as_if_made_anew(tmp_path: Path, column: str) -> None:
    traces = traces_of(tmp_path)
    table = EpisodeTable(traces)
    scores = [0.5, 0.1, 0.9, None, 0.3, 0.5, 0.7, 0.1]
    for number, score in enumerate(scores):
        writer = EpisodeWriter(traces, chunk_bytes=100_000)
        writer.append(episode(number, score=score))
        writer.close(clean=False)
        ship(traces, (f"t-e{number}", {"effective": True, "ship": {"step": 20 - number}}))
        table.refresh()
        grown = table.page(sort=column)
        assert grown == opened(traces, cached=False).page(sort=column)


def test_pages_do_not_shift_while_the_run_grows(tmp_path: Path) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(6))
    table = opened(traces)
    first = table.page(limit=3)
    write(traces, range(6, 9))
    table.refresh()
    second = table.page(limit=3, offset=3, upto=first.upto)
    assert ids(first.rows + second.rows) == [f"e{number}" for number in (5, 4, 3, 2, 1, 0)]
    assert (second.total, second.upto) == (6, 6)
    assert table.page(limit=0).total == 9


@pytest.mark.parametrize("sort", ["nothing", "at", "key"])
def test_what_cannot_be_answered_says_so(tmp_path: Path, sort: str) -> None:
    table = EpisodeTable(traces_of(tmp_path))
    with pytest.raises(ValueError, match="there are"):
        table.page(sort=sort)
    with pytest.raises(ValueError, match="there are"):
        table.histogram(by=sort)
    with pytest.raises(ValueError, match="no outcome 'bad': there are ok"):
        table.page(Filters(outcome="bad"))
    with pytest.raises(ValueError, match="offset -1"):
        table.page(offset=-1)
    with pytest.raises(ValueError, match="0 bins"):
        table.histogram(bins=0)


def test_histogram(tmp_path: Path) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(12))
    table = opened(traces)
    by_reward = table.histogram(by="reward", bins=6)
    assert (by_reward.start, by_reward.width) == (0.0, 0.2)
    assert sum(by_reward.counts) == by_reward.total == 12
    by_time = table.histogram(bins=12)
    assert (by_time.start, by_time.width) == (2000.0, 10.0), "a width that clocks have"
    assert by_time.counts == [1] * 12 and by_time.errors == [0] * 12
    assert table.histogram(Filters(env="gsm"), by="dispatch_step").total == 6
    assert table.histogram(Filters(env="chess")).counts == []


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-1e299, 1e299), min_size=1, max_size=20), st.integers(1, 500))
def test_histogram_has_every_value_in_one_of_its_bins(values: list[float], bins: int) -> None:
    from prl.rundir.episodes.facets import histogram
    from prl.rundir.episodes.store import EpisodeColumns

    store = EpisodeColumns()
    store.append([{"reward": value} for value in values], list(range(len(values))))
    made = histogram(store, Filters(), by="reward", bins=bins, upto=None)
    assert sum(made.counts) == len(values)
    assert len(made.counts) <= bins


def test_facets_leave_a_columns_own_condition_aside(tmp_path: Path) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(6))
    ship(traces, ("t-e1", {"effective": True, "ship": {"step": 3}}))
    counted = opened(traces).facets(Filters(env="gsm"))
    assert counted["env"] == {"wordle": 3, "gsm": 3}
    assert counted["kind"] == {"train": 3}
    assert counted["agent"] == {"agent": 3}
    assert counted["outcome"] == {"ok": 3, "error": 0, "timeout": 0, "truncated": 0}
    assert counted["effective"] == {"true": 1, "false": 0, "unknown": 2}


def test_groups_and_the_same_task_at_other_steps(tmp_path: Path) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(8))
    ship(traces, *((f"t-e{n}", {"effective": True, "ship": {"step": n // 2 + 1}}) for n in range(8)))
    table = opened(traces)
    found, total = table.groups(Filters(env="gsm"))
    assert total == 2
    newest = found[0]
    assert (newest.env, newest.name, newest.count, newest.ok) == ("gsm", "g1", 2, 2)
    assert (newest.reward_mean, newest.reward_min, newest.reward_max) == (pytest.approx(0.6), 0.5, 0.7)
    assert table.rows([newest.first_row])[0]["id"] == "e5"
    assert [group.name for group in table.groups(by="task", limit=1)[0]] == ["w-1"]
    steps, _ = table.same_task("w-1", env="wordle")
    assert [(group.step, group.count, group.reward_mean) for group in steps] == [(3, 1, 0.4), (4, 1, 0.6)]
    assert table.same_task("w-9") == ([], 0)


def test_values_by_name(tmp_path: Path) -> None:
    traces = traces_of(tmp_path)
    writer = EpisodeWriter(traces, chunk_bytes=100_000)
    pair = episode(0)
    pair["traces"].append(
        {**pair["traces"][0], "id": "t-second", "agent": {"name": "judge"}, "metrics": {"guesses": 4.0}}
    )
    writer.append(pair)
    writer.append(episode(1, score=None))
    writer.append(make_failure())
    writer.close(clean=False)
    values = opened(traces).values()
    assert values["line"].tolist() == [1, 2, 3]
    assert values["metrics/guesses"][:2].tolist() == [3.0, 2.0], "the mean over the traces of an episode"
    assert np.isnan(values["metrics/guesses"][2])
    assert np.isnan(values["rewards/win"][1:]).all(), "scoring did not reach it: nothing is known"
    assert values["timing/agent/model"][0] == 0.75
    assert values["ok"].tolist() == [1.0, 1.0, 0.0]
    only = opened(traces).values(names=["metrics/guesses", "reward"], agent="judge", upto=2)
    assert only["metrics/guesses"][0] == 4.0 and sorted(only) == ["line", "metrics/guesses", "reward"]
    assert opened(traces).values(after=2)["line"].tolist() == [3]
    assert set(opened(traces).values()) - {"line"} <= set(opened(traces).value_names())
    assert "metrics/guesses" not in opened(traces).values(agent="nobody")


def test_names_beyond_the_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prl.rundir.episodes.store.MAX_NAMES", 3)
    points = Points()
    points.extend([0], [[{"reward": 1.0, "metrics": {"a": 1.0, "b": 2.0, "c": 3.0}}]])
    assert points.left_out == 1
    assert points.columns["value"].view().tolist() == [1.0, 1.0, 2.0]


# --- how it grows -----------------------------------------------------------------------------------------------


def test_grows_with_the_run(tmp_path: Path) -> None:
    traces = traces_of(tmp_path)
    table = EpisodeTable(traces)
    assert not table.refresh() and table.count == 0 and table.page().rows == []
    for start in range(0, 9, 3):
        write(traces, range(start, start + 3))
        before = table.version
        assert table.refresh() and table.version > before
    assert not table.refresh()
    assert ids(everything(table)) == [f"e{number}" for number in range(9)]
    assert everything(table) == everything(opened(traces, cached=False))


def test_reading_is_bounded_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prl.rundir.following.Follower.poll.__defaults__", (700,))
    traces = traces_of(tmp_path)
    write(traces, range(9))
    ship(traces, ("t-e8", {"effective": True, "ship": {"step": 1}}))
    table, seen = EpisodeTable(traces), []
    table.refresh(max_bytes=700, progress=lambda done, total: seen.append((done, total)))
    assert 0 < table.count < 9 and not table.at_end
    rounds = 0
    while not table.at_end:
        table.refresh(max_bytes=700)
        rounds += 1
        assert rounds < 100
    assert everything(table) == everything(opened(traces, cached=False))
    assert seen and all(0 <= done <= total for done, total in seen)


@pytest.mark.parametrize("held", [0, 1 << 30])
def test_a_cache_makes_the_same_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    monkeypatch.setattr(table_module, "_SAVE_BYTES", 0)
    monkeypatch.setattr(table_module, "_HELD_BYTES", held)
    monkeypatch.setattr(table_module, "_HELD_READ", held)
    traces = traces_of(tmp_path)
    write(traces, range(7))
    ship(traces, ("t-e5", {"effective": True, "ship": {"step": 2}}), ("t-e8", {"effective": True, "ship": {"step": 3}}))
    opened(traces)
    assert list((tmp_path / "cache").glob("*/*.columns"))
    again = EpisodeTable(traces)
    assert again.count == 7, "mapped, before anything was read"
    write(traces, range(7, 9))
    again.refresh()
    assert everything(again) == everything(opened(traces, cached=False))
    values, expected = again.values(), opened(traces, cached=False).values()
    assert {name: column.tolist() for name, column in values.items()}.__repr__() == {
        name: column.tolist() for name, column in expected.items()
    }.__repr__()


@pytest.mark.parametrize("lost", [9, 10_000_000])
def test_a_damaged_cache_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: int) -> None:
    monkeypatch.setattr(table_module, "_SAVE_BYTES", 0)
    traces = traces_of(tmp_path)
    write(traces, range(3))
    expected = everything(opened(traces))
    for path in (tmp_path / "cache").glob("*/*.columns"):
        path.write_bytes(path.read_bytes()[:-lost])
    assert everything(opened(traces)) == expected


def test_works_where_no_cache_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "_HELD_BYTES", 0)
    monkeypatch.setattr(table_module, "_HELD_READ", 0)
    monkeypatch.setenv("PRL_CACHE_DIR", "/dev/null/cache")
    traces = traces_of(tmp_path)
    write(traces, range(3))
    assert opened(traces).count == 3


def test_nothing_is_written_in_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "_SAVE_BYTES", 0)
    traces = traces_of(tmp_path)
    write(traces, range(5), clean=True)
    (traces / INDEX).unlink()
    (traces / VALUES).unlink()
    before = {path: path.stat().st_mtime_ns for path in sorted((tmp_path / "run").rglob("*"))}
    table = opened(traces)
    table.make_values()
    assert {path: path.stat().st_mtime_ns for path in sorted((tmp_path / "run").rglob("*"))} == before


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_index_cut_at_any_byte_and_grown_again_gives_the_same_table(tmp_path: Path, data: st.DataObject) -> None:
    shutil.rmtree(tmp_path / "run", ignore_errors=True)
    traces = traces_of(tmp_path)
    write(traces, range(4))
    expected = everything(opened(traces, cached=False))
    whole = {name: (traces / name).read_bytes() for name in (INDEX, VALUES)}
    cuts = {name: sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=3))) for name, raw in whole.items()}
    table = EpisodeTable(traces, cached=False)
    for step in range(4):
        for name, raw in whole.items():
            (traces / name).write_bytes(raw[: [*cuts[name], *[len(raw)] * 4][step]])
        if data.draw(st.booleans()):
            table.refresh()
    for name, raw in whole.items():
        (traces / name).write_bytes(raw)
    table.refresh()
    table.make_values()
    assert everything(table) == expected


JUNK = [b"{}", b"[]", b"\0" * 64, b"null", b'{"id":', b'{"id":"e1"}', b'{"trace_id":"t-e1","info":{"effective":1}}']


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(st.binary(max_size=60), st.sampled_from([b"{}", b"[]", b"\0" * 64, b"null", b'{"id":'])), max_size=6
    )
)
def test_no_byte_string_costs_a_good_row(tmp_path: Path, junk: list[bytes]) -> None:
    shutil.rmtree(tmp_path / "run", ignore_errors=True)
    traces = traces_of(tmp_path)
    write(traces, range(2))
    ship(traces, ("t-e1", {"effective": True, "ship": {"step": 2}}))
    for name in (INDEX, VALUES, "annotations/orch.index.jsonl"):
        first, *rest = (traces / name).read_bytes().splitlines(keepends=True)
        (traces / name).write_bytes(
            first + b"".join(line.replace(b"\n", b"") + b"\n" for line in junk) + b"".join(rest)
        )
    table = opened(traces, cached=False)
    rows = {(row["id"], row["offset"]): row for row in everything(table)}
    good = [row for row in rows.values() if row["reward"] is not None]
    assert [(row["id"], row["reward"], row["ship_step"]) for row in good] == [("e0", 0.0, None), ("e1", 0.1, 2)]


def test_reads_while_another_writes_and_seals(tmp_path: Path) -> None:
    traces = traces_of(tmp_path)
    last = 60

    def work() -> None:
        sealer = Sealer(traces / ".sealing")
        writer = EpisodeWriter(traces, chunk_bytes=6_000, sealer=sealer)
        for number in range(last):
            writer.append(episode(number))
            ship(traces, (f"t-e{number}", {"effective": True, "ship": {"step": number}}), producer=f"p{number % 2}")
        writer.close(clean=True)
        sealer.close(20)

    writing = threading.Thread(target=work)
    writing.start()
    tables = [EpisodeTable(traces, cached=False), EpisodeTable(traces, cached=False)]
    end = time.monotonic() + 30
    while writing.is_alive() or any(table.count < last for table in tables):
        for table in tables:
            count = table.count
            table.refresh()
            assert table.count >= count and table.version[0] == 0
            assert ids(table.page(limit=1, sort="line").rows) == ([f"e{table.count - 1}"] if table.count else [])
        assert time.monotonic() < end
    writing.join()
    for table in tables:
        table.refresh()
        assert table.column("ship_step").tolist() == list(range(last))
        assert table.values_missing == 0 and not any(found.lines for found in table.damage.values())


# --- derived files that cannot be trusted -----------------------------------------------------------------------


def without(names: set[str], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in names} for row in rows]


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("files", [[INDEX], [VALUES], [INDEX, VALUES]])
def test_absent_index_is_made_from_the_stream(tmp_path: Path, files: list[str], clean: bool) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(9), clean=clean)
    expected = everything(opened(traces, cached=False))
    for name in files:
        (traces / name).unlink()
    table = opened(traces)
    if files == [VALUES]:
        assert table.values_missing == 9 and all(row["task"] is None for row in everything(table))
        assert "metrics/guesses" not in table.values()
        assert not table.make_values(max_bytes=1) and table.values_missing == 8, "bounded"
        assert table.make_values()
    assert table.values_missing == 0
    assert everything(table) == expected
    assert np.isnan(table.values()["metrics/guesses"]).sum() == 0


def test_short_index_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(9))
    trace = make_trace("t-new")
    trace["info"]["arrival"] = {"step": 1, "time": time.time()}
    writer = EpisodeWriter(traces, chunk_bytes=10_000)
    writer.append(episode(9, traces=[trace]))
    writer.close(clean=False)
    expected = everything(opened(traces, cached=False))
    whole = (traces / INDEX).read_bytes()
    (traces / INDEX).write_bytes(b"".join(whole.splitlines(keepends=True)[:9]))
    monkeypatch.setattr(stream_module, "GRACE", 3600.0)
    table = opened(traces)
    assert table.count == 9, "the writer may be about to write the rows"
    monkeypatch.setattr(stream_module, "GRACE", -1.0)
    table.refresh()
    assert everything(table) == expected
    (traces / INDEX).write_bytes(whole)
    table.refresh()
    assert everything(table) == expected, "rows that come later are those rows again"


def test_index_that_is_too_long(tmp_path: Path) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(6), chunk_bytes=1_000_000)
    stream = traces / "stream" / "00000.jsonl"
    lines = stream.read_bytes().splitlines(keepends=True)
    stream.write_bytes(b"".join(lines[:4]))
    table = opened(traces)
    assert ids(everything(table)) == ["e0", "e1", "e2", "e3"]
    assert table.remarks == ["the index has rows beyond the stream's end: left out"]
    with stream.open("ab") as file:
        file.writelines(lines[4:])
    table.refresh()
    assert ids(everything(table)) == [f"e{number}" for number in range(6)]


def test_foreign_index_is_not_used(tmp_path: Path) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(6))
    expected = everything(opened(traces, cached=False))
    rewrite(traces / INDEX, lambda _, row: {**row, "id": "x" + row["id"], "reward": 9.0})
    table = opened(traces)
    assert table.remarks == ["the index is not that of this stream: rows made from the stream"]
    assert everything(table) == expected
    write(traces, range(6, 8))
    table.refresh()
    assert table.count == 8


def test_index_without_its_stream_is_believed(tmp_path: Path) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(4))
    shutil.rmtree(traces / "stream")
    table = opened(traces)
    assert table.count == 4
    assert table.remarks == ["4 episodes cannot be opened or searched: their chunk is gone (chunk 0)"]


def test_chunks_that_are_gone_are_said(tmp_path: Path) -> None:
    """The index still lists their episodes, of which there is nothing to open or to search."""
    traces = traces_of(tmp_path)
    write(traces, range(9), chunk_bytes=4_000)
    chunks = [row["chunk"] for row in everything(opened(traces))]
    assert chunks[-1] > 2
    for number in (1, chunks[-1]):
        (traces / "stream" / f"{number:05d}.jsonl").unlink()
    table = opened(traces)
    lost = chunks.count(1) + chunks.count(chunks[-1])
    assert table.remarks[-1] == (
        f"{lost} episodes cannot be opened or searched: their chunk is gone (chunk 1, {chunks[-1]})"
    )
    assert table.count == 9


def test_what_was_listed_stays_listed_when_its_chunk_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that arrived long ago has lost its row for good, whatever its chunk was last written for."""
    traces = traces_of(tmp_path)
    write(traces, range(4))
    rows = (traces / INDEX).read_bytes().splitlines(keepends=True)
    (traces / INDEX).write_bytes(b"".join(rows[:3]))
    monkeypatch.setattr(stream_module, "GRACE", 3600.0)
    for path in (traces / "stream").iterdir():
        path.touch()
    assert ids(everything(opened(traces, cached=False))) == ["e0", "e1", "e2", "e3"]


@pytest.mark.parametrize("loss", ["absent", "short", "foreign"])
def test_updates_without_a_good_index(tmp_path: Path, loss: str) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(3))
    ship(traces, *((f"t-e{n}", {"effective": True, "ship": {"step": n + 1}}) for n in range(3)))
    index = traces / "annotations" / "orch.index.jsonl"
    if loss == "absent":
        index.unlink()
    elif loss == "short":
        index.write_bytes(index.read_bytes().splitlines(keepends=True)[0])
    else:
        rewrite(index, lambda _, row: {**row, "trace_id": "other"})
    assert opened(traces).column("ship_step").tolist() == [1, 2, 3]


@pytest.mark.parametrize("damage", ["zeros", "no rows", "joined"])
@pytest.mark.parametrize("budget", [None, 1])
def test_updates_whose_rows_were_lost_between_others(tmp_path: Path, damage: str, budget: int | None) -> None:
    """What an index has lost in its middle is in the stream: no update is lost with its row."""
    traces = traces_of(tmp_path)
    write(traces, range(9))
    told = [(f"t-e{n}", {"effective": True, "ship": {"step": n + 1}, "advantage": float(n)}) for n in range(9)]
    ship(traces, *told)
    index = traces / "annotations" / "orch.index.jsonl"
    rows = index.read_bytes().splitlines(keepends=True)
    if damage == "zeros":
        start, end = len(rows[0]) + 20, len(b"".join(rows[:5])) + 30
        data = index.read_bytes()
        index.write_bytes(data[:start] + bytes(end - start) + data[end:])
    elif damage == "no rows":
        index.write_bytes(b"".join([*rows[:2], *[b"{}\n"] * 2, *rows[4:6], b'{"trace_id":"t-e6"}\n', *rows[7:]]))
    else:
        index.write_bytes(b"".join([*rows[:3], rows[3][:-1], rows[4][:-9], *rows[5:]]))
    table = EpisodeTable(traces)
    for _ in range(60):
        table.refresh(budget)
        if table.at_end:
            break
    assert table.column("ship_step").tolist() == list(range(1, 10))
    assert table.column("advantage").tolist() == list(range(9))
    assert table.damage["annotations"].lines > 0


def test_replaced_index_begins_anew(tmp_path: Path) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(4))
    table = opened(traces)
    upto = table.page().upto
    shutil.rmtree(traces)
    write(traces_of(tmp_path), range(4, 6))
    assert table.refresh()
    page = table.page(upto=upto)
    assert ids(everything(table)) == ["e4", "e5"] and page.generation == table.version[0] > 0


def test_chunk_is_sealed_under_the_reader(tmp_path: Path) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(9))
    (traces / VALUES).unlink()
    table = opened(traces)
    seal(traces / "stream", 0, traces / ".sealing")
    table.refresh()
    assert table.make_values() and table.count == 9
    assert {row["task"] for row in everything(table)} == {"w-0", "w-1", "w-2"}


def test_links_that_leave_the_run_are_not_followed(tmp_path: Path) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(3))
    outside = tmp_path / "outside"
    (traces / INDEX).rename(outside)
    rewrite(outside, lambda _, row: {**row, "reward": 9.0})
    (traces / INDEX).symlink_to(outside)
    table = opened(traces)
    assert table.remarks == [f"{INDEX}: a link that leaves the run directory: not followed"]
    assert [row["reward"] for row in everything(table)] == [0.0, 0.1, 0.2], "made from the stream"


@pytest.mark.parametrize("target", ["stream", "OUTSIDE", "nowhere"])
def test_streams_behind_bad_links_are_none(tmp_path: Path, target: str) -> None:
    traces = traces_of(tmp_path)
    outside = traces_of(tmp_path / "outside")
    write(outside, range(2))
    (outside / "stream").rename(tmp_path / "outside" / "stream")
    (traces / "stream").symlink_to(tmp_path / "outside" / "stream" if target == "OUTSIDE" else target)
    table = opened(traces)
    assert table.count == 0 and table.page().rows == []


@pytest.mark.parametrize("kind", ["fifo", "directory"])
def test_what_is_no_file_is_trouble(tmp_path: Path, kind: str) -> None:
    traces = traces_of(tmp_path)
    os.mkfifo(traces / INDEX) if kind == "fifo" else (traces / INDEX).mkdir()
    table = opened(traces)
    assert table.count == 0 and table.trouble is not None


# --- bad rows and other writers ---------------------------------------------------------------------------------

WRONG = [None, "text", -1, 1.5, True, [], {}, 10**40]


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_types_are_unknown(tmp_path: Path, wrong: Any) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(3))
    kept = {"id", "offset", "chunk"}
    rewrite(traces / INDEX, lambda n, row: {k: v if k in kept else wrong for k, v in row.items()} if n == 1 else row)
    rewrite(traces / VALUES, lambda n, row: {k: v if k == "id" else wrong for k, v in row.items()} if n == 1 else row)
    table = opened(traces)
    row = everything(table)[1]
    assert row["id"] == "e1" and row["line"] == 2
    for name in ("turns", "dispatch_step", "policy_start", "task", "agents", "num_errors"):
        assert row[name] is None
    assert row["reward"] == (float(wrong) if type(wrong) in (int, float) else None)
    assert row["ok"] is (True if wrong is True else None)
    assert row["env"] == (wrong if isinstance(wrong, str) else None)


def test_rows_of_older_writers(tmp_path: Path) -> None:
    """No chunk before streams were chunked, no timeout before that was told: that is unknown, not false."""
    traces = traces_of(tmp_path)
    write(traces, range(3), chunk_bytes=1_000_000)
    (traces / "stream" / "00000.jsonl").rename(traces / "stream.jsonl")
    (traces / "stream").rmdir()
    rewrite(traces / INDEX, lambda _, row: {k: v for k, v in row.items() if k not in ("chunk", "timeout")})
    table = opened(traces)
    rows = everything(table)
    assert [(row["chunk"], row["timeout"], row["file"]) for row in rows] == [
        (None, None, "monitors/file/traces/stream.jsonl")
    ] * 3
    assert table.remarks == []
    assert table.page(Filters(outcome="timeout")).total == 0


def test_rows_written_twice_count_once(tmp_path: Path) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(4))
    for name in (INDEX, VALUES):
        rows = (traces / name).read_bytes().splitlines(keepends=True)
        (traces / name).write_bytes(b"".join([*rows[:3], *rows[1:3], *rows[3:]]))
    table = opened(traces)
    assert ids(everything(table)) == ["e0", "e1", "e2", "e3"] and table.repeated == 2
    assert table.values()["metrics/guesses"].tolist() == [2.0] * 4


@pytest.mark.parametrize("stray", [{}, {"id": "x"}, {"line": 3, "offset": 0}, "another run's"])
@pytest.mark.parametrize("at", [0, 2, 6])
def test_rows_of_something_else_amid_the_index_are_no_episodes(tmp_path: Path, stray: Any, at: int) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(6))
    expected = everything(opened(traces, cached=False))
    rows = (traces / INDEX).read_bytes().splitlines(keepends=True)
    if isinstance(stray, str):
        stray = {**json.loads(rows[0]), "id": "x", "line": 9, "offset": 7}
    (traces / INDEX).write_bytes(b"".join([*rows[:at], *[jsonl.encode(stray)] * 2, *rows[at:]]))
    table = opened(traces)
    assert everything(table) == expected
    assert table.damage[INDEX].lines == 2 or table.remarks


def test_one_id_of_two_records_is_two_episodes(tmp_path: Path) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(2))
    writer = EpisodeWriter(traces, chunk_bytes=10_000)
    writer.append(episode(1, score=0.9))
    writer.close(clean=False)
    assert [row["reward"] for row in everything(opened(traces))] == [0.0, 0.1, 0.9]


@pytest.mark.parametrize(
    "bad", [b"\0" * 64 + b"\n", b'{"id": "torn\n', b"[1]\n", b'{"id": NaN}\n', "caf\xe9\n".encode("latin-1")]
)
def test_bad_line_costs_no_good_one(tmp_path: Path, bad: bytes) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(3))
    expected = everything(opened(traces, cached=False))
    for name in (INDEX, VALUES):
        lines = (traces / name).read_bytes().splitlines(keepends=True)
        (traces / name).write_bytes(b"".join([lines[0], bad, *lines[1:]]))
    table = opened(traces)
    found = [row for row in everything(table) if row["id"] is not None]
    assert without({"row"}, found) == without({"row"}, expected)
    if bad != b'{"id": NaN}\n':
        assert table.damage[INDEX].lines == table.damage[VALUES].lines == 1
        assert table.damage[INDEX].first_offset == len((traces / INDEX).read_bytes().splitlines(keepends=True)[0])


@pytest.mark.parametrize("lost", [{0}, {3}, {4, 5, 6}, {0, 2, 5}])
@pytest.mark.parametrize("how", ["damaged", "absent", "joined"])
def test_row_that_was_lost_between_others_is_made_from_its_record(tmp_path: Path, lost: set[int], how: str) -> None:
    """Its number is missing among the rows; the record that lies where it should lead is there."""
    traces = traces_of(tmp_path)
    write(traces, range(9))
    whole = everything(opened(traces, cached=False))
    instead = {"damaged": b"\0" * 50 + b"\n", "absent": b"", "joined": b'{"line": 3, "id"'}[how]
    rewrite(traces / INDEX, lambda number, row: instead if number in lost else row)
    table = opened(traces)
    shown = everything(table)
    lost = lost | {number + 1 for number in lost} if how == "joined" else lost  # a line without its end spoils the next
    assert [{**row, "row": None} for row in shown] == [{**row, "row": None} for row in whole]
    assert table.row("e3") is not None
    assert table.column("line").tolist() == [n for n in range(1, 10) if n - 1 not in lost] + sorted(n + 1 for n in lost)
    assert table.values_missing == 0, "their values were there all the time"
    again = opened(traces)
    assert everything(again) == shown
    write(traces, range(9, 12))
    assert again.refresh()
    assert ids(everything(again)) == [f"e{number}" for number in range(12)]


def test_gaps_are_filled_in_parts_and_many_become_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(20))
    whole = everything(opened(traces, cached=False))
    rewrite(traces / INDEX, lambda number, row: b"" if number % 3 == 1 else row)
    table = EpisodeTable(traces, cached=False)
    for _ in range(100):
        table.refresh(max_bytes=1)
        if table.at_end:
            break
    assert [{**row, "row": None} for row in everything(table)] == [{**row, "row": None} for row in whole]
    monkeypatch.setattr(gaps, "MAX_GAPS", 2)
    few = opened(traces, cached=False)
    assert [{**row, "row": None} for row in everything(few)] == [{**row, "row": None} for row in whole]
    assert few.repeated == 0


def test_numbers_that_lie_cost_nothing(tmp_path: Path) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(6))
    rewrite(traces / INDEX, lambda number, row: {**row, "line": (7, 2_000_000_000, 1, 900, 2, 10**30)[number]})
    table = opened(traces)
    assert table.count == 6
    assert table.row("e5") is not None


def test_numbers_that_no_float_can_hold(tmp_path: Path) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(2))
    huge = b'{"line": 1, "chunk": 0, "offset": 0, "id": "e0", "reward": -1%b, "cost": NaN, "turns": 1%b}\n'
    rewrite(traces / INDEX, lambda number, row: row if number else huge % (b"0" * 400, b"0" * 400))
    assert opened(traces).column("reward").tolist() == [-np.inf, 0.1]


def test_columns_of_text_that_no_row_has(tmp_path: Path) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(3))
    rewrite(traces / INDEX, lambda number, row: {**row, "env": None})
    table = opened(traces)
    assert table.texts("env") == []
    assert table.page(sort="env").total == 3


def test_row_with_a_place_far_away_costs_no_other(tmp_path: Path) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(4))
    rewrite(traces / INDEX, lambda n, row: {**row, "chunk": 99_999} if n == 0 else row)
    table = opened(traces)
    assert ids(everything(table)) == ["e0", "e1", "e2", "e3"] and table.repeated == 0


def test_values_of_a_lost_row_are_made_from_the_record(tmp_path: Path) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(4))
    expected = everything(opened(traces, cached=False))
    rewrite(traces / VALUES, lambda n, row: b"" if n == 1 else row)
    table = opened(traces)
    assert table.values_missing == 1
    assert table.make_values() and everything(table) == expected


def test_values_of_another_run_are_not_used(tmp_path: Path) -> None:
    traces = traces_of(tmp_path)
    write(traces, range(4))
    expected = everything(opened(traces, cached=False))
    rewrite(traces / VALUES, lambda _, row: {**row, "id": "x" + row["id"]})
    table = opened(traces)
    assert table.values_missing == 4
    assert table.make_values() and everything(table) == expected


def test_rollouts_by_step(tmp_path: Path) -> None:
    """Before there was one stream: files by step, of all records and of those that training used."""
    run = tmp_path / "old"
    for step in (3, 11):
        for subset, numbers in (("all", (step, step + 1)), ("effective", (step,))):
            directory = run / "rollouts" / f"step_{step}" / "train" / subset
            directory.mkdir(parents=True)
            (directory / "traces.jsonl").write_bytes(b"".join(jsonl.encode(episode(n)) for n in numbers))
    table = opened(run)
    rows = everything(table)
    assert ids(rows) == ["e3", "e4", "e11", "e12"]
    assert [row["ship_step"] for row in rows] == [3, None, 11, None]
    assert {row["file"] for row in rows[:2]} == {"rollouts/step_3/train/all/traces.jsonl"}
    assert table.page(Filters(ship_step=11)).total == 1
    with (run / "rollouts/step_3/train/all/traces.jsonl").open("ab") as file:
        file.write(jsonl.encode(episode(5)))
    table.refresh()
    assert ids(everything(table)) == ["e3", "e4", "e5", "e11", "e12"]


def test_bare_file_of_single_traces(tmp_path: Path) -> None:
    run = tmp_path / "old"
    run.mkdir()
    traces = [{**episode(n)["traces"][0], "env": {"name": "wordle"}} for n in range(3)]
    (run / "traces.jsonl").write_bytes(b"".join(map(jsonl.encode, traces)))
    rows = everything(opened(run))
    assert [(row["id"], row["env"], row["reward"], row["turns"]) for row in rows] == [
        (f"t-e{n}", "wordle", n / 10, 2) for n in range(3)
    ]


def test_groups_come_in_pages(tmp_path: Path) -> None:
    write(traces_of(tmp_path), range(24))
    table = opened(traces_of(tmp_path))
    names = [(group.name, group.env) for group in table.groups(limit=100)[0]]
    pages = [table.groups(limit=5, offset=offset)[0] for offset in (0, 5, 10)]
    assert [(group.name, group.env) for page in pages for group in page] == names and len(names) == 12
    assert table.groups(offset=100) == ([], 12)


def test_a_group_whose_rewards_are_all_the_same_is_equal(tmp_path: Path) -> None:
    writer = EpisodeWriter(traces_of(tmp_path), chunk_bytes=100_000)
    scores = [0.5, 0.1, 0.5, 0.2, None, 0.7, 0.7, 0.7]  # alternately of two environments: g0 of the first is equal
    for number, score in enumerate(scores):
        writer.append(episode(number, score=score))
    writer.append(episode(9, group=None))
    writer.close(clean=False)
    table = opened(traces_of(tmp_path))
    equal = table.equal_groups(range(9)).tolist()
    assert equal[:4] == [True, False, True, False]
    assert equal[4] is False and equal[6] is False, "one reward alone is equal to nothing"
    assert equal[5] is True and equal[7] is True and equal[8] is False
    assert table.equal_groups([3, 0]).tolist() == [False, True]


def test_rows_by_place_and_values_of_rows(tmp_path: Path) -> None:
    write(traces_of(tmp_path), range(6))
    table = opened(traces_of(tmp_path))
    rows = everything(table)
    places = [(row["chunk"], row["offset"]) for row in rows]
    assert table.rows_at([places[4], (0, 7), places[0]]).tolist() == [rows[4]["row"], -1, rows[0]["row"]]
    assert table.rows_at([]).tolist() == []
    values = table.values_of([5, 1, 5], ["reward", "timing/agent/model"])
    assert values["reward"].tolist() == [0.5, 0.1, 0.5] and values["timing/agent/model"].tolist() == [0.75] * 3
