"""Configuration that several components share."""

import os
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from prl.config.base import BaseConfig
from prl.rundir.layout import RunLayout

LogLevel = Literal["debug", "info", "success", "warning", "error"]


def default_log_level() -> LogLevel:
    """``$PRIME_LOG_LEVEL`` when set, else ``info``. A wrong value is refused by the field that it fills."""
    return os.environ.get("PRIME_LOG_LEVEL", "info").lower()  # type: ignore[return-value]


class ModelConfig(BaseConfig):
    """The policy."""

    name: str = "Qwen/Qwen3-0.6B"
    """A directory in Hugging Face format, or the name of a model in the local cache."""


class LogConfig(BaseConfig):
    """Console lines of a component."""

    level: LogLevel = Field(default_factory=default_log_level, validate_default=True)
    """The lowest level that is printed."""
    json_logging: bool = False
    """One JSON object a line instead of text."""


class FileMonitorConfig(BaseConfig):
    """What a run leaves behind under ``monitors/file/``."""

    path: str = "metrics.jsonl"
    """Name of the metrics file below ``monitors/file/``."""
    chunk_bytes: int = Field(5 * 1024**3, ge=1024)
    """A stream rolls to its next chunk when the current one has reached this size."""
    compress: bool = True
    """Seal full chunks, and the last at a clean end, with seekable zstd."""
    float_decimals: int | None = Field(4, ge=0, le=17)
    """Decimals kept of per-token floats in traces. None keeps all."""
    queue_records: int = Field(20_000, ge=16)
    """Records that may wait for the writer. Beyond that new ones are dropped and counted: training never waits."""
    live: bool = True
    """Write the rollouts in flight to ``traces/live/``."""
    live_interval: float = Field(0.5, gt=0)
    """Seconds between two writes of live rollouts."""

    @model_validator(mode="after")
    def _plain_name(self) -> Self:
        if Path(self.path).name != self.path:
            raise ValueError(f"path = {self.path!r}: must be a file name without directories")
        return self


class MonitorsConfig(BaseConfig):
    """Where metrics and episodes go. ``--no-monitors.file`` leaves nothing behind."""

    file: FileMonitorConfig | None = FileMonitorConfig()
    """The run's own record, below ``monitors/file/``."""


class CkptConfig(BaseConfig):
    """Checkpoints: when they are written and how many stay."""

    output_dir: Path | None = None
    """Where ``checkpoints/`` lies. None: the run directory."""
    interval: int | None = Field(None, ge=1)
    """Steps between two checkpoints. None: only one at the end."""
    keep_last: int | None = Field(None, ge=1)
    """Keep this many newest checkpoints. None: all."""
    keep_interval: int | None = Field(None, ge=1)
    """Also keep checkpoints whose step is a multiple of this."""


def checkpoint_root(ckpt: CkptConfig | None, run_dir: Path) -> Path:
    """Where ``step_N`` directories lie: ``checkpoints/`` below ``ckpt.output_dir``, else below the run directory."""
    return RunLayout((ckpt.output_dir if ckpt else None) or run_dir).checkpoints


class ResumeConfig(BaseConfig):
    """From where a run goes on. An empty table: the newest complete checkpoint of this run directory."""

    step: int | None = Field(None, ge=1)
    """A step of this run."""
    dir: Path | None = None
    """A ``step_N`` directory of another run, to fork from. Only one that you trust: torch unpickles parts of it."""

    @model_validator(mode="after")
    def _step_xor_dir(self) -> Self:
        if self.step is not None and self.dir is not None:
            raise ValueError(f"resume.step = {self.step} and resume.dir = {self.dir}: give one of the two")
        return self


class WeightBroadcastConfig(BaseConfig):
    """How new weights travel from the trainer to the engines."""

    type: Literal["filesystem"] = "filesystem"
    timeout: float = Field(1200.0, gt=0)
    """Seconds the trainer waits for the orchestrator to acknowledge a version before it gives up."""
    poll_interval: float = Field(0.01, gt=0)
    """Seconds between two looks at the markers. On a network file system 1.0 is kinder to the server."""
    warn_interval: float = Field(60.0, gt=0)
    """Seconds between two lines that say what a wait is waiting for."""
    keep: int = Field(2, ge=2)
    """Broadcast directories that stay: the current and the previous version."""


class RolloutTransportConfig(BaseConfig):
    """How batches travel from the orchestrator to the trainer's ranks."""

    type: Literal["zmq"] = "zmq"
    host: str = "localhost"
    """Where the orchestrator listens, as the trainer reaches it."""
    port: int = Field(5555, ge=1, le=65534)
    """PUB socket of batches; the READY signals of ranks arrive at ``port + 1``."""
    hwm: int = Field(10, ge=1)
    """Batches that may wait in a socket."""
