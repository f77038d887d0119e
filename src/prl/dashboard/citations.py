"""A report's citations, checked: is the quote really in the episode that it is said to be from?

A citation is a footnote whose body is a JSON object: ``episode`` and ``quote``, and where it helps ``step``, ``kind``,
``note``, ``prefix``, ``suffix``. White space does not count: whoever quotes breaks lines anew. What cannot be read is
told apart from what is not there.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prl.watch.outward import safe

if TYPE_CHECKING:
    from prl.rundir.episodes.detail import EpisodeDetail

MAX_CITATIONS = 200
_SECONDS = 3.0
"""For checking all citations of a report. Those that are left are told to be unchecked."""
_MAX_QUOTE = 4000


@dataclass(frozen=True)
class Citation:
    """What a footnote says."""

    id: str
    episode: str | None
    quote: str | None
    step: int | None = None
    kind: str | None = None
    note: str | None = None
    prefix: str = ""
    suffix: str = ""

    def to_json(self) -> dict[str, Any]:
        names = ("id", "step", "kind", "episode", "quote", "note")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Check:
    """What became of a citation. ``found`` None: it could not be checked, and ``reason`` says why."""

    found: bool | None
    reason: str | None = None
    trace: str | None = None
    node: int | None = None


_NO_EPISODE = Check(False, "there is no such episode")


def parse(notes: Mapping[str, str]) -> tuple[list[Citation], dict[str, str]]:
    """Citations among footnotes, and the other footnotes."""
    citations, others = [], {}
    for name, body in notes.items():
        fields = _object(body)
        if fields is None:
            others[name] = body
            continue
        texts = {key: value[:_MAX_QUOTE] for key, value in fields.items() if isinstance(value, str)}
        step = fields.get("step")
        citations.append(
            Citation(
                id=name,
                episode=texts.get("episode"),
                quote=texts.get("quote"),
                step=step if type(step) is int else None,
                kind=texts.get("kind"),
                note=texts.get("note"),
                prefix=texts.get("prefix", ""),
                suffix=texts.get("suffix", ""),
            )
        )
    return citations[:MAX_CITATIONS], others


def check_all(citations: Iterable[Citation], open_episode: "Callable[[str], EpisodeDetail]") -> list[dict[str, Any]]:
    """Each citation with what became of it and where it leads. Every episode is opened once."""
    end = time.monotonic() + _SECONDS
    opened: dict[str, list[_Passage] | Check] = {}
    told = []
    for citation in citations:
        episode = citation.episode
        if episode is not None and episode not in opened:
            late = time.monotonic() > end
            opened[episode] = Check(None, "not checked: it took too long") if late else _passages(episode, open_episode)
        result = check(citation, opened[episode] if episode is not None else Check(False, "it names no episode"))
        told.append(
            {**citation.to_json(), "found": result.found, "reason": result.reason, "link": _link(citation, result)}
        )
    return told


@dataclass(frozen=True)
class _Passage:
    """One text of an episode without its white space."""

    text: str
    trace: str | None
    node: int | None


def check(citation: Citation, passages: "list[_Passage] | Check") -> Check:
    """Whether a quote stands in the texts of its episode."""
    if isinstance(passages, Check):
        return passages
    if citation.quote is None or not _dense(citation.quote):
        return Check(False, "it quotes nothing")
    quote = _dense(citation.quote)
    around = _dense(citation.prefix) + quote + _dense(citation.suffix)
    for wanted in (around, quote):
        for passage in passages:
            if wanted in passage.text:
                other = "the quote is there, but not between the texts that it is said to stand between"
                return Check(True, None if wanted == around else other, passage.trace, passage.node)
    return Check(False, "the episode does not hold this text")


def _passages(episode: str, open_episode: "Callable[[str], EpisodeDetail]") -> "list[_Passage] | Check":
    from prl.rundir.episodes.texts import FIELDS, texts

    try:
        record = open_episode(episode).record
    except LookupError:
        return _NO_EPISODE
    except OSError as error:
        return Check(None, f"the episode cannot be read: {safe(error.strerror or str(error))}")
    return [_Passage(_dense(text.text), text.trace_id, text.node) for text in texts(record, FIELDS)]


def _dense(text: str) -> str:
    return "".join(text.split())


def _link(citation: Citation, result: Check) -> dict[str, Any] | None:
    if citation.episode is None or result == _NO_EPISODE:
        return None
    params = {"episode": citation.episode, "trace": result.trace, "node": result.node, "quote": citation.quote}
    return {"page": "traces", "params": {name: str(value) for name, value in params.items() if value is not None}}


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
