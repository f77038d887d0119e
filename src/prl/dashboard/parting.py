"""Where rollouts of one task part: the first token that is not the same in all of them, and the ways they go on.

Of each rollout the first branch of its first trainable trace is compared. Where every one of them has token ids, ids
are compared, whatever their text; else the texts of the messages are. Left out: rollouts that meet again afterwards.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from prl.dashboard.token_view import token_texts
from prl.rundir.episodes.detail import EpisodeDetail, TraceDetail
from prl.rundir.live.rows import message_text
from prl.rundir.tokens.text import TokenText
from prl.rundir.untyped import get

TEXT_AFTER = 400
"""Characters of a rollout's text from the parting on."""
SHARED = 200
"""Characters of the shared text before it: the last ones of the message in which they part."""
_TOKENS_AFTER = 160
_WAY = 80
"""Characters of the text that all rollouts of a way have in common."""
_WAY_ALONE = 40


@dataclass
class Rollout:
    """One rollout of a group, as it is compared."""

    detail: EpisodeDetail

    @cached_property
    def trace(self) -> TraceDetail | None:
        """The trace that is compared."""
        traces = self.detail.traces
        trained = (trace for trace in traces if get(trace.trace, "agent", "trainable") is True)
        return next(trained, traces[0] if traces else None)

    @cached_property
    def path(self) -> list[int]:
        """The messages of its first branch."""
        return self.trace.branches[0] if self.trace is not None and len(self.trace.branches) else []

    @cached_property
    def ids(self) -> list[int]:
        return self.trace.branch_ids(0) if self.trace is not None and self.path else []

    @cached_property
    def messages(self) -> list[tuple[str, str]]:
        """Role and text of each message on the path."""
        if self.trace is None:
            return []
        nodes = [self.trace.nodes[index] for index in self.path]
        return [(str(get(node, "message", "role")), message_text(get(node, "message"))) for node in nodes]

    @property
    def tokenizer(self) -> TokenText:
        return self.detail.tokenizer

    def place(self, token: int) -> tuple[int, int]:
        """On the path the message in which a token stands, and the token's number in it."""
        assert self.trace is not None
        at = 0
        for number, index in enumerate(self.path):
            count = self.trace.token_counts[index]
            if token < at + count:
                return number, token - at
            at += count
        return len(self.path), 0

    def turn(self, message: int) -> int:
        """Which of the model's answers a message on the path belongs to, from 1; 0 before the first."""
        return sum(role == "assistant" for role, _ in self.messages[: message + 1])

    def probability(self, token: int) -> float | None:
        """How likely the engine found a token when it sampled it."""
        assert self.trace is not None
        values = self.trace.token_page(0, token, 1).tokens.streams["inference_logprob"].values
        if values is None or not len(values) or not math.isfinite(values[0]):
            return None
        return math.exp(min(float(values[0]), 0.0))


@dataclass(frozen=True)
class Parting:
    """Where rollouts part. ``token`` is None where texts were compared."""

    token: int | None
    message: int
    turn: int
    shared_text: str
    ways: list[dict[str, Any]] = field(default_factory=list)
    texts: list[str | None] = field(default_factory=list)
    """Of each rollout the text from the parting on; None of one that takes no part."""

    def to_json(self) -> dict[str, Any]:
        return {
            "token": self.token,
            "message": self.message,
            "turn": self.turn,
            "shared_text": self.shared_text,
            "ways": self.ways,
        }


def find_parting(rollouts: Sequence[Rollout]) -> Parting | str:
    """Where they part, or why that cannot be said."""
    taking_part = [number for number, rollout in enumerate(rollouts) if rollout.path]
    if len(taking_part) < 2:
        return "fewer than two rollouts have messages"
    if all(rollouts[number].ids for number in taking_part):
        return _by_tokens(rollouts, taking_part)
    return _by_text(rollouts, taking_part)


def _by_tokens(rollouts: Sequence[Rollout], taking_part: list[int]) -> Parting | str:
    first = rollouts[taking_part[0]]
    token = _shared([rollouts[number].ids for number in taking_part])
    if all(token == len(rollouts[number].ids) for number in taking_part):
        return "all rollouts are the same, token by token"
    longest = max((rollouts[number] for number in taking_part), key=lambda rollout: len(rollout.ids))
    message, within = longest.place(token)
    texts: list[str | None] = [None] * len(rollouts)
    groups: dict[int | None, list[int]] = {}
    for number in taking_part:
        ids = rollouts[number].ids
        groups.setdefault(ids[token] if token < len(ids) else None, []).append(number)
        texts[number] = _text_from(rollouts[number], token)
    if first.tokenizer.decoder is None:
        by_text = _by_text(rollouts, taking_part)
        if isinstance(by_text, Parting):
            texts = by_text.texts
            shared = by_text.shared_text
        else:
            shared = ""
    else:
        shared = _text_before(longest, token, message, within)
    ways = [_way(rollouts, numbers, texts, token if key is not None else None) for key, numbers in groups.items()]
    return Parting(token, message, longest.turn(message), shared, _sorted(ways), texts)


def _by_text(rollouts: Sequence[Rollout], taking_part: list[int]) -> Parting | str:
    paths = [rollouts[number].messages for number in taking_part]
    message = _shared(paths)
    if all(message == len(path) for path in paths):
        return "all rollouts are the same, message by message"
    here = [path[message][1] if message < len(path) else "" for path in paths]
    same_role = len({path[message][0] for path in paths if message < len(path)}) == 1
    at = _word_start(here[0], len(_common(here))) if same_role else 0
    texts: list[str | None] = [None] * len(rollouts)
    groups: dict[str, list[int]] = {}
    for number, text in zip(taking_part, here, strict=True):
        texts[number] = text[at : at + TEXT_AFTER]
        groups.setdefault(text[at:].split(maxsplit=1)[0] if text[at:].strip() else "", []).append(number)
    ways = [_way(rollouts, numbers, texts, None) for numbers in groups.values()]
    longest = max((rollouts[number] for number in taking_part), key=lambda rollout: len(rollout.messages))
    return Parting(None, message, longest.turn(message), here[0][max(at - SHARED, 0) : at], _sorted(ways), texts)


def _way(rollouts: Sequence[Rollout], numbers: list[int], texts: list[str | None], token: int | None) -> dict[str, Any]:
    """``text`` is what the texts of its rollouts begin with."""
    own = [texts[number] or "" for number in numbers]
    common = _common(own) if len(own) > 1 else own[0][:_WAY_ALONE]
    return {
        "rollouts": numbers,
        "text": common[:_WAY],
        "ended": not any(own) and token is None,
        "probability": rollouts[numbers[0]].probability(token) if token is not None else None,
    }


def _sorted(ways: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The way that most took first."""
    return sorted(ways, key=lambda way: (-len(way["rollouts"]), way["rollouts"]))


def _text_from(rollout: Rollout, token: int) -> str | None:
    assert rollout.trace is not None
    count = min(_TOKENS_AFTER, len(rollout.ids) - token)
    texts = token_texts(rollout.trace, 0, token, count, rollout.tokenizer) if count > 0 else [""]
    return "".join(texts)[:TEXT_AFTER] if texts is not None else None


def _text_before(rollout: Rollout, token: int, message: int, within: int) -> str:
    """The text of the message in which they part, up to there; of an answer what the model wrote."""
    assert rollout.trace is not None
    mask = rollout.trace.message(rollout.path[message]).tokens.streams["loss_mask"].values
    template = int(mask.argmax()) if mask is not None and mask.any() else 0
    count = min(max(within - template, 0), SHARED)
    texts = token_texts(rollout.trace, 0, token - count, count, rollout.tokenizer)
    return "".join(texts or [])[-SHARED:]


def _shared(sequences: Sequence[Sequence[Any]]) -> int:
    """How many first items are the same in all."""
    first, *others = sequences
    count = min(map(len, sequences))
    for other in others:
        if first[:count] != other[:count]:
            count = next(at for at in range(count) if first[at] != other[at])
    return count


def _word_start(text: str, at: int) -> int:
    """Where the word begins in which ``at`` stands, so that ways differ by words."""
    while at > 0 and not text[at - 1].isspace():
        at -= 1
    return at


def _common(texts: Sequence[str]) -> str:
    """What all texts begin with."""
    return texts[0][: _shared(texts)]
