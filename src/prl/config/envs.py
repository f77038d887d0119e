"""Environments: the sources of training work and the servers that play them."""

import re
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from prl.config.base import BaseConfig
from prl.config.common import LogConfig

RESERVED_NAMES = frozenset({"agg", "all", "effective"})
"""Names that metrics use for sums over environments; no environment may have one."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class ServeConfig(BaseConfig):
    """The server of one environment."""

    address: str | None = None
    """ZMQ address of a server started elsewhere. None: the launcher starts one."""
    workers: int = Field(1, ge=1, le=256)
    """Worker processes. Each plays many episodes at once in one event loop."""
    max_concurrent: int = Field(128, ge=1)
    """Episodes that one worker plays at once."""
    interval: float = Field(10.0, gt=0)
    """Seconds between two lines on event-loop lag and the distribution of active tasks."""
    restart_limit: int = Field(10, ge=0)
    """Workers replaced within ten minutes before the server gives up."""
    startup_timeout: float = Field(600.0, gt=0)
    """Seconds a worker may take to import its environment and answer."""
    heartbeat_timeout: float = Field(60.0, gt=0)
    """Seconds a worker's event loop may stand still before the worker is killed and replaced."""
    allow_remote_runtime: bool = False
    """Accept a seat whose runtime is a remote sandbox (needs a vendor account)."""
    allow_subprocess_harness: bool = False
    """Accept a seat whose harness starts a child process per rollout (about a second of CPU each)."""


class EnvSourceConfig(BaseConfig):
    """One environment as a source of work."""

    env: dict[str, Any]
    """The verifiers environment block: ``{"taskset": {"id": "reverse-text", ...}, "<seat>": {...}}``."""
    name: str = ""
    """Name in metrics, logs and traces. Default: the taskset's id."""
    path: Path | None = None
    """A directory put in front of the server's import path, so that a module in it needs no packaging."""
    serve: ServeConfig = ServeConfig()
    timeout: float = Field(600.0, gt=0)
    """Seconds an episode may take before it is cancelled and recorded as an error of type Timeout."""

    @property
    def taskset_id(self) -> str:
        return str(self.env["taskset"]["id"])

    @model_validator(mode="after")
    def _named(self) -> Self:
        taskset = self.env.get("taskset")
        if not isinstance(taskset, dict) or not isinstance(taskset.get("id"), str) or not taskset["id"]:
            raise ValueError(f"env = {self.env!r}: must hold taskset.id, the name of the environment's module")
        if not self.name:
            self.name = taskset["id"].rsplit("/", 1)[-1].split("@", 1)[0]
        if self.name in RESERVED_NAMES or not _NAME.fullmatch(self.name):
            raise ValueError(
                f"name = {self.name!r}: must be of letters, digits, '.', '_', '-' and none of {sorted(RESERVED_NAMES)}"
            )
        return self


class TrainSourceConfig(EnvSourceConfig):
    """A source of training work."""

    ratio: float = Field(1.0, gt=0)
    """Weight with which the dispatcher chooses this source."""
    group_size: int | None = Field(None, ge=1)
    """Episodes of one task drawn together. None: the orchestrator's."""


class EnvServerConfig(BaseConfig):
    """Resolved configuration of one environment server: ``resolved/envs/<split>/<name>.json``."""

    env: dict[str, Any]
    name: str
    split: Literal["train", "eval"] = "train"
    path: Path | None = None
    serve: ServeConfig = ServeConfig()
    timeout: float = Field(600.0, gt=0)
    address_file: Path
    """Where the server publishes its address, written atomically once it is ready to be asked for its health."""
    log: LogConfig = LogConfig()
    tokenizer: Path | None = None
    """Directory of the tokenizer that renders messages to tokens."""
    renderer: dict[str, Any] = Field(default_factory=lambda: {"name": "default"})
    """The ``renderers`` configuration block."""
