"""Thinning out a series keeps what its picture is made of."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.rundir.metrics.decimate import decimate

VALUES = st.lists(st.one_of(st.floats(-5, 5), st.just(np.nan), st.sampled_from([np.inf, -np.inf])), max_size=300)


@given(VALUES, st.integers(2, 60))
def test_extremes_ends_and_non_finite_points_stay(values: list[float], points: int) -> None:
    series = np.array(values)
    kept = decimate(series, points)
    assert (np.diff(kept) > 0).all()
    assert len(kept) <= 2 * points + 2
    finite, others = np.flatnonzero(np.isfinite(series)), np.flatnonzero(~np.isfinite(series))
    if len(finite):
        assert {finite[0], finite[-1]} <= set(kept)
        assert (series[finite].min(), series[finite].max()) == (
            series[kept][np.isfinite(series[kept])].min(),
            series[kept][np.isfinite(series[kept])].max(),
        )
    if len(others) <= points:
        assert set(others) <= set(kept)
    else:
        assert {others[0], others[-1]} <= set(kept)


@pytest.mark.parametrize("count", [0, 1, 9, 10])
def test_few_points_stay_as_they_are(count: int) -> None:
    assert decimate(np.arange(count, dtype=float), 10).tolist() == list(range(count))


def test_about_as_many_as_wanted_and_every_spike() -> None:
    series = np.sin(np.arange(50_000) / 7)
    spikes = [123, 20_000, 49_998]
    series[spikes] = [9, -9, 9]
    kept = decimate(series, 1000)
    assert 900 <= len(kept) <= 1002
    assert set(spikes) <= set(kept.tolist())
