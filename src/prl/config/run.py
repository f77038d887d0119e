"""What every kind of run is started with: its name, its directory, and how its processes are treated."""

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator
from pydantic_config import BaseConfig

from prl.config.common import CkptConfig, LogConfig, ModelConfig, MonitorsConfig, ResumeConfig
from prl.rundir.discovery import default_output_dir

PROTECTED_ENV_VARS = frozenset({"CUDA_VISIBLE_DEVICES", "PRL_RUN_ID", "PRL_RUN_NAME"})


class RunConfig(BaseConfig):
    name: str | None = None
    """Default: ``<envs>--<model>--<8 hex digits>``."""
    dir: str | None = None
    """Directory below ``output_dir``. Default: the name."""


class LaunchConfig(BaseConfig):
    """The keys that ``rl`` and ``sft`` share."""

    run: RunConfig = RunConfig()
    output_dir: Path = Field(default_factory=default_output_dir)
    clean: bool = False
    """Remove what an earlier run left in the run directory first."""
    dry_run: bool = False
    """Write the resolved configuration, say how to start it, and start nothing."""
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
