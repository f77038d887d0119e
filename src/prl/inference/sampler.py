"""Sampling of one token per request, for a batch of requests that each have their own parameters and random stream.

The random number of a request's k-th token is a function of its seed and k alone (SplitMix64 as a counter-based
generator), so a request samples the same tokens whoever shares its batch, up to the rounding of the logits, which
depends on the batch size in the last bits. Tokens are drawn by inverting the cumulative distribution: one uniform
number a token, whatever the vocabulary.

The reported log-probability is that of the distribution after temperature over the whole vocabulary, also when top-p,
top-k or min-p excluded tokens; at temperature 0 it is that of the untempered distribution.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prl.inference.requests import Request, SamplingParams

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def uniform(seeds: NDArray[np.uint64], counters: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Numbers in [0, 1) with 53 bits from (seed, counter): SplitMix64 (Steele, Lea, Flood 2014), hashed seeds."""
    with np.errstate(over="ignore"):
        mixed = _mix(_mix(seeds + GOLDEN) + GOLDEN * (counters + np.uint64(1)))
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


class Sampler:
    """Parameters of a fixed set of requests as arrays. Made anew when the set changes, used for many steps."""

    def __init__(self, requests: Sequence[Request]) -> None:
        params = [request.params for request in requests]
        greedy = [p.temperature == 0.0 for p in params]
        self._temperature = torch.tensor([p.temperature or 1.0 for p in params])[:, None]
        self._greedy = torch.tensor(greedy) if any(greedy) else None
        self._restricted = [(row, p) for row, p in enumerate(params) if p.restricted and p.temperature > 0.0]
        self._seeds = np.array([request.seed for request in requests], dtype=np.uint64)
        self._counters = np.array([len(request.tokens) for request in requests], dtype=np.uint64)

    def sample(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Draw a token per row of ``logits`` (N, vocabulary). Returns tokens (N) int64 and log-probabilities (N)."""
        logprobs = torch.log_softmax(logits / self._temperature, -1)
        probabilities = logprobs.exp()
        for row, params in self._restricted:
            probabilities[row] = restrict(probabilities[row], params)
        cumulative = probabilities.cumsum(-1, dtype=torch.float64)
        drawn = torch.from_numpy(uniform(self._seeds, self._counters))[:, None]
        self._counters += np.uint64(1)
        # The first token whose cumulative probability exceeds the number: never one of probability zero.
        tokens = torch.searchsorted(cumulative, drawn * cumulative[:, -1:], right=True).clamp_(max=logits.shape[1] - 1)
        if self._greedy is not None:
            tokens = torch.where(self._greedy[:, None], logits.argmax(-1, keepdim=True), tokens)
        return tokens[:, 0], logprobs.gather(1, tokens)[:, 0]


def restrict(probabilities: Tensor, params: SamplingParams) -> Tensor:
    """Set to zero what top-k, then top-p, then min-p exclude of one distribution (vocabulary). Not normalised.

    Top-p keeps the most probable tokens until their sum reaches p (relative to what top-k left); min-p keeps tokens of
    at least that share of the most probable one. The most probable token always stays.
    """
    ordered, order = probabilities.sort(descending=True, stable=True)
    keep = torch.ones(len(ordered), dtype=torch.bool)
    if params.top_k > 0:
        keep[params.top_k :] = False
    if params.top_p < 1.0:
        kept = ordered * keep
        before = kept.cumsum(-1, dtype=torch.float64) - kept
        keep &= before < params.top_p * kept.sum(dtype=torch.float64)
    if params.min_p > 0.0:
        keep &= ordered >= params.min_p * ordered[0]
    keep[0] = True
    restricted = torch.zeros_like(probabilities)
    restricted[order[keep]] = ordered[keep]
    return restricted
