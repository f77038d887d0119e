"""Lines of console logs made into entries: this project's, prime-rl's, vLLM's, uvicorn's, torch's, SLURM's, Ray's.

An entry is a line with a header and the lines that belong to it. A traceback belongs to the ERROR above it, or is an
entry of its own where none introduces it; chained tracebacks and exception groups are one entry, two tracebacks that
merely follow one another are two. Lines of several processes in one file are told apart by torchrun's ``[trainer0]:``
and by ``(EngineCore pid=7)``. Terminal escapes are removed. Lines of fixed meaning are recognised elsewhere: this
module knows form, not content, and leaves clocks undated.
"""

import datetime as dt
import json
import re
from dataclasses import dataclass, field
from functools import lru_cache

from prl.rundir.logs.console import LEVELS
from prl.rundir.logs.dating import DateMark, parse_clock, parse_date_line
from prl.rundir.logs.lines import RawLine
from prl.text.terminal import strip_escapes

ERROR_LEVELS = ("ERROR", "CRITICAL")
DATE = "DATE"
"""Level of a date line while its file is read."""

MAX_MORE = 200
"""Lines kept of what follows a header: the last ones."""
_MAX_TEXT = 16_384
_SILENCE = 65_536

_PREFIX = re.compile(r"\[(?P<rank>[A-Za-z]+\d+)\]:|\((?P<pid>[^()]*\bpid=\d+[^()]*)\) ")
_LEVELS = "|".join(LEVELS)
_CLOCK = r"(?P<clock>\d{2}:\d{2}:\d{2})"
_DATE_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_CLOCK_HEADER = re.compile(rf"{_CLOCK}\s+(?P<level>{_LEVELS}) (?:\[(?P<tag>[\w.\-/:]+)\] )?(?P<message>.*)", re.S)
_HEADERS = (
    # INFO 01-02 03:04:05 [loggers.py:1] text
    re.compile(rf"(?P<level>{_LEVELS}) \d\d-\d\d {_CLOCK} \[(?P<tag>[^\]]*)\] (?P<message>.*)", re.S),
    # [E105 12:00:00.1 ProcessGroupNCCL.cpp:607] text, and torchrun's E1129 12:00:00.123 4242 torch/...py:9] text
    re.compile(rf"\[?(?P<level>[EWIF])\d* (?:{_CLOCK}\S* )?(?P<tag>[^\]]{{0,160}}:\d+)\] (?P<message>.*)", re.S),
    # 2026-01-02T03:04:05.678Z  INFO text, and logging's 2026-01-02 03:04:05,678 - name - INFO - text
    re.compile(
        rf"\[?(?P<moment>{_DATE_TIME})\]?(?: - (?P<tag>\S+) -)?\s+\[?(?P<level>{_LEVELS}|WARN)\]?:?(?: -)?\s+"
        rf"(?P<message>.*)",
        re.S,
    ),
    # slurmstepd: error: *** STEP 7.0 ON n7 CANCELLED AT 2026-01-02T03:04:05 ***
    re.compile(
        rf"(?P<message>(?:slurm\w*|srun|sbatch|scancel): (?:(?P<level>error|fatal|warning|info): )?"
        rf"(?:.* AT (?P<moment>{_DATE_TIME}))?.*)",
        re.S,
    ),
    re.compile(rf"(?P<level>{_LEVELS}):\s+(?P<message>.*)", re.S),
    re.compile(r"(?P<level>Fatal Python error): (?P<message>.*)", re.S),
)
_HEADER_STARTS = frozenset("TDISWECF[0123456789s")
_LEVEL_NAMES = {
    "E": "ERROR",
    "F": "CRITICAL",
    "W": "WARNING",
    "I": "INFO",
    "WARN": "WARNING",
    "FATAL": "CRITICAL",
    "FATAL PYTHON ERROR": "CRITICAL",
}

_TRACEBACK = ("Traceback (most recent call last):", "Exception Group Traceback (most recent call last):")
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_GROUP_MARKS = " |+-"
# Some classes of the standard library begin small (socket.gaierror); without a module that could be any word.
_EXCEPTION = re.compile(r"(?:(?:[\w<>]+\.)*[A-Z]\w*|(?:[\w<>]+\.)+[a-z_]\w*)(?:: .*)?", re.S)
_WRAPPER = re.compile(r"(?:\w+\.)*(?:ChildFailedError|SignalException|SystemExit)\b.*", re.S)
"""Exceptions that only pass on that something ended: at the end of a chain they are not what went wrong."""
_REPEATED = re.compile(r"\[repeated (\d{1,9})x across cluster\]")


@dataclass(slots=True)
class LogEntry:
    """A line with a header (or a bare traceback) and the lines that belong to it."""

    offset: int
    """Byte offset of the line in its file."""
    level: str
    """One of the contract's levels; empty where the line names none."""
    message: str
    time: float | None = None
    """Unix seconds. A line without a clock has the time of the line before it."""
    exact: bool = False
    """Whether the date stood in the log; else ``time`` is approximate."""
    rank: str | None = None
    """``trainer0`` where torchrun put it before the line."""
    more: list[str] = field(default_factory=list)
    """Continuation lines, the last :data:`MAX_MORE` of them."""
    exception: str | None = None
    """Last line of the traceback, e.g. ``ValueError: no such task``; of chained ones the last that is no wrapper."""
    tag: str | None = None
    """What else the header names: a component, a source file, a process."""
    end: int = 0
    """Byte offset behind the last line that belongs to it. Lines of other ranks may stand between."""
    count: int = 1
    """How many equal lines it stands for."""
    last_time: float | None = None
    """Time of the last of several equal lines."""
    states: int = 1
    """How often a progress bar was drawn."""
    complete: bool = True
    """False: its last line has no newline (yet)."""
    header: str = ""
    """What stands before the message: prefix, clock, level, tag."""
    styled: str | None = None
    """The first line with its terminal escapes, where it had any."""
    component: str = ""
    """Name of the component whose log it stands in, and the file below the run directory; set by who knows them."""
    file: str = ""
    in_traceback: bool = field(default=False, repr=False)
    traced: bool = field(default=False, repr=False)
    """Whether a traceback belongs to it."""
    group: bool = field(default=False, repr=False)
    """Whether that traceback is one of an exception group."""

    @property
    def is_error(self) -> bool:
        return self.level in ERROR_LEVELS

    @property
    def summary(self) -> str:
        """What went wrong in one line: the exception where there is one."""
        return self.exception or self.message

    @property
    def first_line(self) -> str:
        """Its first line as it stands in the file, without escapes."""
        return self.header + self.message if self.header else self.message

    @property
    def lines(self) -> list[str]:
        """All its lines."""
        return [self.message, *self.more] if self.message else list(self.more)


class EntryBuilder:
    """Makes entries of lines handed over in order."""

    def __init__(self) -> None:
        self.entries: list[LogEntry] = []
        self.replaced = 0
        """Lines that were not UTF-8."""
        self._open: dict[str | None, LogEntry] = {}
        """The entry that a continuation line belongs to, per process in the file."""
        self._read_to = 0
        self._vllm: tuple[str, LogEntry] | None = None
        """The last error header of vLLM, which repeats it before each line of a traceback."""

    def add(self, line: RawLine) -> None:
        """Take the next line."""
        text, replaced = line.text()
        self.replaced += replaced
        if not text or text.isspace():
            return
        styled = text if "\x1b" in text else None
        plain = strip_escapes(text)[:_MAX_TEXT]
        entry = self._line(line, plain)
        if styled is not None and entry.offset == line.offset:
            entry.styled = styled[:_MAX_TEXT]
        entry.end = self._read_to = line.end
        entry.complete = line.complete

    def take(self, *, all_entries: bool = True) -> list[LogEntry]:
        """The entries made since the last call, in file order; with ``all_entries=False`` up to one that may go on.

        Of a process that has been silent for :data:`_SILENCE` bytes of the others' lines nothing goes on.
        """
        if all_entries:
            done, self.entries = self.entries, []
            self._open.clear()
            self._vllm = None
            return done
        self._open = {key: entry for key, entry in self._open.items() if entry.end >= self._read_to - _SILENCE}
        growing = {id(entry) for entry in self._open.values()}
        count = next((at for at, entry in enumerate(self.entries) if id(entry) in growing), len(self.entries))
        done, self.entries = self.entries[:count], self.entries[count:]
        return done

    def growing(self) -> LogEntry | None:
        """The first entry that was not taken."""
        return self.entries[0] if self.entries else None

    def _line(self, line: RawLine, text: str) -> LogEntry:
        prefix = _PREFIX.match(text)
        stream = prefix[0] if prefix else None
        rest = text[prefix.end() :] if prefix else text
        if stream is None and rest.startswith("---") and parse_date_line(rest):
            entry = LogEntry(line.offset, DATE, rest)
            self.entries.append(entry)
            return entry
        entry_or_none = parse_header(line.offset, rest)
        if entry_or_none is not None:
            entry_or_none.header = text[: len(text) - len(entry_or_none.message)]
            repeated = self._same_vllm_header(rest, entry_or_none)
            if repeated is not None:
                _continue(repeated, entry_or_none.message, entry_or_none.message.lstrip(_GROUP_MARKS))
                return repeated
            return self._start(entry_or_none, prefix, stream)
        current = self._open.get(stream)
        bare = rest.lstrip(_GROUP_MARKS)
        if current is not None and _stands_alone(line, rest, current, prefix):
            current = None
        if is_traceback(bare) and not _awaits_traceback(current, rest):
            current = self._start(LogEntry(line.offset, "ERROR", ""), prefix, stream)
        if current is None:
            entry = LogEntry(line.offset, "", rest, states=line.states)
            return self._start(entry, prefix, stream)
        _continue(current, rest, bare)
        return current

    def _start(self, entry: LogEntry, prefix: re.Match[str] | None, stream: str | None) -> LogEntry:
        if prefix:
            entry.rank = prefix["rank"]
            entry.tag = entry.tag or prefix["pid"]
        repeated = _REPEATED.search(entry.message) if entry.message.endswith("]") else None
        if repeated:
            entry.count = max(int(repeated[1]), 1)
        self.entries.append(entry)
        self._open[stream] = entry
        return entry

    def _same_vllm_header(self, text: str, entry: LogEntry) -> LogEntry | None:
        """The entry that this line goes on with, when it only repeats the header of an error of vLLM."""
        if not entry.is_error or text[0] not in "EC" or not entry.tag:
            return None
        header = text[: len(text) - len(entry.message)]
        last = self._vllm
        if last is not None and last[0] == header and self.entries and self.entries[-1] is last[1]:
            return last[1]
        self._vllm = (header, entry)
        return None


def parse_header(offset: int, text: str) -> LogEntry | None:
    """The entry that a line begins by its header; None for a line without one.

    ``text`` has no escapes and no prefix of a rank or process. Of a clock ``time`` holds the seconds since midnight.
    """
    match = _CLOCK_HEADER.fullmatch(text)
    if match is not None:  # nearly every line
        entry = LogEntry(offset, match["level"], match["message"], tag=match["tag"])
        clock = parse_clock(match["clock"])
        entry.time = None if clock is None else float(clock)
        return entry
    first = text[:1]
    if first == "{":
        return _json_entry(offset, text)
    if first not in _HEADER_STARTS:
        return None
    for pattern in _HEADERS:
        match = pattern.fullmatch(text)
        if match is not None:
            return _entry_of(offset, match)
    return None


def starts_entry(text: str) -> bool:
    """Whether a line begins an entry whatever stands before it: by a header, or as a date line."""
    plain = strip_escapes(text)[:_MAX_TEXT]
    prefix = _PREFIX.match(plain)
    rest = plain[prefix.end() :] if prefix else plain
    return parse_header(0, rest) is not None or (rest.startswith("---") and parse_date_line(rest) is not None)


def split_prefix(text: str) -> LogEntry:
    """A line's rank, level, clock and message; the text itself where it has no header."""
    prefix = _PREFIX.match(text)
    rest = text[prefix.end() :] if prefix else text
    entry = parse_header(0, rest) or LogEntry(0, "", rest)
    entry.rank = prefix["rank"] if prefix else None
    return entry


def parse_line(text: str) -> LogEntry:
    """One line by itself: its header, without the prefix of a rank or process."""
    builder = EntryBuilder()
    data = text.encode(errors="replace")
    builder.add(RawLine(0, len(data), data))
    return builder.entries[0] if builder.entries else LogEntry(0, "", "")


def entry_mark(entry: LogEntry) -> int | DateMark | None:
    """What an undated entry says of the time: a date, seconds since midnight, or nothing."""
    if entry.level == DATE:
        return parse_date_line(entry.message)
    return int(entry.time) if entry.time is not None and not entry.exact else None


def _entry_of(offset: int, match: re.Match[str]) -> LogEntry:
    groups = match.groupdict()
    entry = LogEntry(offset, _level(groups["level"] or "INFO"), groups["message"], tag=groups.get("tag"))
    moment = _moment(groups["moment"]) if groups.get("moment") else None
    if moment is not None:
        entry.time, entry.exact = moment, True
    elif groups.get("clock"):
        clock = parse_clock(groups["clock"])
        entry.time = None if clock is None else float(clock)
    return entry


def _level(name: str) -> str:
    upper = name.upper()
    return _LEVEL_NAMES.get(upper, upper)


@lru_cache(maxsize=256)
def _moment(text: str) -> float | None:
    """Unix seconds of a date and time; without a zone those of this host."""
    try:
        return dt.datetime.fromisoformat(text.replace(",", ".")).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _json_entry(offset: int, line: str) -> LogEntry | None:
    try:
        raw = json.loads(line)
        time = dt.datetime.fromisoformat(raw["timestamp"]).timestamp()
        message, level = str(raw.get("message") or raw.get("desc") or ""), str(raw["level"])
        tag = str(raw.get("tag") or "") or None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError, OSError):
        return None
    first, *rest = strip_escapes(message).split("\n")
    entry = LogEntry(offset, _level(level), first, time=time, exact=True, more=rest[-MAX_MORE:], tag=tag)
    for text in strip_escapes(str(raw.get("exception") or "")).split("\n"):
        if text:
            _continue(entry, text, text.lstrip(_GROUP_MARKS))
    return entry


def is_traceback(bare: str) -> bool:
    """Whether a line begins a traceback. With more text on it, it is quoted in somebody's message."""
    return bare.startswith(("Trace", "Excep")) and bare.rstrip() in _TRACEBACK


def _awaits_traceback(entry: LogEntry | None, line: str) -> bool:
    """Whether a traceback that begins now belongs to ``entry``: its first, or chained to or within the one it has."""
    if entry is None or not entry.is_error:
        return False
    within = entry.group and line[:1] in _GROUP_MARKS
    return not entry.traced or within or any(line.lstrip(_GROUP_MARKS).startswith(_CHAINED) for line in entry.more[-3:])


def _stands_alone(line: RawLine, text: str, open_entry: LogEntry, prefix: re.Match[str] | None) -> bool:
    """Whether a line without a header is no continuation: a bar, what follows one, or what a process says by itself."""
    if line.states > 1:
        return not open_entry.in_traceback
    if open_entry.states > 1:
        return not text[:1].isspace()
    return prefix is not None and prefix["pid"] is not None and not open_entry.is_error


def _continue(entry: LogEntry, line: str, bare: str) -> None:
    entry.more.append(line)
    if len(entry.more) > MAX_MORE:
        del entry.more[: -MAX_MORE // 2]
    if is_traceback(bare):
        entry.in_traceback = entry.traced = True
        entry.group = entry.group or bare.startswith("Exception Group")
    elif entry.in_traceback and not line[:1].isspace() and _EXCEPTION.fullmatch(bare):
        entry.in_traceback = False
        if entry.exception is not None and _WRAPPER.fullmatch(bare):
            return
        if entry.message == (entry.exception or ""):  # no header introduced it
            entry.message = bare
        entry.exception = bare
    elif entry.in_traceback and line.lstrip().startswith("|") and _EXCEPTION.fullmatch(bare):
        entry.exception = bare  # within an exception group the last one is the innermost
