import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prl.orchestrator.advantages import grpo

rewards = st.lists(st.floats(-1e3, 1e3, width=32), min_size=2, max_size=16)


@given(rewards)
def test_advantages_are_centred_and_keep_the_order(values: list[float]) -> None:
    advantages = grpo(values)
    largest = max(map(abs, values))
    assert abs(advantages.sum()) <= 1e-6 * max(largest, 1e-30) * len(values)
    order = np.argsort(values, kind="stable")
    assert (np.diff(advantages[order]) >= -1e-9 * max(largest, 1e-30)).all()


@given(rewards, st.floats(0.25, 4))
def test_shifting_rewards_changes_nothing_and_scaling_scales(values: list[float], factor: float) -> None:
    base = grpo(values)
    np.testing.assert_allclose(grpo([value + 2.0 for value in values]), base, atol=1e-5)
    np.testing.assert_allclose(grpo([value * factor for value in values]), base * factor, atol=1e-5)


def test_a_known_group() -> None:
    assert grpo([1.0, 0.0, 0.5, 0.5]).tolist() == [0.5, -0.5, 0.0, 0.0]


def test_equal_rewards_give_exactly_no_signal() -> None:
    # the mean of three times 0.1 is not 0.1 in binary; the difference must not train
    assert not grpo([0.1, 0.1, 0.1]).any()
    assert not grpo([1e-8] * 7).any()


def test_fewer_than_two_have_nothing_to_compare() -> None:
    assert grpo([]).tolist() == []
    assert grpo([0.7]).tolist() == [0.0]
