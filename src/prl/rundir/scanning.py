"""Going through files too large to look through: whole lines, a page at a time, with a cursor to go on from.

Blocks are read, and decompressed, in a thread of their own and joined to whole lines here. A cursor names a file, a
place in it and a digest of the bytes before that place: where these have changed, the file was replaced, and the search
begins anew. Left out: an index of words, which for text that is read once costs more than it saves.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from prl.rundir.following import Block
from prl.rundir.sources import Source, read_ahead

Progress = Callable[[int, int], None]
"""Told the bytes searched so far and the bytes there are."""

_CHECKED = 256
"""Bytes before a cursor's place that must still be the same."""
_MAX_CURSOR = 4096


class Part(NamedTuple):
    """One of the files that are gone through, one after the other."""

    name: str
    """Tells it from the others in a cursor."""
    open: Callable[[], Source]
    """Raises OSError."""


@dataclass
class Page:
    """How far one call came."""

    cursor: str | None = None
    """Where to go on. None: everything was searched."""
    scanned_bytes: int = 0
    """Uncompressed bytes searched so far, earlier pages included."""
    total_bytes: int = 0
    """Uncompressed bytes there are. Of a compressed file without a seek table only its own size is known."""
    restarted: bool = False
    """A file was replaced since the cursor was made: this page begins at the beginning."""

    @property
    def done(self) -> bool:
        """Whether everything was searched."""
        return self.cursor is None


class Searcher(Protocol):
    """Who knows what the lines mean."""

    longest: int
    """Bytes of the longest line that is handed over as one."""

    @property
    def page(self) -> Page: ...

    def take(self, part: Part, lines: Block, backwards: bool) -> int | None:
        """Search whole lines. The offset to go on at when that filled the page, else None."""
        ...

    def hole(self, part: Part, start: int, reason: str) -> None:
        """Told of bytes of a part that cannot be read."""
        ...


class Scan:
    """Goes through ``parts``, as they come, for one page of a searcher."""

    def __init__(
        self,
        parts: Sequence[Part],
        searcher: Searcher,
        *,
        backwards: bool,
        max_bytes: int | None,
        progress: Progress | None,
    ) -> None:
        """``backwards``: each part from its end on, where its form allows that."""
        self.parts = parts
        self.searcher = searcher
        self.page = searcher.page
        self.backwards = backwards
        self.max_bytes = max_bytes
        self.progress = progress
        self._searched = 0

    def run(self, cursor: str | None) -> None:
        """Search from ``cursor`` on until the page is full. Raises ValueError when it is none of this search."""
        sizes = [self._size(part) for part in self.parts]
        self.page.total_bytes = sum(sizes)
        first, offset = self._place(cursor)
        before = sum(sizes[:first])
        for part, size in zip(self.parts[first:], sizes[first:], strict=True):
            stopped = self._search(part, offset, before, size)
            if stopped is not None:
                self.page.cursor = self._cursor(part, stopped.offset)
                return
            before, offset = before + size, None
        self._tell(before)

    def _search(self, part: Part, offset: int | None, before: int, size: int) -> "_Stop | None":
        """Search a part from ``offset`` on (None: all of it). Where the page became full; None at the part's end."""
        if self._is_full():
            return _Stop(offset)
        try:
            with part.open() as source:
                backwards = self.backwards and source.seekable
                start, end = (0, offset) if backwards else (offset or 0, None)

                def on_hole(start: int, _end: int | None, reason: str) -> None:
                    self.searcher.hole(part, start, reason)

                with closing(read_ahead(source.blocks(start, end, backwards=backwards, on_hole=on_hole))) as blocks:
                    for lines in whole_lines(blocks, backwards=backwards, longest=self.searcher.longest):
                        self._searched += len(lines.data)
                        stopped = self.searcher.take(part, lines, backwards)
                        behind = lines.offset if backwards else lines.offset + len(lines.data)
                        self._tell(before + (size - behind if backwards else min(behind, size)))
                        if stopped is not None or self._is_full():
                            return _Stop(behind if stopped is None else stopped)
        except OSError as error:
            self.searcher.hole(part, offset or 0, error.strerror or str(error))
        return None

    def _is_full(self) -> bool:
        return self.max_bytes is not None and self._searched >= self.max_bytes

    def _tell(self, scanned: int) -> None:
        self.page.scanned_bytes = scanned
        if self.progress is not None:
            self.progress(scanned, self.page.total_bytes)

    def _size(self, part: Part) -> int:
        try:
            with part.open() as source:
                return source.stored_size if source.size is None else source.size
        except OSError:
            return 0

    def _place(self, cursor: str | None) -> tuple[int, int | None]:
        """The part to go on with, and the offset in it (None: all of it)."""
        if cursor is None:
            return 0, None
        place = decode_cursor(cursor)
        names = [part.name for part in self.parts]
        name, offset, length = place.get("part"), place.get("offset"), place.get("bytes")
        if place.get("backwards") is not self.backwards:
            raise ValueError("the cursor is one of a search in the other direction: search without one to begin anew")
        if name not in names:
            self.page.restarted = True
            return 0, None
        if type(offset) is not int or type(length) is not int or offset < 0:
            return names.index(name), None
        if place.get("before") != self._digest(self.parts[names.index(name)], offset, length):
            self.page.restarted = True
            return 0, None
        return names.index(name), offset

    def _cursor(self, part: Part, offset: int | None) -> str:
        place: dict[str, Any] = {"part": part.name, "offset": offset, "backwards": self.backwards}
        if offset is not None:
            length = min(offset, _CHECKED)
            place |= {"bytes": length, "before": self._digest(part, offset, length)}
        return encode_cursor(place)

    def _digest(self, part: Part, offset: int, length: int) -> str | None:
        """Of the ``length`` bytes before ``offset``. None when they cannot be read."""
        data = b""
        try:
            with part.open() as source:
                for piece in source.pieces(max(offset - length, 0)):
                    data = (data + piece.data)[:length]
                    if len(data) >= length:
                        break
        except OSError:
            return None
        return hashlib.sha256(data).hexdigest()[:16] if len(data) == length else None


class _Stop(NamedTuple):
    """Where in a part a page became full. None: before anything of it was searched."""

    offset: int | None


def whole_lines(blocks: Iterable[Block], *, backwards: bool, longest: int) -> Iterator[Block]:
    """Blocks in either order as blocks of whole lines.

    The last line may lack its newline, and what stands before or after a hole is a line by itself. A line of more than
    ``longest`` bytes comes in parts.
    """
    kept: list[bytes | memoryview] = []
    size = first = last = 0
    for block in blocks:
        data, behind = block.data, block.offset + len(block.data)
        if kept and (behind != first if backwards else block.offset != last):
            yield Block(first, _joined(kept, backwards))
            kept, size = [], 0
        if not kept:
            first, last = (behind, behind) if backwards else (block.offset, block.offset)
        cut = data.find(b"\n") + 1 if backwards else data.rfind(b"\n") + 1
        if cut:
            view = memoryview(data)
            kept.append(view[cut:] if backwards else view[:cut])
            whole = Block(block.offset + cut if backwards else first, _joined(kept, backwards))
            rest = data[:cut] if backwards else data[cut:]
            kept, size = [rest] if rest else [], len(rest)  # before the yield: a huge line is held once, not twice
            if whole.data:
                yield whole
            first, last = (block.offset, block.offset + cut) if backwards else (block.offset + cut, behind)
            continue
        kept.append(data)
        size += len(data)
        first, last = (block.offset, last) if backwards else (first, behind)
        if size > longest:
            yield Block(first, _joined(kept, backwards))
            kept, size = [], 0
    if kept:
        yield Block(first, _joined(kept, backwards))


def all_lines(data: bytes) -> Iterator[tuple[int, int]]:
    """Where the lines of a block begin and end (at their newline)."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        yield start, end
        start = end + 1


def _joined(parts: list[bytes | memoryview], backwards: bool) -> bytes:
    return b"".join(reversed(parts) if backwards else parts)


def encode_cursor(place: dict[str, Any]) -> str:
    """A place as text that fits in an address."""
    return base64.urlsafe_b64encode(json.dumps(place, separators=(",", ":")).encode()).decode().rstrip("=")


def decode_cursor(cursor: str) -> dict[str, Any]:
    """What :func:`encode_cursor` was given. Raises ValueError when ``cursor`` is nothing of the kind."""
    try:
        place = json.loads(base64.urlsafe_b64decode(cursor[:_MAX_CURSOR] + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        place = None
    if not isinstance(place, dict):
        raise ValueError("not a cursor of a search: search without one to begin anew")
    return place
