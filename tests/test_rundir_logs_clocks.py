"""When the lines of a log were written."""

import datetime as dt
import json
import os
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from prl.rundir.logs.clocks import ClockIndex
from prl.rundir.logs.entries import EntryBuilder, LogEntry
from prl.rundir.logs.lines import LineSplitter

T = dt.datetime(2026, 11, 29, 10, 0, tzinfo=dt.UTC).timestamp()


def stamp(second: int) -> str:
    return f"{second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def entries(data: bytes) -> list[LogEntry]:
    splitter, builder = LineSplitter(), EntryBuilder()
    for line in splitter.feed(data) + splitter.finish():
        builder.add(line)
    return builder.take()


def index_of(path: Path, data: bytes) -> ClockIndex:
    path.write_bytes(data)
    index = ClockIndex(path)
    index.update()
    return index


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.log"


def test_a_date_line_dates_what_follows_it_exactly(path: Path) -> None:
    data = b"23:00:00    INFO a\n--- 2026-11-30 +0100 ---\n00:00:01    INFO b\n"
    first, second = index_of(path, data).date(entries(data))
    assert (second.time, second.exact) == (dt.datetime(2026, 11, 29, 23, 0, 1, tzinfo=dt.UTC).timestamp(), True)
    assert ((second.time or 0) - (first.time or 0), first.exact) == (3601, False)


def test_json_lines_carry_their_date(path: Path) -> None:
    rows = [
        {"timestamp": f"2026-11-29T10:00:{second:02d}+00:00", "level": "warning", "message": "m" * 2000}
        for second in range(30)
    ]
    data = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    index = index_of(path, data)
    dated = index.date(entries(data))
    assert [(entry.time, entry.exact, entry.level) for entry in dated[:2]] == [
        (T, True, "WARNING"), (T + 1, True, "WARNING"),
    ]  # fmt: skip
    assert index.offset_before(T + 20) <= dated[20].offset
    assert index.offset_before(T + 20) > dated[10].offset


@settings(max_examples=30)
@example([1], 86_399, True, [])
@given(
    st.lists(st.integers(0, 40_000), min_size=1, max_size=60),
    st.integers(0, 86_399),
    st.booleans(),
    st.lists(st.integers(0, 5000), max_size=3),
)
def test_growing_and_windows_change_no_time(
    tmp_path_factory: pytest.TempPathFactory, gaps: list[int], start: int, dated: bool, cuts: list[int]
) -> None:
    # Lines up to eleven hours apart: dated as they were written, whatever was read before and from wherever one looks.
    path = tmp_path_factory.getbasetemp() / "grown.log"
    midnight = dt.datetime(2026, 11, 29).timestamp()  # noqa: DTZ001
    moments, now = [], start
    for gap in gaps:
        now += gap
        moments.append(now)
    day = dt.date(2026, 11, 29) + dt.timedelta(days=moments[0] // 86_400)
    head = f"--- {day} ---\n" if dated else ""
    data = (head + "".join(f"{stamp(moment)}    INFO {'x' * 150}\n" for moment in moments)).encode()
    index = ClockIndex(path)
    path.write_bytes(b"")
    for cut in [*sorted(min(cut, len(data)) for cut in cuts), len(data)]:
        with path.open("ab") as file:
            file.write(data[path.stat().st_size : cut])
        os.utime(path, (midnight + moments[-1], midnight + moments[-1]))
        index.update()
    assert index.restarts == 0
    whole = index.date(entries(data))
    assert [entry.time for entry in whole] == [midnight + moment for moment in moments]
    assert all(entry.exact == dated for entry in whole)
    middle = whole[len(whole) // 2]
    window = entries(data[middle.offset :])
    for entry in window:
        entry.offset += middle.offset
    assert [entry.time for entry in index.date(window)] == [entry.time for entry in whole[len(whole) // 2 :]]


def test_a_long_log_is_sampled_and_midnight_found_to_the_line(path: Path) -> None:
    lines = [f"{stamp(4 * second)}    INFO {'.' * 60}\n" for second in range(40_000)]
    data = "".join(lines).encode()
    assert len(data) > 2_000_000
    index = index_of(path, data)
    dated = index.date(entries(data))
    times = [entry.time or 0 for entry in dated]
    assert times == [times[0] + 4 * second for second in range(40_000)]
    assert index.offset_before(times[20_000]) <= dated[20_000].offset <= index.offset_after(times[20_000])


def test_a_replaced_file_is_read_anew(path: Path) -> None:
    index = index_of(path, b"10:00:00    INFO a\n" * 9)
    path.write_bytes(b"--- 2026-11-29 +0000 ---\n10:00:00    INFO b\n")
    index.update()
    assert index.restarts == 1
    (entry,) = index.date(entries(path.read_bytes()))
    assert (entry.time, entry.exact) == (T, True)


@given(st.binary(max_size=400))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.log"
    index = index_of(path, data)
    assert all(entry.time is not None for entry in index.date(entries(data)))
