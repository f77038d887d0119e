"""Text search over whole log files, forwards or from the end, a page at a time.

Lines are compared as they are read: without colours and other escape sequences, which do not hide a match within
or across them, and of a line that was redrawn with carriage returns each state by itself. A physical line is one hit,
whatever many of its states match. Left out: merging files by time (:mod:`prl.rundir.logs.merge`) and matches across
lines.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from prl.rundir.following import Block
from prl.rundir.logs.escapes import without_escapes
from prl.rundir.needles import crosses_lines, plain_spelling
from prl.rundir.scanning import Page, Part, Progress, Scan, all_lines
from prl.rundir.search import Excerpt, Query, excerpt
from prl.rundir.sources import open_file

MAX_TEXT = 2000
"""Characters of a line that a hit shows."""
LONGEST_LINE = 32 * 1024 * 1024
"""Bytes of the longest line that is searched as one; a longer one counts as several."""


@dataclass(frozen=True)
class LogHit:
    """A line that matches."""

    path: Path
    offset: int
    """Byte offset of the line."""
    line: Excerpt
    """Its text, or the state of it that matches, without escape sequences, and where the match is in it."""


@dataclass
class LogHits(Page):
    """What one call found."""

    hits: list[LogHit] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)
    """Files that could not be read, and why. One that does not exist is no trouble."""


def search_log(
    path: Path,
    query: Query,
    *,
    cursor: str | None = None,
    max_bytes: int | None = None,
    max_hits: int = 100,
    backwards: bool = False,
    progress: Progress | None = None,
) -> LogHits:
    """The next lines of a log that match, see :func:`search_logs`."""
    return search_logs(
        [path],
        query,
        cursor=cursor,
        max_bytes=max_bytes,
        max_hits=max_hits,
        backwards=backwards,
        progress=progress,
    )


def search_logs(
    files: Sequence[Path],
    query: Query,
    *,
    cursor: str | None = None,
    max_bytes: int | None = None,
    max_hits: int = 100,
    backwards: bool = False,
    progress: Progress | None = None,
) -> LogHits:
    """The next lines that match, in one file after the other as they are given, each from its end if ``backwards``.

    A page ends after about ``max_bytes`` bytes (None: no bound) or ``max_hits`` lines. A last line without a newline is
    searched as it stands. Raises ValueError when ``cursor`` is not one of a search in this direction; nothing on what
    the files hold.
    """
    searcher = _Lines(query, max_hits, {str(path): path for path in files})
    parts = [Part(name, partial(open_file, path)) for name, path in searcher.paths.items()]
    Scan(parts, searcher, backwards=backwards, max_bytes=max_bytes, progress=progress).run(cursor)
    return searcher.page


class _Lines:
    """Searches lines of text."""

    longest = LONGEST_LINE

    def __init__(self, query: Query, max_hits: int, paths: dict[str, Path]) -> None:
        self.page = LogHits()
        self.paths = paths
        self._query = query
        self._max_hits = max_hits
        self._finder = query.finder(lambda text: (plain_spelling(text),))
        self._by_block = query.regex and not crosses_lines(query.text)

    def hole(self, part: Part, start: int, reason: str) -> None:
        if self.paths[part.name].exists():
            self.page.trouble.append(f"{part.name}: {reason}")

    def take(self, part: Part, lines: Block, backwards: bool) -> int | None:
        data = lines.data
        found = self._candidates(data)
        for start, end in reversed(list(found)) if backwards else found:
            line = self._match(data[start:end])
            if line is None:
                continue
            self.page.hits.append(LogHit(self.paths[part.name], lines.offset + start, line))
            if len(self.page.hits) >= self._max_hits:
                return lines.offset + (start if backwards else min(end + 1, len(data)))
        return None

    def _match(self, line: bytes) -> Excerpt | None:
        states = line.replace(b"\r", b"\n")
        for start, end in self._candidates(states) if b"\r" in line else ((0, len(line)),):
            text = without_escapes(states[start:end]).decode(errors="replace")
            span = self._query.find(text)
            if span is not None:
                return excerpt(text, *span, size=MAX_TEXT)
        return None

    def _candidates(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Where lines that may match begin and end."""
        plain = without_escapes(data)
        if self._finder is not None:
            found = self._finder.lines(plain)
            return found if plain is data else _in_original(data, _numbers(plain, found))
        return _in_original(data, self._matching(plain)) if self._by_block else all_lines(data)

    def _matching(self, plain: bytes) -> Iterator[int]:
        """Numbers of the lines in which the query, matched against the whole block, finds something."""
        text = plain.decode(errors="replace")
        states = text.replace("\r", "\n")
        number = counted = at = 0
        while match := self._query.pattern.search(states, at):
            at = match.start()
            if at == len(states):  # nothing, found behind the last line
                return
            number, counted = number + text.count("\n", counted, at), at
            yield number
            end = text.find("\n", at)
            if end < 0:
                return
            at = end + 1


def _numbers(data: bytes, found: Iterator[tuple[int, int]]) -> Iterator[int]:
    """Lines of ``data`` by their number in it, from 0."""
    number = counted = 0
    for start, _ in found:
        number, counted = number + data.count(b"\n", counted, start), start
        yield number


def _in_original(data: bytes, numbers: Iterator[int]) -> Iterator[tuple[int, int]]:
    """Where lines of ``data`` begin and end, by their numbers in ascending order."""
    import numpy as np

    newlines = None
    for number in numbers:
        if newlines is None:
            newlines = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
        start = int(newlines[number - 1]) + 1 if number else 0
        yield start, int(newlines[number]) if number < len(newlines) else len(data)
