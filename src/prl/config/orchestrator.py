"""The orchestrator: what it dispatches, how it batches and when it waits."""

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

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
from prl.config.envs import TrainSourceConfig


class SamplingConfig(BaseConfig):
    """How training completions are sampled. Log-probabilities are always requested."""

    temperature: float = Field(1.0, gt=0)
    """Log-probabilities, the engine's and the trainer's, are of the distribution at this temperature."""
    top_p: float = 1.0
    """Only 1.0: a truncated distribution would make the importance ratios wrong."""
    top_k: int | None = None
    """Only none, for the same reason."""
    max_completion_tokens: int | None = Field(None, ge=1)
    """Tokens of one completion. None: what the context leaves."""
    seed: int | None = None
    """Seed of the first request; each further request adds one. None: the engine draws its own."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Further sampling parameters of a request, passed on as they are."""

    @model_validator(mode="after")
    def _untruncated(self) -> Self:
        # A truncated distribution needs its sampling mask replayed in the trainer, or the importance ratios are wrong.
        if self.top_p != 1.0:
            raise ValueError(f"top_p = {self.top_p}: RL samples from the whole distribution, only 1.0 is allowed")
        if self.top_k is not None:
            raise ValueError(f"top_k = {self.top_k}: RL samples from the whole distribution, only None is allowed")
        refused = {"top_p", "top_k", "min_p"} & set(self.extra_body)
        if refused:
            raise ValueError(f"extra_body = {self.extra_body}: {sorted(refused)} would truncate the distribution")
        return self


class ClientConfig(BaseConfig):
    """The engines as the orchestrator and the environments reach them."""

    base_url: str = "http://localhost:8000/v1"
    """Data plane."""
    admin_base_url: list[str] = Field(default_factory=lambda: ["http://localhost:8100"])
    """One address per engine: health, metrics, pause, weight updates, resume."""
    api_key_var: str = "VLLM_API_KEY"
    """Environment variable that holds the engines' key, where they want one."""
    wait_for_ready_timeout: float = Field(3600.0, gt=0)
    """Seconds to wait for the engines to become healthy."""
    ready_poll_interval: float = Field(0.1, gt=0)
    """Seconds between two looks at their health."""
    admin_timeout: float = Field(720.0, gt=0)
    """Seconds one pause, resume or weight update may take."""


class OrchestratorModelConfig(ModelConfig):
    client: ClientConfig = ClientConfig()
    renderer: dict[str, Any] = Field(default_factory=lambda: {"name": "default"})
    """The ``renderers`` block that turns messages into tokens."""


class AlgoConfig(BaseConfig):
    """How rewards become advantages. ``grpo``: reward minus the mean of its group."""

    type: Literal["grpo"] = "grpo"


class ConcurrencyConfig(BaseConfig):
    """Episodes in flight."""

    max_inflight: int = Field(1024, ge=1)
    """Episodes in flight at once, over all sources."""


class TrainSourcesConfig(BaseConfig):
    source: list[TrainSourceConfig] = Field(min_length=1)
    """The environments to train on. A list is replaced as a whole by a later file or the command line."""
    sampling: SamplingConfig = SamplingConfig()
    seed: int = 42
    """Seed of the choice among sources and of each source's order of tasks."""


class OrchestratorLogConfig(LogConfig):
    interval: float = Field(10.0, gt=0)
    """Seconds between two pipeline lines (and two rows of dispatcher metrics)."""


class OrchestratorConfig(BaseConfig):
    """Configuration of the orchestrator process."""

    output_dir: Path = Path("outputs")
    """The run directory; set by ``rl``."""
    run_id: str = ""
    """Set by ``rl``; stamped on every episode."""
    run_name: str = ""
    """Set by ``rl``; stamped on every episode."""
    model: OrchestratorModelConfig = OrchestratorModelConfig()
    algo: AlgoConfig = AlgoConfig()
    batch_size: int = Field(128, ge=1)
    """Traces of a training batch."""
    group_size: int = Field(1, ge=1)
    """Episodes of one task drawn together and compared with each other; a source may have its own."""
    constant_trainer_batch_size: bool = True
    """Count only traces that carry signal, so that every batch has ``batch_size`` effective ones."""
    seq_len: int = Field(2048, ge=8)
    """Length of a packed micro batch; a longer sample is cut and counted as truncated."""
    max_off_policy_steps: int = Field(8, ge=0)
    """Episodes that began more than this many policy versions before their batch are dropped."""
    max_steps: int | None = Field(None, ge=1)
    """Batches to ship. None: for ever."""
    concurrency: ConcurrencyConfig = ConcurrencyConfig()
    train: TrainSourcesConfig
    weight_broadcast: WeightBroadcastConfig = WeightBroadcastConfig()
    rollout_transport: RolloutTransportConfig = RolloutTransportConfig()
    num_train_ranks: int = Field(1, ge=1)
    """Data-parallel ranks of the trainer; set by ``rl``."""
    monitors: MonitorsConfig = MonitorsConfig()
    metrics_interval: float = Field(5.0, gt=0)
    """Seconds between two scrapes of the engines' metrics."""
    ckpt: CkptConfig | None = None
    resume: ResumeConfig | None = None
    log: OrchestratorLogConfig = OrchestratorLogConfig()
    env_address_dir: Path | None = None
    """``resolved/envs`` of this attempt, where environment servers publish their addresses; set by ``rl``."""
    env_startup_timeout: float = Field(600.0, gt=0)
    """Seconds to wait for the environment servers' addresses, and then for their health."""
    trainer_ready_timeout: float = Field(1200.0, gt=0)
    """Seconds to wait for the trainer's ranks and for its first weights."""
    policy_timeout: float = Field(3600.0, gt=0)
    """Seconds to wait for the policy version that a batch or the end needs (the trainer's is ``batch_timeout``)."""
    shutdown_timeout: float = Field(300.0, gt=0)
    """Seconds the end may take before the process leaves regardless."""

    def group_size_of(self, source: TrainSourceConfig) -> int:
        return source.group_size or self.group_size

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [source.name for source in self.train.source]
        if len(set(names)) != len(names):
            raise ValueError(f"train.source names = {names}: each environment needs a name of its own")
        for source in self.train.source:
            size = self.group_size_of(source)
            if self.batch_size % size:
                raise ValueError(
                    f"batch_size = {self.batch_size} with group_size = {size} (source {source.name}): "
                    "batch_size must be a multiple of group_size"
                )
            if self.concurrency.max_inflight < size:
                raise ValueError(
                    f"concurrency.max_inflight = {self.concurrency.max_inflight}: must be at least "
                    f"group_size = {size} (source {source.name})"
                )
        return self
