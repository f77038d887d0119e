"""The inference server."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from prl.config.base import BaseConfig
from prl.config.common import LogConfig, ModelConfig


class ServerConfig(BaseConfig):
    host: str = "127.0.0.1"
    port: int = Field(8000, ge=1, le=65435)
    """Data plane."""


class EngineConfig(BaseConfig):
    """The engine for CPUs: continuous batching over a static KV cache."""

    max_model_len: int | None = Field(None, ge=8)
    """Prompt plus completion, in tokens. None: the model's ``max_position_embeddings``, at most 4096."""
    max_num_seqs: int = Field(64, ge=1, le=4096)
    """Requests decoded together: the slots of the KV cache."""
    max_waiting: int = Field(4096, ge=0)
    """Requests that may wait for a slot. Beyond that a request is answered 503."""
    gather_interval: float = Field(0.02, ge=0, le=1)
    """Seconds that a request waits for others to start with, while several are in flight. 0: none."""
    num_threads: int = Field(1, ge=1)
    """Torch threads. More than one collapses when the cores are shared with the trainer."""
    dtype: Literal["float32"] = "float32"
    seed: int = 0


class InferenceConfig(BaseConfig):
    """Configuration of the inference process."""

    server: ServerConfig = ServerConfig()
    backend_port: int | None = Field(None, ge=1, le=65535)
    """Engine and admin plane. None: server port + 100."""
    model: ModelConfig = ModelConfig()
    engine: EngineConfig = EngineConfig()
    output_dir: Path = Path("outputs")
    """The run directory; set by ``rl``. Weight updates are accepted from below it and from below the model."""
    log: LogConfig = LogConfig()

    @property
    def engine_port(self) -> int:
        return self.backend_port or self.server.port + 100

    @model_validator(mode="after")
    def _two_ports(self) -> Self:
        if self.engine_port == self.server.port:
            raise ValueError(f"backend_port = {self.backend_port}: the data plane has server.port already")
        return self
