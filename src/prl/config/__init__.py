"""What can be configured, as pydantic models, and how it is composed and resolved.

Names and defaults are those of the run contract wherever this project has the thing; fields it does not have are
unknown keys and refused. Times are seconds. Nothing in here imports torch or an environment package.
"""

from prl.config.common import (
    CkptConfig,
    FileMonitorConfig,
    LogConfig,
    ModelConfig,
    MonitorsConfig,
    ResumeConfig,
    RolloutTransportConfig,
    WeightBroadcastConfig,
    checkpoint_root,
)
from prl.config.envs import EnvServerConfig, ServeConfig, TrainSourceConfig
from prl.config.inference import InferenceConfig
from prl.config.load import USAGE_EXIT, load_config
from prl.config.orchestrator import OrchestratorConfig, SamplingConfig
from prl.config.rl import DeploymentConfig, RLConfig
from prl.config.run import LaunchConfig, RunConfig
from prl.config.sft import SFTConfig
from prl.config.trainer import TrainerConfig

__all__ = [
    "USAGE_EXIT",
    "CkptConfig",
    "DeploymentConfig",
    "EnvServerConfig",
    "FileMonitorConfig",
    "InferenceConfig",
    "LaunchConfig",
    "LogConfig",
    "ModelConfig",
    "MonitorsConfig",
    "OrchestratorConfig",
    "RLConfig",
    "ResumeConfig",
    "RolloutTransportConfig",
    "RunConfig",
    "SFTConfig",
    "SamplingConfig",
    "ServeConfig",
    "TrainSourceConfig",
    "TrainerConfig",
    "WeightBroadcastConfig",
    "checkpoint_root",
    "load_config",
]
