"""What a text search looks for, and what it shows of a match.

Files are gone through by :mod:`prl.rundir.scanning`, lines that may match are found by :mod:`prl.rundir.needles`; what
a line means is known to :mod:`prl.rundir.episodes.search` and :mod:`prl.rundir.logs.search`. Left out: a bound on the
time of a regular expression, which Python's own cannot have: one that backtracks without end takes its process along.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from prl.rundir import needles

EXCERPT = 320
"""Characters of an excerpt at most."""
_BEFORE = 80


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


def _either_case(char: str) -> str:
    variants = needles.case_variants(char)
    return re.escape(char) if len(variants) == 1 else "[" + "".join(map(re.escape, sorted(variants))) + "]"
