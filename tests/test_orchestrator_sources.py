"""Order of tasks, choice of sources, and what a checkpoint keeps of both."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prl.config import TrainSourceConfig
from prl.orchestrator.env_client import TaskSet
from prl.orchestrator.sources import Source, SourcePool, TaskCursor


def source(name: str, ratio: float = 1.0, tasks: int = 10, connected: bool = True) -> Source:
    config = TrainSourceConfig.model_validate({"env": {"taskset": {"id": name}}, "ratio": ratio})
    client = cast(Any, SimpleNamespace(connected=connected))
    return Source(config, 4, client, TaskSet("Task", cast(Any, list(range(tasks)))), seed=42)


@given(total=st.integers(1, 30), draws=st.integers(0, 70), seed=st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_every_task_is_drawn_once_an_epoch_and_resume_goes_on(total: int, draws: int, seed: int) -> None:
    cursor = TaskCursor("env", total, seed)
    drawn = [cursor.draw() for _ in range(draws)]
    for start in range(0, draws - total + 1, total):
        assert sorted(drawn[start : start + total]) == list(range(total))
    resumed = TaskCursor("env", total, seed=999)
    resumed.restore(cursor.state())
    assert [resumed.draw() for _ in range(20)] == [cursor.draw() for _ in range(20)]


def test_epochs_have_different_orders() -> None:
    cursor = TaskCursor("env", 20, 0)
    first, second = ([cursor.draw() for _ in range(20)] for _ in range(2))
    assert first != second != list(range(20))


def test_another_number_of_tasks_begins_a_new_epoch() -> None:
    cursor, grown = TaskCursor("env", 5, 0), TaskCursor("env", 7, 0)
    for _ in range(4):
        cursor.draw()
    grown.restore(cursor.state())
    assert (grown.epoch, sorted(grown.draw() for _ in range(7))) == (1, list(range(7)))


def test_an_environment_without_tasks_is_refused() -> None:
    with pytest.raises(ValueError, match="environment env has no tasks"):
        TaskCursor("env", 0, 0)


def test_sources_are_chosen_by_ratio_and_the_choice_is_resumed() -> None:
    pool = SourcePool([source("a", 3.0), source("b", 1.0)], seed=42)
    chosen = [pool.choose(0.0) for _ in range(2000)]
    assert sum(pick is pool.sources[0] for pick in chosen) == pytest.approx(1500, abs=100)
    other = SourcePool([source("a", 3.0), source("b", 1.0)], seed=1)
    other.restore(pool.state())
    assert [other.choose(0.0).name for _ in range(50)] == [pool.choose(0.0).name for _ in range(50)]  # type: ignore[union-attr]


def test_a_checkpoint_of_other_sources_is_refused() -> None:
    pool = SourcePool([source("a")], seed=42)
    with pytest.raises(ValueError, match=r"\['b'\].*\['a'\]"):
        pool.restore(SourcePool([source("b")], seed=42).state())


def test_sources_that_cannot_play_are_not_chosen() -> None:
    here, gone = source("here"), source("gone", connected=False)
    pool = SourcePool([here, gone], seed=42)
    assert {pool.choose(0.0) for _ in range(50)} == {here}
    here.client.connected = False
    assert pool.choose(0.0) is None


def test_a_source_that_only_fails_is_paused_ever_longer_until_it_recovers() -> None:
    broken = source("broken")
    pool = SourcePool([broken], seed=42)
    for _ in range(7):
        broken.note_outcome(errored=True, now=100.0)
    assert pool.choose(100.0) is broken
    broken.note_outcome(errored=True, now=100.0)
    assert pool.choose(100.0) is None
    assert pool.next_opening(100.0) == pytest.approx(100.1)
    for _ in range(20):
        broken.note_outcome(errored=True, now=100.0)
    assert pool.next_opening(100.0) == pytest.approx(105.0)
    broken.note_outcome(errored=False, now=100.0)
    assert pool.choose(100.0) is broken
