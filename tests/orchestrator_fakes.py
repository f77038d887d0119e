"""The orchestrator's neighbours as threads in the test's process: environment server, engine, trainer, monitor.

They speak the real protocols on loopback with made-up content, so that the real orchestrator runs end to end in
seconds and a test can make any of them misbehave.
"""

import asyncio
import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import zmq
from aiohttp import web

from prl.config import OrchestratorConfig, WeightBroadcastConfig
from prl.config.common import RolloutTransportConfig
from prl.transport.batches import BatchReceiver, RankBatch
from prl.transport.weights import WeightSender

DEADLINE = 30.0

pack, unpack = msgspec.msgpack.encode, msgspec.msgpack.decode


def free_ports() -> int:
    """The first of two neighbouring TCP ports on loopback that nobody holds."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            try:
                second.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):
                continue
            return port


@dataclass
class Play:
    """How one episode goes."""

    reward: float | None = 1.0
    delay: float = 0.0
    turns: int = 1
    hang: bool = False
    """Stream the beginning and never end."""
    silent: bool = False
    """With ``hang``: stream nothing either."""
    error: str | None = None
    """Answer the request with this error."""
    timeout: bool = False
    finish_reason: str | None = "stop"
    metrics: Mapping[str, float] = field(default_factory=dict)
    prompt_tokens: int = 6


def episode(n: int, task: Mapping[str, Any], play: Play) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The deltas and the final reply of an episode.

    Sampled token ids are ``1000 + n``, their log-probability is ``-n / 1000``.
    """
    trace_id, now = f"trace{n:06d}", time.time()
    record_task = {"type": "MadeUpTask", "data": task, "key": f"key{task['idx']}", "hash": f"hash{task['idx']}"}
    prompt = {
        "parent": None, "message": {"role": "user", "content": "made up"}, "sampled": False, "timestamp": now,
        "token_ids": list(range(play.prompt_tokens)), "mask": [False] * play.prompt_tokens,
        "is_content": [True] * play.prompt_tokens, "logprobs": [], "semantic_parents": [],
    }  # fmt: skip
    nodes, calls = [prompt], []
    for turn in range(play.turns):
        answer = {
            "parent": len(nodes) - 1, "message": {"role": "assistant", "content": "words"}, "sampled": True,
            "timestamp": now, "token_ids": [7, 8, *[1000 + n] * 3], "mask": [False] * 2 + [True] * 3,
            "is_content": [False] * 2 + [True] * 3, "logprobs": [-n / 1000] * 3, "semantic_parents": [],
        }  # fmt: skip
        nodes.append(answer)
        calls.append({
            "node": len(nodes) - 1, "model": "tiny", "sampling": {}, "endpoint": "/chat/completions",
            "finish_reason": play.finish_reason, "usage": {"prompt_tokens": 6, "completion_tokens": 3},
            "time": {"start": now, "end": now + 0.01}, "error": None,
        })  # fmt: skip
        if turn + 1 < play.turns:
            nodes.append({**prompt, "parent": len(nodes) - 1})
    phase = {"start": now, "end": now + 0.02}
    timing = {
        "start": now, "boot": phase, "setup": phase, "finalize": phase, "scoring": phase,
        "agent": {**phase, "model": {"duration": 0.012}, "harness": {"duration": 0.008}},
    }  # fmt: skip
    counts = {"num_input_tokens": play.prompt_tokens + 2, "num_output_tokens": 3 * play.turns}
    counts["num_total_tokens"] = sum(counts.values())
    opening = {
        "trace": trace_id,
        "open": {"version": 1, "id": trace_id, "verifiers": {"version": "0.4.0"}, "task": record_task},
        "set": {
            "agent": {"name": "agent", "trainable": True, "config": {}}, "rewards": {}, "metrics": {}, "info": {},
            "is_completed": False, "ok": True, "is_timeout": False, "stop_condition": None, "timing": timing,
        },
    }  # fmt: skip
    score = None if play.reward is None else {"score": play.reward, "weight": 1.0}
    ending = {
        "trace": trace_id,
        "set": {
            "rewards": {"made_up": score}, "metrics": dict(play.metrics), "is_completed": True, "ok": True,
            "stop_condition": "agent_completed", "is_timeout": play.timeout, **counts,
        },
    }  # fmt: skip
    deltas = [opening, {"trace": trace_id, "pending": [{"role": "user", "content": "made up"}]}]
    deltas += [{"trace": trace_id, "nodes": nodes, "calls": calls}, ending]
    head = {
        "id": f"episode{n:06d}", "env": {"id": "made-up"}, "task": record_task, "ok": True, "is_timeout": False,
        "errors": [], **counts,
    }  # fmt: skip
    summary = {"id": trace_id, "nodes": len(nodes), "calls": len(calls)}
    return deltas, {"success": True, "error": None, "head": head, "traces": [summary]}


class FakeEnvServer(threading.Thread):
    """Speaks :mod:`prl.transport.env_wire`; ``script(n, request)`` says how the n-th episode (from 0) goes."""

    def __init__(self, script: Callable[[int, Mapping[str, Any]], Play], tasks: int = 12, port: int = 0) -> None:
        super().__init__(daemon=True)
        self.script = script
        self.tasks = tasks
        self.requests: list[dict[str, Any]] = []
        self.cancelled: list[str] = []
        self._halt = threading.Event()
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.bind(f"tcp://127.0.0.1:{port or '*'}")
        self.address: str = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._later: list[tuple[float, list[bytes]]] = []
        self.start()

    def run(self) -> None:
        while not self._halt.is_set():
            if self._socket.poll(2):
                self._answer(*self._socket.recv_multipart())
            now = time.monotonic()
            due = [frames for at, frames in self._later if at <= now]
            self._later = [entry for entry in self._later if entry[0] > now]
            for frames in due:
                self._socket.send_multipart(frames)
        self._socket.close(linger=0)
        self._context.term()

    def kill(self) -> None:
        self._halt.set()
        self.join(DEADLINE)

    def _answer(self, client: bytes, request_id: bytes, method: bytes, payload: bytes) -> None:
        body = unpack(payload)
        if method == b"run":
            self._play(client, request_id, body)
            return
        if method == b"cancel":
            self.cancelled.append(body["request_id"])
        page = slice(body.get("offset", 0), body.get("offset", 0) + min(body.get("limit", 0), 5))
        answers: dict[bytes, dict[str, Any]] = {
            b"health": {"success": True},
            b"cancel": {"success": True, "cancelled": True},
            b"tasks": {
                "success": True, "type": "MadeUpTask", "total": self.tasks,
                "tasks": [{"idx": i} for i in range(self.tasks)][page],
            },
            b"stats": {
                "success": True, "workers": 2, "configured_workers": 2, "active": [3, 4], "restarts": 1,
                "lag": {"min": 0.0, "mean": 0.001, "p90": 0.002, "p99": 0.003, "max": 0.004, "n": 10},
            },
        }  # fmt: skip
        self._socket.send_multipart([client, request_id, b"reply", pack(answers[method])])

    def _play(self, client: bytes, request_id: bytes, body: dict[str, Any]) -> None:
        n = len(self.requests)
        self.requests.append(body)
        play = self.script(n, body)
        if play.error is not None:
            error = pack({"success": False, "error": play.error})
            self._socket.send_multipart([client, request_id, b"reply", error])
            return
        deltas, reply = episode(n, body["task_data"], play)
        if play.hang:
            deltas = [] if play.silent else deltas[:2]
        frames = [[client, request_id, b"delta", pack(delta)] for delta in deltas]
        if not play.hang:
            frames.append([client, request_id, b"reply", pack(reply)])
        if play.delay:
            due = time.monotonic() + play.delay
            self._later += [(due, entry) for entry in frames]
        else:
            for entry in frames:
                self._socket.send_multipart(entry)


class FakeEngine(threading.Thread):
    """Admin plane of an engine. ``refuse``: the status with which a weight update is answered."""

    def __init__(self, refuse: int | None = None) -> None:
        super().__init__(daemon=True)
        self.refuse = refuse
        self.calls: list[tuple[str, Any]] = []
        self.weights: list[int] = []
        self._ready = threading.Event()
        self.start()
        assert self._ready.wait(DEADLINE)

    def run(self) -> None:
        asyncio.run(self._serve())

    def kill(self) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self.join(DEADLINE)

    async def _serve(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application()
        app.router.add_get("/health", self._ok)
        app.router.add_get("/metrics", self._metrics)
        for path in ("/pause", "/resume", "/update_weights"):
            app.router.add_post(path, self._post)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self._ready.set()
        await self._ended.wait()
        await runner.cleanup()

    async def _ok(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _metrics(self, _: web.Request) -> web.Response:
        tokens = 100 * len(self.calls)
        return web.Response(
            text=f'vllm:num_requests_running{{engine="0"}} 3\nvllm:generation_tokens_total{{engine="0"}} {tokens}\n'
            'vllm:gpu_cache_usage_perc{engine="0"} 0.25\n'
        )

    async def _post(self, request: web.Request) -> web.Response:
        body = await request.json() if request.can_read_body else None
        self.calls.append((request.path_qs, body))
        if request.path == "/update_weights":
            if self.refuse is not None and body["version"] > 0:
                return web.Response(status=self.refuse, text="checksum differs from the manifest")
            assert (Path(body["weight_dir"]) / "model.safetensors").is_file()
            self.weights.append(body["version"])
        return web.Response()


class FakeTrainer(threading.Thread):
    """Ranks that take batches, and rank 0's broadcasts. ``slow(step)``: seconds a step takes."""

    def __init__(
        self, run_dir: Path, transport: RolloutTransportConfig, *, ranks: int = 1, start: int = 0,
        last: int | None = None, slow: Callable[[int], float] = lambda step: 0.0,
    ) -> None:  # fmt: skip
        super().__init__(daemon=True)
        self.batches: list[list[RankBatch]] = []
        self.received_at: dict[int, float] = {}
        self.broadcast_at: dict[int, float] = {}
        self._start_version, self._last, self._slow, self._ranks = start, last, slow, ranks
        self._transport = transport
        self._halt = threading.Event()
        poll = WeightBroadcastConfig(poll_interval=0.002, timeout=DEADLINE)
        self._sender = WeightSender(run_dir / "broadcasts", poll)
        self.start()

    def run(self) -> None:
        receivers = [BatchReceiver(self._transport, rank) for rank in range(self._ranks)]
        try:
            for receiver in receivers:
                receiver.announce()
            self._broadcast(self._start_version)
            for step in itertools.count(self._start_version + 1):
                batches = []
                for receiver in receivers:
                    while (batch := receiver.receive(0.05)) is None:
                        if self._halt.is_set():
                            return
                    batches.append(batch)
                self.received_at[step] = time.monotonic()
                self.batches.append(batches)
                self._halt.wait(self._slow(step))
                self._broadcast(step)
                if step == self._last:
                    return
        finally:
            for receiver in receivers:
                receiver.close()

    def _broadcast(self, version: int) -> None:
        if not self._halt.is_set():
            self.broadcast_at[version] = time.monotonic()
            self._sender.send(version, lambda path: (path / "model.safetensors").write_bytes(b"w" * 64) and None)

    def kill(self) -> None:
        self._halt.set()
        deadline = time.monotonic() + DEADLINE
        while self.is_alive() and time.monotonic() < deadline:
            for offer in self._sender.directory.glob("step_*"):  # nobody else may be left to take one
                with suppress(FileNotFoundError):
                    (offer / ".receiver_ready").touch()
            self.join(0.02)


class RecordingMonitor:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.rows: list[tuple[int | None, dict[str, float]]] = []
        self.records: list[dict[str, Any]] = []
        self.updates: list[dict[str, Any]] = []
        self.live: dict[str, int] = {}
        self.finished: set[str] = set()

    def log(self, metrics: Mapping[str, float], *, step: int | None) -> None:
        self.rows.append((step, dict(metrics)))

    def record_episode(self, record: dict[str, Any]) -> None:
        self.records.append(record)

    def annotate(self, updates: Sequence[dict[str, Any]]) -> None:
        self.updates += updates

    def live_pending(self, dispatch: Mapping[str, Any]) -> None:
        self.live[dispatch["id"]] = 0

    def live_delta(self, dispatch: Mapping[str, Any], delta: Mapping[str, Any]) -> None:
        self.live[dispatch["id"]] += 1

    def live_done(self, dispatch_id: str) -> None:
        self.finished.add(dispatch_id)

    def close(self, *, clean: bool) -> None: ...

    def steps(self) -> dict[int, dict[str, float]]:
        return {step: row for step, row in self.rows if step is not None}


@dataclass
class World:
    """All neighbours of one orchestrator, and its configuration."""

    config: OrchestratorConfig
    env: FakeEnvServer
    engine: FakeEngine
    trainer: FakeTrainer
    monitor: RecordingMonitor = field(default_factory=RecordingMonitor)

    def run(self) -> None:
        """The real orchestrator, to its end."""
        from prl.orchestrator.loop import orchestrate

        async def main() -> None:
            async with asyncio.timeout(DEADLINE):
                await orchestrate(self.config, self.monitor)

        asyncio.run(main())


@contextmanager
def world(
    run_dir: Path,
    script: Callable[[int, Mapping[str, Any]], Play] = lambda n, request: Play(reward=float(n % 2)),
    *,
    overrides: Mapping[str, Any] | None = None,
    source: Mapping[str, Any] | None = None,
    refuse: int | None = None,
    start: int = 0,
    slow: Callable[[int], float] = lambda step: 0.0,
) -> Iterator[World]:
    """Neighbours that behave, but for what the arguments say. Everything ends with the block."""
    env, engine = FakeEnvServer(script), FakeEngine(refuse)
    addresses = run_dir / "resolved" / "train"
    addresses.mkdir(parents=True, exist_ok=True)
    (addresses / "made-up.address").write_text(env.address)
    settings: dict[str, Any] = {
        "output_dir": run_dir,
        "run_id": "r1",
        "run_name": "demo",
        "model": {"name": "tiny", "client": {"admin_base_url": [engine.url], "ready_poll_interval": 0.01}},
        "batch_size": 8,
        "group_size": 4,
        "seq_len": 64,
        "max_steps": 4,
        "concurrency": {"max_inflight": 16},
        "train": {"source": [{"env": {"taskset": {"id": "made-up"}}, **(source or {})}]},
        "weight_broadcast": {"poll_interval": 0.002},
        "rollout_transport": {"port": free_ports()},
        "log": {"interval": 0.1},
        "metrics_interval": 0.1,
        "env_address_dir": run_dir / "resolved",
        "env_startup_timeout": 10,
        "trainer_ready_timeout": 10,
        "policy_timeout": 20,
        **(overrides or {}),
    }
    config = OrchestratorConfig.model_validate(settings)
    trainer = FakeTrainer(
        run_dir, config.rollout_transport, ranks=config.num_train_ranks, start=start, last=config.max_steps, slow=slow
    )
    try:
        yield World(config, env, engine, trainer)
    finally:
        for neighbour in (trainer, env, engine):
            neighbour.kill()
