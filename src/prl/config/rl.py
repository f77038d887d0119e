"""A whole RL run: the shared values, the components, and the checks across them.

Values given once at the top (``max_steps``, ``seq_len``, ``model``, ``ckpt``, ``resume``, ``monitors``, transports,
``log``) fill the components; a component that was given another value is a contradiction and refused.
"""

from typing import Any, Literal, Self

from pydantic import BaseModel, Field, model_validator

from prl.config.base import BaseConfig
from prl.config.common import RolloutTransportConfig, WeightBroadcastConfig
from prl.config.inference import InferenceConfig
from prl.config.orchestrator import OrchestratorConfig
from prl.config.run import LaunchConfig
from prl.config.trainer import TrainerConfig


class DeploymentConfig(BaseConfig):
    type: Literal["single_node"] = "single_node"
    num_train_gpus: int = Field(1, ge=1)
    """Ranks of the trainer: one a GPU, or one process each (gloo) where there is none."""
    num_infer_gpus: int = Field(1, ge=1, le=1)


class RLConfig(LaunchConfig):
    """Configuration of ``rl``."""

    max_steps: int | None = Field(None, ge=1)
    seq_len: int | None = Field(None, ge=8)
    orchestrator: OrchestratorConfig
    trainer: TrainerConfig = TrainerConfig()
    inference: InferenceConfig = InferenceConfig()
    weight_broadcast: WeightBroadcastConfig = WeightBroadcastConfig()
    rollout_transport: RolloutTransportConfig = RolloutTransportConfig()
    deployment: DeploymentConfig = DeploymentConfig()

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
        self.refuse_finished(self.max_steps)
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
