"""Sampling: the distribution, its log-probabilities, restrictions, and streams that depend on the seed alone."""

import asyncio

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prl.inference.requests import Completion, Request, SamplingParams
from prl.inference.sampler import Sampler, restrict, uniform

LOOP = asyncio.new_event_loop()
LOOP.close()
NOBODY: asyncio.Future[Completion] = asyncio.Future(loop=LOOP)
"""No sampler looks at it."""


def request(seed: int = 0, sampled: int = 0, **params: float) -> Request:
    made = Request([1], SamplingParams(max_tokens=8, **params), seed, 0.0, NOBODY, 0.0)  # type: ignore[arg-type]
    made.tokens = [0] * sampled
    return made


def test_random_numbers_are_uniform_and_streams_are_unlike() -> None:
    numbers = uniform(np.arange(200, dtype=np.uint64)[:, None], np.arange(500, dtype=np.uint64)[None])
    assert ((numbers >= 0) & (numbers < 1)).all()
    counts = np.histogram(numbers, bins=20, range=(0, 1))[0]
    # 5,000 expected a bin, standard deviation 69: five of those.
    assert (abs(counts - 5000) < 350).all()
    # Neighbouring seeds and neighbouring positions are uncorrelated: |r| < 4 / sqrt(100,000).
    assert abs(np.corrcoef(numbers[:-1].ravel(), numbers[1:].ravel())[0, 1]) < 0.013
    assert abs(np.corrcoef(numbers[:, :-1].ravel(), numbers[:, 1:].ravel())[0, 1]) < 0.013
    assert len(np.unique(numbers)) == numbers.size


def test_tokens_follow_the_distribution_and_log_probabilities_are_its_own() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0, -1.0]])
    expected = torch.log_softmax(logits[0] / 0.7, -1)
    tokens, logprobs = Sampler([request(seed=i, temperature=0.7) for i in range(20_000)]).sample(
        logits.expand(20_000, -1)
    )
    shares = np.bincount(tokens.numpy(), minlength=4) / 20_000
    assert np.allclose(shares, expected.exp().numpy(), atol=0.015)
    assert torch.equal(logprobs, expected[tokens])


def test_greedy_takes_the_most_probable_and_reports_the_untempered_log_probability() -> None:
    logits = torch.randn(3, 50, generator=torch.Generator().manual_seed(0))
    sampler = Sampler([request(temperature=0.0), request(temperature=1.0), request(temperature=0.0)])
    tokens, logprobs = sampler.sample(logits)
    assert tokens[0] == logits[0].argmax()
    assert tokens[2] == logits[2].argmax()
    assert torch.allclose(logprobs, logits.log_softmax(-1)[torch.arange(3), tokens])


def test_a_request_samples_the_same_whoever_shares_its_batch() -> None:
    logits = torch.randn(6, 40, generator=torch.Generator().manual_seed(1))
    alone = Sampler([request(seed=9)])
    first = alone.sample(logits[:1])[0][0], alone.sample(logits[:1])[0][0]
    mates = Sampler([request(seed=i) for i in (1, 2, 9, 3, 4, 5)])
    rows = logits[[1, 2, 0, 3, 4, 5]]
    assert (mates.sample(rows)[0][2], mates.sample(rows)[0][2]) == first
    # Taken up again after one token, with another sampler, the stream goes on where it was.
    assert Sampler([request(seed=9, sampled=1)]).sample(logits[:1])[0][0] == first[1]


def test_impossible_tokens_are_never_drawn() -> None:
    logits = torch.full((5000, 6), -torch.inf)
    logits[:, 2] = 0.0
    logits[:, 4] = 0.0
    tokens, logprobs = Sampler([request(seed=i) for i in range(5000)]).sample(logits)
    assert set(tokens.tolist()) == {2, 4}
    assert torch.allclose(logprobs, torch.tensor(0.5).log())


probabilities = st.lists(st.floats(0.001, 1.0), min_size=1, max_size=12)


@given(probabilities, st.integers(0, 13), st.floats(0.05, 1.0), st.floats(0.0, 1.0))
def test_restrictions_keep_what_their_definitions_say(
    weights: list[float], top_k: int, top_p: float, min_p: float
) -> None:
    p = torch.tensor(weights, dtype=torch.float64)
    p /= p.sum()
    got = restrict(p, SamplingParams(max_tokens=1, top_k=top_k, top_p=top_p, min_p=min_p))
    order = np.argsort(-p.numpy(), kind="stable")
    kept = list(order[: top_k or len(order)])
    mass = sum(p[i].item() for i in kept)
    nucleus, total = [], 0.0
    for i in kept:
        # A sum that meets p to rounding may fall on either side: not what is tested here.
        if top_p < 1.0 and abs(total - top_p * mass) < 1e-9:
            return
        if top_p < 1.0 and total >= top_p * mass:
            break
        nucleus.append(i)
        total += p[i].item()
    threshold = min_p * p.max().item()
    expected = {int(i) for i in nucleus if p[i].item() >= threshold} | {int(order[0])}
    assert set(got.nonzero().flatten().tolist()) == expected
    assert torch.equal(got[sorted(expected)], p[sorted(expected)])


def test_restricted_requests_draw_from_what_is_left_and_report_the_whole_distribution() -> None:
    logits = torch.tensor([[3.0, 2.0, 1.0, 0.0]]).expand(2000, -1)
    tokens, logprobs = Sampler([request(seed=i, top_k=2) for i in range(2000)]).sample(logits)
    assert set(tokens.tolist()) == {0, 1}
    assert torch.equal(logprobs, logits[0].log_softmax(-1)[tokens])
    assert np.mean(tokens.numpy() == 0) == pytest.approx(1 / (1 + np.exp(-1)), abs=0.05)
