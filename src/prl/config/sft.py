"""Supervised fine-tuning, enough to warm-start a policy."""

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator
from pydantic_config import BaseConfig

from prl.config.common import CkptConfig, LogConfig, ModelConfig, MonitorsConfig, ResumeConfig
from prl.config.rl import RunConfig, default_output_dir
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


class SFTConfig(BaseConfig):
    """Configuration of ``sft``."""

    run: RunConfig = RunConfig()
    output_dir: Path = Field(default_factory=default_output_dir)
    clean: bool = False
    dry_run: bool = False
    model: ModelConfig = ModelConfig()
    data: SFTDataConfig
    optim: AdamWConfig = AdamWConfig(lr=1e-5)
    scheduler: SchedulerConfig = ConstantSchedulerConfig()
    max_steps: int = Field(100, ge=1)
    seed: int = 0
    num_threads: int = Field(1, ge=1)
    peak_flops: float | None = Field(None, gt=0)
    log: LogConfig = LogConfig()
    monitors: MonitorsConfig = MonitorsConfig()
    ckpt: CkptConfig | None = None
    resume: ResumeConfig | None = None
    env_vars: dict[str, str] = Field(default_factory=dict)
    shutdown_timeout: float = Field(60.0, gt=0)

    @property
    def run_dir(self) -> Path:
        """The run directory; the run must have been named."""
        name = self.run.dir or self.run.name
        if name is None:
            raise ValueError("the run has no name yet")
        return self.output_dir / name

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        step = self.resume.step if self.resume else None
        if step is not None and step >= self.max_steps:
            raise ValueError(
                f"resume.step = {step} with max_steps = {self.max_steps}: nothing is left to train; "
                "resume an earlier step or raise max_steps"
            )
        return self
