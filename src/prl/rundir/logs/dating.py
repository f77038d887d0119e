"""Dates for console lines that carry only a clock.

Where a line ``--- 2026-11-29 +0000 ---`` stands, the lines after it are dated exactly. Elsewhere the newest line is
taken to be as old as the file's last modification, and a clock that goes back by more than twelve hours means that
midnight passed; such times are approximate and marked so. A clock that goes back by less is a line out of order.
"""

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

DAY = 86400
_HALF_DAY = DAY // 2
_SLACK = 300
"""Seconds by which a line's clock may be ahead of the file's modification time (clocks of two hosts)."""

_DATE_LINE = re.compile(r"--- (\d{4}-\d{2}-\d{2})(?: ([+-]\d{4}))? ---")


@dataclass(frozen=True)
class DateMark:
    """A date line: the day, and the zone when it says one."""

    date: dt.date
    zone: dt.tzinfo | None


@dataclass(frozen=True)
class Dated:
    """When a line was written, Unix seconds; ``exact`` is false where the date was inferred."""

    time: float
    exact: bool


def parse_date_line(line: str) -> DateMark | None:
    """The date of a date line, else None."""
    match = _DATE_LINE.fullmatch(line)
    if match is None:
        return None
    try:
        date = dt.date.fromisoformat(match[1])
        zone = dt.datetime.strptime(match[2], "%z").tzinfo if match[2] else None
    except ValueError:
        return None
    return DateMark(date, zone)


def parse_clock(text: str) -> int | None:
    """Seconds since midnight of ``HH:MM:SS``, None when it is no time of day."""
    hours, minutes, seconds = (int(part) for part in text.split(":"))
    return hours * 3600 + minutes * 60 + seconds if hours < 24 and minutes < 60 and seconds < 60 else None


def date_clocks(marks: Sequence[int | DateMark], modified: float, zone: dt.tzinfo | None = None) -> list[Dated]:
    """Date a file's clocks (seconds since midnight, in file order, among its date lines): one answer a clock.

    ``modified`` is the file's modification time in Unix seconds; ``zone`` is the zone of clocks before any date line
    (None: that of this host).
    """
    undated: list[int] = []
    segments: list[tuple[DateMark, list[int]]] = []
    for mark in marks:
        if isinstance(mark, DateMark):
            segments.append((mark, []))
        else:
            (segments[-1][1] if segments else undated).append(mark)
    answers = []
    if undated:
        following, clocks = segments[0] if segments else (None, [])
        zone = (following.zone if following else None) or zone
        last = _last_day(undated[-1], following, clocks[0] if clocks else None, modified, zone)
        answers = _dated(undated, last, zone, exact=False)
    for mark, clocks in segments:
        zone = mark.zone or zone
        answers += _dated(clocks, mark.date + dt.timedelta(days=_midnights(clocks)), zone, exact=True)
    return answers


def _dated(clocks: Sequence[int], last: dt.date, zone: dt.tzinfo | None, *, exact: bool) -> list[Dated]:
    """Date clocks of which the last lies on the day ``last``."""
    answers: list[Dated] = []
    for index in range(len(clocks) - 1, -1, -1):
        midnight = dt.datetime.combine(last, dt.time(), tzinfo=zone)
        answers.append(Dated((midnight + dt.timedelta(seconds=clocks[index])).timestamp(), exact))
        if index and clocks[index - 1] - clocks[index] > _HALF_DAY:
            last -= dt.timedelta(days=1)
    return answers[::-1]


def _midnights(clocks: Sequence[int]) -> int:
    return sum(earlier - later > _HALF_DAY for earlier, later in pairwise(clocks))


def _last_day(
    clock: int, following: DateMark | None, first: int | None, modified: float, zone: dt.tzinfo | None
) -> dt.date:
    """The day of the last clock that stands before any date line."""
    if following is not None:
        return following.date if first is not None and clock <= first else following.date - dt.timedelta(days=1)
    end = dt.datetime.fromtimestamp(modified, zone)
    ahead = clock - (end.hour * 3600 + end.minute * 60 + end.second)
    return end.date() - dt.timedelta(days=1) if ahead > _SLACK else end.date()
