"""Slots: first come, first served; running requests end up contiguous; the copies asked for are the right ones."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from prl.inference.prefill import plan_prefill
from prl.inference.requests import Request, SamplingParams
from prl.inference.scheduler import Scheduler


def request(prompt: list[int]) -> Request:
    loop = asyncio.new_event_loop()
    try:
        return Request(prompt, SamplingParams(max_tokens=8), 0, 0.0, loop.create_future(), 0.0)
    finally:
        loop.close()


def test_requests_get_slots_in_the_order_of_their_arrival_and_fill_holes_first() -> None:
    scheduler = Scheduler(3)
    requests = [request([i]) for i in range(5)]
    scheduler.waiting.extend(requests)
    assert scheduler.admit(100) == requests[:3]
    assert [r.slot for r in requests[:3]] == [0, 1, 2]
    assert scheduler.admit(100) == []
    assert scheduler.remove(requests[1])
    assert scheduler.admit(100) == [requests[3]]
    assert requests[3].slot == 1
    assert scheduler.remove(requests[4]), "a waiting request can be removed"
    assert not scheduler.remove(requests[4])
    assert not scheduler.remove(requests[1])


def test_admission_is_bounded_by_distinct_prompt_tokens_but_never_empty() -> None:
    scheduler = Scheduler(8)
    shared = [[1, 2, 3]] * 3
    scheduler.waiting.extend(request(p) for p in [[0] * 50, *shared, [4, 5]])
    assert [r.prompt for r in scheduler.admit(10)] == [[0] * 50]
    assert [r.prompt for r in scheduler.admit(4)] == shared
    assert [r.prompt for r in scheduler.admit(4)] == [[4, 5]]


@given(st.integers(1, 6), st.lists(st.one_of(st.none(), st.integers(0, 5)), max_size=40))
def test_running_requests_stay_contiguous_and_keep_their_cache(num_slots: int, events: list[int | None]) -> None:
    """None: a request arrives and slots are given out. k: the k-th running request ends. Then holes are closed."""
    scheduler = Scheduler(num_slots)
    cache: dict[int, Request] = {}
    alive: list[Request] = []
    for event in events:
        if event is None:
            scheduler.waiting.append(request([1]))
            for admitted in scheduler.admit(100):
                cache[admitted.slot] = admitted
                alive.append(admitted)
        elif alive:
            scheduler.remove(alive.pop(event % len(alive)))
        if event != 0:
            sources, targets = scheduler.close_holes()
            assert not set(sources) & set(targets)
            copied = [cache[source] for source in sources]
            cache.update(zip(targets, copied, strict=True))
            assert [r.slot for r in scheduler.running] == list(range(len(alive)))
        assert set(scheduler.running) == set(alive)
        assert all(cache[r.slot] is r for r in alive)
        assert len(scheduler.slots) <= num_slots


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=60), min_size=1, max_size=12))
def test_prefill_computes_each_prompt_once_in_batches_of_similar_length(prompts: list[list[int]]) -> None:
    requests = [request(prompt) for prompt in prompts]
    batches = plan_prefill(requests)
    assert sorted(map(id, (r for b in batches for r in b.requests))) == sorted(map(id, requests))
    distinct = [tuple(prompt) for b in batches for prompt in b.prompts]
    assert sorted(distinct) == sorted(set(map(tuple, prompts)))
    for batch in batches:
        assert [batch.prompts[row] for row in batch.rows] == [r.prompt for r in batch.requests]
        lengths = [len(prompt) for prompt in batch.prompts]
        assert max(lengths) <= max(2 * min(lengths), 16)
        assert all(row[: len(p)] == p for row, p in zip(batch.padded, batch.prompts, strict=True))
        assert {len(row) for row in batch.padded} == {max(lengths)}
        assert batch.shared_tokens == sum(len(r.prompt) for r in batch.requests) - sum(lengths)
