"""The engine in process: continuous batching, streams by seed, weight swaps in flight, pauses, aborts, failures."""

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine_models import reference_logprobs, shaken_model
from prl.inference.architecture import Architecture, read_architecture
from prl.inference.engine import Engine, EngineDeadError, QueueFullError
from prl.inference.model import KVCache, Model
from prl.inference.requests import Completion, SamplingParams, VersionSpan
from prl.inference.weights import Weights, load_weights

MAX_LEN = 256


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Architecture, Weights, Weights]:
    """A model and two sets of weights for it."""
    first = shaken_model(tmp_path_factory.mktemp("first"))
    second = shaken_model(tmp_path_factory.mktemp("second"), seed=1)
    arch = read_architecture(first)
    return first, arch, load_weights(first, arch), load_weights(second, arch)


Policies = tuple[Path, Architecture, Weights, Weights]


@asynccontextmanager
async def running_engine(policies: Policies, *, slots: int = 4, **options: Any) -> AsyncIterator[Engine]:
    _, arch, weights, _ = policies
    options.setdefault("max_waiting", 100)
    engine = Engine(Model(arch, weights, MAX_LEN), KVCache(arch, slots, MAX_LEN), **options)
    engine.start()
    try:
        yield engine
    finally:
        assert await asyncio.to_thread(engine.stop, 20.0) or engine.crashed.done()


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 (what is watched belongs to another thread)
        await asyncio.sleep(0.001)


def prompts(count: int, seed: int = 0) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randrange(256) for _ in range(rng.randint(1, 40))] for _ in range(count)]


def test_every_log_probability_is_the_trainers_under_continuous_batching(policies: Policies) -> None:
    """More requests than slots, different lengths, temperatures and prompts, some prompts shared."""
    directory = policies[0]

    async def test() -> None:
        async with running_engine(policies) as engine:
            asked = prompts(6) * 2
            params = [SamplingParams(3 + 4 * i, 0.5 + 0.1 * i, seed=i) for i in range(12)]
            done = await asyncio.gather(*(engine.generate(p, s) for p, s in zip(asked, params, strict=True)))
            for prompt, sampling, completion in zip(asked, params, done, strict=True):
                check_logprobs(directory, prompt, completion, sampling.temperature)
                assert completion.finish_reason == "length"
                assert len(completion.token_ids) == sampling.max_tokens
                assert completion.weight_versions == [VersionSpan(0, 0, sampling.max_tokens)]
            metrics = engine.metrics
            assert metrics.generation_tokens == sum(s.max_tokens for s in params)
            assert metrics.prompt_tokens == sum(map(len, asked))
            assert metrics.finished == {"length": 12}
            assert sum(metrics.first_token.counts) == sum(metrics.request.counts) == 12
            assert sum(metrics.inter_token.counts) == metrics.generation_tokens - 12

    run(test)


def check_logprobs(directory: Path, prompt: list[int], completion: Completion, temperature: float) -> None:
    reference = reference_logprobs(directory, prompt + completion.token_ids, temperature)
    sampled = torch.tensor(completion.token_ids)
    expected = reference[len(prompt) - 1 : -1].gather(1, sampled[:, None])[:, 0]
    torch.testing.assert_close(torch.tensor(completion.logprobs), expected, atol=1e-4, rtol=0)


def test_a_seed_gives_the_same_tokens_whoever_shares_the_batch(policies: Policies) -> None:
    async def test() -> None:
        prompt, params = prompts(1)[0], SamplingParams(20, seed=5)
        async with running_engine(policies) as engine:
            alone = await engine.generate(prompt, params)
            mates = [engine.generate(p, SamplingParams(7 + i)) for i, p in enumerate(prompts(7, seed=1))]
            together = await asyncio.gather(engine.generate(prompt, params), *mates)
            assert together[0].token_ids == alone.token_ids
            others = await asyncio.gather(*(engine.generate(prompt, SamplingParams(20, seed=s)) for s in range(6, 10)))
            unseeded = await asyncio.gather(*(engine.generate(prompt, SamplingParams(20)) for _ in range(4)))
            assert len({tuple(c.token_ids) for c in [alone, *others, *unseeded]}) == 9

    run(test)


def test_requests_in_flight_together_start_together(policies: Policies) -> None:
    """Equal prompts that start together are computed once, which the prefix counters show."""

    async def test() -> None:
        prompt = prompts(1)[0]
        async with running_engine(policies, slots=8, gather_interval=0.5) as engine:
            asked = []
            for _ in range(6):
                asked.append(asyncio.ensure_future(engine.generate(prompt, SamplingParams(200))))
                await asyncio.sleep(0.005)
            await asyncio.gather(*asked)
            assert engine.metrics.prefix_hits == 4 * len(prompt), "the first started alone, the others as one"

    run(test)


def test_gathering_holds_nobody_up_for_nothing(policies: Policies) -> None:
    """A wait would last longer than the test may."""

    async def test() -> None:
        async with running_engine(policies, slots=2, gather_interval=100.0) as engine:
            alone = await engine.generate([1, 2], SamplingParams(3))
            both = await asyncio.gather(*(engine.generate([1, 2], SamplingParams(3)) for _ in range(2)))
            assert [c.finish_reason for c in (alone, *both)] == ["length"] * 3, "the second had the last slot"

    run(test)


def test_stop_tokens_end_a_completion_and_are_part_of_it(policies: Policies) -> None:
    async def test() -> None:
        async with running_engine(policies) as engine:
            prompt = prompts(1)[0]
            free = await engine.generate(prompt, SamplingParams(30, seed=3))
            stop = free.token_ids[4]
            first = free.token_ids.index(stop)
            stopped = await engine.generate(prompt, SamplingParams(30, seed=3, stop_token_ids=frozenset({stop})))
            assert stopped.token_ids == free.token_ids[: first + 1]
            assert len(stopped.logprobs) == first + 1
            assert stopped.finish_reason == "stop"

    run(test)


def test_weights_change_between_two_tokens_of_a_request_in_flight(policies: Policies, tmp_path: Path) -> None:
    _, _, _, second = policies

    async def test() -> None:
        async with running_engine(policies) as engine:
            request = asyncio.ensure_future(engine.generate([1, 2, 3], SamplingParams(200, seed=1)))
            await until(lambda: engine.metrics.generation_tokens >= 20)
            await engine.swap_weights(second, 7)
            completion = await request
            old, new = completion.weight_versions
            assert (old.version, old.start, new.version, new.end) == (0, 0, 7, 200)
            assert old.end == new.start >= 20
            after = await engine.generate([1, 2, 3], SamplingParams(5, temperature=0.0))
            assert after.weight_versions == [VersionSpan(7, 0, 5)]
            check_logprobs(shaken_model(tmp_path, seed=1), [1, 2, 3], after, 1.0)

    run(test)


def test_an_abandoned_request_frees_its_slot_and_disturbs_nobody(policies: Policies) -> None:
    async def test() -> None:
        async with running_engine(policies, slots=2) as engine:
            await engine.pause("keep")
            abandoned = [asyncio.ensure_future(engine.generate([1], SamplingParams(250))) for _ in range(3)]
            kept = asyncio.ensure_future(engine.generate([9, 9], SamplingParams(20, seed=4)))
            await asyncio.sleep(0)
            await engine.resume()
            await until(lambda: engine.metrics.generation_tokens >= 10)
            for task in abandoned:
                task.cancel()
            completion = await kept
            assert engine.metrics.finished["abort"] == 3
            assert (engine.gauges.running, engine.gauges.waiting) == (0, 0)
            assert (await engine.generate([9, 9], SamplingParams(20, seed=4))).token_ids == completion.token_ids

    run(test)


def test_a_full_queue_refuses_and_goes_on(policies: Policies) -> None:
    async def test() -> None:
        async with running_engine(policies, slots=1, max_waiting=1) as engine:
            await engine.pause("keep")
            accepted = [asyncio.ensure_future(engine.generate([1], SamplingParams(4))) for _ in range(2)]
            await asyncio.sleep(0)
            with pytest.raises(QueueFullError):
                await engine.generate([1], SamplingParams(4))
            assert engine.metrics.rejected == 1
            await engine.resume()
            assert [len(c.token_ids) for c in await asyncio.gather(*accepted)] == [4, 4]

    run(test)


async def frozen(engine: Engine) -> bool:
    """Whether no token comes while the engine turns a few times."""
    before = engine.metrics.generation_tokens
    for _ in range(5):
        await engine.call(lambda: None)
    return engine.metrics.generation_tokens == before


def test_pause_keep_freezes_requests_until_resume(policies: Policies) -> None:
    async def test() -> None:
        async with running_engine(policies) as engine:
            request = asyncio.ensure_future(engine.generate([1], SamplingParams(200, seed=2)))
            await until(lambda: engine.metrics.generation_tokens >= 5)
            await engine.pause("keep")
            assert engine.paused
            late = asyncio.ensure_future(engine.generate([2], SamplingParams(2)))
            assert await frozen(engine)
            assert (engine.gauges.running, engine.gauges.waiting) == (1, 1)
            await engine.resume()
            assert not engine.paused
            paused, _ = await asyncio.gather(request, late)
            straight = await engine.generate([1], SamplingParams(200, seed=2))
            assert paused.token_ids == straight.token_ids

    run(test)


def test_pause_wait_lets_running_requests_finish_and_holds_new_ones(policies: Policies) -> None:
    async def test() -> None:
        async with running_engine(policies) as engine:
            request = asyncio.ensure_future(engine.generate([1], SamplingParams(60)))
            await until(lambda: engine.metrics.generation_tokens >= 5)
            waiting = asyncio.ensure_future(engine.pause("wait"))
            await until(lambda: engine.paused)
            late = asyncio.ensure_future(engine.generate([2], SamplingParams(2)))
            await waiting
            assert len((await request).token_ids) == 60
            assert await frozen(engine)
            assert not late.done()
            await engine.resume()
            assert len((await late).token_ids) == 2

    run(test)


def test_pause_abort_ends_what_runs_and_waits(policies: Policies) -> None:
    async def test() -> None:
        async with running_engine(policies, slots=1) as engine:
            requests = [asyncio.ensure_future(engine.generate([1], SamplingParams(250))) for _ in range(2)]
            await until(lambda: engine.metrics.generation_tokens >= 5)
            await engine.pause("abort")
            first, second = await asyncio.gather(*requests)
            assert first.finish_reason == second.finish_reason == "abort"
            assert len(first.token_ids) >= 5
            assert (second.token_ids, second.weight_versions) == ([], [])
            await engine.resume()
            assert len((await engine.generate([1], SamplingParams(3))).token_ids) == 3

    run(test)


def test_broken_weights_fail_their_requests_and_spoil_nothing_after(policies: Policies) -> None:
    weights = policies[2]
    nan = torch.full_like(weights.norm, torch.nan)
    layers = (replace(weights.layers[0], attention_norm=nan), *weights.layers[1:])
    broken = replace(weights, layers=layers)

    async def test() -> None:
        async with running_engine(policies, slots=1) as engine:
            params = SamplingParams(30, seed=8)
            good = await engine.generate([1, 2], params)
            await engine.swap_weights(broken, 1)
            bad = await engine.generate([3] * 100, params)
            assert bad.finish_reason == "error"
            assert bad.error is not None and "not finite" in bad.error
            await engine.swap_weights(weights, 2)
            # The slot still held the broken prompt's keys beyond the new one's end.
            assert (await engine.generate([1, 2], params)).token_ids == good.token_ids

    run(test)


def test_a_crash_of_the_thread_fails_everything_and_is_told(policies: Policies) -> None:
    async def test() -> None:
        async with running_engine(policies) as engine:
            request = asyncio.ensure_future(engine.generate([1], SamplingParams(250)))
            await until(lambda: engine.metrics.generation_tokens >= 5)

            def break_it(*_: object) -> torch.Tensor:
                raise RuntimeError("made up")

            engine.model.decode = break_it  # type: ignore[method-assign]
            with pytest.raises(EngineDeadError, match="made up"):
                await request
            assert isinstance(engine.crashed.exception(), RuntimeError)
            await until(lambda: not engine.healthy)
            calls: list[Callable[[], Awaitable[object]]] = [
                lambda: engine.generate([1], SamplingParams(2)),
                engine.resume,
            ]
            for call in calls:
                with pytest.raises(EngineDeadError):
                    await call()

    run(test)


def test_an_engine_that_does_not_turn_is_not_healthy(policies: Policies) -> None:
    async def test() -> None:
        async with running_engine(policies, stall_after=1.5) as engine:
            assert engine.healthy
            release = threading.Event()
            call = asyncio.ensure_future(engine.call(lambda: release.wait(30)))
            try:
                await until(lambda: not engine.healthy)
            finally:
                release.set()
            await call
            await until(lambda: engine.healthy)

    run(test)


def test_a_failing_call_is_its_callers_business(policies: Policies) -> None:
    async def test() -> None:
        async with running_engine(policies) as engine:
            with pytest.raises(ZeroDivisionError):
                await engine.call(lambda: 1 // 0)
            assert engine.healthy

    run(test)
