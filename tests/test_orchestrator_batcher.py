"""Which traces make a batch, and what is said about those that do not."""

import asyncio
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from prl.config import OrchestratorConfig
from prl.orchestrator import console
from prl.orchestrator.batcher import Batch, Batcher, Window
from prl.orchestrator.episodes import Episode, Outcome
from prl.orchestrator.groups import Group


def config(**settings: Any) -> OrchestratorConfig:
    sources = {"source": [{"env": {"taskset": {"id": "a"}}}]}
    base = {"output_dir": Path("unused"), "batch_size": 4, "group_size": 2, "train": sources}
    return OrchestratorConfig.model_validate({**base, **settings})


def group(*rewards: float, start: int = 0, outcome: Outcome = Outcome.CLEAN) -> Group:
    made = Group("g", cast(Any, SimpleNamespace(name="a")), 0, cast(Any, b""), start, len(rewards), 0)
    for reward in rewards:
        trace = SimpleNamespace(
            trainable=True, reward=reward, advantage=0.0, samples=[object()], timeout=False, turns=1, branches=1,
            truncated=False, has_signal=False,
        )  # fmt: skip
        made.episodes.append(Episode("a", outcome, start, start, None, [cast(Any, Signalling(trace))]))
    return made


class Signalling:
    """A trace whose signal follows its advantage, as the real one's does."""

    def __init__(self, fields: SimpleNamespace) -> None:
        self.__dict__.update(fields.__dict__)
        del self.__dict__["has_signal"]

    @property
    def has_signal(self) -> bool:
        return bool(self.advantage)  # type: ignore[attr-defined]


def test_what_waited_too_long_is_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    step = [1]

    async def collect() -> Batch | None:
        batcher = Batcher(config(max_off_policy_steps=1), lambda: step[0])
        batcher.add(group(1.0, 0.0, start=0))
        step[0] = 2
        assert batcher.drop_stale() == 0
        step[0] = 3
        assert batcher.drop_stale() == 2 and batcher.size == 0
        batcher.add(group(1.0, 0.0, start=0))  # completes when it is too old already
        batcher.add(group(1.0, 0.0, start=1))
        batcher.add(group(1.0, 0.5, start=2))
        return await asyncio.wait_for(batcher.collect(), 5)

    batch = asyncio.run(collect())
    assert batch is not None and [item.episode.start_version for item in batch.traces] == [1, 1, 2, 2]
    assert batch.window.dropped == 2 and batch.window.count(Outcome.CANCELLED) == 2
    assert caplog.messages[0].startswith("Dropped 2 queued traces past max_off_policy_steps=1")


def test_the_oldest_leave_first_and_the_rest_waits() -> None:
    async def collect() -> tuple[Batch | None, int]:
        batcher = Batcher(config(), lambda: 1)
        for reward in (1.0, 2.0, 3.0):
            batcher.add(group(reward, 0.0))
        return await asyncio.wait_for(batcher.collect(), 5), batcher.size

    batch, left = asyncio.run(collect())
    assert batch is not None and [item.trace.reward for item in batch.traces] == [1.0, 0.0, 2.0, 0.0]
    assert left == 2


def test_only_what_trains_keeps_its_tokens() -> None:
    """The window holds every trace until the next ship, and a run whose groups all score the same never ships."""

    async def add() -> list[Group]:
        batcher = Batcher(config(max_off_policy_steps=0), lambda: 3)
        made = [group(1.0, 1.0, start=2), group(1.0, 0.0, start=1), group(1.0, 0.0, 0.5, start=2)]
        for one in made:
            batcher.add(one)
        return made

    kept = [[len(episode.traces[0].samples) for episode in one.episodes] for one in asyncio.run(add())]
    assert kept == [[0, 0], [0, 0], [1, 1, 0]]  # without signal; too old; the third member scored the mean


def test_errored_members_are_left_out_of_the_comparison() -> None:
    async def add() -> Group:
        made = group(1.0, 0.0, 0.5, 9.0)
        made.episodes[3].outcome = Outcome.ERRORED
        Batcher(config(), lambda: 1).add(made)
        return made

    advantages = [episode.traces[0].advantage for episode in asyncio.run(add()).episodes]
    assert advantages == [0.5, -0.5, 0.0, 0.0]


def test_few_trainable_traces_and_discarded_ones_are_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "prl")
    made = group(*([0.0] * 19), 1.0)
    for episode, advantage in zip(made.episodes, [0.0] * 19 + [1.0], strict=True):
        episode.traces[0].advantage = advantage
    last = made.episodes[-1]
    batch = Batch(3, [cast(Any, SimpleNamespace(trace=last.traces[0], episode=last))], 20, Window([made]))
    console.log_step(batch, seconds=3.0, waited=2.0)
    step, waited, discarded, few = caplog.messages
    assert step.startswith("Step 3 |    3.0s | Reward 1.0000 | Trainable 1/20 (5.0%) | Turns 1.0")
    assert waited.startswith("Orchestrator waited 2.0s for policy updates, at least as long as its 1.0s active")
    assert discarded.startswith("Discarded 19/20 episodes (95.0%): stale=0, errored=0, no_signal=19")
    assert few.startswith("Only 1/20 effective traces are trainable (5.0%)")
