"""Dates for console lines that carry only a clock.

Where a line ``--- 2026-11-29 +0000 ---`` stands, the lines after it are dated exactly. Elsewhere the newest line is
taken to be as old as the file's last modification, and a clock that goes back by more than twelve hours means that
midnight passed; such times are approximate and marked so. A clock that goes back by less is a line out of order, and
one that goes forward by more than 23 hours a line of yesterday that was written late.
"""

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

DAY = 86400
_HALF_DAY = DAY // 2
LATE = 3600
"""Seconds by which a line may be written after a newer one."""
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
        zone = dt.time.fromisoformat(f"00:00{match[2]}").tzinfo if match[2] else None
    except ValueError:
        return None
    return DateMark(date, zone)


@lru_cache(maxsize=4096)
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
        last = _last_day(_newest(undated)[0], following, clocks[0] if clocks else None, modified, zone)
        answers = _dated(undated, last, zone, exact=False)
    for mark, clocks in segments:
        zone = mark.zone or zone
        answers += _dated(clocks, mark.date.toordinal() + _newest(clocks)[1], zone, exact=True)
    return answers


class Days:
    """Counts the midnights between clocks in file order."""

    def __init__(self, day: int = 0, clock: int | None = None) -> None:
        self.day = day
        self.clock = clock
        """The newest clock of that day."""

    def step(self, clock: int) -> int:
        """The day of the next clock, counted from the first one's."""
        if self.clock is None:
            self.clock = clock
        ahead = clock - self.clock
        if ahead > DAY - LATE:
            return self.day - 1
        if ahead < -_HALF_DAY:
            self.day, self.clock = self.day + 1, clock
        elif ahead > 0:
            self.clock = clock
        return self.day


def day_start(day: int, zone: dt.tzinfo | None) -> float:
    """Unix seconds of the midnight that begins a day (an ordinal of the calendar)."""
    return dt.datetime.combine(dt.date.fromordinal(day), dt.time(), tzinfo=zone).timestamp()


def newest_day(clock: int, modified: float, zone: dt.tzinfo | None) -> int:
    """The day (an ordinal) of a file's newest clock, the file being last modified at ``modified``."""
    end = dt.datetime.fromtimestamp(modified, zone)
    ahead = clock - (end.hour * 3600 + end.minute * 60 + end.second)
    return end.toordinal() - (ahead > _SLACK)


def _dated(clocks: Sequence[int], last: int, zone: dt.tzinfo | None, *, exact: bool) -> list[Dated]:
    """Date clocks of which the newest lies on the day ``last``."""
    walk = Days()
    days = [walk.step(clock) for clock in clocks]
    starts = {day: day_start(day + last - walk.day, zone) for day in set(days)}
    return [Dated(starts[day] + clock, exact) for day, clock in zip(days, clocks, strict=True)]


def _newest(clocks: Sequence[int]) -> tuple[int, int]:
    """The newest clock, and the number of midnights before it."""
    walk = Days()
    for clock in clocks:
        walk.step(clock)
    return walk.clock or 0, walk.day


def _last_day(
    clock: int, following: DateMark | None, first: int | None, modified: float, zone: dt.tzinfo | None
) -> int:
    """The day of the newest clock that stands before any date line."""
    if following is not None:
        return following.date.toordinal() - (first is None or clock > first)
    return newest_day(clock, modified, zone)
