"""The tunings change what an episode costs and nothing else; what does not fit is left alone."""

import asyncio
import gc
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic._internal import _fields
from verifiers.v1.clients import ModelContext, train
from verifiers.v1.interception import InterceptionServer
from verifiers.v1.serve.delta import DeltaStreamer, EpisodeAssembly, TraceCursor, TraceSummary, dump
from verifiers.v1.serve.types import RunRequest
from verifiers.v1.utils import loaders

from env_doubles import MODULES, FakeEngine, run_body
from prl.config.envs import ServeConfig
from prl.envs.harness import ChatHarness, post_over_http
from prl.envs.seats import resolve_seats
from prl.envs.tuning import TUNINGS, tune
from prl.envs.worker import BUNDLED
from prl.trainer.tiny import byte_tokenizer


@pytest.fixture(autouse=True)
def untuned(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever a test tunes is undone after it."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(MODULES), str(BUNDLED)])
    monkeypatch.setattr(_fields, "takes_validated_data_argument", _fields.takes_validated_data_argument)
    monkeypatch.setattr(train, "build_async_openai", train.build_async_openai)
    monkeypatch.setattr(loaders, "harness_class", loaders.harness_class)
    monkeypatch.setattr(ChatHarness, "post", staticmethod(post_over_http))
    threshold = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)
    if "__deepcopy__" in vars(TraceCursor):
        del TraceCursor.__deepcopy__


def environment() -> Any:
    config = resolve_seats({"taskset": {"id": "faulty-env"}}, serve=ServeConfig(), timeout=30.0)
    return loaders.load_environment(config)


def episode(env: Any, engine: FakeEngine, tokenizer: Path) -> dict[str, Any]:
    """An episode as a client of the wire assembles it."""
    task = next(iter(env.taskset))
    request = RunRequest.model_validate(run_body(engine, tokenizer, task.data.model_dump()))
    context = ModelContext(client=request.client, model=request.model, sampling=request.sampling)
    assembly = EpisodeAssembly()

    async def apply(delta: dict[str, Any]) -> None:
        assembly.apply(delta)

    async def run() -> Any:
        async with env.serving():
            (slot,) = env.slots(task)
            async with DeltaStreamer(lambda: slot.traces, apply) as streamer:
                return await env.run_slot(slot, context, on_trace=streamer.watch)

    played = asyncio.run(run())
    sizes = [TraceSummary(id=trace.id, nodes=len(trace.nodes), calls=len(trace.calls)) for trace in played.traces]
    return assembly.finish(dump(played, exclude={"traces"}), sizes)


def timeless(value: Any) -> Any:
    """``value`` without what differs between any two episodes: ids, times and directories."""
    if isinstance(value, dict):
        return {key: timeless(item) for key, item in value.items() if key not in {"id", "timestamp", "timing", "time"}}
    if isinstance(value, list):
        return [timeless(item) for item in value]
    return re.sub(r"[0-9a-f]{32}", "<id>", value) if isinstance(value, str) else value


def test_an_episode_is_the_same_with_and_without(tmp_path: Path) -> None:
    byte_tokenizer(512).save_pretrained(tmp_path)
    with FakeEngine() as engine:
        plain = episode(environment(), engine, tmp_path)
        asked = engine.requests.copy()
        engine.reset()
        env = environment()
        assert tune(env) == list(TUNINGS)
        tuned = episode(env, engine, tmp_path)

        assert timeless(tuned) == timeless(plain)
        assert engine.requests == asked
        assert tuned["ok"]


def test_failures_are_the_same_with_and_without(tmp_path: Path) -> None:
    byte_tokenizer(512).save_pretrained(tmp_path)
    with FakeEngine() as engine:
        engine.status = 503
        plain = episode(environment(), engine, tmp_path)
        env = environment()
        tune(env)
        tuned = episode(env, engine, tmp_path)

    for record in (plain, tuned):
        (trace,) = record["traces"]
        assert (trace["ok"], trace["stop_condition"]) == (False, "provider_error")
        assert trace["calls"][0]["error"]["status_code"] == 503
        assert "engine is unwell" in trace["errors"][0]["message"]


def test_tuning_twice_is_tuning_once() -> None:
    env = environment()
    tune(env)
    before = (_fields.takes_validated_data_argument, train.build_async_openai, loaders.harness_class)

    assert tune(env) == list(TUNINGS)
    assert before == (_fields.takes_validated_data_argument, train.build_async_openai, loaders.harness_class)


def test_what_is_not_as_expected_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    env = environment()
    monkeypatch.delattr(_fields, "takes_validated_data_argument")
    monkeypatch.setattr(train, "build_async_openai", lambda config, retries: None)
    monkeypatch.setattr(InterceptionServer, "_handler_for", None)
    monkeypatch.setattr(loaders, "harness_class", lambda identifier, version: None)
    monkeypatch.setattr(TraceCursor, "__init__", lambda self: setattr(self, "sent", {}))

    with caplog.at_level(logging.WARNING):
        assert tune(env) == ["collect_garbage_rarely"]
    for name in TUNINGS[:-1]:
        assert f"{name} does not apply" in caplog.text
    assert ChatHarness.post is post_over_http
