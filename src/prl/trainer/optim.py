"""AdamW and the learning-rate schedules."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from prl.config.trainer import AdamWConfig, ConstantSchedulerConfig, LinearSchedulerConfig, SchedulerConfig


def make_optimizer(parameters: Iterable[nn.Parameter], config: AdamWConfig) -> torch.optim.AdamW:
    """AdamW over all ``parameters``, with the fused kernel."""
    return torch.optim.AdamW(
        parameters,
        lr=config.lr,
        betas=(config.betas1, config.betas2),
        weight_decay=config.weight_decay,
        fused=True,
    )


def learning_rate(config: SchedulerConfig, peak: float, step: int, max_steps: int | None) -> float:
    """The rate of ``step`` (from 1). Warm-up rises linearly and reaches ``peak`` at step ``warmup_steps``.

    Linear: ``peak`` until the last ``decay_steps`` steps, then a line that reaches ``min_lr`` at ``max_steps``; without
    ``max_steps`` there is no decay. Cosine: half a cosine from the end of the warm-up to ``min_lr`` at ``max_steps``;
    raises ValueError without one.
    """
    if isinstance(config, ConstantSchedulerConfig):
        return peak
    if step < config.warmup_steps:
        return peak * step / config.warmup_steps
    if isinstance(config, LinearSchedulerConfig):
        left = math.inf if max_steps is None else max(max_steps - step, 0)
        share = min(left / config.decay_steps, 1.0) if config.decay_steps else 1.0
    elif max_steps is None:
        raise ValueError("scheduler.type = 'cosine': needs max_steps")
    else:
        length = max(max_steps - max(config.warmup_steps, 1), 1)
        done = min((step - max(config.warmup_steps, 1)) / length, 1.0)
        share = 0.5 * (1 + math.cos(math.pi * done))
    return config.min_lr + (peak - config.min_lr) * share


class Schedule:
    """Sets an optimizer's rate, step after step. Its state is a counter: the configuration of the day decides."""

    def __init__(
        self, optimizer: torch.optim.Optimizer, config: SchedulerConfig, peak: float, max_steps: int | None
    ) -> None:
        self._optimizer = optimizer
        self._config = config
        self._peak = peak
        self._max_steps = max_steps
        self.steps = 0
        self._apply()

    @property
    def lr(self) -> float:
        """The rate of the next update."""
        return learning_rate(self._config, self._peak, self.steps + 1, self._max_steps)

    def step(self) -> None:
        """An update was made."""
        self.steps += 1
        self._apply()

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps = int(state["steps"])
        self._apply()

    def _apply(self) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = self.lr
