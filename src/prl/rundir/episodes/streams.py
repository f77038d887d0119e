"""What is known of each token of a message or branch: one array a stream, one value a token.

Records keep values in two layouts, whichever writer made them: *compact*, one a sampled token (true in ``mask``) in
order, and *aligned*, one a token. Here all are aligned; where nothing is said the value is NaN. A stream that is not
there says why. With ``t`` the trainer's and ``i`` the inference engine's log-probability of a token:

* mismatch KL: as stored, else ``d = t - i``; ``exp(d) - d - 1``, marked as recomputed;
* stable: as stored in ``is_masked``, else by ``p = exp(t) - exp(i)``: outside ``[-eps, eps]`` the loss leaves the token
  out. The sign tells which of the two found the token likelier.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import isnan
from typing import TYPE_CHECKING, Any

from prl.rundir.untyped import as_list, get

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEFAULT_EPS = 0.1
"""Bound on the difference of probabilities where the trainer's loss has none of its own."""

STORED = {
    "advantage": "advantages",
    "inference_logprob": "logprobs",
    "trainer_logprob": "trainer_logprobs",
    "entropy": "entropies",
    "reference_logprob": "reference_logprobs",
}
"""Streams that are shown as they are stored, and the field of a node that holds them."""

STREAMS = (*STORED, "mismatch_kl", "stable", "loss_mask", "content_mask")

_FIELDS = {
    **STORED,
    "mismatch_kl": "mismatch_kl",
    "stable": "is_masked",
    "loss_mask": "mask",
    "content_mask": "is_content",
}
_OF_TRAINER = ("trainer_logprob", "entropy", "mismatch_kl", "stable")

STABLE, OVER, UNDER, MASKED = 0.0, 1.0, -1.0, 2.0
"""Values of ``stable``: counted by the loss; left out, the trainer finding the token likelier than the engine did
(``p > eps``); left out, less likely (``p < -eps``); left out, and no log-probabilities tell which."""

_PLAIN = {float, int, type(None)}
_PLAIN_FLAGS = _PLAIN | {bool}
"""Types of values that numpy takes as they are meant."""

NO_TOKENS = "no tokens"
NOT_SAMPLED = "no sampled tokens"
NO_TRAINER = "no trainer stream"
NOT_COVERED = "not covered"
NOT_SHIPPED = "not shipped"
NOT_RECORDED = "not recorded"
ALL_ZERO = "all-zero advantage"


@dataclass(frozen=True)
class TokenStream:
    """One value a token: float64, NaN where there is none. Masks are 0.0 and 1.0."""

    values: "NDArray[Any] | None"
    reason: str | None = None
    """Why there is none. ``all-zero advantage`` has values too: they say nothing."""
    recomputed: bool = False
    """Not as recorded, but made from log-probabilities, for some tokens at least."""

    def to_list(self) -> list[float | None]:
        """The values, None where there is none. Infinite ones stay."""
        return [] if self.values is None else [None if isnan(value) else value for value in self.values.tolist()]


@dataclass(frozen=True)
class Tokens:
    """Tokens in order, with their streams by name (:data:`STREAMS`)."""

    ids: list[int]
    streams: dict[str, TokenStream]
    problems: tuple[str, ...] = field(default=())
    """What was stored and could not be used, and why."""

    def __len__(self) -> int:
        return len(self.ids)

    def part(self, start: int, stop: int) -> "Tokens":
        """The tokens from ``start`` up to ``stop``."""
        streams = {
            name: replace(stream, values=stream.values[start:stop]) if stream.values is not None else stream
            for name, stream in self.streams.items()
        }
        return replace(self, ids=self.ids[start:stop], streams=streams)


def node_tokens(node: Mapping[str, Any], *, eps: float = DEFAULT_EPS, has: frozenset[str] = frozenset()) -> Tokens:
    """The tokens of one message. ``has``: streams that some message of the trace has, so that others lack cover."""
    reader = _NodeReader(node, has)
    streams = {name: reader.floats(name, stored) for name, stored in STORED.items()}
    streams["mismatch_kl"] = reader.mismatch(streams)
    streams["stable"] = reader.stable(streams, eps)
    streams["loss_mask"] = reader.mask_stream
    streams["content_mask"] = reader.flags("is_content")
    return Tokens(reader.ids, streams, tuple(reader.problems))


def joined_tokens(parts: Sequence[Tokens]) -> Tokens:
    """The tokens of several messages in order, as of a branch. A stream that one of them has is there."""
    import numpy as np

    streams = {}
    for name in STREAMS:
        columns = [part.streams[name] for part in parts]
        if any(column.values is not None for column in columns):
            values = np.concatenate([_filled(column, len(part)) for column, part in zip(columns, parts, strict=True)])
            recomputed = any(column.recomputed for column in columns)
            streams[name] = _checked(name, TokenStream(values, None, recomputed))
        else:
            streams[name] = TokenStream(None, _common([column.reason for column in columns]))
    problems = [problem for part in parts for problem in part.problems]
    return Tokens([token for part in parts for token in part.ids], streams, tuple(problems))


def stored_streams(nodes: Sequence[Any]) -> frozenset[str]:
    """The streams of which some message of a trace has stored values."""
    return frozenset(name for name, stored in _FIELDS.items() if any(get(node, stored) for node in nodes))


def unavailable_streams(nodes: Sequence[Any]) -> dict[str, str]:
    """The streams that no message of a trace has anything to show of, each with the reason."""
    if not any(token_ids(node) for node in nodes):
        return dict.fromkeys(STREAMS, NO_TOKENS)
    there = set(stored_streams(nodes))
    if {"trainer_logprob", "inference_logprob"} <= there:
        there |= {"mismatch_kl", "stable"}
    missing = {name: _reason_of_absence(name, there) for name in STREAMS if name not in there}
    if "advantage" in there and not any(_has_nonzero(node) for node in nodes):
        missing["advantage"] = ALL_ZERO
    return missing


def token_ids(node: Any) -> list[int]:
    """The ids of a node's tokens. What is no whole number among them becomes -1, which no token has."""
    return [token if type(token) is int else -1 for token in as_list(get(node, "token_ids"))]


def _has_nonzero(node: Any) -> bool:
    return any(as_list(get(node, "advantages")))


def _reason_of_absence(name: str, there: Collection[str]) -> str:
    if name in _OF_TRAINER and ("trainer_logprob" not in there or name == "entropy"):
        return NO_TRAINER
    return NOT_SHIPPED if name == "advantage" else NOT_RECORDED


class _NodeReader:
    """The streams of one node. What has a wrong type or length is left out and noted."""

    def __init__(self, node: Mapping[str, Any], has: frozenset[str]) -> None:
        self.problems: list[str] = []
        self._node = node
        self._has = has
        self.ids = token_ids(node)
        if any(token < 0 for token in self.ids):
            self.problems.append("token_ids: not all are whole numbers from 0 on")
        self.mask_stream = self.flags("mask")
        mask = self.mask_stream.values
        self._sampled = mask == 1.0 if mask is not None else None

    def floats(self, name: str, stored: str) -> TokenStream:
        raw = self._node.get(stored)
        if not self.ids:
            return TokenStream(None, NO_TOKENS)
        if not isinstance(raw, list) or not raw:
            if raw:
                self.problems.append(f"{stored}: a {type(raw).__name__}, not a list")
            return TokenStream(None, self._absence(name))
        values = self._aligned(stored, raw)
        return TokenStream(None, NOT_COVERED) if values is None else _checked(name, TokenStream(values))

    def flags(self, stored: str) -> TokenStream:
        """A mask: one truth a token."""
        raw = self._node.get(stored)
        if not self.ids:
            return TokenStream(None, NO_TOKENS)
        if not isinstance(raw, list) or not raw:
            return TokenStream(None, NOT_RECORDED)
        if len(raw) != len(self.ids):
            self.problems.append(f"{stored}: {len(raw)} values for {len(self.ids)} tokens")
            return TokenStream(None, NOT_COVERED)
        return TokenStream(_numbers(raw, flags=True))

    def mismatch(self, streams: Mapping[str, TokenStream]) -> TokenStream:
        import numpy as np

        stored = self.floats("mismatch_kl", "mismatch_kl")
        trainer, engine = streams["trainer_logprob"].values, streams["inference_logprob"].values
        if trainer is None or engine is None:
            return stored if stored.values is not None else self._without_logprobs(streams)
        with np.errstate(over="ignore", invalid="ignore"):
            difference = trainer - engine
            made = np.exp(difference) - difference - 1
        return _completed(stored, made)

    def stable(self, streams: Mapping[str, TokenStream], eps: float) -> TokenStream:
        import numpy as np

        stored = self._stored_masked()
        trainer, engine = streams["trainer_logprob"].values, streams["inference_logprob"].values
        if trainer is None or engine is None:
            if stored is None:
                return self._without_logprobs(streams)
            return TokenStream(np.where(np.isnan(stored), np.nan, np.where(stored == 1.0, MASKED, STABLE)))
        with np.errstate(over="ignore", invalid="ignore"):
            difference = np.exp(trainer) - np.exp(engine)
        made = np.select([np.isnan(difference), difference > eps, difference < -eps], [np.nan, OVER, UNDER], STABLE)
        if stored is None:
            return TokenStream(made, None, recomputed=True)
        direction = np.where(difference > 0, OVER, np.where(difference < 0, UNDER, MASKED))
        kept = np.where(stored == 1.0, direction, np.where(stored == 0.0, STABLE, np.nan))
        return _completed(TokenStream(kept), made)

    def _stored_masked(self) -> "NDArray[Any] | None":
        raw = self._node.get("is_masked")
        return self._aligned("is_masked", raw, flags=True) if isinstance(raw, list) and raw and self.ids else None

    def _without_logprobs(self, streams: Mapping[str, TokenStream]) -> TokenStream:
        lacking = "trainer_logprob" if streams["trainer_logprob"].values is None else "inference_logprob"
        return TokenStream(None, streams[lacking].reason)

    def _absence(self, name: str) -> str:
        if self._sampled is not None and not self._sampled.any():
            return NOT_SAMPLED
        return NOT_COVERED if name in self._has else _reason_of_absence(name, self._has)

    def _aligned(self, stored: str, raw: list[Any], *, flags: bool = False) -> "NDArray[Any] | None":
        import numpy as np

        values = _numbers(raw, flags=flags)
        sampled = int(self._sampled.sum()) if self._sampled is not None else None
        if len(values) == sampled and self._sampled is not None:
            aligned = np.full(len(self.ids), np.nan)
            aligned[self._sampled] = values
            return aligned
        if len(values) == len(self.ids):
            return values
        expected = f"{sampled} sampled of {len(self.ids)}" if sampled is not None else f"{len(self.ids)}"
        self.problems.append(f"{stored}: {len(values)} values for {expected} tokens")
        return None


def _completed(stored: TokenStream, made: "NDArray[Any]") -> TokenStream:
    """The stored values, and where there are none those made."""
    import numpy as np

    if stored.values is None:
        return TokenStream(made, None, recomputed=True)
    fills = np.isnan(stored.values) & ~np.isnan(made)
    return TokenStream(np.where(fills, made, stored.values), None, recomputed=bool(fills.any()))


def _checked(name: str, stream: TokenStream) -> TokenStream:
    import numpy as np

    if name == "advantage" and stream.values is not None and not np.nan_to_num(stream.values).any():
        return TokenStream(stream.values, ALL_ZERO)
    return stream


def _filled(stream: TokenStream, length: int) -> "NDArray[Any]":
    import numpy as np

    return stream.values if stream.values is not None else np.full(length, np.nan)


def _common(reasons: Sequence[str | None]) -> str:
    """The reason that says most: that of the messages with sampled tokens, if there are any."""
    told = [reason for reason in reasons if reason is not None]
    telling = [reason for reason in told if reason not in (NO_TOKENS, NOT_SAMPLED)]
    return next(iter([*telling, *(reason for reason in told if reason == NOT_SAMPLED), *told]), NO_TOKENS)


def _numbers(raw: Sequence[Any], *, flags: bool = False) -> "NDArray[Any]":
    import numpy as np

    if set(map(type, raw)) <= (_PLAIN_FLAGS if flags else _PLAIN):  # mostly: ten times as fast as one by one
        with suppress(OverflowError):
            return np.array(raw, np.float64)
    return np.array(list(_floats(raw, flags)), np.float64)


def _floats(raw: Sequence[Any], flags: bool) -> Iterator[float]:
    for value in raw:
        if isinstance(value, bool):
            yield float(value) if flags else float("nan")
        elif isinstance(value, int | float):
            try:
                yield float(value)
            except OverflowError:
                yield float("nan")
        else:
            yield float("nan")
