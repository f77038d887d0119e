"""The processes of a run: their command lines, environments and logs, in the order in which they are started."""

import os
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from prl.config import EnvServerConfig, RLConfig, SFTConfig
from prl.launch.directory import Attempt
from prl.rundir import titles

_REMOVED = ("PYTHONDONTWRITEBYTECODE",)
"""Without byte code every start of every process compiles its libraries again."""
_DEFAULTS = {
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "PYTHONUNBUFFERED": "1",
    "TOKENIZERS_PARALLELISM": "false",
    # Several processes share the cores: threads that spin while they wait take them from each other.
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
    "GOMP_SPINCOUNT": "0",
}
_TRAINER_DEFAULTS = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


class Role(Enum):
    """What the end of a component means."""

    WORKER = "worker"
    """Ends by itself with status 0 when the run is done."""
    SERVER = "server"
    """Serves until it is told to end; ending by itself is a failure."""


@dataclass(frozen=True)
class Component:
    """One process to start."""

    name: str
    """In the words of messages, lower-case: ``inference``, ``train env server gsm``, ``orchestrator``, ``trainer``."""
    role: Role
    title: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path
    rank_logs: Path | None = None
    """Where torchrun keeps the files of its ranks."""

    @property
    def spoken_name(self) -> str:
        return self.name[0].upper() + self.name[1:]


@dataclass(frozen=True)
class Programs:
    """How each component is started: the words before ``@ <resolved file>``."""

    inference: tuple[str, ...] = (sys.executable, "-m", "prl.cli.inference")
    env_server: tuple[str, ...] = (sys.executable, "-m", "prl.cli.env_server")
    orchestrator: tuple[str, ...] = (sys.executable, "-m", "prl.cli.orchestrator")
    trainer: tuple[str, ...] = ("-m", "prl.cli.trainer")
    sft_trainer: tuple[str, ...] = ("-m", "prl.cli.sft_trainer")
    torchrun: tuple[str, ...] = (sys.executable, "-m", "torch.distributed.run")
    """Put before the trainers' words with torchrun's options; empty: a trainer is one plain process."""


@dataclass(frozen=True)
class Identity:
    """What every process of a run is told about it."""

    run_id: str
    run_name: str
    env_vars: Mapping[str, str]

    def environment(self, role: Mapping[str, str] | None = None) -> dict[str, str]:
        """A component's environment: inherited, defaults, the user's ``env_vars``, then what nobody may change."""
        inherited = {name: value for name, value in os.environ.items() if name not in _REMOVED}
        return {
            **inherited,
            **_DEFAULTS,
            **(role or {}),
            **self.env_vars,
            "PRL_RUN_ID": self.run_id,
            "PRL_RUN_NAME": self.run_name,
            # Without it a process title overwrites the environment that others read in /proc.
            "SPT_NOENV": "1",
        }


def rl_components(
    config: RLConfig, servers: Sequence[EnvServerConfig], attempt: Attempt, identity: Identity, programs: Programs
) -> list[Component]:
    """The processes of an RL run in the contract's order: inference, environment servers, orchestrator, trainer."""
    plain = identity.environment()

    def single(name: str, role: Role, title: str, program: tuple[str, ...], path: str) -> Component:
        """``path`` names both the resolved file and the log."""
        command = (*program, "@", str(attempt.resolved / f"{path}.json"))
        return Component(name, role, title, command, plain, attempt.logs / f"{path}.log")

    return [
        single("inference", Role.SERVER, titles.INFERENCE, programs.inference, "inference"),
        *(
            single(
                f"{server.split} env server {server.name}",
                Role.SERVER,
                titles.ENV_SERVER,
                programs.env_server,
                f"envs/{server.split}/{server.name}",
            )
            for server in servers
        ),
        single("orchestrator", Role.WORKER, titles.ORCHESTRATOR, programs.orchestrator, "orchestrator"),
        _trainer(
            programs.trainer,
            attempt.resolved / "trainer.json",
            ranks=config.deployment.num_train_gpus,
            shown=config.trainer.log.ranks_filter,
            title=titles.TRAINER,
            attempt=attempt,
            identity=identity,
            torchrun=programs.torchrun,
        ),
    ]


def sft_components(config: SFTConfig, attempt: Attempt, identity: Identity, programs: Programs) -> list[Component]:
    """The one process of a supervised run."""
    return [
        _trainer(
            programs.sft_trainer,
            attempt.resolved / "sft.json",
            ranks=1,
            shown=[0],
            title=titles.SFT_TRAINER,
            attempt=attempt,
            identity=identity,
            torchrun=programs.torchrun,
        )
    ]


def _trainer(
    program: tuple[str, ...],
    file: Path,
    *,
    ranks: int,
    shown: Sequence[int],
    title: str,
    attempt: Attempt,
    identity: Identity,
    torchrun: tuple[str, ...],
) -> Component:
    rank_logs = attempt.logs / "trainer" / "torchrun"
    options = (
        "--role=trainer",
        "--rdzv-backend=c10d",
        # The agent's store lets the operating system choose: a port found free here may be gone when it starts.
        "--rdzv-endpoint=localhost:0",
        f"--rdzv-id={uuid.uuid4().hex}",
        f"--log-dir={rank_logs}",
        f"--local-ranks-filter={','.join(map(str, shown))}",
        "--redirects=3",
        "--tee=3",
        f"--nproc-per-node={ranks}",
    )
    return Component(
        name="trainer",
        role=Role.WORKER,
        title=title,
        command=(*torchrun, *(options if torchrun else ()), *program, "@", str(file)),
        environment=identity.environment(_TRAINER_DEFAULTS),
        log=attempt.logs / "trainer.log",
        rank_logs=rank_logs,
    )
