"""The trainer."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from prl.config.base import BaseConfig
from prl.config.common import (
    CkptConfig,
    LogConfig,
    ModelConfig,
    MonitorsConfig,
    ResumeConfig,
    RolloutTransportConfig,
    WeightBroadcastConfig,
)


class TrainerModelConfig(ModelConfig):
    seq_len: int = Field(2048, ge=8)
    """Largest packed micro batch accepted; at least the orchestrator's."""
    num_threads: int = Field(1, ge=1)
    """Torch threads a rank on a CPU."""


class IPOLossConfig(BaseConfig):
    """IPO: a token counts iff trainer and sampler probabilities differ by at most ``eps``."""

    type: Literal["ipo"] = "ipo"
    eps: float = Field(0.3, gt=0)
    """Largest difference of probabilities."""
    max_importance_ratio: float = Field(1e4, gt=0)
    """The importance ratio counts at most this much; its gradient is not capped."""
    adv_tau: float = Field(1.0, gt=0)
    """Factor on the advantages."""


class AdamWConfig(BaseConfig):
    type: Literal["adamw"] = "adamw"
    lr: float = Field(1e-6, gt=0)
    """Learning rate."""
    betas1: float = Field(0.9, ge=0, lt=1)
    """Decay of the mean of gradients."""
    betas2: float = Field(0.999, ge=0, lt=1)
    """Decay of the mean of squared gradients."""
    weight_decay: float = Field(0.0, ge=0)
    """Decoupled weight decay."""
    max_norm: float | None = Field(1.0, gt=0)
    """Gradients are clipped to this L2 norm. None: not clipped, and ``optim/grad_norm`` is absent."""


class ConstantSchedulerConfig(BaseConfig):
    type: Literal["constant"] = "constant"


class LinearSchedulerConfig(BaseConfig):
    """Linear warm-up, constant, linear decay to ``min_lr`` over the last ``decay_steps``."""

    type: Literal["linear"] = "linear"
    warmup_steps: int = Field(10, ge=0)
    """Steps over which the learning rate rises from 0."""
    decay_steps: int = Field(10, ge=0)
    """Last steps, over which it falls. Without ``max_steps`` there are none."""
    min_lr: float = Field(0.0, ge=0)
    """Where it ends."""


class CosineSchedulerConfig(BaseConfig):
    """Linear warm-up, then half a cosine to ``min_lr`` at ``max_steps`` (which must be set)."""

    type: Literal["cosine"] = "cosine"
    warmup_steps: int = Field(10, ge=0)
    """Steps over which the learning rate rises from 0."""
    min_lr: float = Field(0.0, ge=0)
    """Where it ends."""


SchedulerConfig = Annotated[
    ConstantSchedulerConfig | LinearSchedulerConfig | CosineSchedulerConfig, Field(discriminator="type")
]


class TrainerLogConfig(LogConfig):
    ranks_filter: list[int] = Field(default_factory=lambda: [0])
    """Ranks whose lines reach ``trainer.log``; every rank has files of its own."""


class TrainerConfig(BaseConfig):
    """Configuration of every rank of the RL trainer."""

    output_dir: Path = Path("outputs")
    """The run directory; set by ``rl``."""
    model: TrainerModelConfig = TrainerModelConfig()
    loss: IPOLossConfig = IPOLossConfig()
    optim: AdamWConfig = AdamWConfig()
    scheduler: SchedulerConfig = ConstantSchedulerConfig()
    max_steps: int | None = Field(None, ge=1)
    """Steps to train. None: for ever."""
    seed: int = 0
    """Seed of torch."""
    weight_broadcast: WeightBroadcastConfig = WeightBroadcastConfig()
    rollout_transport: RolloutTransportConfig = RolloutTransportConfig()
    batch_timeout: float = Field(3600.0, gt=0)
    """Seconds to wait for a batch before the trainer gives up and says what it waited for."""
    peak_flops: float | None = Field(None, gt=0)
    """Peak of one device in FLOP/s, for ``perf/mfu``. None: known GPUs by name; a CPU is measured at start."""
    monitors: MonitorsConfig = MonitorsConfig()
    ckpt: CkptConfig | None = None
    resume: ResumeConfig | None = None
    dist_timeout_seconds: int = Field(3600, ge=1)
    """Seconds a collective operation may take."""
    log: TrainerLogConfig = TrainerLogConfig()
