"""Console logs as entries: this project's lines, prime-rl's, vLLM's, uvicorn's, torch's and bare tracebacks.

A file is read from its end, a bounded window at a time, and :class:`LogRead` says how much was not looked at. Bytes are
split on newlines only; of a line that was redrawn with carriage returns the last state stays; terminal escapes and
torchrun's ``[trainer0]:`` prefix are removed; what is not UTF-8 is replaced. A traceback belongs to the entry above it,
or is an entry of its own where none introduces it. Lines of fixed meaning are recognised elsewhere: this module knows
form, not content.
"""

import datetime as dt
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from prl.rundir.logs.dating import Dated, DateMark, date_clocks, parse_clock, parse_date_line
from prl.rundir.regular import open_regular
from prl.text.terminal import strip_escapes

DEFAULT_WINDOW = 2 * 1024**2
"""Bytes read of the end of a log."""

ERROR_LEVELS = ("ERROR", "CRITICAL")

_MAX_MORE = 200
_MAX_LINE = 16_384
_HEAD = 4096

_PREFIX = re.compile(r"\[([A-Za-z]+\d+)\]:")
_LEVELS = "TRACE|DEBUG|INFO|SUCCESS|WARNING|ERROR|CRITICAL"
_CLOCK = r"(?P<clock>\d{2}:\d{2}:\d{2})"
_HEADERS = (
    re.compile(rf"{_CLOCK}\s+(?P<level>{_LEVELS}) (?:\[(?P<tag>[\w.\-/:]+)\] )?(?P<message>.*)"),
    # (EngineCore pid=7) INFO 01-02 03:04:05 [loggers.py:1] text
    re.compile(rf"(?:\((?P<tag>[^)]*)\) )?(?P<level>{_LEVELS}) \d\d-\d\d {_CLOCK} \[[^\]]*\] (?P<message>.*)"),
    # [E105 12:00:00.1 ProcessGroupNCCL.cpp:607] text, and torchrun's E1129 12:00:00.123 4242 torch/...py:9] text
    re.compile(rf"\[?(?P<level>[EWIF])\d+ {_CLOCK}\S* (?P<tag>[^\]]*)\] (?P<message>.*)"),
    re.compile(rf"(?P<level>{_LEVELS}):\s+(?P<message>.*)"),
    re.compile(r"(?P<level>Fatal Python error): (?P<message>.*)"),
)
_LEVEL_NAMES = {"E": "ERROR", "F": "CRITICAL", "W": "WARNING", "I": "INFO", "Fatal Python error": "CRITICAL"}

_TRACEBACK = ("Traceback (most recent call last):", "Exception Group Traceback (most recent call last):")
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
# Some classes of the standard library begin small (socket.gaierror); without a module that could be any word.
_EXCEPTION = re.compile(r"(?:(?:[\w<>]+\.)*[A-Z]\w*|(?:[\w<>]+\.)+[a-z_]\w*)(?:: .*)?")
_WRAPPER = re.compile(r"(?:\w+\.)*(?:ChildFailedError|SignalException|SystemExit)\b.*")
"""Exceptions that only pass on that something ended: at the end of a chain they are not what went wrong."""


@dataclass
class LogEntry:
    """A line with a header (or a bare traceback) and the lines that belong to it."""

    offset: int
    """Byte offset of the line in its file."""
    level: str
    message: str
    time: float | None = None
    """Unix seconds. A line without a clock has the time of the line before it."""
    exact: bool = False
    """Whether the date stood in the log; else ``time`` is approximate."""
    rank: str | None = None
    """``trainer0`` where torchrun put it before the line."""
    more: list[str] = field(default_factory=list)
    """Continuation lines, the last :data:`_MAX_MORE` of them."""
    exception: str | None = None
    """Last line of the traceback, e.g. ``ValueError: no such task``; of chained ones the last that is no wrapper."""
    in_traceback: bool = field(default=False, repr=False)

    @property
    def is_error(self) -> bool:
        return self.level in ERROR_LEVELS

    @property
    def summary(self) -> str:
        """What went wrong in one line: the exception where there is one."""
        return self.exception or self.message


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
    _Parser(read).parse(data)
    _date(read, None if read.skipped == 0 else _zone(head))
    return read


class _Parser:
    """Turns the bytes of a window into the entries of a :class:`LogRead`. Clocks are left to :func:`_date`."""

    def __init__(self, read: LogRead) -> None:
        self.read = read
        self.open: dict[str | None, LogEntry] = {}
        """The entry that a continuation line belongs to, per rank prefix."""

    def parse(self, data: bytes) -> None:
        offset = self.read.skipped
        self.read.partial = bool(data) and not data.endswith(b"\n")
        for index, raw in enumerate(data.split(b"\n")):
            line, redrawn = self._text(raw)
            # The window may begin within a line. What a carriage return began inside the window is whole all the same.
            if line and (index or not self.read.skipped or redrawn):
                self._line(offset, line)
            offset += len(raw) + 1

    def _text(self, raw: bytes) -> tuple[str, bool]:
        states = [state for state in raw.split(b"\r") if state]
        raw = states[-1] if states else b""
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            self.read.replaced += 1
            text = raw.decode(errors="replace")
        return strip_escapes(text[:_MAX_LINE]), len(states) > 1

    def _line(self, offset: int, line: str) -> None:
        prefix = _PREFIX.match(line)
        rank = prefix[1] if prefix else None
        line = line[prefix.end() :] if prefix else line
        if parse_date_line(line):
            self._add(LogEntry(offset, "DATE", line), None)
            return
        entry = _header(offset, line)
        if entry is not None:
            entry.rank = rank
            self._add(entry, rank)
            return
        current = self.open.get(rank)
        bare = line.lstrip(" |+")
        if _is_traceback(bare) and not _awaits_traceback(current):
            current = LogEntry(offset, "ERROR", "", rank=rank)
            self._add(current, rank)
        if current is None:
            current = LogEntry(offset, "", line, rank=rank)
            self._add(current, rank)
        else:
            _continue(current, line, bare)

    def _add(self, entry: LogEntry, rank: str | None) -> None:
        self.read.entries.append(entry)
        if entry.level != "DATE":
            self.open[rank] = entry


def _header(offset: int, line: str) -> LogEntry | None:
    if line.startswith("{"):
        return _json_entry(offset, line)
    for pattern in _HEADERS:
        match = pattern.fullmatch(line)
        if match is None:
            continue
        groups = match.groupdict()
        level = _LEVEL_NAMES.get(groups["level"], groups["level"])
        entry = LogEntry(offset, level, groups["message"])
        clock = parse_clock(groups["clock"]) if "clock" in groups else None
        if clock is not None:
            entry.time = float(clock)  # a clock until _date has run
        return entry
    return None


def _json_entry(offset: int, line: str) -> LogEntry | None:
    try:
        raw = json.loads(line)
        time = dt.datetime.fromisoformat(raw["timestamp"]).timestamp()
        message, level = str(raw.get("message") or raw.get("desc") or ""), str(raw["level"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    first, *rest = strip_escapes(message).split("\n")
    entry = LogEntry(offset, level, first, time=time, exact=True, more=rest[-_MAX_MORE:])
    for text in strip_escapes(str(raw.get("exception") or "")).split("\n"):
        if text:
            _continue(entry, text, text.lstrip(" |+"))
    return entry


def _is_traceback(bare: str) -> bool:
    """Whether a line begins a traceback. With more text on it, it is quoted in somebody's message."""
    return bare.rstrip() in _TRACEBACK


def _awaits_traceback(entry: LogEntry | None) -> bool:
    """Whether a traceback that begins now belongs to ``entry``: awaited, or chained to the one it has."""
    if entry is None or not entry.is_error:
        return False
    chained = any(line.lstrip(" |+").startswith(_CHAINED) for line in entry.more[-3:])
    return entry.exception is None or entry.in_traceback or chained


def _continue(entry: LogEntry, line: str, bare: str) -> None:
    entry.more.append(line)
    if len(entry.more) > _MAX_MORE:
        del entry.more[: -_MAX_MORE // 2]
    if _is_traceback(bare):
        entry.in_traceback = True
    elif entry.in_traceback and not line[:1].isspace() and _EXCEPTION.fullmatch(bare):
        entry.in_traceback = False
        if entry.exception is not None and _WRAPPER.fullmatch(bare):
            return
        if entry.message == (entry.exception or ""):  # no header introduced it
            entry.message = bare
        entry.exception = bare
    elif entry.in_traceback and line.lstrip().startswith("|") and _EXCEPTION.fullmatch(bare):
        entry.exception = bare  # within an exception group the last one is the innermost


def _date(read: LogRead, zone: dt.tzinfo | None) -> None:
    """Replace clocks by times, and drop the date lines that gave them."""
    marks = [mark for entry in read.entries if (mark := _mark(entry)) is not None]
    answers = iter(date_clocks(marks, read.modified or 0.0, zone))
    read.entries = [entry for entry in read.entries if entry.level != "DATE"]
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


def _mark(entry: LogEntry) -> int | DateMark | None:
    if entry.level == "DATE":
        return parse_date_line(entry.message)
    return int(entry.time) if entry.time is not None and not entry.exact else None


def _zone(head: bytes) -> dt.tzinfo | None:
    """The zone that the first date line of a file names."""
    marks = (parse_date_line(line.decode(errors="replace")) for line in head.split(b"\n"))
    return next((mark.zone for mark in marks if mark and mark.zone), None)


def errors(read: LogRead) -> Iterator[LogEntry]:
    """The entries at ERROR or above, in file order."""
    return (entry for entry in read.entries if entry.is_error)
