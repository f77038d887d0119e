"""From what the user wrote to what each component is told: names, directories, ports and the resume step filled in.

Everything two components must agree on is decided here once and written into the configuration of both.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from prl.config import EnvServerConfig, RLConfig, RunConfig, SFTConfig
from prl.launch.directory import Attempt
from prl.launch.identity import RunName
from prl.launch.ports import Ports
from prl.launch.resume import ResumePoint
from prl.rundir.layout import RunLayout

_WILDCARDS = frozenset({"0.0.0.0", "::", ""})


@dataclass(frozen=True)
class Decisions:
    """What the launcher decided for a run."""

    run: RunName
    run_id: str
    layout: RunLayout
    attempt: Attempt
    model: Path
    resume: ResumePoint | None


def resolve_rl(config: RLConfig, decided: Decisions, ports: Ports) -> tuple[RLConfig, list[EnvServerConfig]]:
    """The whole configuration with nothing left open, and that of each environment server to be started here."""
    resolved = config.model_copy(deep=True)
    _settle(resolved, decided)
    orchestrator, trainer, inference = resolved.orchestrator, resolved.trainer, resolved.inference
    for component in (orchestrator, trainer, inference):
        component.output_dir = decided.layout.root
        component.model.name = str(decided.model)
    orchestrator.run_id, orchestrator.run_name = decided.run_id, decided.run.name
    orchestrator.env_address_dir = decided.attempt.envs
    for side in (orchestrator, trainer):
        side.resume, side.ckpt = resolved.resume, resolved.ckpt
        side.rollout_transport = resolved.rollout_transport
    _set_ports(resolved, ports)
    for source in orchestrator.train.source:
        source.path = source.path.absolute() if source.path else None
    return resolved, _env_servers(resolved, decided)


def resolve_sft(config: SFTConfig, decided: Decisions) -> SFTConfig:
    """The whole configuration with nothing left open."""
    resolved = config.model_copy(deep=True)
    _settle(resolved, decided)
    resolved.data.path = resolved.data.path.absolute()
    return resolved


def rl_files(resolved: RLConfig, servers: list[EnvServerConfig]) -> Mapping[str, BaseModel]:
    """What goes below ``resolved/``, by name."""
    return {
        "rl": resolved,
        "trainer": resolved.trainer,
        "orchestrator": resolved.orchestrator,
        "inference": resolved.inference,
        **{f"envs/{server.split}/{server.name}": server for server in servers},
    }


def _settle(resolved: RLConfig | SFTConfig, decided: Decisions) -> None:
    resolved.run = RunConfig(name=decided.run.name, dir=decided.run.dir)
    resolved.output_dir = resolved.output_dir.absolute()
    resolved.clean = resolved.dry_run = False
    resolved.model.name = str(decided.model)
    resolved.resume = decided.resume.config if decided.resume else None
    if resolved.ckpt and resolved.ckpt.output_dir:
        resolved.ckpt.output_dir = resolved.ckpt.output_dir.absolute()


def _set_ports(resolved: RLConfig, ports: Ports) -> None:
    server, client = resolved.inference.server, resolved.orchestrator.model.client
    server.port, resolved.inference.backend_port = ports.server, ports.engine
    resolved.rollout_transport.port = ports.batches
    host = "127.0.0.1" if server.host in _WILDCARDS else server.host
    if "base_url" not in client.model_fields_set:
        client.base_url = f"http://{host}:{ports.server}/v1"
    if "admin_base_url" not in client.model_fields_set:
        client.admin_base_url = [f"http://{host}:{ports.engine}"]


def _env_servers(resolved: RLConfig, decided: Decisions) -> list[EnvServerConfig]:
    return [
        EnvServerConfig(
            env=source.env,
            name=source.name,
            split="train",
            path=source.path,
            serve=source.serve,
            timeout=source.timeout,
            address_file=decided.attempt.envs / "train" / f"{source.name}.address",
            log=resolved.log,
            tokenizer=decided.layout.tokenizer,
            renderer=resolved.orchestrator.model.renderer,
        )
        for source in resolved.orchestrator.train.source
        if source.serve.address is None
    ]
