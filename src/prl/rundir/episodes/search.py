"""Text search over the records of a run: newest first, a page at a time, as a reader of the texts means it.

A line is decoded only when its bytes hold what every match must hold (:mod:`prl.rundir.needles`), and without its
arrays of numbers, which are nine tenths of a record. The match is then looked for in the record's texts
(:mod:`prl.rundir.episodes.texts`): quotes, line ends and other letters are compared as they are, not as JSON spells
them, and neither keys nor token ids match. Every record that matches gives its first few hits and says how many of its
texts match; so a page ends between two records and a huge one is read once. Left out: joining the text of two nodes or
parts, across whose border nothing is found.
"""

import hashlib
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from prl.rundir.chunks import chunk_numbers, open_source
from prl.rundir.episodes.texts import SEARCHED, Field, texts
from prl.rundir.episodes.writer import STREAM
from prl.rundir.following import Block
from prl.rundir.jsonl import Damage
from prl.rundir.needles import Finder, json_spellings
from prl.rundir.search import (
    Excerpt,
    Progress,
    Query,
    all_lines,
    decode_cursor,
    encode_cursor,
    excerpt,
    whole_lines,
)
from prl.rundir.sources import read_ahead

HITS_PER_RECORD = 5
LONGEST_RECORD = 256 * 1024 * 1024
"""Bytes of the longest line that is looked at as one."""

_HEAD = 256
"""Bytes at the beginning of a chunk that tell whether it still is the one a cursor was made for: they hold an id."""
_MIN_ARRAY = 64


@dataclass(frozen=True)
class EpisodeHit:
    """A text of an episode that matches."""

    chunk: int
    offset: int
    """Where the record lies: the byte offset of its line in the uncompressed chunk."""
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
class SearchPage:
    """What one call found."""

    hits: list[EpisodeHit] = field(default_factory=list)
    cursor: str | None = None
    """Where to go on. None: everything was searched."""
    scanned_bytes: int = 0
    """Uncompressed bytes searched so far, earlier pages included."""
    total_bytes: int = 0
    """Of a chunk without a seek table only the compressed size is known."""
    restarted: bool = False
    """The stream was replaced since the cursor was made: this page begins at the beginning."""
    damage: Damage = field(default_factory=Damage)
    """What could not be read on this page: damaged frames, and lines whose bytes match but that hold no object."""

    @property
    def done(self) -> bool:
        return self.cursor is None


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
    """The next matches among the records below ``traces``.

    A page ends after about ``max_bytes`` uncompressed bytes (None: no bound) or ``max_hits`` hits. A record that is
    still being written is left out. Within a chunk that was compressed without a seek table, the oldest come first.
    Raises ValueError when ``cursor`` is not one of a search in this order; nothing on what the files hold.
    """
    finder = query.finder(json_spellings)
    return _Search(traces / STREAM, query, finder, max_bytes, max_hits, newest_first, progress, fields).page(cursor)


@dataclass
class _Search:
    """One page in the making."""

    stream: Path
    query: Query
    finder: Finder | None
    max_bytes: int | None
    max_hits: int
    newest_first: bool
    progress: Progress | None
    fields: Collection[Field]
    found: SearchPage = field(default_factory=SearchPage)
    searched: int = 0
    """Bytes searched for this page."""
    last_chunk: int | None = None

    def page(self, cursor: str | None) -> SearchPage:
        numbers = chunk_numbers(self.stream)
        self.last_chunk = numbers[-1] if numbers else None
        ordered = numbers[::-1] if self.newest_first else numbers
        sizes = {number: self._size(number) for number in numbers}
        self.found.total_bytes = sum(sizes.values())
        chunk, offset = self._place(cursor, ordered)
        before = 0
        for number in ordered:
            if number == chunk or chunk is None:
                stopped = self._search_chunk(number, offset, before, sizes[number])
                if stopped is not None:
                    return self._stopped(number, stopped.offset)
                chunk, offset = None, None
            before += sizes[number]
        self._tell(before)
        return self.found

    def _size(self, number: int) -> int:
        try:
            with open_source(self.stream, number) as source:
                return source.stored_size if source.size is None else source.size
        except OSError:
            return 0

    def _place(self, cursor: str | None, ordered: list[int]) -> tuple[int | None, int | None]:
        """The chunk and offset to go on at. (None, None): begin at the beginning."""
        if cursor is None:
            return None, None
        place = decode_cursor(cursor)
        chunk, offset, head, length = (place.get(key) for key in ("chunk", "offset", "head", "bytes"))
        if place.get("newest") is not self.newest_first or type(chunk) is not int or type(length) is not int:
            raise ValueError("the cursor is one of another search: search without one to begin anew")
        if chunk in ordered and head == self._head(chunk, length)[0]:
            return chunk, offset if type(offset) is int else None
        self.found.restarted = True
        return None, None

    def _stopped(self, number: int, offset: int | None) -> SearchPage:
        head, length = self._head(number, _HEAD)
        place = {"chunk": number, "offset": offset, "head": head, "bytes": length, "newest": self.newest_first}
        self.found.cursor = encode_cursor(place)
        return self.found

    def _head(self, number: int, length: int) -> tuple[str, int]:
        """What tells a chunk from another, in whichever form: a digest of its first bytes, and how many those are."""
        data = b""
        try:
            with open_source(self.stream, number) as source:
                for piece in source.pieces():
                    data = (data + piece.data)[: min(max(length, 0), _HEAD)]
                    if len(data) >= length:
                        break
        except OSError:
            pass
        return hashlib.sha256(data).hexdigest()[:16], len(data)

    def _search_chunk(self, number: int, offset: int | None, before: int, size: int) -> "_Stop | None":
        """Search a chunk from ``offset`` on (None: all of it). Where the page became full; None at the chunk's end."""
        if self._is_full():
            return _Stop(offset)

        def hole(start: int, end: int | None, reason: str) -> None:
            self.found.damage.add(start, f"({reason})".encode())

        try:
            with open_source(self.stream, number) as source:
                backwards = self.newest_first and source.seekable
                start, end = (0, offset) if backwards else (offset or 0, None)
                with closing(read_ahead(source.blocks(start, end, backwards=backwards, on_hole=hole))) as blocks:
                    for lines in whole_lines(blocks, backwards=backwards, longest=LONGEST_RECORD):
                        stopped = self._search_lines(number, lines, backwards)
                        behind = lines.offset if backwards else lines.offset + len(lines.data)
                        self._tell(before + (size - behind if backwards else min(behind, size)))
                        if stopped is not None or self._is_full():
                            return stopped or _Stop(behind)
        except OSError as error:
            hole(offset or 0, None, str(error))
        return None

    def _search_lines(self, number: int, lines: Block, backwards: bool) -> "_Stop | None":
        """Search whole lines. Where to go on when that filled the page."""
        self.searched += len(lines.data)
        found = all_lines(lines.data) if self.finder is None else self.finder.lines(lines.data)
        for start, end in reversed(list(found)) if backwards else found:
            unfinished = end == len(lines.data)
            if unfinished and number == self.last_chunk:
                continue  # still being written
            record = self.found.damage.decode(lines.offset + start, without_arrays(lines.data[start:end]))
            if record is not None:
                self._search_record(number, lines.offset + start, record)
            if len(self.found.hits) >= self.max_hits:
                return _Stop(lines.offset + (start if backwards else min(end + 1, len(lines.data))))
        return None

    def _search_record(self, number: int, offset: int, record: dict[str, Any]) -> None:
        matching = [(text, span) for text in texts(record, self.fields) if (span := self.query.find(text.text))]
        name = record.get("id")
        for text, span in matching[: min(HITS_PER_RECORD, self.max_hits - len(self.found.hits))]:
            hit = EpisodeHit(
                chunk=number,
                offset=offset,
                episode_id=name if isinstance(name, str) else None,
                field=text.field,
                trace_id=text.trace_id,
                node=text.node,
                role=text.role,
                excerpt=excerpt(text.text, *span),
                texts=len(matching),
            )
            self.found.hits.append(hit)

    def _is_full(self) -> bool:
        return len(self.found.hits) >= self.max_hits or (self.max_bytes is not None and self.searched >= self.max_bytes)

    def _tell(self, scanned: int) -> None:
        self.found.scanned_bytes = scanned
        if self.progress is not None:
            self.progress(scanned, self.found.total_bytes)


class _Stop(NamedTuple):
    """Where in a chunk a page became full. None: before anything of it was searched."""

    offset: int | None


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
