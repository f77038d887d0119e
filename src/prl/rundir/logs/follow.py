"""The logs of a run as they grow: new lines of all components in near-time order, also of attempts that begin later.

:meth:`LogFollower.poll` never waits; who calls it decides how often. An entry is given out when the next one begins or
when its file was quiet for :data:`SETTLE` seconds, so that a traceback comes whole; entries of one poll are in the
order of their times. Files that appear are read from their beginning, those that were there from their end; replaced
or cut files begin anew. A last line without a newline waits until it has one, or for :meth:`LogFollower.finish`.
"""

import heapq
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from prl.rundir.following import CHECKPOINT, Follower, Mark
from prl.rundir.locate import list_attempts
from prl.rundir.logs.clocks import ClockIndex
from prl.rundir.logs.components import LogFile
from prl.rundir.logs.entries import DATE, EntryBuilder, LogEntry
from prl.rundir.logs.lines import LineSplitter
from prl.rundir.logs.merge import LogFilter, RunLogs
from prl.rundir.logs.windows import describe, join, joins
from prl.rundir.regular import open_regular

SETTLE = 0.5
"""Seconds without a new line after which a file's last entry counts as whole."""

RESCAN = 2.0
"""Seconds between looks for new files and attempts."""

_MAX_POLLS = 16
"""Blocks read of one file at one poll."""


class LogFollower:
    """Follows the logs of a run. ``attempt`` pins one; by default the newest is followed, also when it changes."""

    def __init__(
        self,
        root: Path,
        attempt: int | None = None,
        *,
        wanted: LogFilter | None = None,
        from_start: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.root = root
        self.attempt = attempt
        """The attempt that is followed."""
        self.trouble: tuple[str, ...] = ()
        """What could not be read at the last poll."""
        self._pinned = attempt is not None
        self._wanted = wanted or LogFilter()
        self._now = now
        self._streams: dict[Path, _Stream] = {}
        self._logs = RunLogs(root, attempt)
        self.attempt = self._logs.attempt
        self._looked = now()
        self._open(from_start=from_start)

    def poll(self) -> list[LogEntry]:
        """The entries that became whole since the last poll, by time."""
        ended: list[list[LogEntry]] = []
        now = self._now()
        if now - self._looked >= RESCAN:
            self._looked = now
            ended = self._look()
        return self._merged(ended + [stream.poll(now) for stream in self._streams.values()])

    def finish(self) -> list[LogEntry]:
        """What is left, the writers being gone: the last entries as they stand."""
        return self._merged([stream.finish(self._now()) for stream in self._streams.values()])

    def _look(self) -> list[list[LogEntry]]:
        """Look for a newer attempt and for new files. Returns the last entries of an attempt that is over."""
        attempts = [] if self._pinned else list_attempts(self.root)
        if not attempts or attempts[-1] == self.attempt:
            self._logs.refresh()
            self._open(from_start=True)
            return []
        ended = [stream.finish(self._now()) for stream in self._streams.values()]
        known = {path: stream for path, stream in self._streams.items() if stream.file.group == "job"}
        self._logs = RunLogs(self.root)
        self.attempt = self._logs.attempt
        self._streams = known  # the launcher's job logs belong to every attempt
        self._open(from_start=True)
        return ended

    def _open(self, *, from_start: bool) -> None:
        for file in self._logs.files(self._wanted.components or ("*",), self._wanted.ranks):
            if file.path not in self._streams:
                stream = _Stream(file, self._logs.name(file), self._now())
                if not from_start:
                    stream.skip()
                self._streams[file.path] = stream

    def _merged(self, found: Sequence[list[LogEntry]]) -> list[LogEntry]:
        troubles = ((stream.name, stream.trouble) for stream in self._streams.values())
        self.trouble = tuple(f"{name}: {trouble}" for name, trouble in troubles if trouble)
        files = {stream.name: stream.file for stream in self._streams.values()}
        return [
            entry
            for entry in heapq.merge(*found, key=lambda entry: entry.time or 0.0)
            if entry.file not in files or self._wanted.accepts(entry, files[entry.file])
        ]


class _Stream:
    """One file that is followed."""

    def __init__(self, file: LogFile, name: str, now: float) -> None:
        self.file = file
        self.name = name
        self.trouble: str | None = None
        self._follower = Follower(file.path)
        self._splitter = LineSplitter()
        self._builder = EntryBuilder()
        self._index = ClockIndex(file.path)
        self._restarts = 0
        self._heard = now

    def skip(self) -> None:
        """Begin at the end of the file rather than at its beginning: with the line that is being written."""
        try:
            with open_regular(self.file.path) as file:
                stat = os.fstat(file.fileno())
                start = max(stat.st_size - CHECKPOINT * 1024, 0)
                tail = os.pread(file.fileno(), stat.st_size - start, start)
        except OSError:
            return
        end = start + tail.rfind(b"\n") + 1
        before = tail[max(end - start - CHECKPOINT, 0) : end - start]
        self._follower = Follower(self.file.path, Mark(stat.st_ino, end, before))
        self._splitter = LineSplitter(end)

    def poll(self, now: float) -> list[LogEntry]:
        """The entries that are whole."""
        entries: list[LogEntry] = []
        for _ in range(_MAX_POLLS):
            block = self._follower.poll()
            if self._follower.restarts != self._restarts:
                self._restarts = self._follower.restarts
                entries += self._dated(self._builder.take())
                self._splitter = LineSplitter()
            if block is not None:
                self._heard = now
                for line in self._splitter.feed(block.data):
                    self._builder.add(line)
            if self._follower.at_end:
                break
        self.trouble = self._follower.trouble
        settled = now - self._heard >= SETTLE
        return entries + self._dated(self._builder.take(all_entries=settled))

    def finish(self, now: float) -> list[LogEntry]:
        """Everything that is left."""
        entries = self.poll(now)
        for line in self._splitter.feed(self._follower.finish().data) + self._splitter.finish():
            self._builder.add(line)
        return entries + self._dated(self._builder.take())

    def _dated(self, entries: list[LogEntry]) -> list[LogEntry]:
        entries = [entry for entry in entries if entry.level != DATE]
        if not entries:
            return []
        try:
            self._index.update()
        except OSError as error:
            self.trouble = error.strerror or str(error)
        dated: list[LogEntry] = []
        for entry in self._index.date(entries):
            describe(entry, self.file, self.name)
            if dated and joins(dated[-1], entry):
                join(dated[-1], entry)
            else:
                dated.append(entry)
        return dated
