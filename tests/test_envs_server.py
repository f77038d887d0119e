"""The environment server as processes: broker, workers, the wire, and every way they can end."""

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from env_doubles import DEADLINE, EnvServerProcess, FakeEngine, WireClient, env_server, eventually, run_body
from prl.trainer.tiny import byte_tokenizer
from prl.transport import env_wire

FAULTY = {"taskset": {"id": "faulty-env"}, "agent": {"timeout": {"scoring": 0.3}}}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tokenizer")
    byte_tokenizer(512).save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def shared_engine() -> Iterator[FakeEngine]:
    with FakeEngine() as engine:
        yield engine


@pytest.fixture
def engine(shared_engine: FakeEngine) -> FakeEngine:
    shared_engine.reset()
    return shared_engine


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tokenizer: Path) -> Iterator[EnvServerProcess]:
    serve = {"interval": 0.3, "max_concurrent": 4}
    directory = tmp_path_factory.mktemp("server")
    with env_server(directory, FAULTY, serve=serve, tokenizer=str(tokenizer)) as started:
        started.address()
        yield started


@pytest.fixture
def client(server: EnvServerProcess) -> Iterator[WireClient]:
    client = WireClient(server.address())
    yield client
    client.close()


@pytest.fixture
def play(client: WireClient, engine: FakeEngine, tokenizer: Path) -> Any:
    def start(fault: str = "", **sampling: Any) -> bytes:
        task = {"idx": 3, "prompt": "say hi", "system_prompt": "be short", "fault": fault}
        return client.send(env_wire.RUN, run_body(engine, tokenizer, task, **sampling))

    return start


def worker_of(server: EnvServerProcess) -> psutil.Process:
    (worker,) = eventually(lambda: psutil.Process(server.process.pid).children(), "a worker process")
    return worker


def test_an_episode_records_what_was_sampled(client: WireClient, engine: FakeEngine, play: Any) -> None:
    record = client.episode(play(seed=7, extra_body={"cache_salt": "17"}))

    (trace,) = record["traces"]
    assistant = trace["nodes"][-1]
    assert (record["ok"], trace["ok"], trace["stop_condition"]) == (True, True, "agent_completed")
    assert record["env"]["id"] == "faulty-env"
    assert [node["message"]["content"] for node in trace["nodes"]] == ["be short", "say hi", "hi"]
    assert (assistant["sampled"], sum(assistant["mask"]), assistant["logprobs"]) == (True, 3, [-0.5] * 3)
    assert trace["rewards"] == {"outcome": {"score": 0.5, "weight": 1.0}}
    assert trace["metrics"] == {"ratio": 0.25}
    assert trace["agent"]["config"]["harness"]["id"] == "prl-chat"
    (sent,) = engine.requests
    assert sent["token_ids"] + assistant["token_ids"][-3:] == [
        token for node in trace["nodes"] for token in node["token_ids"]
    ]
    assert sent["cache_salt"] == "17"
    assert sent["sampling_params"] == {
        "temperature": 1.0,
        "max_tokens": 16,
        "seed": 7,
        "stop_token_ids": [258],
        "logprobs": 1,
        "skip_special_tokens": False,
    }
    assert engine.sessions == [trace["id"]]
    assert engine.keys == ["Bearer s3cret"]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("raises", "KeyError: 'no such answer'"),
        ("nan", "reward 'outcome': its score is nan, which is not a finite number"),
        ("inf", "reward 'outcome': its score is -inf, which is not a finite number"),
        ("assigns", "reward 'assigned' is not a finite number"),
    ],
)
def test_a_broken_reward_is_an_error_of_the_task(client: WireClient, play: Any, fault: str, message: str) -> None:
    request = play(fault)
    record = client.episode(request)

    (trace,) = record["traces"]
    assert (record["ok"], trace["ok"]) == (False, False)
    assert [error["type"] for error in trace["errors"]] == ["TaskError"]
    assert message in trace["errors"][0]["message"]
    assert trace["rewards"]["assigned" if fault == "assigns" else "outcome"] is None
    assert not re.search(
        r"\b(nan|inf)\b", str([delta.get("set", {}).get("rewards") for delta in client.deltas[request]])
    )


def test_a_metric_that_is_no_number_counts_as_not_measured(client: WireClient, play: Any) -> None:
    record = client.episode(play("metric"))

    assert record["ok"]
    assert record["traces"][0]["metrics"] == {"ratio": None}


def test_a_reward_that_hangs_is_cut_off(client: WireClient, play: Any) -> None:
    (trace,) = client.episode(play("hangs"))["traces"]

    assert (trace["is_timeout"], trace["stop_condition"]) == (True, "scoring_timeout")
    assert trace["rewards"] == {"outcome": None}


def test_an_engine_that_fails_is_the_providers_error(client: WireClient, engine: FakeEngine, play: Any) -> None:
    engine.status = 503
    (trace,) = client.episode(play())["traces"]

    assert (trace["ok"], trace["stop_condition"], trace["rewards"]) == (False, "provider_error", {})
    assert trace["calls"][0]["error"]["status_code"] == 503
    assert "engine is unwell" in trace["errors"][0]["message"]


def test_a_completion_without_evidence_of_sampling_is_refused(
    client: WireClient, engine: FakeEngine, play: Any
) -> None:
    def spoil(reply: dict[str, Any]) -> None:
        reply["choices"][0]["logprobs"]["content"][0]["logprob"] = -9999.0

    engine.spoil = spoil
    (trace,) = client.episode(play())["traces"]

    assert not trace["ok"]
    assert trace["calls"][0]["error"]["type"] == "MalformedGenerateResponseError"


def test_tasks_come_in_pages(client: WireClient) -> None:
    first = client.call(env_wire.TASKS, {"offset": 0, "limit": 2})
    rest = client.call(env_wire.TASKS, {"offset": 2, "limit": 100})

    assert (first["success"], first["type"], first["total"]) == (True, "FaultyTask", 5)
    assert [task["idx"] for task in first["tasks"] + rest["tasks"]] == [0, 1, 2, 3, 4]
    assert first["tasks"][1]["fault"] == "raises"


@pytest.mark.parametrize("body", [{}, {"offset": "x", "limit": 1}])
def test_bad_requests_are_answered(client: WireClient, body: dict[str, Any]) -> None:
    assert not client.call(env_wire.TASKS, body)["success"]
    assert not client.call(env_wire.RUN, {"task_data": body})["success"]
    assert client.call(b"dance", body) == {"success": False, "error": "UnknownMethod: 'dance'"}
    assert client.call(env_wire.CANCEL, body) == {"success": True, "error": None, "cancelled": False}
    assert client.call(env_wire.HEALTH, {})["success"]


def test_room_is_bounded_and_cancels_reach_both_sides(client: WireClient, engine: FakeEngine, play: Any) -> None:
    engine.hold.set()
    runs = [play() for _ in range(6)]
    eventually(lambda: len(engine.requests) == 4, "as many requests as max_concurrent allows")
    assert client.call(env_wire.STATS, {})["active"] == [4]

    waiting, playing = runs.pop(5), runs.pop(0)
    for run in (waiting, playing):
        assert client.call(env_wire.CANCEL, {"request_id": run.decode()})["cancelled"]
        assert client.reply(run)["error"].startswith("Cancelled: ")
    eventually(lambda: len(engine.requests) == 5, "the freed place taken by the last run")
    engine.hold.clear()

    assert all(client.episode(run)["ok"] for run in runs)
    assert not client.call(env_wire.CANCEL, {"request_id": runs[0].decode()})["cancelled"]


def test_the_log_tells_of_lag_and_of_who_is_busy(client: WireClient, server: EnvServerProcess) -> None:
    lag = r"Event loop lag: min \S+ms, mean \S+ms, p90 \S+ms, p99 \S+ms, max \S+ms \([1-9]\d* samples\)"
    eventually(lambda: re.search(lag, server.log), "a line on lag")
    assert re.search(r"INFO Active tasks: \d+ \(worker 0: \d+\); \d+ waiting", server.log)
    assert re.search(
        r"INFO EnvServerPool up: address=(?P<addr>\S+) (?:workers=(?P<w>\S+) )?multiplex=(?P<m>\d+)", server.log
    )
    stats = client.call(env_wire.STATS, {})
    assert (stats["workers"], stats["configured_workers"]) == (1, 1)
    assert stats["lag"]["n"] > 0
    assert stats["lag"]["min"] <= stats["lag"]["mean"] <= stats["lag"]["max"]


def test_a_killed_worker_is_replaced_and_its_episodes_fail_by_name(
    client: WireClient, engine: FakeEngine, server: EnvServerProcess, play: Any
) -> None:
    worker = worker_of(server)
    assert worker.cmdline()[0] == "Verifiers::EnvWorker0"
    engine.hold.set()
    lost = [play() for _ in range(4)]
    kept = play()
    eventually(lambda: len(engine.requests) == 4, "four episodes in play")
    worker.send_signal(signal.SIGKILL)

    for run in lost:
        reply = client.reply(run)
        assert reply == {
            "success": False,
            "error": f"EnvWorkerDied: worker 0 (pid {worker.pid}) was killed by signal 9 while playing this episode",
        }
        assert env_wire.error_type(reply["error"]) == env_wire.WORKER_DIED
    assert not client.call(env_wire.HEALTH, {})["success"]
    engine.hold.clear()
    assert client.episode(kept)["ok"], "a run that waited is played by the replacement"
    assert client.call(env_wire.STATS, {})["restarts"] == 1
    assert "ERROR EnvServerPool: worker 0 exited with code -9" in server.log


def test_sigterm_ends_everything_in_the_middle_of_episodes(
    server: EnvServerProcess, engine: FakeEngine, play: Any
) -> None:
    worker = worker_of(server)
    engine.hold.set()
    for _ in range(6):  # four are played, two wait for room
        play()
    eventually(lambda: len(engine.requests) == 4, "four episodes at the engine")
    server.process.send_signal(signal.SIGTERM)

    assert server.process.wait(DEADLINE) == 0
    assert not worker.is_running()
    said = server.log.rsplit("EnvServerPool up", 1)[1]
    assert "EnvServerPool down" in said
    # Episodes are cancelled while their answers can still be sent, and the worker needs no killing.
    assert not re.search("Traceback|failed to send|did not end on SIGTERM", said), said


def test_work_is_spread_and_too_many_deaths_end_the_server(tmp_path: Path, engine: FakeEngine, tokenizer: Path) -> None:
    serve = {"workers": 2, "restart_limit": 0, "heartbeat_timeout": 1.0}
    with env_server(tmp_path, FAULTY, serve=serve) as server:
        client = WireClient(server.address())
        eventually(lambda: client.call(env_wire.STATS, {})["workers"] == 2, "two workers")
        task = {"prompt": "say hi", "fault": "blocks"}
        engine.hold.set()
        runs = [client.send(env_wire.RUN, run_body(engine, tokenizer, task)) for _ in range(2)]
        eventually(lambda: client.call(env_wire.STATS, {})["active"] == [1, 1], "one episode on each worker")
        engine.hold.clear()

        ended = r"EnvWorkerDied: worker \d \(pid \d+\) stopped answering and was ended while playing this episode"
        assert any(re.fullmatch(ended, reply["error"]) for reply in client.replies(runs, 1))
        assert server.process.wait(DEADLINE) == 1
        assert re.search(r"ERROR Env server failed: worker \d ended and 0 were replaced", server.log)
        client.close()


@pytest.mark.parametrize(
    ("env", "serve", "said"),
    [
        ({"taskset": {"id": "no-such-env"}}, {}, "ModuleNotFoundError: No module named 'no_such_env'"),
        ({"taskset": {"id": "slow-env"}}, {"startup_timeout": 0.5}, "did not start in time"),
        (
            {"taskset": {"id": "faulty-env"}, "agent": {"runtime": {"type": "prime"}}},
            {},
            "SeatRefusedError: env.agent.runtime.type = 'prime'",
        ),
    ],
)
def test_what_cannot_be_served_is_named(tmp_path: Path, env: dict[str, Any], serve: dict[str, Any], said: str) -> None:
    with env_server(tmp_path, env, serve=serve) as server:
        assert server.process.wait(DEADLINE) == 1
        assert said in server.log
        assert "ERROR Env server failed: worker 0" in server.log
        if not serve:
            assert "ERROR Fatal error in run_server\nTraceback" in server.log
        assert not server.address_file.exists()


def test_workers_die_with_a_killed_server(tmp_path: Path) -> None:
    with env_server(tmp_path, {"taskset": {"id": "slow-env"}}) as server:
        worker = worker_of(server)
        eventually(lambda: worker.cmdline()[:1] == ["Verifiers::EnvWorker0"], "the worker's title")
        server.process.kill()

        eventually(lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE, "the worker's end")


def test_a_wrong_key_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with env_server(tmp_path, FAULTY, serve={"wrokers": 2}) as server:
        assert server.process.wait(DEADLINE) == 64
        assert "wrokers" in server.log
