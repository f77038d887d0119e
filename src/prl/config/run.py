"""What every kind of run is started with: its name, its directory, and how its processes are treated."""

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from prl.config.base import BaseConfig
from prl.config.common import CkptConfig, LogConfig, ModelConfig, MonitorsConfig, ResumeConfig
from prl.rundir.discovery import default_output_dir

PROTECTED_ENV_VARS = frozenset({"CUDA_VISIBLE_DEVICES", "PRL_RUN_ID", "PRL_RUN_NAME"})
NAME_BYTES = 200
"""File systems take 255; what is put before and behind a name needs some of them."""


class RunConfig(BaseConfig):
    name: str | None = None
    """Default: ``<envs>--<model>--<8 hex digits>``."""
    dir: str | None = None
    """Directory below ``output_dir``. Default: the name."""

    @model_validator(mode="after")
    def _usable_names(self) -> Self:
        if self.name is not None and ("/" in self.name or not _usable(self.name)):
            raise ValueError(
                f"run.name = {self.name!r}: must be printable text of at most {NAME_BYTES} bytes without '/', "
                "neither '.' nor '..'"
            )
        if self.dir is not None and (self.dir.startswith("/") or not all(map(_usable, self.dir.split("/")))):
            raise ValueError(
                f"run.dir = {self.dir!r}: must be a directory below output_dir, without '.' and '..', "
                f"each of its names printable and of at most {NAME_BYTES} bytes"
            )
        return self


def _usable(name: str) -> bool:
    """Whether a directory can be called so, and the name be shown on one line."""
    return name.isprintable() and name.strip() not in ("", ".", "..") and len(name.encode()) <= NAME_BYTES


class LaunchConfig(BaseConfig):
    """The keys that ``rl`` and ``sft`` share."""

    run: RunConfig = RunConfig()
    output_dir: Path = Field(default_factory=default_output_dir)
    clean: bool = False
    """Remove what an earlier run left in the run directory first."""
    dry_run: bool = False
    """Write the resolved configuration, say how to start it, and start nothing."""
    dashboard: bool = True
    """On a terminal: have this host's dashboard show the run, and start one if there is none."""
    model: ModelConfig = ModelConfig()
    env_vars: dict[str, str] = Field(default_factory=dict)
    """Added to the environment of every process of the run."""
    log: LogConfig = LogConfig()
    ckpt: CkptConfig | None = None
    resume: ResumeConfig | None = None
    monitors: MonitorsConfig = MonitorsConfig()
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
    def _free_env_vars(self) -> Self:
        protected = PROTECTED_ENV_VARS & set(self.env_vars)
        if protected:
            raise ValueError(f"env_vars = {sorted(protected)}: these are set by the launcher")
        return self

    def refuse_finished(self, max_steps: int | None) -> None:
        """Raises ValueError when ``resume.step`` leaves nothing to train."""
        step = self.resume.step if self.resume else None
        if step is not None and max_steps is not None and step >= max_steps:
            raise ValueError(
                f"resume.step = {step} with max_steps = {max_steps}: nothing is left to train; "
                "resume an earlier step or raise max_steps"
            )
