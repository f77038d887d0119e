"""Less CPU per episode inside verifiers 0.4.0, without a change to what it does.

An episode of one short turn costs a worker 10.5 ms of CPU as verifiers plays it, most of it spent on the way of a
request rather than on the request; with everything here it costs 2.5 ms. Each function removes one detour and says
what an episode costs more without it (``benchmarks/env_server.py --each``). They replace names inside verifiers and
its libraries, so each looks first whether what it replaces is there as expected and otherwise leaves the plain path
alone: a run is then slower, not wrong.
"""

import functools
import gc
import inspect
import logging
from typing import Any

from verifiers.v1.env import Env

logger = logging.getLogger(__name__)


class NotAsExpectedError(RuntimeError):
    """What a tuning would replace is not what it was written for."""


def _expect(condition: bool, what: str) -> None:
    if not condition:
        raise NotAsExpectedError(what)


def remember_default_factories() -> None:
    """pydantic's ``model_construct`` asks ``inspect.signature`` for each default factory, each time. Gain: 2.9 ms."""
    from pydantic._internal import _fields

    plain = getattr(_fields, "takes_validated_data_argument", None)
    _expect(callable(plain), "pydantic: takes_validated_data_argument")
    if not hasattr(plain, "cache_info"):
        vars(_fields)["takes_validated_data_argument"] = functools.cache(plain)  # type: ignore[arg-type]


def ask_engine_over_aiohttp() -> None:
    """aiohttp in place of the OpenAI SDK on httpx for the engine call. Gain: 2.2 ms."""
    from verifiers.v1.clients import train

    from prl.envs.engine import EngineClient

    plain = getattr(train, "build_async_openai", None)
    _expect(callable(plain), "verifiers: clients.train.build_async_openai")
    if plain is not EngineClient:
        _expect(list(inspect.signature(plain).parameters) == ["config"], "verifiers: build_async_openai(config)")  # type: ignore[arg-type]
        vars(train)["build_async_openai"] = EngineClient


def call_interception_directly(env: Env[Any]) -> None:
    """No HTTP between the chat harness and the interception server of the same process. Gain: 1.9 ms."""
    from verifiers.v1.interception import ElasticInterceptionPool, InterceptionServer

    from prl.envs.harness import ChatHarness, post_over_http
    from prl.envs.loopback import Loopback

    _expect(hasattr(env, "_interception"), "verifiers: Env._interception")
    handler = getattr(InterceptionServer, "_handler_for", None)
    _expect(
        callable(handler) and list(inspect.signature(handler).parameters) == ["self", "dialect"],
        "verifiers: InterceptionServer._handler_for(dialect)",
    )

    def servers() -> list[InterceptionServer]:
        interception = env._interception
        if isinstance(interception, InterceptionServer):
            return [interception]
        return interception.servers if isinstance(interception, ElasticInterceptionPool) else []

    ChatHarness.post = Loopback(servers, post_over_http).post


def remember_harness_classes() -> None:
    """verifiers looks up a seat's harness class on the import path for every episode. Gain: 0.4 ms."""
    from verifiers.v1.utils import loaders

    plain = getattr(loaders, "harness_class", None)
    _expect(callable(plain), "verifiers: loaders.harness_class")
    if not hasattr(plain, "cache_info"):
        _expect(list(inspect.signature(plain).parameters) == ["harness_id"], "verifiers: harness_class(harness_id)")  # type: ignore[arg-type]
        vars(loaders)["harness_class"] = functools.cache(plain)  # type: ignore[arg-type]


def copy_cursors_flat() -> None:
    """A delta cursor holds containers of immutable values, so one level of copying is deep enough. Gain: 0.1 ms."""
    from verifiers.v1.serve.delta import TraceCursor

    fields = {name: type(value) for name, value in vars(TraceCursor()).items()}
    expected = {"sent": dict, "links": list, "final_rows": dict, "scalars": dict, "pending": bytes}
    _expect(fields == expected, "verifiers: fields of serve.delta.TraceCursor")

    def flat_copy(cursor: TraceCursor, memo: dict[int, Any]) -> TraceCursor:
        copied = TraceCursor.__new__(TraceCursor)
        for name, value in vars(cursor).items():
            setattr(copied, name, value if isinstance(value, bytes) else value.copy())
        return copied

    TraceCursor.__deepcopy__ = flat_copy


def make_workspaces_on_demand() -> None:
    """The directory of a local rollout is made when something asks for it, not for each rollout. Gain: 1.6 ms.

    Everything inside verifiers asks the runtime. The path stands in the trace as before; code that takes it from there
    and goes round the runtime finds no directory.
    """
    from verifiers.v1.runtimes.subprocess import SubprocessRuntime

    from prl.envs import workspace

    if not isinstance(vars(SubprocessRuntime).get("workdir"), workspace.Workdir):
        methods = ("start", "teardown", "cleanup")
        _expect(
            all(inspect.isfunction(vars(SubprocessRuntime).get(name)) for name in methods)
            and hasattr(workspace, "CACHE_DIR")
            and "workdir" not in vars(SubprocessRuntime),
            "verifiers: SubprocessRuntime.start, teardown, cleanup",
        )
        workspace.install(SubprocessRuntime)


def remember_prompts() -> None:
    """The members of a group have one prompt: one renders it, in a thread, the others take a copy. Gain: 1.6 ms."""
    from verifiers.v1.clients import train

    from prl.envs.prompts import RememberingSlot

    plain = getattr(train, "RendererSlot", None)
    _expect(
        inspect.isclass(plain) and list(inspect.signature(plain).parameters) == ["renderer", "load", "lock"],
        "verifiers: RendererSlot(renderer, load, lock)",
    )
    vars(train)["RendererSlot"] = RememberingSlot


def collect_garbage_rarely() -> None:
    """Keep the collector off the million objects of imported modules, and run it less often. Gain: 1.0 ms.

    Call it when everything is imported. Episodes are freed by reference counts; what is left for the collector are the
    few cycles of exceptions and tasks.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


TUNINGS = (
    "remember_default_factories",
    "ask_engine_over_aiohttp",
    "call_interception_directly",
    "remember_harness_classes",
    "copy_cursors_flat",
    "make_workspaces_on_demand",
    "remember_prompts",
    "collect_garbage_rarely",
)
"""Functions of this module in the order in which :func:`tune` applies them."""


def tune(env: Env[Any]) -> list[str]:
    """Apply everything that fits the installed versions to this process; the names of what was applied."""
    applied = []
    for name in TUNINGS:
        tuning = globals()[name]
        try:
            tuning(*([env] if tuning is call_interception_directly else []))
        except (NotAsExpectedError, ImportError) as error:
            logger.warning("Environment episodes will cost more CPU: %s does not apply (%s)", name, error)
        else:
            applied.append(name)
    return applied
