"""When the lines of one log were written, though most carry only a clock: a sparse index of dated places in a file.

A short file is read whole. Of a long one samples are taken at even distances, and what lies between two samples is read
where a midnight or a date line shows. The same line gets the same time from whichever window it is seen, and a time is
found by bisection. Left out: a silence of more than a day in the middle of a long log without date lines, which no
clock can tell; and clocks of other hosts that go wrong, whose lines keep the time they carry.
"""

import bisect
import datetime as dt
import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar

from prl.rundir.logs.dating import DateMark, Days, day_start, newest_day
from prl.rundir.logs.entries import DATE, LogEntry, entry_mark, parse_line
from prl.rundir.regular import open_regular

_T = TypeVar("_T")

_WHOLE = 512 * 1024
"""Bytes up to which a piece is read whole rather than sampled."""
_STRIDE = 32 * 1024
_MAX_SAMPLES = 4096
_SAMPLE = 4096
_APART = 4096
"""Bytes between two places kept of a piece that is read whole."""
_CHECK = 64
_DISORDER = 60
"""Seconds by which lines of one file may be out of order without being missed where a range of time is read."""


@dataclass(frozen=True)
class _Known:
    """From ``offset`` on the day numbered ``day`` is the calendar's day ``ordinal``."""

    offset: int
    day: int
    ordinal: int
    zone: dt.tzinfo | None


class ClockIndex:
    """Dates the lines of one log. :meth:`update` reads what is new; nothing is kept open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self.modified = 0.0
        self.inode: int | None = None
        self.restarts = 0
        """How often the file was replaced or cut since it was first seen."""
        self._reset()

    def _reset(self) -> None:
        self._offsets: list[int] = []
        self._days: list[int] = []
        self._clocks: list[int] = []
        self._known: list[_Known] = []
        self._walk = Days()
        self._pending: tuple[int, DateMark] | None = None
        self._read_to = 0
        self._before = b""
        self._times: list[float] | None = None
        self._starts: dict[tuple[int, dt.tzinfo | None], float] = {}

    def update(self) -> None:
        """Look at what was added to the file. Raises OSError when it cannot be read."""
        again_if_stale(self._update)

    def _update(self) -> None:
        with open_regular(self.path) as file:
            stat = os.fstat(file.fileno())
            if self.inode is not None and self._was_replaced(file, stat):
                self.restarts += 1
                self._reset()
            self.inode, self.size, self.modified = stat.st_ino, stat.st_size, stat.st_mtime
            self._times = None
            start = self._read_to
            if self.size - start > _WHOLE:
                start = self._sample(file, start)
            self._piece(file, start, self.size)
            last = max(self._read_to - _CHECK, 0)
            self._before = os.pread(file.fileno(), self._read_to - last, last)

    def date(self, entries: list[LogEntry]) -> list[LogEntry]:
        """The entries of a window, in file order, with times in place of clocks and without the date lines."""
        dated = [entry for entry in entries if entry.level != DATE]
        index, walk = -1, Days()
        last: tuple[float, bool] | None = None
        for entry in dated:
            place = bisect.bisect_right(self._offsets, entry.offset) - 1
            if place >= 0 and place != index:
                index, walk = place, Days(self._days[place], self._clocks[place])
                if last is None:
                    last = self._resolve(walk.day, walk.clock or 0, entry.offset)
            mark = entry_mark(entry)
            if isinstance(mark, int):
                last = self._resolve(walk.step(mark), mark, entry.offset)
            elif entry.time is not None:
                last = (entry.time, entry.exact)
            if last is not None:
                entry.time, entry.exact = last
        first = next((entry.time for entry in dated if entry.time is not None), None)
        for entry in dated:
            if entry.time is None:
                entry.time = first if first is not None else self.time_of(entry.offset)
        return dated

    def time_of(self, offset: int) -> float:
        """About when the line at ``offset`` was written: as old as the newest clock at or before it."""
        if not self._offsets:
            return self.modified
        return self._point_times()[max(bisect.bisect_right(self._offsets, offset) - 1, 0)]

    def points(self) -> tuple[list[int], list[float]]:
        """Places in the file, ascending, and when what stands there was written, nondecreasing."""
        return list(self._offsets), list(self._point_times())

    def line_end(self, offset: int) -> int:
        """Where the line ends in which a byte stands, at most :data:`_WHOLE` bytes behind it. Raises OSError."""
        with open_regular(self.path) as file:
            data = os.pread(file.fileno(), _WHOLE, offset)
        end = data.find(b"\n") + 1
        return min(offset + (end or len(data)), self.size)

    def offset_before(self, time: float) -> int:
        """A line's beginning before which everything is older than ``time``, lines out of order aside."""
        index = bisect.bisect_left(self._point_times(), time) - 1
        return self._offsets[index] if index >= 0 else 0

    def offset_after(self, time: float) -> int:
        """A line's beginning (or the end) behind which everything is newer than ``time``."""
        index = bisect.bisect_right(self._point_times(), time + _DISORDER)
        return self._offsets[index] if index < len(self._offsets) else self.size

    def _point_times(self) -> list[float]:
        """Times of the places, made nondecreasing."""
        if self._times is None:
            self._times = []
            newest = float("-inf")
            for offset, day, clock in zip(self._offsets, self._days, self._clocks, strict=True):
                newest = max(newest, self._resolve(day, clock, offset)[0])
                self._times.append(newest)
        return self._times

    def _resolve(self, day: int, clock: int, offset: int) -> tuple[float, bool]:
        """The time of a clock on a numbered day, and whether the log says the date."""
        place = bisect.bisect_right(self._known, offset, key=lambda known: known.offset) - 1
        if self._known:
            known = self._known[max(place, 0)]
            ordinal, zone = known.ordinal + day - known.day, known.zone
        else:
            ordinal = newest_day(self._walk.clock or 0, self.modified, None) + day - self._walk.day
            zone = None
        key = (ordinal, zone)
        if key not in self._starts:
            self._starts[key] = day_start(ordinal, zone)
        return self._starts[key] + clock, place >= 0

    def _was_replaced(self, file: BinaryIO, stat: os.stat_result) -> bool:
        if stat.st_ino != self.inode or stat.st_size < self._read_to:
            return True
        return os.pread(file.fileno(), len(self._before), self._read_to - len(self._before)) != self._before

    def _sample(self, file: BinaryIO, start: int) -> int:
        """Sample the file up to its last stride; returns where what was looked at ends."""
        stride = max(_STRIDE, (self.size - start) // _MAX_SAMPLES)
        done = start
        for position in range(start, self.size - stride, stride):
            found = self._first_mark(file, position, whole_line=position == start)
            if found is None:
                continue
            offset, mark = found
            if not isinstance(mark, float) and not self._quiet(mark):
                self._piece(file, done, offset)
            self._take(offset, mark, apart=0)
            done = offset
        return done

    def _quiet(self, mark: int | DateMark) -> bool:
        """Whether a sampled mark is a clock that follows the newest one within the same day."""
        return isinstance(mark, int) and (self._walk.clock is None or mark >= self._walk.clock)

    def _first_mark(
        self, file: BinaryIO, position: int, *, whole_line: bool
    ) -> tuple[int, int | DateMark | float] | None:
        sample = os.pread(file.fileno(), _SAMPLE, position)
        start = 0 if whole_line else sample.find(b"\n") + 1
        if not start and not whole_line:
            return None
        end = sample.rfind(b"\n") + 1
        return next(_marks(position + start, sample[start:end]), None)

    def _piece(self, file: BinaryIO, start: int, end: int) -> None:
        """Read every line between two offsets of which the first begins a line."""
        held = b""
        position = start
        while position < end:
            block = os.pread(file.fileno(), min(_WHOLE, end - position), position)
            if not block:
                break
            held += block
            position += len(block)
            whole = held.rfind(b"\n") + 1
            offset = position - len(held)
            for place, mark in _marks(offset, held[:whole]):
                self._take(place, mark, apart=_APART)
            held = held[whole:]
            self._read_to = position - len(held)
            if len(held) > _WHOLE:  # one line without an end: nothing in it can be dated
                held = b""

    def _take(self, offset: int, mark: int | DateMark | float, *, apart: int) -> None:
        """Note a date line, a clock (int) or a moment with its date (float)."""
        if isinstance(mark, DateMark):
            self._pending = (offset, mark)
            return
        if isinstance(mark, float):
            zone = self._known[-1].zone if self._known else None
            moment = dt.datetime.fromtimestamp(mark, zone)
            clock = moment.hour * 3600 + moment.minute * 60 + moment.second
            self._learn(offset, DateMark(moment.date(), zone), clock)
        else:
            clock = mark
            if self._pending is not None:
                self._learn(*self._pending, clock)
                self._pending = None
        before = self._walk.day
        day = self._walk.step(clock)
        far = not self._offsets or offset - self._offsets[-1] >= apart
        if self._walk.day != before or (far and day == self._walk.day):
            self._offsets.append(offset)
            self._days.append(self._walk.day)
            self._clocks.append(self._walk.clock or 0)

    def _learn(self, offset: int, mark: DateMark, clock: int) -> None:
        """A date stands in the log: what day it is from here on."""
        ordinal = mark.date.toordinal()
        walk = self._walk
        if self._known:
            known = self._known[-1]
            day = known.day + ordinal - known.ordinal
            if day == walk.day and mark.zone == known.zone:
                return
            if day > walk.day:
                walk.day, walk.clock = day, clock
        elif walk.clock is not None and clock < walk.clock:
            walk.day, walk.clock = walk.day + 1, clock
        self._known.append(_Known(offset, walk.day, ordinal, mark.zone))


def again_if_stale(read: Callable[[], _T]) -> _T:
    """What ``read`` gives, asked a second time where a network disk's handle was stale: opening anew helps."""
    try:
        return read()
    except OSError as error:
        if error.errno != errno.ESTALE:
            raise
        return read()


def _marks(offset: int, data: bytes) -> Iterator[tuple[int, int | DateMark | float]]:
    """What whole lines say of the time, with their offsets."""
    for line in data.split(b"\n"):
        if line:
            # Of a line that was redrawn the last state may be a line of its own.
            redrawn = b"\r" in line.rstrip(b"\r")
            text = line[-_SAMPLE:].rsplit(b"\r", 1)[-1] if redrawn else line if line[:1] == b"{" else line[:512]
            entry = parse_line(text.decode(errors="replace"))
            mark = entry_mark(entry)
            if mark is not None:
                yield offset, mark
            elif entry.time is not None:
                yield offset, entry.time
        offset += len(line) + 1
