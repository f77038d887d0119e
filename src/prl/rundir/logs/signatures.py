"""Failures that are known by their words: what a line of a log means, its usual cause and the usual fix.

``signatures.json`` holds ``signatures`` and ``benign``. A signature has an ``id`` (``nccl.watchdog``), a ``regex``,
searched in lines without escapes; ``severity`` (fatal, error, warn, info) with a ``note`` on when it differs; ``role``
where it is not what went wrong but a consequence (``secondary``), a report of one (``wrapper``) or a planned end
(``end``); ``fault``, the class of what is broken; ``where`` it is printed, ``cause``, ``fix``; ``threads`` in which
others met it; ``literals``, one of which every match holds; and an ``example``. A benign line holds a text that looks
like a failure and is none. A gigabyte is scanned in seconds since lines without any of the literals are never looked
at, and a few lines in a moment, since expressions are compiled when a literal of theirs was found.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prl.rundir.logs.entries import split_prefix
from prl.text.terminal import strip_escapes

if TYPE_CHECKING:
    from prl.rundir.logs.grams import LiteralFilter

SEVERITIES = ("fatal", "error", "warn", "info")

_MAX_LINE = 16_384
_HARDWARE_XIDS = frozenset({48, 63, 64, 74, 79, 94, 95})
_DIVERGED = re.compile(r"\b(?:loss|grad_norm)\b")
_LAG = re.compile(r"max=(\d+(?:\.\d+)?)s")
_MUCH_LAG = 60.0


@dataclass(frozen=True, eq=False)
class Signature:
    """One known failure."""

    id: str
    regex: str
    severity: str
    where: str
    cause: str
    fix: str
    example: str
    literals: tuple[str, ...]
    """Texts one of which every match holds: on lines without any the expression is not tried."""
    role: str = "primary"
    note: str = ""
    fault: str = ""
    threads: tuple[str, ...] = ()

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(self.regex)


@dataclass(frozen=True)
class Match:
    """A signature found in a line."""

    signature: Signature
    severity: str
    """That of the signature, unless the line's own numbers say otherwise."""
    values: dict[str, str]
    """The named groups of the expression."""
    offset: int
    """Byte offset of the line in what was searched."""
    text: str
    """The line without escapes."""


class Signatures:
    """All signatures, searched for together."""

    def __init__(self, signatures: Sequence[Signature], benign: Sequence[str]) -> None:
        self.by_id = {signature.id: signature for signature in signatures}
        self._texts = [(literal, signature) for signature in signatures for literal in signature.literals]
        self._benign_expressions = benign

    @cached_property
    def _benign(self) -> list[re.Pattern[str]]:
        return [re.compile(regex) for regex in self._benign_expressions]

    @cached_property
    def _filter(self) -> "LiteralFilter":
        from prl.rundir.logs.catalogue import load_catalogue
        from prl.rundir.logs.grams import LiteralFilter

        usual = "\n".join(pattern.example for pattern in load_catalogue().patterns.values())
        return LiteralFilter([literal.encode() for literal, _ in self._texts], usual.encode())

    def scan(self, data: bytes, offset: int = 0) -> Iterator[Match]:
        """The failures in whole lines of a log that begin at byte ``offset``, in order."""
        start = end = -1
        tried: set[str] = set()
        text = ""
        for place, number in self._filter.find(data):
            if place >= end:
                start, end = data.rfind(b"\n", 0, place) + 1, data.find(b"\n", place)
                end = len(data) if end < 0 else end
                tried.clear()
                text = _text_around(data, start, place, end)
            _, signature = self._texts[number]
            if signature.id not in tried:
                tried.add(signature.id)
                match = self._match(signature, offset + start, text)
                if match is not None:
                    yield match

    def find(self, line: str) -> list[Match]:
        """The failures that one line tells of."""
        return [match for _, match in self.find_each([(0, line)])]

    def find_each(self, lines: Sequence[tuple[int, str]]) -> Iterator[tuple[int, Match]]:
        """The failures that some lines tell of, each by its offset and text: the line's number and the match.

        For what fits in memory as text: what finds the literals in megabytes of bytes is not made for it.
        """
        texts = [strip_escapes(line)[:_MAX_LINE] for _, line in lines]
        everything = "\n".join(texts)
        likely = [(literal, signature) for literal, signature in self._texts if literal in everything]
        for number, text in enumerate(texts):
            held = dict.fromkeys(signature for literal, signature in likely if literal in text)
            for signature in held:
                match = self._match(signature, lines[number][0], text)
                if match is not None:
                    yield number, match

    def _match(self, signature: Signature, offset: int, text: str) -> Match | None:
        prefix = split_prefix(text)
        message = prefix.message
        found = signature.compiled.search(message) or signature.compiled.search(text)
        if found is None or any(pattern.search(text) for pattern in self._benign):
            return None
        values = {name: value for name, value in found.groupdict().items() if value is not None}
        judge = _JUDGES.get(signature.id)
        return Match(signature, judge(values, text) if judge else signature.severity, values, offset, text)


def _text_around(data: bytes, start: int, place: int, end: int) -> str:
    """The line of a match as text. Of one that was redrawn or is very long the part in which the match stands."""
    start = max(data.rfind(b"\r", start, place) + 1, start, place - _MAX_LINE // 2)
    redrawn = data.find(b"\r", place, end)
    end = min(end if redrawn < 0 else redrawn, start + _MAX_LINE)
    return strip_escapes(data[start:end].decode(errors="replace"))


def _xid(values: dict[str, str], _text: str) -> str:
    return "fatal" if int(values["xid"]) in _HARDWARE_XIDS else "warn"


def _nonfinite(_values: dict[str, str], text: str) -> str:
    return "error" if _DIVERGED.search(text) else "warn"


def _lag(_values: dict[str, str], text: str) -> str:
    longest = _LAG.search(text)
    return "error" if longest and float(longest[1]) > _MUCH_LAG else "warn"


_JUDGES: dict[str, Callable[[dict[str, str], str], str]] = {
    "gpu.xid": _xid,
    "monitor.nonfinite": _nonfinite,
    "prl.lag": _lag,
}


@cache
def load_signatures() -> Signatures:
    """The signatures that come with the package."""
    raw: dict[str, Any] = json.loads(Path(__file__).with_name("signatures.json").read_bytes())
    signatures = [
        Signature(**{**row, "literals": tuple(row["literals"]), "threads": tuple(row.get("threads", ()))})
        for row in raw["signatures"]
    ]
    return Signatures(signatures, [row["regex"] for row in raw["benign"]])
