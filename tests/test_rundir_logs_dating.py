"""Dates for clocks."""

import datetime as dt
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.rundir.logs.dating import DAY, DateMark, date_clocks, parse_clock, parse_date_line

UTC = dt.UTC
DAY_ONE = dt.date(2026, 11, 29)


def at(date: dt.date, clock: str) -> float:
    hours, minutes, seconds = map(int, clock.split(":"))
    return dt.datetime(date.year, date.month, date.day, hours, minutes, seconds, tzinfo=UTC).timestamp()


def clock(text: str) -> int:
    value = parse_clock(text)
    assert value is not None
    return value


def test_date_lines_and_clocks_are_parsed_or_refused() -> None:
    assert parse_date_line("--- 2026-11-29 +0000 ---") == DateMark(DAY_ONE, UTC)
    assert parse_date_line("--- 2026-11-29 ---") == DateMark(DAY_ONE, None)
    for text in ("--- 2026-13-01 +0000 ---", "--- soon ---", "12:00:00 INFO --- 2026-11-29 ---"):
        assert parse_date_line(text) is None
    assert (parse_clock("23:59:59"), parse_clock("24:00:00"), parse_clock("12:61:00")) == (DAY - 1, None, None)


def test_after_a_date_line_times_are_exact() -> None:
    marks = [DateMark(DAY_ONE, UTC), clock("23:59:59"), DateMark(dt.date(2026, 11, 30), UTC), clock("00:00:01")]
    dated = date_clocks(marks, modified=0.0)
    assert [(one.time, one.exact) for one in dated] == [
        (at(DAY_ONE, "23:59:59"), True),
        (at(dt.date(2026, 11, 30), "00:00:01"), True),
    ]


def test_midnight_is_seen_without_a_date_line() -> None:
    # 23:58, 23:59, 00:01, 00:00 (out of order by a minute, not another day), 00:02; the file was last written 00:02:10.
    clocks = [clock(text) for text in ("23:58:00", "23:59:00", "00:01:00", "00:00:00", "00:02:00")]
    modified = at(dt.date(2026, 11, 30), "00:02:10")
    dated = date_clocks(clocks, modified, UTC)
    assert [round(modified - one.time) for one in dated] == [250, 190, 70, 130, 10]
    assert not any(one.exact for one in dated)


def test_newest_clock_after_the_modification_time_is_of_the_day_before() -> None:
    modified = at(DAY_ONE, "00:10:00")
    (dated,) = date_clocks([clock("23:50:00")], modified, UTC)
    assert modified - dated.time == 20 * 60
    # A clock of another host that is a minute ahead is not a day behind.
    (ahead,) = date_clocks([clock("00:11:00")], modified, UTC)
    assert ahead.time - modified == 60


@pytest.mark.parametrize(("first", "days"), [("00:05:00", 1), ("23:59:30", 0)])
def test_clocks_before_the_first_date_line_count_back_from_it(first: str, days: int) -> None:
    marks = [clock("23:59:00"), DateMark(DAY_ONE, UTC), clock(first)]
    assert date_clocks(marks, 0.0)[0].time == at(DAY_ONE, "23:59:00") - days * DAY


@given(
    st.lists(st.integers(min_value=0, max_value=DAY // 2 - 1), min_size=1, max_size=40),
    st.integers(min_value=0, max_value=5 * DAY),
    st.integers(min_value=0, max_value=300),
)
def test_gaps_below_half_a_day_are_recovered(gaps: list[int], start: int, delay: int) -> None:
    # Any log whose lines are less than twelve hours apart, last written up to five minutes after its last line.
    origin = at(DAY_ONE, "00:00:00")
    times = [origin + start + offset for offset in itertools.accumulate(gaps)]
    clocks = [int(time - origin) % DAY for time in times]
    assert [one.time for one in date_clocks(clocks, times[-1] + delay, UTC)] == times


def test_a_late_line_of_yesterday_does_not_make_another_day() -> None:
    clocks = [clock(text) for text in ("23:59:58", "00:00:01", "23:59:59", "00:00:02")]
    dated = date_clocks(clocks, at(dt.date(2026, 11, 30), "00:00:10"), UTC)
    assert [one.time - dated[0].time for one in dated] == [0, 3, 1, 4]
