"""A whole RL run: the shared values, the components, and the checks across them.

Values given once at the top (``max_steps``, ``seq_len``, ``model``, ``ckpt``, ``resume``, ``monitors``, transports,
``log``) fill the components; a component that was given another value is a contradiction and refused.
"""

import os
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, Field, model_validator
from pydantic_config import BaseConfig

from prl.config.common import (
    CkptConfig,
    LogConfig,
    ModelConfig,
    MonitorsConfig,
    ResumeConfig,
    RolloutTransportConfig,
    WeightBroadcastConfig,
)
from prl.config.inference import InferenceConfig
from prl.config.orchestrator import OrchestratorConfig
from prl.config.trainer import TrainerConfig

PROTECTED_ENV_VARS = frozenset({"CUDA_VISIBLE_DEVICES", "PRL_RUN_ID", "PRL_RUN_NAME"})


class RunConfig(BaseConfig):
    name: str | None = None
    """Default: ``<envs>--<model>--<8 hex digits>``."""
    dir: str | None = None
    """Directory below ``output_dir``. Default: the name."""


class DeploymentConfig(BaseConfig):
    type: Literal["single_node"] = "single_node"
    num_train_gpus: int = Field(1, ge=1)
    """Ranks of the trainer: one a GPU, or one process each (gloo) where there is none."""
    num_infer_gpus: int = Field(1, ge=1, le=1)


def default_output_dir() -> Path:
    return Path(os.environ.get("PRL_OUTPUT_DIR") or "outputs")


class RLConfig(BaseConfig):
    """Configuration of ``rl``."""

    run: RunConfig = RunConfig()
    output_dir: Path = Field(default_factory=default_output_dir)
    clean: bool = False
    """Remove what an earlier run left in the run directory first."""
    dry_run: bool = False
    max_steps: int | None = Field(None, ge=1)
    seq_len: int | None = Field(None, ge=8)
    model: ModelConfig = ModelConfig()
    orchestrator: OrchestratorConfig
    trainer: TrainerConfig = TrainerConfig()
    inference: InferenceConfig = InferenceConfig()
    env_vars: dict[str, str] = Field(default_factory=dict)
    log: LogConfig = LogConfig()
    ckpt: CkptConfig | None = None
    resume: ResumeConfig | None = None
    monitors: MonitorsConfig = MonitorsConfig()
    weight_broadcast: WeightBroadcastConfig = WeightBroadcastConfig()
    rollout_transport: RolloutTransportConfig = RolloutTransportConfig()
    deployment: DeploymentConfig = DeploymentConfig()
    shutdown_timeout: float = Field(60.0, gt=0)
    """Seconds a process may take to end after SIGTERM before it is killed."""

    @property
    def run_dir(self) -> Path:
        """The run directory; the run must have been named."""
        name = self.run.dir or self.run.name
        if name is None:
            raise ValueError("the run has no name yet")
        return self.output_dir / name

    @model_validator(mode="after")
    def _share(self) -> Self:
        _fill(self, "max_steps", self.orchestrator, self.trainer)
        _fill(self, "ckpt", self.orchestrator, self.trainer)
        _fill(self, "resume", self.orchestrator, self.trainer)
        _fill(self, "monitors", self.orchestrator, self.trainer)
        _fill(self, "weight_broadcast", self.orchestrator, self.trainer)
        _fill(self, "rollout_transport", self.orchestrator, self.trainer)
        for child in (self.orchestrator, self.trainer, self.inference):
            _fill(self.model, "name", child.model)
            _fill(self.log, "level", child.log)
            _fill(self.log, "json_logging", child.log)
        if self.seq_len is not None:
            _fill(self, "seq_len", self.orchestrator, self.trainer.model)
        self.orchestrator.num_train_ranks = self.deployment.num_train_gpus
        return self

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.trainer.model.seq_len < self.orchestrator.seq_len:
            raise ValueError(
                f"trainer.model.seq_len = {self.trainer.model.seq_len}: must be at least "
                f"orchestrator.seq_len = {self.orchestrator.seq_len}"
            )
        if self.trainer.scheduler.type == "cosine" and self.max_steps is None:
            raise ValueError("trainer.scheduler.type = 'cosine': needs max_steps")
        step = self.resume.step if self.resume else None
        if step is not None and self.max_steps is not None and step >= self.max_steps:
            raise ValueError(
                f"resume.step = {step} with max_steps = {self.max_steps}: nothing is left to train; "
                "resume an earlier step or raise max_steps"
            )
        protected = PROTECTED_ENV_VARS & set(self.env_vars)
        if protected:
            raise ValueError(f"env_vars = {sorted(protected)}: these are set by the launcher")
        self._one_use_per_port()
        return self

    def _one_use_per_port(self) -> None:
        transport = self.rollout_transport.port
        uses = {
            "inference.server.port": self.inference.server.port,
            "inference.backend_port": self.inference.engine_port,
            "rollout_transport.port": transport,
            "rollout_transport.port + 1 (READY)": transport + 1,
        }
        seen: dict[int, str] = {}
        for key, port in uses.items():
            if port in seen:
                raise ValueError(f"{key} = {port}: the same port as {seen[port]}; each needs one of its own")
            seen[port] = key


def _fill(shared: BaseModel, field: str, *children: BaseModel) -> None:
    """Give every child the shared value; a child that was set to something else contradicts a set shared value.

    A child's own value stands where the shared one was not set (then it becomes the shared one, so that both sides of
    a pair agree).
    """
    value: Any = getattr(shared, field)
    if field not in shared.model_fields_set:
        for child in children:
            if field in child.model_fields_set:
                value = getattr(child, field)
                setattr(shared, field, value)
                break
    for child in children:
        if field in child.model_fields_set and getattr(child, field) != value:
            name = type(child).__name__.removesuffix("Config").lower()
            raise ValueError(f"{name}.{field} = {getattr(child, field)!r}: contradicts {field} = {value!r}")
        setattr(child, field, value)
