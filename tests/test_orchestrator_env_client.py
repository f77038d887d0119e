"""The client of an environment server: every request ends, and says how."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
import pytest

from orchestrator_fakes import FakeEnvServer, Play
from prl.orchestrator.env_client import EnvClient, EnvRequestError

TASK = msgspec.Raw(msgspec.msgpack.encode({"idx": 0}))
CLIENT = msgspec.Raw(msgspec.msgpack.encode({"type": "train"}))


def with_server(
    script: Callable[[int, Mapping[str, Any]], Play], use: Callable[[EnvClient, FakeEnvServer], Awaitable[None]]
) -> None:
    server = FakeEnvServer(script)

    async def main() -> None:
        client = EnvClient("made-up", server.address)
        try:
            async with asyncio.timeout(20):
                assert await client.health(10)
                await use(client, server)
        finally:
            client.close()

    try:
        asyncio.run(main())
    finally:
        server.kill()


async def run(client: EnvClient, timeout: float = 10, on_delta: Any = None) -> dict[str, Any]:
    return await client.run(TASK, CLIENT, "tiny", {"temperature": 1.0}, timeout=timeout, on_delta=on_delta)


def test_an_episode_is_assembled_from_its_deltas() -> None:
    async def use(client: EnvClient, server: FakeEnvServer) -> None:
        deltas: list[dict[str, Any]] = []
        record = await run(client, on_delta=deltas.append)
        (trace,) = record["traces"]
        assert record["id"] == "episode000000" and len(deltas) == 4
        assert len(trace["nodes"]) == 3 * 2 - 1 - 1 and len(trace["calls"]) == 2
        assert trace["rewards"] == {"made_up": {"score": 0.25, "weight": 1.0}}
        assert "pending" not in trace
        request = server.requests[0]
        assert request["task_data"] == {"idx": 0} and request["client"] == {"type": "train"}

    with_server(lambda n, request: Play(reward=0.25, turns=2), use)


def test_many_episodes_at_once_find_their_own_replies() -> None:
    async def use(client: EnvClient, server: FakeEnvServer) -> None:
        records = await asyncio.gather(*(run(client) for _ in range(200)))
        assert sorted(record["id"] for record in records) == [f"episode{n:06d}" for n in range(200)]

    with_server(lambda n, request: Play(delay=0.001 * (n % 7)), use)


def test_all_pages_of_tasks_and_the_stats_are_read() -> None:
    async def use(client: EnvClient, server: FakeEnvServer) -> None:
        tasks = await client.tasks(5)
        assert [msgspec.msgpack.decode(item)["idx"] for item in tasks.items] == list(range(12))
        stats = await client.stats(5)
        assert stats is not None and (stats.workers, stats.active, stats.lag.max) == (2, [3, 4], 0.004)

    with_server(lambda n, request: Play(), use)


def test_a_deadline_cancels_the_episode_and_keeps_what_had_begun() -> None:
    async def use(client: EnvClient, server: FakeEnvServer) -> None:
        with pytest.raises(EnvRequestError) as caught:
            await run(client, timeout=0.2)
        assert caught.value.type == "Timeout" and [trace["id"] for trace in caught.value.traces] == ["trace000000"]
        await until(lambda: len(server.cancelled) == 1)

    with_server(lambda n, request: Play(hang=True), use)


def test_cancelling_the_caller_cancels_the_episode() -> None:
    async def use(client: EnvClient, server: FakeEnvServer) -> None:
        running = asyncio.create_task(run(client))
        await until(lambda: len(server.requests) == 1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await until(lambda: len(server.cancelled) == 1)

    with_server(lambda n, request: Play(hang=True), use)


def test_a_server_error_has_the_type_that_the_server_gave() -> None:
    async def use(client: EnvClient, server: FakeEnvServer) -> None:
        with pytest.raises(EnvRequestError, match="EnvWorkerDied: worker 0 was killed: signal 9") as caught:
            await run(client)
        assert (caught.value.type, caught.value.message) == ("EnvWorkerDied", "worker 0 was killed: signal 9")

    with_server(lambda n, request: Play(error="EnvWorkerDied: worker 0 was killed: signal 9"), use)


def test_the_death_of_a_server_ends_what_it_was_playing_and_a_new_one_is_found() -> None:
    async def use(client: EnvClient, server: FakeEnvServer) -> None:
        running = asyncio.create_task(run(client, timeout=60))
        await until(lambda: len(server.requests) == 1)
        await asyncio.to_thread(server.kill)
        with pytest.raises(EnvRequestError) as caught:
            await running
        assert caught.value.type == "EnvServerLost" and len(caught.value.traces) == 1
        assert not client.connected and client.lost_at is not None
        assert not await client.health(0.05)
        again = FakeEnvServer(lambda n, request: Play(), port=int(server.address.rsplit(":", 1)[1]))
        try:
            await until(lambda: client.connected)
            assert client.lost_at is None
            assert (await run(client))["ok"]
        finally:
            await asyncio.to_thread(again.kill)

    with_server(lambda n, request: Play(hang=True), use)


def test_a_reply_whose_traces_did_not_all_arrive_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(client: EnvClient, server: FakeEnvServer) -> None:
        monkeypatch.setattr("prl.orchestrator.env_client.apply_delta", lambda traces, delta: False)
        with pytest.raises(EnvRequestError, match="IncompleteEpisode: trace trace000000 did not arrive"):
            await run(client)

    with_server(lambda n, request: Play(), use)


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)
