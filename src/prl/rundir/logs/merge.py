"""The logs of an attempt as one list by time, in pages, from whole files of any size.

Files are merged, never reordered within: a line of another thread that comes late stays where it stands. Clocks of two
hosts are compared as they are; how far they differ nobody can tell from the logs. A page is found by reading each file
from a place, backwards or forwards, no further than the page needs; where it ends, a cursor goes on, and pages that
follow one another by cursors give every entry exactly once while the files grow. Left out: following live
(:mod:`prl.rundir.logs.follow`) and searching for text (:mod:`prl.rundir.logs.search`).
"""

import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from prl.rundir.locate import locate
from prl.rundir.logs.clocks import ClockIndex
from prl.rundir.logs.components import MAX_LOGS, ROUTER, LogFile, list_logs, select_logs
from prl.rundir.logs.console import LEVELS
from prl.rundir.logs.cursors import CursorError, LogCursor
from prl.rundir.logs.entries import DATE, LogEntry, split_prefix
from prl.rundir.logs.windows import LogWindows, Scan, level_number, window_test
from prl.rundir.search import Query

DEFAULT_LIMIT = 200
MAX_BYTES = 64 * 1024**2
"""Bytes that one page reads at most before it gives what it has, with a cursor to go on."""

_AHEAD = 300.0
"""Seconds by which a line may be newer than its file's modification time says (clocks of two hosts)."""


@dataclass
class LogPage:
    """Some entries of the merged logs, oldest first, and how to go on from them."""

    entries: list[LogEntry]
    older: str | None
    """Cursor for ``before``: what lies before these entries. None: nothing does."""
    newer: str
    """Cursor for ``after``: what comes behind these entries."""
    complete: bool
    """False: reading was ended by ``max_bytes`` before the page was full; go on with the cursor."""
    scanned_bytes: int
    files: tuple[str, ...]
    """The files that were merged, as paths below the run directory."""
    trouble: tuple[str, ...] = ()
    """Files that could not be read, links that were refused, with the reason."""


@dataclass
class LogFilter:
    """Which entries are wanted."""

    components: Sequence[str] = ()
    level: str = "TRACE"
    ranks: Sequence[int] = ()
    since: float | None = None
    until: float | None = None
    query: Query | None = None
    where: Callable[[LogEntry], bool] | None = None

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ValueError(f"level {self.level!r}: one of {', '.join(LEVELS)}")

    def accepts(self, entry: LogEntry, file: LogFile) -> bool:
        """Whether an entry of ``file`` is wanted."""
        if level_number(entry.level) < level_number(self.level):
            return False
        time = entry.time or 0.0
        if (self.since is not None and time < self.since) or (self.until is not None and time > self.until):
            return False
        if self.ranks and file.rank_of(entry.rank) not in self.ranks:
            return False
        if self.components and not any(_is_of(entry, file, name) for name in self.components):
            return False
        if self.query is not None and not _holds(entry, self.query):
            return False
        return self.where is None or self.where(entry)


@dataclass
class _Source:
    """One file in a merge."""

    order: int
    windows: LogWindows
    entries: Iterator[LogEntry]
    place: int
    """What was consumed: backwards everything from here on, forwards everything before."""
    head: LogEntry | None = None
    key: float = field(default=0.0)


class RunLogs:
    """The logs of one attempt of a run (default: the newest). The attempt is pinned; :meth:`refresh` lists it anew."""

    def __init__(self, root: Path, attempt: int | None = None, max_files: int = MAX_LOGS) -> None:
        self.root = root
        found = locate(root, attempt)
        self.attempt = found.attempt
        self.attempts = found.attempts
        self._directory = "logs" if found.attempt is None else f"logs/attempt_{found.attempt}"
        self._max_files = max_files
        self._indexes: dict[Path, ClockIndex] = {}
        self.refresh()

    def refresh(self) -> None:
        """Look again which files there are."""
        self._list = list_logs(self.root, self._directory, self._max_files)

    @property
    def left_out(self) -> int:
        """Log files beyond the bound."""
        return self._list.left_out

    @property
    def trouble(self) -> tuple[str, ...]:
        """Links that were refused and directories that could not be read."""
        return self._list.trouble

    def files(self, components: Sequence[str] = (), ranks: Sequence[int] = ()) -> list[LogFile]:
        """The log files, of all or of the components and ranks asked for (those that :meth:`page` would merge)."""
        return select_logs(self._list.files, components, ranks) if components or ranks else list(self._list.files)

    def name(self, file: LogFile) -> str:
        """A file's path below the run directory."""
        return file.path.relative_to(self.root).as_posix()

    def index(self, file: LogFile) -> ClockIndex:
        """The dated places of a file, brought up to date. Raises OSError."""
        index = self._indexes.setdefault(file.path, ClockIndex(file.path))
        index.update()
        return index

    def spans(self, file: LogFile) -> list[tuple[float, float, int]]:
        """How much of a file was written when: from, to (Unix seconds) and bytes of its parts. Raises OSError."""
        index = self.index(file)
        windows = LogWindows(file, self.name(file), index, Scan(MAX_BYTES))
        first = next(windows.after(0, index.size), None)
        last = next(windows.before(index.size), None)
        if first is None or last is None:
            return [(index.modified, index.modified, index.size)] if index.size else []
        offsets, times = index.points()
        oldest = min([first.time or index.modified, *times[:1]])
        newest = max([last.last_time or last.time or oldest, *times[-1:]])
        starts, edges = [0, *offsets], [oldest, *times, newest]
        sizes = (end - start for start, end in zip(starts, [*offsets, index.size], strict=True))
        return [(edges[at], edges[at + 1], size) for at, size in enumerate(sizes) if size]

    def moment(self, file: LogFile, offset: int, line: str) -> float | None:
        """When a line was written that stands at ``offset`` of a file, Unix seconds. Raises OSError."""
        entry = split_prefix(line)
        entry.offset = offset
        return self.index(file).date([entry])[0].time if entry.level != DATE else None

    def cursor_at(self, time: float, components: Sequence[str] = (), ranks: Sequence[int] = ()) -> str:
        """A cursor between what was written before a moment (Unix seconds) and what came then or later."""
        places = {}
        for file in select_logs(self._list.files, components, ranks):
            with suppress(OSError):
                index = self.index(file)
                places[self.name(file)] = (self._offset_at(file, index, time), index.inode or 0)
        return self._cursor(places)

    def cursor_of(self, name: str, offset: int, components: Sequence[str] = (), ranks: Sequence[int] = ()) -> str:
        """A cursor before the entry of a file (:meth:`name`) in which a byte stands, by its time in the other files.

        The file is one of those asked for, or added to them. Raises KeyError when the attempt has no such log.
        """
        known = {self.name(file): file for file in self._list.files}
        file = known[name]
        time, place, inode = self._entry_at(file, offset)
        cursor = LogCursor.decode(self.cursor_at(time, components, ranks))
        return self._cursor({**cursor.places, name: (place, inode)})

    def _offset_at(self, file: LogFile, index: ClockIndex, time: float) -> int:
        """Where the first entry that is not older than a moment begins, or the file's end."""
        start, end = index.offset_before(time), index.offset_after(time)
        windows = LogWindows(file, self.name(file), index, Scan(MAX_BYTES))
        for entry in windows.after(start, end):
            if (entry.last_time or entry.time or 0.0) >= time:
                return entry.offset
        return end

    def _entry_at(self, file: LogFile, offset: int) -> tuple[float, int, int]:
        """Time and beginning of the entry in which a byte stands, and the file's inode."""
        try:
            index = self.index(file)
            windows = LogWindows(file, self.name(file), index, Scan(MAX_BYTES))
            end = index.line_end(offset)
            entry = next(windows.before(end), None)
        except OSError:
            return 0.0, offset, 0
        inode = index.inode or 0
        return (entry.time or 0.0, entry.offset, inode) if entry else (index.time_of(offset), min(offset, end), inode)

    def page(
        self,
        *,
        components: Sequence[str] = (),
        level: str = "TRACE",
        ranks: Sequence[int] = (),
        since: float | None = None,
        until: float | None = None,
        query: Query | None = None,
        where: Callable[[LogEntry], bool] | None = None,
        limit: int = DEFAULT_LIMIT,
        before: str | None = None,
        after: str | None = None,
        max_bytes: int = MAX_BYTES,
    ) -> LogPage:
        """At most ``limit`` entries: the newest, those before a cursor, or those after one (``""``: the first).

        ``components`` are names, groups or patterns (:meth:`LogFile.matches`), ``level`` is the least level, ``ranks``
        are numbers, ``since`` and ``until`` Unix seconds; a line of an entry matches ``query``. Raises
        :class:`CursorError` on what is no cursor and ValueError on an unknown level.
        """
        wanted = LogFilter(components, level, ranks, since, until, query, where)
        scan = Scan(max_bytes)
        trouble = list(self.trouble)
        files = select_logs(self._list.files, components, ranks)
        text = before or after
        cursor = LogCursor.decode(text) if text else None
        if cursor is not None and cursor.attempt != self.attempt:
            raise CursorError(f"a cursor of attempt {cursor.attempt}: these are the logs of attempt {self.attempt}")
        may_hold = window_test(level, query)
        merge = _Merge(wanted, limit, scan, trouble)
        for order, file in enumerate(files):
            try:
                windows = LogWindows(file, self.name(file), self.index(file), scan, may_hold)
            except OSError as error:
                _note(trouble, self.name(file), error)
                continue
            place = _place(cursor, windows)
            if after is not None:
                merge.add_forward(order, windows, place or 0)
            elif place is not None or cursor is None:
                merge.add_backward(order, windows, windows.index.size if place is None else place)
        backwards = after is None
        entries = merge.backward() if backwards else merge.forward()
        return LogPage(
            entries=entries,
            older=self._cursor(merge.starts()) if not backwards or merge.unread() else None,
            newer=self._cursor(merge.ends()),
            complete=len(entries) >= limit or not scan.over or (backwards and not merge.unread()),
            scanned_bytes=scan.bytes,
            files=tuple(self.name(file) for file in files),
            trouble=tuple(trouble),
        )

    def _cursor(self, places: dict[str, tuple[int, int]]) -> str:
        return LogCursor(self.attempt, places).encode()


class _Merge:
    """A k-way merge of files by time that keeps the order within each file."""

    def __init__(self, wanted: LogFilter, limit: int, scan: Scan, trouble: list[str]) -> None:
        self.wanted = wanted
        self.limit = limit
        self.scan = scan
        self.trouble = trouble
        self._stopped = False
        self._sources: list[_Source] = []
        self._begins: dict[int, int] = {}
        self._floors: dict[int, int] = {}

    def add_backward(self, order: int, windows: LogWindows, end: int) -> None:
        since, until = self.wanted.since, self.wanted.until
        floor = 0 if since is None else windows.index.offset_before(since)
        top = end if until is None else min(end, windows.index.offset_after(until))
        source = _Source(order, windows, windows.before(top, min(floor, top)), top)
        source.key = windows.index.modified + _AHEAD
        self._begins[order], self._floors[order] = end, floor
        self._sources.append(source)

    def add_forward(self, order: int, windows: LogWindows, start: int) -> None:
        since, until = self.wanted.since, self.wanted.until
        first = start if since is None else max(start, windows.index.offset_before(since))
        end = windows.index.size if until is None else windows.index.offset_after(until)
        self._begins[order] = start
        self._sources.append(_Source(order, windows, windows.after(first, end), first))

    def backward(self) -> list[LogEntry]:
        """The newest entries, oldest first."""
        taken: list[LogEntry] = []
        by_file: dict[int, list[LogEntry]] = {}
        heap = [(-source.key, -source.order, source) for source in self._sources]
        heapq.heapify(heap)
        while heap and len(taken) < self.limit and not self._must_stop(taken):
            _, _, source = heapq.heappop(heap)
            if source.head is not None:
                taken.append(source.head)
                by_file.setdefault(source.order, []).append(source.head)
                source.place = source.head.offset
            if self._next(source, backwards=True):
                assert source.head is not None
                source.key = min(source.key, source.head.time or 0.0)
                heapq.heappush(heap, (-source.key, -source.order, source))
        # Which entries are the newest is found backwards; in which order they stand is said as if read forwards.
        keyed = [_keyed(order, entries[::-1]) for order, entries in by_file.items()]
        return [entry for _, _, entry in heapq.merge(*keyed, key=lambda item: item[:2])]

    def forward(self) -> list[LogEntry]:
        """The oldest entries."""
        taken: list[LogEntry] = []
        heap: list[tuple[float, int, _Source]] = []
        for source in self._sources:
            self._push(heap, source)
        while heap and len(taken) < self.limit and not self._must_stop(taken):
            _, _, source = heapq.heappop(heap)
            assert source.head is not None
            taken.append(source.head)
            source.place = source.head.end
            self._push(heap, source)
        for source in self._sources:
            if source.head is not None:
                source.place = source.head.offset
        return taken

    def starts(self) -> dict[str, tuple[int, int]]:
        """Where the page begins in each file."""
        return {
            source.windows.name: (self._begins[source.order] if not self._floors else source.place, _inode(source))
            for source in self._sources
        }

    def ends(self) -> dict[str, tuple[int, int]]:
        """Where the page ends in each file."""
        return {
            source.windows.name: (self._begins[source.order] if self._floors else source.place, _inode(source))
            for source in self._sources
        }

    def unread(self) -> bool:
        """Whether backwards anything is left."""
        return any(source.place > self._floors[source.order] for source in self._sources)

    def _push(self, heap: list[tuple[float, int, _Source]], source: _Source) -> None:
        if self._next(source, backwards=False):
            assert source.head is not None
            source.key = max(source.key, source.head.time or 0.0)
            heapq.heappush(heap, (source.key, source.order, source))

    def _next(self, source: _Source, *, backwards: bool) -> bool:
        """Make the next wanted entry the source's head; False when there is none or no more may be read."""
        source.head = None
        try:
            for entry in source.entries:
                if not entry.complete:  # it is not over yet: a later page has it whole
                    if not backwards:
                        return False
                    self._begins[source.order] = entry.offset
                if self.wanted.accepts(entry, source.windows.file):
                    source.head = entry
                    return True
                source.place = entry.offset if backwards else entry.end
                if self.scan.over:
                    self._stopped = True
                    return False
        except OSError as error:
            _note(self.trouble, source.windows.name, error)
            return False
        source.place = source.windows.position
        self._stopped = self._stopped or source.windows.stopped
        return False

    def _must_stop(self, taken: list[LogEntry]) -> bool:
        """Whether no more may be read. Something is always done: an entry is taken, or a part of a file passed over.

        A file of which a part was not read may hold what comes next.
        """
        return self._stopped or (self.scan.over and bool(taken))


def _keyed(order: int, entries: Sequence[LogEntry]) -> list[tuple[float, int, LogEntry]]:
    """Entries of one file, each with the newest time so far: what comes late is not put before what it follows."""
    newest = itertools.accumulate((entry.time or 0.0 for entry in entries), max)
    return [(time, order, entry) for time, entry in zip(newest, entries, strict=True)]


def _place(cursor: LogCursor | None, windows: LogWindows) -> int | None:
    """Where a cursor stands in a file, None when it does not know the file. In a replaced file it is the beginning."""
    if cursor is None or windows.name not in cursor.places:
        return None
    offset, inode = cursor.places[windows.name]
    return offset if inode == windows.index.inode and offset <= windows.index.size else 0


def _inode(source: _Source) -> int:
    return source.windows.index.inode or 0


def _holds(entry: LogEntry, query: Query) -> bool:
    return any(query.find(line) is not None for line in (entry.first_line, *entry.more))


def _is_of(entry: LogEntry, file: LogFile, wanted: str) -> bool:
    if wanted == ROUTER:
        return entry.component == ROUTER or ROUTER in file.component
    return file.matches(wanted)


def _note(trouble: list[str], name: str, error: OSError) -> None:
    trouble.append(f"{name}: {error.strerror or error}")
