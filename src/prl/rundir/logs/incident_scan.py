"""Whole logs scanned for known failures, within a bound if one is given; the incidents of an attempt.

Streams of single ranks repeat much of what the component's own log holds: a line that both have counts once. Left out:
holding anything of a log in memory but the block that is looked at and its clock index.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prl.rundir.logs.clocks import ClockIndex
from prl.rundir.logs.components import LogFile
from prl.rundir.logs.entries import LogEntry, split_prefix
from prl.rundir.logs.incidents import Incident, IncidentFold, rank_of
from prl.rundir.logs.merge import RunLogs
from prl.rundir.logs.signatures import Match, Signatures, load_signatures
from prl.rundir.regular import open_regular
from prl.text.terminal import strip_escapes

Progress = Callable[[int, int], None]
"""Called with the bytes looked at and the bytes to look at."""

_BLOCK = 1024**2
_MAX_LINE = 16 * 1024**2
_LINES_ABOVE = 200
_HEADER = 256
"""Bytes of a line in which its clock stands."""
_MAX_SEEN = 100_000


@dataclass
class Incidents:
    """The failures that the logs of an attempt tell of, and how much was looked at."""

    incidents: list[Incident]
    """What broke first comes first: by severity, causes before consequences, then by time."""
    scanned_bytes: int
    total_bytes: int
    trouble: tuple[str, ...]

    @property
    def done(self) -> bool:
        """Whether everything was looked at."""
        return self.scanned_bytes >= self.total_bytes


def find_incidents(
    logs: RunLogs,
    *,
    components: Sequence[str] = (),
    max_bytes: int | None = None,
    progress: Progress | None = None,
    signatures: Signatures | None = None,
) -> Incidents:
    """Scan whole logs for known failures; with ``max_bytes`` the last so many bytes of all files together.

    Streams of single ranks are looked at too; what the component's own log holds already is not counted twice.
    """
    scan = _Scan(logs, signatures or load_signatures(), progress)
    return scan.run(logs.files(components) if components else logs.files(), max_bytes)


class _Scan:
    def __init__(self, logs: RunLogs, signatures: Signatures, progress: Progress | None) -> None:
        self.logs = logs
        self.signatures = signatures
        self.progress = progress
        self.fold = IncidentFold()
        self.scanned = self.total = 0
        self.trouble = list(logs.trouble)
        self._seen: set[tuple[str, str, str]] = set()
        """Group, id and text of what the logs of whole components told."""

    def run(self, files: Sequence[LogFile], max_bytes: int | None) -> Incidents:
        indexes = []
        for file in sorted(files, key=lambda file: file.repeats):  # whole components first
            try:
                indexes.append((file, self.logs.index(file)))
            except OSError as error:
                self._note(file, error)
        self.total = sum(index.size for _, index in indexes)
        share = None if max_bytes is None else max_bytes // max(len(indexes), 1)
        ranks = max((file.rank + 1 for file in files if file.rank is not None), default=0)
        for file, index in indexes:
            try:
                self._file(file, index, 0 if share is None else max(index.size - share, 0))
            except OSError as error:
                self._note(file, error)
        return Incidents(self.fold.incidents(ranks), self.scanned, self.total, tuple(self.trouble))

    def _file(self, file: LogFile, index: ClockIndex, start: int) -> None:
        held, offset = b"", start
        with open_regular(file.path) as handle:
            handle.seek(start)
            if start:  # a line that began before is not looked at
                offset += len(handle.readline(_MAX_LINE))
            while block := handle.read(_BLOCK):
                held += block
                end = held.rfind(b"\n") + 1
                if not end and len(held) < _MAX_LINE:
                    continue
                whole = held[:end] if end else held
                self._block(file, index, whole, offset)
                offset += len(whole)
                held = held[len(whole) :]
        self._block(file, index, held, offset)

    def _advance(self, size: int) -> None:
        self.scanned += size
        if self.progress is not None:
            self.progress(self.scanned, self.total)

    def _block(self, file: LogFile, index: ClockIndex, data: bytes, offset: int) -> None:
        self._advance(len(data))
        for match in self.signatures.scan(data, offset):
            told = (file.group, match.signature.id, split_prefix(match.text).message)
            if file.repeats and told in self._seen:
                continue
            if not file.repeats and len(self._seen) < _MAX_SEEN:
                self._seen.add(told)
            entry = split_prefix(match.text)
            entry.offset = match.offset
            before = [] if entry.time is not None else _dated_before(data, match.offset - offset, offset)
            *_, entry = index.date([*before, entry])
            self._take(file, match, entry)

    def _take(self, file: LogFile, match: Match, entry: LogEntry) -> None:
        self.fold.take(
            match,
            component=file.component,
            file=self.logs.name(file),
            rank=rank_of(match.text, entry, file),
            time=entry.time,
            exact=entry.exact,
        )

    def _note(self, file: LogFile, error: OSError) -> None:
        self.trouble.append(f"{self.logs.name(file)}: {error.strerror or error}")


def _dated_before(data: bytes, place: int, offset: int) -> list[LogEntry]:
    """The last line with a clock before ``place``: a line of a traceback is as old as the header above it."""
    for _ in range(_LINES_ABOVE):
        end = place - 1
        if end <= 0:
            break
        place = data.rfind(b"\n", 0, end) + 1
        entry = split_prefix(strip_escapes(data[place : min(end, place + _HEADER)].decode(errors="replace")))
        if entry.time is not None:
            entry.offset = offset + place
            return [entry]
    return []
