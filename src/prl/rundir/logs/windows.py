"""One log from any place in it, backwards or forwards, a window at a time: the entries, dated, whole and counted.

Windows begin at a line with a header, so that a traceback is not torn, unless there is none within
:data:`MAX_WINDOW` bytes. Consecutive equal lines and the pieces of a progress bar are one entry with a count. Windows
that hold nothing of a wanted level are passed over without being parsed.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from prl.rundir.logs.clocks import ClockIndex, again_if_stale
from prl.rundir.logs.components import ROUTER, LogFile
from prl.rundir.logs.console import LEVELS
from prl.rundir.logs.entries import DATE, EntryBuilder, LogEntry, is_traceback, starts_entry
from prl.rundir.logs.escapes import without_escapes
from prl.rundir.logs.grams import LiteralFilter
from prl.rundir.logs.lines import LineSplitter, RawLine
from prl.rundir.needles import plain_spelling
from prl.rundir.regular import open_regular
from prl.rundir.search import Query

FIRST_WINDOW = 16 * 1024
WINDOW = 256 * 1024
MAX_WINDOW = 4 * 1024**2
LOOK_AHEAD = 16 * 1024
"""Bytes read behind a window for the lines of entries that begin in it."""

_MAX_JOINED = 32 * 1024**2
"""Bytes of a file that one entry may stand for."""
_ROUTER_MARK = "vllm_router"
_NOTICEABLE = LiteralFilter(
    (b"WARN", b"ERROR", b"CRIT", b"FATAL", b"Traceback (", b"rror:", b"atal", b"arning", b".cpp:", b"torch/")
)
"""Of a line at WARNING or above one of these is a part; torch's headers have one letter for a level."""
_FAILING = LiteralFilter((b"ERROR", b"CRIT", b"FATAL", b"Traceback (", b"rror:", b"atal", b".cpp:", b"torch/"))
"""As :data:`_NOTICEABLE`, for ERROR or above."""


def level_number(level: str) -> int:
    """Where a level stands among the contract's, 0 (TRACE) to 6. A line without one counts as INFO."""
    return LEVELS.index(level) if level in LEVELS else LEVELS.index("INFO")


def window_test(level: str, query: Query | None) -> Callable[[bytes], bool] | None:
    """Tells whether a window may hold an entry at ``level`` or above that matches ``query``. None: any may."""
    tests: list[Callable[[bytes], bool]] = []
    if level_number(level) >= LEVELS.index("WARNING"):
        tests.append((_FAILING if level_number(level) > LEVELS.index("WARNING") else _NOTICEABLE).occur_in)
    finder = query.finder(lambda text: (plain_spelling(text),)) if query else None
    if finder is not None:
        tests.append(lambda data: next(finder.lines(without_escapes(data)), None) is not None)
    return (lambda data: all(test(data) for test in tests)) if tests else None


@dataclass
class Scan:
    """What reading cost so far, and may cost."""

    limit: int
    bytes: int = 0

    @property
    def over(self) -> bool:
        return self.bytes >= self.limit


class LogWindows:
    """The entries of one log. Reads what is there; raises OSError when the file cannot be read."""

    def __init__(
        self,
        file: LogFile,
        name: str,
        index: ClockIndex,
        scan: Scan,
        may_hold: Callable[[bytes], bool] | None = None,
    ) -> None:
        self.file = file
        self.name = name
        """Path of the file below the run directory."""
        self.index = index
        self.scan = scan
        self.position = 0
        """Backwards: everything from here on was looked at. Forwards: everything before."""
        self.stopped = False
        """Whether reading ended because no more was allowed."""
        self._read_any = False
        self._may_hold = may_hold
        """Windows of which it says no are passed over."""

    def before(self, end: int, start: int = 0) -> Iterator[LogEntry]:
        """The entries that begin in [start, end), newest first. ``start`` and ``end`` are beginnings of lines."""
        self.position = end
        newer: LogEntry | None = None
        for entry in self._before(end, start):
            if newer is None:
                newer = entry
            elif joins(entry, newer):
                newer = join(entry, newer)
            else:
                yield newer
                newer = entry
        if newer is not None:
            yield newer

    def after(self, start: int, end: int) -> Iterator[LogEntry]:
        """The entries that begin in [start, end), oldest first. ``start`` is the beginning of a line."""
        self.position = start
        older: LogEntry | None = None
        for entry in self._after(start, end):
            if older is None:
                older = entry
            elif joins(older, entry):
                older = join(older, entry)
            else:
                yield older
                older = entry
        if older is not None:
            yield older

    def _before(self, end: int, start: int) -> Iterator[LogEntry]:
        size = FIRST_WINDOW
        while end > start and not self._must_stop():
            begin, entries = self._window(max(end - size, start), end, start)
            size = min(size * 2, WINDOW)
            yield from reversed(entries)
            end = begin
            self.position = min(self.position, end)

    def _window(self, begin: int, end: int, start: int) -> tuple[int, list[LogEntry]]:
        """The entries of a window that ends at ``end`` and the place where it was made to begin."""
        while True:
            data = self._read(begin, end)
            skipped = 0 if begin == start else _line_start(data)
            if self._may_hold is not None and not self._may_hold(data):
                return begin + skipped, []
            if begin != start and not skipped and end - begin >= MAX_WINDOW:
                return begin, []  # the middle of one line: it is met again where it begins
            lines = self._lines(data[skipped:], begin + skipped, end)
            first = 0 if begin == start else _first(lines, end, starts_entry)
            if first is None and end - begin < MAX_WINDOW:
                begin = max(end - 2 * (end - begin), start)
                continue
            if first is None:
                first = _first(lines, end, is_traceback)
            place = begin + skipped if not first else lines[first].offset
            return place, [entry for entry in self._entries(lines[first or 0 :]) if entry.offset < end]

    def _lines(self, data: bytes, begin: int, end: int) -> list[RawLine]:
        """The lines of a window, and those behind it that entries of it may go on with."""
        splitter = LineSplitter(begin)
        lines = splitter.feed(data)
        ahead = self._read(end, end + LOOK_AHEAD) if data.endswith(b"\n") and end < self.index.size else b""
        # Where the window does not end at a header, what follows was given out as it stands.
        if ahead and starts_entry(RawLine(end, end, ahead.split(b"\n", 1)[0]).text()[0]):
            return lines + splitter.feed(ahead)
        return lines + splitter.finish()

    def _after(self, start: int, end: int) -> Iterator[LogEntry]:
        splitter, builder = LineSplitter(start), EntryBuilder()
        at, size = start, FIRST_WINDOW
        while at < end and not self._must_stop():
            data = self._read(at, min(at + size, end + LOOK_AHEAD))
            if not data:
                break
            at += len(data)
            size = min(size * 2, WINDOW)
            lines = splitter.feed(data)
            if self._may_hold is not None and not builder.entries and not self._may_hold(data):
                continue
            for line in lines:
                builder.add(line)
            yield from self._dated(builder.take(all_entries=False), end)
        if at >= self.index.size:
            for line in splitter.finish():
                builder.add(line)
        elif self.stopped:  # what may still go on is left to whoever goes on
            growing = builder.growing()
            self.position = growing.offset if growing else splitter.start
            return
        yield from self._dated(builder.take(), end)
        self.position = max(self.position, min(at, end))

    def _entries(self, lines: Sequence[RawLine]) -> list[LogEntry]:
        builder = EntryBuilder()
        for line in lines:
            builder.add(line)
        return self._dated(builder.take(), None)

    def _dated(self, entries: list[LogEntry], end: int | None) -> list[LogEntry]:
        dated = self.index.date([entry for entry in entries if entry.level != DATE])
        for entry in dated:
            describe(entry, self.file, self.name)
        return dated if end is None else [entry for entry in dated if entry.offset < end]

    def _pread(self, begin: int, size: int) -> bytes:
        with open_regular(self.file.path) as file:
            return os.pread(file.fileno(), size, begin)

    def _must_stop(self) -> bool:
        self.stopped = self.scan.over and self._read_any
        return self.stopped

    def _read(self, begin: int, end: int) -> bytes:
        data = again_if_stale(lambda: self._pread(begin, max(min(end, self.index.size) - begin, 0)))
        self.scan.bytes += len(data)
        self._read_any = True
        return data


def describe(entry: LogEntry, file: LogFile, name: str) -> None:
    """Say in which file an entry stands and which component wrote it: also the router, where it shares a log."""
    entry.file = name
    routed = file.group == "inference" and _ROUTER_MARK in (entry.tag or "") + entry.message
    entry.component = ROUTER if routed else file.component


def joins(older: LogEntry, newer: LogEntry) -> bool:
    """Whether two consecutive entries of one file are one: equal lines, or pieces of one progress bar."""
    if newer.end - older.offset > _MAX_JOINED or older.level != newer.level or older.rank != newer.rank:
        return False
    if older.more or newer.more or older.tag != newer.tag:
        return False
    bars = older.states > 1 and newer.states > 1 and older.end == newer.offset
    return older.message == newer.message or (bars and older.message[:8] == newer.message[:8])


def join(older: LogEntry, newer: LogEntry) -> LogEntry:
    """One entry for two that :func:`joins` says are one. It stands where the older one does."""
    older.last_time = newer.time if newer.last_time is None else newer.last_time
    if older.states > 1 and newer.states > 1 and older.end == newer.offset:
        older.states += newer.states
        older.message = newer.message
    else:
        older.count += newer.count
    older.end, older.complete = newer.end, newer.complete
    return older


def _line_start(data: bytes) -> int:
    """Where the first line that begins within ``data`` does, 0 for none; of a redrawn line its next state."""
    ends = [at for end in (b"\n", b"\r") if (at := data.find(end, 0, len(data) - 1)) >= 0]
    return min(ends) + 1 if ends else 0


def _first(lines: Sequence[RawLine], end: int, begins: Callable[[str], bool]) -> int | None:
    """Index of the first line before ``end`` with which an entry ``begins``."""
    before = (index for index, line in enumerate(lines) if line.offset < end and begins(line.text()[0]))
    return next(before, None)
