"""Who plays: every seat of an environment resolved to a local, cheap player, or refused with the key that allows it.

verifiers' own defaults suit its vendor's platform: a seat that says nothing gets a remote sandbox (which needs an
account) and a coding agent started as a child process per rollout. Here a seat that says nothing, neither in the
configuration nor in the environment's own class, gets the chat harness in this process, the ``subprocess`` runtime (a
directory on this host) and bounded stages. What a seat does say is kept, and checked before anything is served.
"""

from typing import Any

from verifiers.v1.configs.agent import AgentConfig, agent_config_fields
from verifiers.v1.configs.env import EnvConfig
from verifiers.v1.runtimes import runtime_is_local
from verifiers.v1.utils.loaders import default_harness_id, env_config_type, harness_class, resolve_env_config

from prl.config.envs import ServeConfig
from prl.envs.harness import HARNESS_ID

LOCAL_RUNTIME = {"type": "subprocess"}
STAGE_TIMEOUT = 60.0
"""Seconds for setup, finalize and scoring of a seat that sets none. A reward that hangs is cut off by it."""


class SeatRefusedError(ValueError):
    """A seat would be played in a way that this server was not told to accept."""


def resolve_seats(env: dict[str, Any], *, serve: ServeConfig, timeout: float) -> EnvConfig:
    """The environment's configuration with every seat filled in and checked.

    ``env`` is the block ``{"id"?, "taskset": {"id", ...}, "<seat>": {...}}``; ``timeout`` bounds, in seconds, the
    playing stage of a seat that sets none. Imports the environment: raises what that raises (ModuleNotFoundError names
    the module), ``pydantic.ValidationError`` for wrong keys and :class:`SeatRefusedError`.
    """
    taskset_id, env_id = env["taskset"]["id"], env.get("id") or ""
    block = dict(env)
    own_harness = default_harness_id(taskset_id) == taskset_id
    for name, field in env_config_type(taskset_id, env_id).model_fields.items():
        if isinstance(field.default, AgentConfig):
            block[name] = _filled(block.get(name), field.default, own_harness=own_harness, timeout=timeout)
    config = resolve_env_config(block)
    for name, seat in agent_config_fields(config).items():
        _check(name, seat, taskset_id if own_harness else HARNESS_ID, serve)
    return config


def _filled(given: dict[str, Any] | None, author: AgentConfig, *, own_harness: bool, timeout: float) -> dict[str, Any]:
    """A seat's block with our defaults below what the configuration and the environment's author say."""
    seat = dict(given or {})
    if "harness" not in seat and author.harness is None and not own_harness:
        seat["harness"] = {"id": HARNESS_ID}
    if "runtime" not in seat and "runtime" not in author.model_fields_set:
        seat["runtime"] = LOCAL_RUNTIME
    stages = {"setup": STAGE_TIMEOUT, "rollout": timeout, "finalize": STAGE_TIMEOUT, "scoring": STAGE_TIMEOUT}
    authored = author.timeout.model_dump(exclude_none=True)
    seat["timeout"] = {**{stage: min(limit, timeout) for stage, limit in stages.items()}, **authored} | (
        seat.get("timeout") or {}
    )
    return seat


def _check(name: str, seat: AgentConfig, default_harness: str, serve: ServeConfig) -> None:
    if not runtime_is_local(seat.runtime) and not serve.allow_remote_runtime:
        raise SeatRefusedError(
            f"env.{name}.runtime.type = {seat.runtime.type!r}: a remote sandbox, which needs a vendor's account. "
            f'Set env.{name}.runtime = {{"type": "subprocess"}}, or serve.allow_remote_runtime = true to accept it'
        )
    harness = seat.harness.id if seat.harness is not None else default_harness
    if not getattr(harness_class(harness), "IN_PROCESS", False) and not serve.allow_subprocess_harness:
        raise SeatRefusedError(
            f"env.{name}.harness.id = {harness!r}: starts a child process per rollout (about a second of CPU each). "
            f'Set env.{name}.harness = {{"id": "{HARNESS_ID}"}}, or serve.allow_subprocess_harness = true to accept '
            "it. A harness class that starts no process says so with IN_PROCESS = True"
        )
