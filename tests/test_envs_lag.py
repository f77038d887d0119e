"""Event-loop lag: what is sampled and how it is summed up."""

import asyncio
import time

from hypothesis import given
from hypothesis import strategies as st

from prl.envs.lag import LagProbe, lag_stats, worst
from prl.transport.env_wire import LagStats

SAMPLES = st.lists(st.floats(0, 1e3), min_size=1, max_size=200)


def test_percentiles_are_values_that_were_sampled() -> None:
    stats = lag_stats([value / 100 for value in range(1, 101)])

    assert (stats.min, stats.p90, stats.p99, stats.max, stats.n) == (0.01, 0.9, 0.99, 1.0, 100)
    assert abs(stats.mean - 0.505) < 1e-12
    assert lag_stats([]) == LagStats()


@given(SAMPLES)
def test_statistics_are_ordered(samples: list[float]) -> None:
    stats = lag_stats(samples)

    assert stats.min <= stats.p90 <= stats.p99 <= stats.max
    assert stats.min - 1e-9 <= stats.mean <= stats.max + 1e-9
    assert {stats.min, stats.p90, stats.p99, stats.max} <= set(samples)


@given(st.lists(SAMPLES, max_size=4))
def test_the_worst_of_parts_is_as_bad_as_each(parts: list[list[float]]) -> None:
    stats = [lag_stats(part) for part in parts]
    total = worst([*stats, LagStats()])

    assert total.n == sum(len(part) for part in parts)
    assert all(total.max >= each.max and total.p99 >= each.p99 for each in stats)


def test_a_blocked_loop_shows_as_lag() -> None:
    async def block() -> list[float]:
        probe = LagProbe(period=0.01)
        task = asyncio.create_task(probe.run())
        await asyncio.sleep(0.03)
        time.sleep(0.2)  # noqa: ASYNC251 - the loop is to stand still
        await asyncio.sleep(0.03)
        task.cancel()
        taken = probe.take()
        assert probe.take() == []
        return taken

    samples = asyncio.run(block())
    assert max(samples) >= 0.15
    assert min(samples) >= 0
