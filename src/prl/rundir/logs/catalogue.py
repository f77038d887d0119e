"""Console lines of fixed meaning, parsed into values: steps, evaluations, gates, waits, engine statistics.

``catalogue.json`` is a list of patterns: ``id``; ``source`` and ``level``, which component prints it and how;
``words``, the first words such a message can begin with (or ``holds``, a text that is always in it); ``regex``, with
``{NUM}``, ``{DUR}`` and ``{PCT}`` for a number, a duration and a percentage; ``values``, the kind of each named group
that is no text; ``example``. A regular expression is compiled when the first message asks for it, and a message is
tried only against those of its first word.
"""

import json
import re
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from prl.rundir.logs.entries import LogEntry

Value = int | float | str | dict[str, int]

_PLACEHOLDERS = {
    "{NUM}": r"[-+]?(?:\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|nan|inf)",
    "{DUR}": r"(?:\d+ms|\d+(?:\.\d+)?s|\d+m(?: \d+s)?|\d+h(?: \d+m)?|\d+d(?: \d+h)?)",
    "{PCT}": r"\d+(?:\.\d+)?%",
}
_PLACEHOLDER = re.compile(r"\{(?:NUM|DUR|PCT)\}")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")
_COUNT = re.compile(r"([^,=]+)=(\d+)")
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)([KMBGT]?)")
_MULTIPLES = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}


@dataclass(frozen=True)
class ParsedLine:
    """A line of the catalogue."""

    id: str
    values: dict[str, Value]
    """By group: integers, numbers (also nan and inf), durations in seconds, percentages as shares of 1, counts by name,
    else text. A group that was not in the line is absent."""


@dataclass(frozen=True)
class LinePattern:
    """One pattern of the catalogue."""

    id: str
    source: str
    level: str
    regex: str
    example: str
    words: tuple[str, ...] = ()
    holds: str = ""
    values: dict[str, str] = field(default_factory=dict)

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(_PLACEHOLDER.sub(lambda found: _PLACEHOLDERS[found[0]], self.regex))

    def parse(self, message: str) -> ParsedLine | None:
        """The values of a message, None when it is another one."""
        match = self.compiled.search(message)
        if match is None:
            return None
        groups = ((name, text) for name, text in match.groupdict().items() if text is not None)
        return ParsedLine(self.id, {name: _value(self.values.get(name, "text"), text) for name, text in groups})


class Catalogue:
    """All patterns, found by the first word of a message."""

    def __init__(self, patterns: list[LinePattern]) -> None:
        self.patterns = {pattern.id: pattern for pattern in patterns}
        self._by_word: dict[str, list[LinePattern]] = {}
        self._by_text = [pattern for pattern in patterns if pattern.holds]
        for pattern in patterns:
            for word in pattern.words:
                self._by_word.setdefault(word, []).append(pattern)

    def parse(self, message: str) -> ParsedLine | None:
        """What a message (without header and escapes) says, None when it is not in the catalogue."""
        word = message.lstrip().split(" ", 1)[0] if message else ""
        for pattern in self._by_word.get(word, ()):
            parsed = pattern.parse(message)
            if parsed is not None:
                return parsed
        for pattern in self._by_text:
            if pattern.holds in message:
                parsed = pattern.parse(message)
                if parsed is not None:
                    return parsed
        return None

    def parse_entry(self, entry: LogEntry) -> list[ParsedLine]:
        """What an entry says: its message, and the lines below it (an environment's share of a step)."""
        return [parsed for line in entry.lines if (parsed := self.parse(line)) is not None]


@cache
def load_catalogue() -> Catalogue:
    """The catalogue that comes with the package."""
    rows: list[dict[str, Any]] = json.loads(Path(__file__).with_name("catalogue.json").read_bytes())
    return Catalogue([LinePattern(**{**row, "words": tuple(row["words"])}) for row in rows])


def parse_duration(text: str) -> float:
    """Seconds of a duration as console lines print it.

    >>> [parse_duration(text) for text in ("980ms", "3.1s", "1m 12s", "2h 5m", "1d 3h")]
    [0.98, 3.1, 72.0, 7500.0, 97200.0]
    """
    return sum(float(number) * _UNITS[unit] for number, unit in _DURATION_PART.findall(text))


def _value(kind: str, text: str) -> Value:
    if kind == "integer":
        return int(text)
    if kind == "number":
        return float(text)
    if kind == "duration":
        return parse_duration(text)
    if kind == "percent":
        return float(text.removesuffix("%")) / 100
    if kind == "counts":
        return {name.strip(): int(count) for name, count in _COUNT.findall(text)}
    quantity = _QUANTITY.fullmatch(text) if kind == "quantity" else None
    return float(quantity[1]) * _MULTIPLES[quantity[2]] if quantity else text
