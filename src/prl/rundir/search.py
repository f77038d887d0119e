"""Text search over files too large to look through: the query, and the lines it is tried on.

A search takes a page at a time, bounded in bytes and hits, and gives a cursor to go on from. It reads blocks in a
thread of its own, joins them to whole lines and hands those that may match (:mod:`prl.rundir.needles`) to whoever
knows what a line means: :mod:`prl.rundir.episodes.search` and :mod:`prl.rundir.logs.search`. Left out: an index of
words, which for text that is read once costs more than it saves; and a bound on the time of a regular expression,
which Python's own cannot have: one that backtracks without end takes its process along.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from prl.rundir import needles
from prl.rundir.following import Block

Progress = Callable[[int, int], None]
"""Told the bytes searched so far and the bytes there are."""

EXCERPT = 320
"""Characters of an excerpt at most."""
_BEFORE = 80
_MAX_CURSOR = 4096


@dataclass(frozen=True)
class Query:
    """What to look for: ``text`` as it is, or as one of Python's regular expressions.

    ``^`` and ``$`` match at the ends of each line of a text. Raises ValueError when nothing can be looked for.
    """

    text: str
    regex: bool = False
    ignore_case: bool = True

    def __post_init__(self) -> None:
        if not self.text:
            raise ValueError("nothing to search for: the text is empty")
        try:
            _ = self.pattern, self.literals
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(f"not a regular expression: {error}") from error

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The query as a regular expression over decoded text."""
        if self.regex:
            return re.compile(self.text, re.MULTILINE | (re.IGNORECASE if self.ignore_case else 0))
        return re.compile("".join(map(_either_case, self.text)) if self.ignore_case else re.escape(self.text))

    @cached_property
    def literals(self) -> tuple[list[str], bool] | None:
        """Literals one of which every match holds, and whether their case may differ. None: there are none."""
        if not self.regex:
            return [self.text], self.ignore_case
        found = needles.required_literals(self.text)
        return found and (found[0], found[1] or self.ignore_case)

    def finder(self, spell: Callable[[str], Iterable[bytes]]) -> needles.Finder | None:
        """Finds lines that may match, text being written as ``spell`` does. None: any line may match."""
        if self.literals is None:
            return None
        literals, ignore_case = self.literals
        return needles.Finder(needles.forms(literals, spell, ignore_case=ignore_case), ignore_case=ignore_case)

    def find(self, text: str) -> tuple[int, int] | None:
        """Where the first match in ``text`` begins and ends, in characters."""
        if not self.regex and (not self.ignore_case or (self.text.isascii() and text.isascii())):
            at = text.lower().find(self.text.lower()) if self.ignore_case else text.find(self.text)
            return (at, at + len(self.text)) if at >= 0 else None
        match = self.pattern.search(text)
        return match.span() if match else None


class Excerpt(NamedTuple):
    """A bounded part of a text around a match."""

    text: str
    start: int
    """Where in ``text`` the match begins and ends, in characters."""
    end: int
    cut_before: bool
    """Whether text before and behind was left out."""
    cut_behind: bool


def excerpt(text: str, start: int, end: int, size: int = EXCERPT) -> Excerpt:
    """At most ``size`` characters of ``text`` around the match from ``start`` to ``end``."""
    first = max(0, min(start - _BEFORE, len(text) - size))
    last = min(len(text), first + size)
    return Excerpt(text[first:last], start - first, min(end, last) - first, first > 0, last < len(text))


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
            if whole.data:
                yield whole
            rest = data[:cut] if backwards else data[cut:]
            kept, size = [rest] if rest else [], len(rest)
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


def _either_case(char: str) -> str:
    variants = needles.case_variants(char)
    return re.escape(char) if len(variants) == 1 else "[" + "".join(map(re.escape, sorted(variants))) + "]"
