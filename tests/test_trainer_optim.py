"""Learning rates at the steps that matter, and a schedule that goes on after a resume."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prl.config.trainer import AdamWConfig, ConstantSchedulerConfig, CosineSchedulerConfig, LinearSchedulerConfig
from prl.trainer.optim import Schedule, learning_rate, make_optimizer


def test_constant_is_constant() -> None:
    assert [learning_rate(ConstantSchedulerConfig(), 0.5, step, None) for step in (1, 10**6)] == [0.5, 0.5]


@pytest.mark.parametrize(
    ("step", "rate"), [(1, 0.25), (2, 0.5), (4, 1.0), (5, 1.0), (15, 1.0), (16, 0.84), (18, 0.52), (20, 0.2), (25, 0.2)]
)
def test_linear_warms_up_holds_and_decays_over_the_last_steps(step: int, rate: float) -> None:
    config = LinearSchedulerConfig(warmup_steps=4, decay_steps=5, min_lr=0.2)
    assert learning_rate(config, 1.0, step, max_steps=20) == pytest.approx(rate)


def test_linear_without_an_end_never_decays() -> None:
    assert learning_rate(LinearSchedulerConfig(), 1.0, 10**6, None) == 1.0


@pytest.mark.parametrize(("step", "rate"), [(1, 0.5), (2, 1.0), (7, 0.55), (12, 0.1), (50, 0.1)])
def test_cosine_falls_by_half_a_wave_from_the_warm_up_to_the_end(step: int, rate: float) -> None:
    config = CosineSchedulerConfig(warmup_steps=2, min_lr=0.1)
    assert learning_rate(config, 1.0, step, max_steps=12) == pytest.approx(rate)


def test_cosine_needs_an_end() -> None:
    with pytest.raises(ValueError, match="needs max_steps"):
        learning_rate(CosineSchedulerConfig(warmup_steps=0), 1.0, 1, None)


@given(
    st.sampled_from([LinearSchedulerConfig, CosineSchedulerConfig]),
    st.integers(0, 30),
    st.integers(1, 40),
    st.integers(1, 60),
)
def test_a_rate_is_never_above_the_peak_nor_negative(kind: type, warmup: int, max_steps: int, step: int) -> None:
    assert 0 <= learning_rate(kind(warmup_steps=warmup), 1.0, step, max_steps) <= 1.0


def test_a_schedule_sets_the_next_updates_rate_and_restores_from_its_counter() -> None:
    def made() -> tuple[torch.optim.Optimizer, Schedule]:
        config = AdamWConfig(lr=1.0)
        optimizer = make_optimizer([torch.nn.Parameter(torch.zeros(1))], config)
        return optimizer, Schedule(optimizer, LinearSchedulerConfig(warmup_steps=4), config.lr, None)

    optimizer, schedule = made()
    assert optimizer.param_groups[0]["lr"] == 0.25
    schedule.step()
    assert optimizer.param_groups[0]["lr"] == schedule.lr == 0.5
    fresh_optimizer, fresh = made()
    fresh.load_state_dict(schedule.state_dict())
    assert fresh_optimizer.param_groups[0]["lr"] == 0.5


def test_adamw_takes_the_configured_numbers() -> None:
    config = AdamWConfig(lr=0.1, betas1=0.5, betas2=0.75, weight_decay=0.01)
    parameter = torch.nn.Parameter(torch.tensor([1.0]))
    optimizer = make_optimizer([parameter], config)
    parameter.grad = torch.tensor([4.0])
    optimizer.step()
    # Decay by lr * weight_decay; the first step of Adam is lr in the direction of the gradient's sign.
    assert float(parameter.detach()) == pytest.approx(1.0 * (1 - 0.1 * 0.01) - 0.1, abs=1e-6)
