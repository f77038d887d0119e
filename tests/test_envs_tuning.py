"""The tunings change what an episode costs and nothing else; what does not fit is left alone."""

import asyncio
import gc
import logging
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic._internal import _fields
from renderers import RenderedTokens
from verifiers.v1.clients import ModelContext, train
from verifiers.v1.interception import InterceptionServer
from verifiers.v1.runtimes import SubprocessConfig
from verifiers.v1.runtimes.subprocess import SubprocessRuntime
from verifiers.v1.serve.delta import DeltaStreamer, EpisodeAssembly, TraceCursor, TraceSummary, dump
from verifiers.v1.serve.types import RunRequest
from verifiers.v1.utils import loaders

from env_doubles import MODULES, FakeEngine, run_body
from prl.config.envs import ServeConfig
from prl.envs import prompts, workspace
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
    monkeypatch.setattr(train, "RendererSlot", train.RendererSlot)
    runtime = {name: vars(SubprocessRuntime)[name] for name in ("start", "teardown", "cleanup")}
    threshold = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)
    if "__deepcopy__" in vars(TraceCursor):
        del TraceCursor.__deepcopy__
    for name, method in runtime.items():
        setattr(SubprocessRuntime, name, method)
    if "workdir" in vars(SubprocessRuntime):
        del SubprocessRuntime.workdir
    train.ElasticRendererPool._renderers.clear()


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
        train.ElasticRendererPool._renderers.clear()
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
    monkeypatch.setattr(SubprocessRuntime, "start", None)
    monkeypatch.setattr(train, "RendererSlot", None)

    with caplog.at_level(logging.WARNING):
        assert tune(env) == ["collect_garbage_rarely"]
    for name in TUNINGS[:-1]:
        assert f"{name} does not apply" in caplog.text
    assert ChatHarness.post is post_over_http


def test_a_workspace_is_made_when_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "CACHE_DIR", tmp_path)
    tune(environment())

    def names() -> list[str]:
        return [path.name for path in tmp_path.glob("runtimes/subprocess/*")]

    async def rollouts() -> None:
        idle, busy = (SubprocessRuntime(SubprocessConfig(), name=name) for name in ("idle", "busy"))
        for runtime in (idle, busy):
            await runtime.start()
        assert names() == []
        assert idle.info.id == str(tmp_path / "runtimes" / "subprocess" / "idle")
        await busy.with_env({"WORD": "olleh"}).run(["sh", "-c", "echo $WORD > word"], {})
        assert await busy.read("word") == b"olleh\n"
        assert names() == ["busy"]
        for runtime in (idle, busy):
            await runtime.stop()
        assert names() == []
        idle.cleanup()

    asyncio.run(rollouts())


class CountingRenderer:
    """Says which calls were made, and on which thread."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, bool]] = []

    def render(self, messages: Any, **options: Any) -> RenderedTokens:
        self.calls.append(("render", threading.current_thread() is threading.main_thread()))
        return RenderedTokens(token_ids=[len(str(messages))], message_roles=["user"])

    def bridge_to_next_turn(self, *args: Any, **options: Any) -> None:
        self.calls.append(("bridge", threading.current_thread() is threading.main_thread()))


def test_a_prompt_is_rendered_once_and_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    renderer = CountingRenderer()
    slot: Any = prompts.RememberingSlot(renderer)

    def render(text: str, times: int = 1, **options: Any) -> list[RenderedTokens]:
        messages = [{"role": "user", "content": text}]

        async def members() -> list[RenderedTokens]:
            asked = (slot.run(lambda: renderer.render(messages, **options)) for _ in range(times))
            return await asyncio.gather(*asked)

        return asyncio.run(members())

    group = render("hello", times=8)
    expected = RenderedTokens(token_ids=group[0].token_ids.copy(), message_roles=["user"])
    assert group == [expected] * 8
    group[0].token_ids.append(7)
    assert render("hello") == [expected], "who gets one may change it"
    assert renderer.calls == [("render", False)]
    render("hello", tools=[{"name": "search"}])
    asyncio.run(slot.run(lambda: renderer.bridge_to_next_turn([1], [2], [])))
    assert renderer.calls[1:] == [("render", False), ("bridge", False)]

    for text in ("x" * prompts.LARGEST, "x" * prompts.LARGEST, "hello"):
        render(text)
    assert len(renderer.calls) == 5, "a long one is rendered each time"
    for number in range(prompts.REMEMBERED):
        render(str(number))
    render("hello")
    assert len(renderer.calls) == 6 + prompts.REMEMBERED, "the oldest are forgotten"
    monkeypatch.setattr(prompts, "LIFETIME", 0.0)
    render("hello")
    assert len(renderer.calls) == 7 + prompts.REMEMBERED, "a template may hold the date"
