"""What the engine is asked for and what it answers: sampling parameters, requests in flight, completions."""

import asyncio
import math
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

FinishReason = Literal["stop", "length", "abort", "error"]


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How one completion is sampled.

    ``temperature`` 0 is greedy. ``top_k`` 0, ``top_p`` 1 and ``min_p`` 0 restrict nothing. ``seed`` None: the engine
    draws one. A completion ends after ``max_tokens`` tokens or with the first of ``stop_token_ids``, which it keeps.
    """

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    stop_token_ids: frozenset[int] = frozenset()

    @property
    def restricted(self) -> bool:
        """Whether tokens are excluded from sampling."""
        return self.top_p < 1.0 or self.top_k > 0 or self.min_p > 0.0


class VersionSpan(NamedTuple):
    """Tokens ``start`` up to ``end`` (exclusive) were sampled with the weights of ``version``."""

    version: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished request. ``logprobs`` are of the sampled tokens after temperature, one per token."""

    token_ids: list[int]
    logprobs: list[float]
    finish_reason: FinishReason
    weight_versions: list[VersionSpan]
    error: str | None = None


@dataclass(slots=True, eq=False)
class Request:
    """A request in flight. It belongs to the engine's thread, but for ``future``, which is the event loop's."""

    prompt: list[int]
    params: SamplingParams
    seed: int
    """Of the random stream, 64 bits."""
    arrived_at: float
    """Monotonic seconds, as all times here."""
    future: asyncio.Future[Completion]
    due: float
    """When it is to start; until then it waits for others to start with."""
    slot: int = -1
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    """(version, index of the first token sampled with it)."""
    last_token_at: float = 0.0

    def use_version(self, version: int) -> None:
        """From the next token on ``version`` samples."""
        start = len(self.tokens)
        if self.spans and self.spans[-1][1] == start:
            self.spans.pop()
        self.spans.append((version, start))

    def append(self, token: int, logprob: float) -> FinishReason | None:
        """Take a sampled token. Returns why the request is finished, if it is."""
        if not math.isfinite(logprob):
            return "error"
        self.tokens.append(token)
        self.logprobs.append(logprob)
        if token in self.params.stop_token_ids:
            return "stop"
        return "length" if len(self.tokens) >= self.params.max_tokens else None

    def completion(self, reason: FinishReason, error: str | None = None) -> Completion:
        """The answer for what was sampled so far."""
        ends = [*(start for _, start in self.spans[1:]), len(self.tokens)]
        # A request that never left the queue has no span, but an end.
        spans = [VersionSpan(version, start, end) for (version, start), end in zip(self.spans, ends, strict=False)]
        return Completion(self.tokens, self.logprobs, reason, [span for span in spans if span.end > span.start], error)
