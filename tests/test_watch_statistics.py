"""Baselines, drift and states that do not flap."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.watch.statistics import MAD_TO_SIGMA, baseline, is_open, page_hinkley

numbers = st.floats(-1e6, 1e6)


def test_baseline_is_median_and_mad() -> None:
    usual = baseline([1, 2, 3, 4, 100, None, math.nan], 3)
    assert usual is not None
    assert (usual.median, usual.scatter, usual.count) == (3, MAD_TO_SIGMA * 1, 5)
    assert baseline([1, 2], 3) is None
    assert baseline([], 0) is None


def test_the_factor_makes_mad_the_standard_deviation_of_a_normal_distribution() -> None:
    made = random.Random(0)
    usual = baseline([made.gauss(5, 2) for _ in range(20_000)], 1)
    assert usual is not None
    assert usual.scatter == pytest.approx(2, rel=0.05)


@given(st.lists(numbers, min_size=5, max_size=40), numbers)
def test_no_minority_moves_the_baseline_out_of_the_values(values: list[float], spike: float) -> None:
    usual = baseline(values, 1)
    spiked = baseline([*values, *[spike] * ((len(values) - 1) // 2)], 1)
    assert usual is not None
    assert spiked is not None
    assert min(values) <= spiked.median <= max(values)


def test_page_hinkley_grows_by_the_shift_at_every_step_after_it() -> None:
    start = baseline([9.0, 10.0, 11.0, 10.0, 9.0, 11.0], 3)
    assert start is not None
    shift = start.scatter * 3
    still = [start.median] * 10
    assert page_hinkley(still, start, 0.5) == 0
    assert page_hinkley([*still, *[10 + shift] * 4], start, 0.5) == pytest.approx(4 * (3 - 0.5))
    assert page_hinkley([*still, *[10 - shift] * 4], start, 0.5) == 0
    assert page_hinkley([*still, *[10 - shift] * 4], start, 0.5, upwards=False) == pytest.approx(4 * (3 - 0.5))
    assert page_hinkley([*still, 1e9], start, 0.5) == 7.5  # one spike is no drift


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("", False),
        ("x", False),
        ("x.x", True),
        ("x..x", False),
        ("xx.", True),
        ("xx..", False),
        ("xx..x", False),
        ("xx.?.", False),
        ("xx?", True),
        ("xx..xx", True),
    ],
)
def test_opens_after_two_of_three_and_closes_after_two(flags: str, expected: bool) -> None:
    meaning = {"x": True, ".": False, "?": None}
    assert is_open([meaning[flag] for flag in flags], (2, 3), 2) is expected


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 4), st.integers(0, 3), st.integers(1, 4))
def test_quiet_closes_and_enough_opens(flags: list[bool], needed: int, more: int, closes: int) -> None:
    assert not is_open([*flags, *[False] * closes], (needed, needed + more), closes)
    assert is_open([*flags, *[True] * (needed + more)], (needed, needed + more), closes)
