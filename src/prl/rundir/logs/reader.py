"""The end of a console log as entries: a bounded window, which says how much was not looked at."""

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from prl.rundir.logs.dating import Dated, DateMark, Days, date_clocks, day_start, parse_date_line
from prl.rundir.logs.entries import DATE, ERROR_LEVELS, EntryBuilder, LogEntry, entry_mark
from prl.rundir.logs.lines import LineSplitter
from prl.rundir.regular import open_regular

__all__ = ["DEFAULT_WINDOW", "ERROR_LEVELS", "LogEntry", "LogRead", "errors", "read_head", "read_log"]

DEFAULT_WINDOW = 2 * 1024**2
"""Bytes read of the end of a log."""

_HEAD = 4096


@dataclass
class LogRead:
    """The end of one log file."""

    path: Path
    size: int = 0
    modified: float | None = None
    skipped: int = 0
    """Bytes before the window: not looked at."""
    partial: bool = False
    """The last line has no newline (yet)."""
    replaced: int = 0
    """Lines that were not UTF-8."""
    problem: str | None = None
    """Why the file could not be read."""
    entries: list[LogEntry] = field(default_factory=list)


def read_log(path: Path, window: int = DEFAULT_WINDOW) -> LogRead:
    """Read at most the last ``window`` bytes of a log. Never raises on what the file holds or when it is gone."""
    read = LogRead(path)
    try:
        with open_regular(path) as file:
            stat = path.stat()
            read.size, read.modified = stat.st_size, stat.st_mtime
            head = file.read(_HEAD)
            read.skipped = max(read.size - window, 0)
            file.seek(read.skipped)
            data = file.read(window)
    except OSError as error:
        read.problem = f"{type(error).__name__}: {error.strerror or error}"
        return read
    _parse(read, data)
    _date(read, None if read.skipped == 0 else _zone(head))
    return read


def read_head(path: Path, window: int) -> list[LogEntry]:
    """The entries of the whole lines among the first ``window`` bytes of a log; none when it cannot be read.

    Their times are those that the log says itself: ``time`` is None where no date line and no date stands before.
    """
    try:
        with open_regular(path) as file:
            data = file.read(window)
    except OSError:
        return []
    builder = EntryBuilder()
    for line in LineSplitter().feed(data):
        builder.add(line)
    zone = _zone(data)
    day: DateMark | None = None
    walk = Days()
    entries = []
    for entry in builder.take():
        mark = entry_mark(entry)
        if isinstance(mark, DateMark):
            day, walk = mark, Days()
            continue
        if isinstance(mark, int):
            entry.exact = day is not None
            entry.time = day_start(day.date.toordinal() + walk.step(mark), day.zone or zone) + mark if day else None
        entries.append(entry)
    return entries


def _parse(read: LogRead, data: bytes) -> None:
    splitter = LineSplitter(read.skipped)
    lines = splitter.feed(data) + splitter.finish()
    read.partial = bool(lines) and not lines[-1].complete
    builder = EntryBuilder()
    for index, line in enumerate(lines):
        # The window may begin within a line. What a carriage return began inside the window is whole all the same.
        if index or not read.skipped or line.offset > read.skipped or line.states > 1:
            builder.add(line)
    read.replaced = builder.replaced
    read.entries = builder.take()


def _date(read: LogRead, zone: dt.tzinfo | None) -> None:
    """Replace clocks by times, and drop the date lines that gave them."""
    marks = [mark for entry in read.entries if (mark := entry_mark(entry)) is not None]
    answers = iter(date_clocks(marks, read.modified or 0.0, zone))
    read.entries = [entry for entry in read.entries if entry.level != DATE]
    clockless: list[LogEntry] = []
    last: Dated | None = None
    for entry in read.entries:
        if entry.time is not None:
            last = Dated(entry.time, True) if entry.exact else next(answers)
            entry.time, entry.exact = last.time, last.exact
        elif last is not None:
            entry.time, entry.exact = last.time, last.exact
        else:
            clockless.append(entry)
    for entry in clockless:  # nothing before them has a clock: they are as old as what follows, or as the file
        entry.time = next((other.time for other in read.entries if other.time is not None), read.modified)


def _zone(head: bytes) -> dt.tzinfo | None:
    """The zone that the first date line of a file names."""
    marks = (parse_date_line(line.decode(errors="replace")) for line in head.split(b"\n"))
    return next((mark.zone for mark in marks if mark and mark.zone), None)


def errors(read: LogRead) -> Iterator[LogEntry]:
    """The entries at ERROR or above, in file order."""
    return (entry for entry in read.entries if entry.is_error)
