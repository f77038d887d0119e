"""The engine client: the same errors as before, and a second try only where it is safe."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from verifiers.v1.configs.client import TrainClientConfig
from verifiers.v1.errors import ProviderError

from env_doubles import FakeEngine
from prl.envs.engine import EngineClient


def with_client(url: str, use: Callable[[EngineClient], Awaitable[Any]], **config: Any) -> Any:
    async def run() -> Any:
        client = EngineClient(
            TrainClientConfig(base_url=url, api_key_var="PRL_TEST_KEY", headers={"X-Team": "a"}, **config)
        )
        try:
            return await use(client)
        finally:
            await client.close()
            await client.close()

    return asyncio.run(run())


def test_models_and_completions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRL_TEST_KEY", "k1")
    with FakeEngine() as engine:
        models = with_client(engine.url, lambda client: client.get("/models", cast_to=dict))
        generate = f"http://127.0.0.1:{engine.port}/inference/v1/generate"
        options = {"headers": {"X-Session-ID": "s1"}}
        reply = with_client(
            engine.url, lambda client: client.post(generate, body={"token_ids": [104]}, options=options)
        )

        assert models["data"][0]["max_model_len"] == 512
        assert b'"finish_reason": "stop"' in reply.content
        assert (engine.sessions, engine.keys, engine.requests) == (["s1"], ["Bearer k1"], [{"token_ids": [104]}])


def test_an_error_status_is_passed_on() -> None:
    with FakeEngine() as engine:
        engine.status = 429
        url = f"http://127.0.0.1:{engine.port}/inference/v1/generate"
        with pytest.raises(ProviderError, match=r"Error code: 429 - .*engine is unwell") as caught:
            with_client(engine.url, lambda client: client.post(url, body={"token_ids": []}))

    assert caught.value.status_code == 429


def test_an_engine_that_is_not_there_is_unavailable(free_port: int) -> None:
    url = f"http://127.0.0.1:{free_port}/x"
    with pytest.raises(ProviderError, match="cannot be reached") as caught:
        with_client(url, lambda client: client.post(url, body={}))

    assert caught.value.status_code == 503


def test_an_engine_that_says_nothing_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        with pytest.raises(ProviderError, match="timed out") as caught:
            with_client(url, lambda client: client.post(url, body={}), timeout={"read": 0.2})

    assert caught.value.status_code == 504


@pytest.mark.parametrize(("drops", "status"), [(1, None), (2, 503)])
def test_a_connection_that_was_closed_under_the_request_is_opened_again_once(drops: int, status: int | None) -> None:
    seen = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        seen += 1
        await reader.readuntil(b"\r\n\r\n")
        if seen > drops:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
            await writer.drain()
        writer.close()

    async def use(client: EngineClient) -> Any:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
            try:
                return (await client.post(url, body={})).content
            except ProviderError as error:
                return error.status_code

    assert with_client("http://127.0.0.1:1", use) == (status or b"{}")
    assert seen == 2
