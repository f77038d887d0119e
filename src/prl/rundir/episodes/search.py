"""Text search over the records of a run: newest first, a page at a time, as a reader of the texts means it.

A line is decoded only when its bytes hold what every match must hold (:mod:`prl.rundir.needles`), and without its
arrays of numbers, which are nine tenths of a record. The match is then looked for in the record's texts
(:mod:`prl.rundir.episodes.texts`): quotes, line ends and other letters are compared as they are, not as JSON spells
them, and neither keys nor token ids match. Every record that matches gives its first few hits and says how many of its
texts match; so a page ends between two records and a huge one is read once. Left out: joining the text of two nodes or
parts, across whose border nothing is found.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from prl.rundir.chunks import open_source
from prl.rundir.episodes.stream import Stream, as_episode, find_stream
from prl.rundir.episodes.texts import SEARCHED, Field, texts
from prl.rundir.following import Block
from prl.rundir.jsonl import MAX_RECORD, Damage
from prl.rundir.needles import json_spellings
from prl.rundir.scanning import Page, Part, Progress, Scan, all_lines
from prl.rundir.search import Excerpt, Query, excerpt
from prl.rundir.sources import FileSource, Source

HITS_PER_RECORD = 5
_MIN_ARRAY = 64


@dataclass(frozen=True)
class EpisodeHit:
    """A text of an episode that matches."""

    chunk: int
    """The file of the record, as :func:`prl.rundir.episodes.stream.find_stream` numbers them."""
    offset: int
    """Where the record lies in it: the byte offset of its line in the uncompressed form."""
    episode_id: str | None
    field: Field
    trace_id: str | None
    node: int | None
    """Index of the message's node in its trace."""
    role: str | None
    excerpt: Excerpt
    """Text around the first match."""
    texts: int
    """How many texts of this episode match; of these, the first :data:`HITS_PER_RECORD` are hits."""


@dataclass
class SearchPage(Page):
    """What one call found."""

    hits: list[EpisodeHit] = field(default_factory=list)
    damage: Damage = field(default_factory=Damage)
    """What could not be read on this page: damaged frames, lines that hold no object, chunks that are gone.

    A line whose bytes do not match is not decoded: of these, such as do not begin and end as an object does, or hold
    zeros, count.
    """


def search_episodes(
    traces: Path,
    query: Query,
    *,
    cursor: str | None = None,
    max_bytes: int | None = None,
    max_hits: int = 100,
    newest_first: bool = True,
    progress: Progress | None = None,
    fields: Collection[Field] = SEARCHED,
) -> SearchPage:
    """The next matches among the records below ``traces``, or of a run directory of an older layout.

    A page ends after about ``max_bytes`` uncompressed bytes (None: no bound) or ``max_hits`` hits. A record that is
    still being written is left out. Within a chunk that was compressed without a seek table, the oldest come first.
    Raises ValueError when ``cursor`` is not one of a search in this order; nothing on what the files hold.
    """
    stream = find_stream(traces)
    numbers = stream.numbers()
    parts = [Part(str(number), partial(_open, stream, number)) for number in numbers]
    searcher = _Records(query, max_hits, fields, growing=max(numbers, default=None))
    if stream.chunked and cursor is None:
        for number in sorted(set(range(max(numbers, default=0))) - set(numbers)):
            searcher.page.damage.add(0, b"(chunk %d is gone)" % number)
    ordered = parts[::-1] if newest_first else parts
    Scan(ordered, searcher, backwards=newest_first, max_bytes=max_bytes, progress=progress).run(cursor)
    return searcher.page


def _open(stream: Stream, number: int) -> Source:
    return open_source(stream.directory, number) if stream.chunked else FileSource(stream.open(number))


class _Records:
    """Searches the records on lines."""

    longest = MAX_RECORD

    def __init__(self, query: Query, max_hits: int, fields: Collection[Field], *, growing: int | None) -> None:
        """``growing``: the chunk whose last line is being written."""
        self.page = SearchPage()
        self._query = query
        self._finder = query.finder(json_spellings)
        self._max_hits = max_hits
        self._fields = fields
        self._growing = growing

    def hole(self, part: Part, start: int, reason: str) -> None:
        self.page.damage.add(start, f"({reason})".encode())

    def take(self, part: Part, lines: Block, backwards: bool) -> int | None:
        chunk, data = int(part.name), lines.data
        found = dict(all_lines(data) if self._finder is None else self._finder.lines(data))
        broken = [(start, end) for start, end in all_lines(data) if start not in found and _is_broken(data, start, end)]
        for start, end in sorted([*found.items(), *broken], reverse=backwards):
            if end == len(data) and chunk == self._growing:
                continue
            if start not in found:
                self.page.damage.decode(lines.offset + start, data[start:end])
                continue
            record = self.page.damage.decode(lines.offset + start, without_arrays(data[start:end]))
            if record is not None:
                self._search(chunk, lines.offset + start, as_episode(record))
            if len(self.page.hits) >= self._max_hits:
                return lines.offset + (start if backwards else min(end + 1, len(data)))
        return None

    def _search(self, chunk: int, offset: int, record: dict[str, Any]) -> None:
        matching = [(text, span) for text in texts(record, self._fields) if (span := self._query.find(text.text))]
        name = record.get("id")
        for text, span in matching[: min(HITS_PER_RECORD, self._max_hits - len(self.page.hits))]:
            hit = EpisodeHit(
                chunk=chunk,
                offset=offset,
                episode_id=name if isinstance(name, str) else None,
                field=text.field,
                trace_id=text.trace_id,
                node=text.node,
                role=text.role,
                excerpt=excerpt(text.text, *span),
                texts=len(matching),
            )
            self.page.hits.append(hit)


def _is_broken(data: bytes, start: int, end: int) -> bool:
    """Whether a line shows at a glance that it may hold no object: it does not begin and end as one, or holds zeros."""
    return data[start : start + 1] != b"{" or data[end - 1 : end] != b"}" or data.find(b"\0", start, end) >= 0


def without_arrays(line: bytes) -> bytes:
    """A line of JSON with its long arrays of numbers emptied: the same texts, decoded several times as fast.

    A quote that is not escaped and has a colon behind it ends a key, never a text; and what is cut holds no quote.
    """
    for opening in (b'":[', b'": ['):
        kept, done, at = [], 0, line.find(opening)
        while at >= 0:
            inside = at + len(opening)
            end = line.find(b"]", inside)
            if end < 0:
                break
            number_array = line.find(b'"', inside, end) < 0 and line.find(b"[", inside, end) < 0
            if end - inside >= _MIN_ARRAY and number_array and line[at - 1 : at] != b"\\":
                kept.append(line[done:inside])
                done, inside = end, end
            at = line.find(opening, inside)
        if kept:
            line = b"".join((*kept, line[done:]))
    return line
