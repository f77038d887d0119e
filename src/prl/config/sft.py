"""Supervised fine-tuning, enough to warm-start a policy."""

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from prl.config.base import BaseConfig
from prl.config.run import LaunchConfig
from prl.config.trainer import AdamWConfig, ConstantSchedulerConfig, SchedulerConfig


class SFTDataConfig(BaseConfig):
    """Conversations to learn from: a JSONL file with one ``{"messages": [...]}`` a line."""

    path: Path
    batch_size: int = Field(64, ge=1)
    """Conversations of a step."""
    seq_len: int = Field(2048, ge=8)
    """Length of a packed micro batch; a longer conversation is cut."""
    seed: int = 0
    """Seed of the order of the conversations."""


class SFTConfig(LaunchConfig):
    """Configuration of ``sft``."""

    data: SFTDataConfig
    optim: AdamWConfig = AdamWConfig(lr=1e-5)
    scheduler: SchedulerConfig = ConstantSchedulerConfig()
    max_steps: int = Field(100, ge=1)
    seed: int = 0
    num_threads: int = Field(1, ge=1)
    peak_flops: float | None = Field(None, gt=0)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self.refuse_finished(self.max_steps)
        return self
