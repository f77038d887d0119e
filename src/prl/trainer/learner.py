"""The policy with its optimizer: what RL and supervised fine-tuning share."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from prl.config.trainer import AdamWConfig, SchedulerConfig
from prl.trainer.model import PackedTokens, load_model, predict
from prl.trainer.optim import Schedule, make_optimizer
from prl.trainer.parallel import World, clip_gradients, shard


@dataclass
class Progress:
    """How far a training is. Kept in checkpoints."""

    step: int = 0
    """Last finished step."""
    total_tokens: int = 0
    total_samples: int = 0
    """Sequences with at least one loss token."""


class Learner:
    """A model on this rank, its share of the optimizer, and one update at a time."""

    def __init__(
        self, name: str, optim: AdamWConfig, scheduler: SchedulerConfig, max_steps: int | None, world: World
    ) -> None:
        self.world = world
        self.max_norm = optim.max_norm
        self.model: Any = load_model(name, world.device)
        shard(self.model, world)
        self.optimizer = make_optimizer(self.model.parameters(), optim)
        self.schedule = Schedule(self.optimizer, scheduler, optim.lr, max_steps)

    def predict(self, tokens: PackedTokens) -> Tensor:
        """Logits for the loss tokens, [max(N, 1), vocabulary]."""
        return predict(self.model, tokens)

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of ``loss``, this rank's share of a sum over ranks.

        Sharding averages gradients over ranks; the factor makes a sum of it.
        """
        (loss * self.world.size if self.world.sharded else loss).backward()

    def update(self) -> float | None:
        """Clip, step, forget the gradients. Returns the global gradient norm before clipping, if there is clipping."""
        norm = None if self.max_norm is None else clip_gradients(self.model, self.max_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.schedule.step()
        return norm
