"""How newly admitted prompts are computed together: equal prompts once, prompts of similar length in one batch."""

from collections.abc import Sequence
from dataclasses import dataclass

from prl.inference.requests import Request

SHORT = 16
"""Padding up to this length costs less than another pass."""


@dataclass(frozen=True)
class PrefillBatch:
    """Distinct prompts for one pass, and which request takes which of them."""

    prompts: list[list[int]]
    requests: list[Request]
    rows: list[int]
    """Per request, the index of its prompt."""

    @property
    def padded(self) -> list[list[int]]:
        """The prompts, padded on the right with zeros to the longest."""
        longest = max(map(len, self.prompts))
        return [prompt + [0] * (longest - len(prompt)) for prompt in self.prompts]

    @property
    def shared_tokens(self) -> int:
        """Prompt tokens that need no computation of their own."""
        return sum(len(r.prompt) for r in self.requests) - sum(map(len, self.prompts))


def plan_prefill(requests: Sequence[Request]) -> list[PrefillBatch]:
    """Split ``requests`` into batches in which no prompt is longer than twice the shortest."""
    groups: dict[tuple[int, ...], list[Request]] = {}
    for request in requests:
        groups.setdefault(tuple(request.prompt), []).append(request)
    batches: list[PrefillBatch] = []
    limit = 0
    for prompt, sharing in sorted(groups.items(), key=lambda item: len(item[0])):
        if not batches or len(prompt) > limit:
            batches.append(PrefillBatch([], [], []))
            limit = max(2 * len(prompt), SHORT)
        batch = batches[-1]
        batch.rows.extend([len(batch.prompts)] * len(sharing))
        batch.prompts.append(list(prompt))
        batch.requests.extend(sharing)
    return batches
