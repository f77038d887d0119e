"""What a trainer talks to, for tests: made-up batches, an orchestrator that ships them, a monitor that remembers."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from prl.config import RolloutTransportConfig, TrainerConfig
from prl.monitors.base import NullMonitor
from prl.rundir import checkpoints
from prl.transport.batches import BatchPublisher, MicroBatch, RankBatch
from prl.transport.weights import WeightReceiver

TIMEOUT = 60.0


def port_pair() -> int:
    """A port that is free together with the next one."""
    for _ in range(100):
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            with contextlib.suppress(OSError):
                second.bind(("127.0.0.1", port + 1))
                return port
    raise RuntimeError("no two ports in a row are free")


def micro_batch(
    lengths: Sequence[int], seed: int, *, logprob: float = -5.5, first: int = 0, env: str = "words"
) -> MicroBatch:
    """Random tokens; in each sequence the last half is learned, sampled by a policy about as random as a new model."""
    rng = np.random.default_rng(seed)
    mask = [place >= (length + 1) // 2 for length in lengths for place in range(length)]
    ids = rng.integers(0, 256, sum(lengths)).tolist()
    advantages = np.repeat(rng.choice([-1.0, 0.0, 0.5], len(lengths)), lengths).tolist()
    return MicroBatch(
        token_ids=ids,
        loss_mask=mask,
        advantages=[a if m else 0.0 for a, m in zip(advantages, mask, strict=True)],
        logprobs=[logprob if m else 0.0 for m in mask],
        position_ids=[place for length in lengths for place in range(length)],
        sequence_lengths=list(lengths),
        temperatures=[1.0] * len(lengths),
        env_names=[env] * len(lengths),
        trace_ids=[f"t{first + i}" for i in range(len(lengths))],
        branch_indices=[0] * len(lengths),
    )


def padding() -> MicroBatch:
    """What keeps ranks aligned: one sequence without a loss token."""
    return MicroBatch([0], [False], [0.0], [0.0], [0], [1], [1.0], [""], [""], [0])


def trainer_config(run_dir: Path, policy: Path, *, seq_len: int = 256, **changes: Any) -> TrainerConfig:
    """A trainer of the tiny model on loopback."""
    values: dict[str, Any] = {
        "output_dir": run_dir,
        "model": {"name": str(policy), "seq_len": seq_len},
        "optim": {"lr": 1e-3},
        "rollout_transport": {"port": port_pair()},
        "weight_broadcast": {"timeout": TIMEOUT, "keep": 20},
        "batch_timeout": TIMEOUT,
        "peak_flops": 1e11,
    }
    return TrainerConfig.model_validate(values | changes)


class RecordingMonitor(NullMonitor):
    """Remembers metrics and annotations."""

    def __init__(self) -> None:
        self.rows: list[tuple[int | None, dict[str, float]]] = []
        self.updates: list[dict[str, Any]] = []

    def log(self, metrics: Mapping[str, float], *, step: int | None) -> None:
        self.rows.append((step, dict(metrics)))

    def annotate(self, updates: Sequence[dict[str, Any]]) -> None:
        self.updates.extend(updates)

    def step(self, step: int) -> dict[str, float]:
        """All rows of a step together."""
        return {key: value for at, row in self.rows if at == step for key, value in row.items()}


@contextlib.contextmanager
def orchestrator(
    config: TrainerConfig, batches: Mapping[int, Sequence[Sequence[MicroBatch]]], *, versions: bool = True
) -> Iterator[list[int]]:
    """Ships ``batches[step][rank]`` in order of step and acknowledges every version; yields those that arrived whole.

    It also writes its half of the checkpoint of every step, so that the trainer's half completes it. With ``versions``
    false it ignores broadcasts.
    """
    received: list[int] = []
    stop = threading.Event()
    ranks = len(next(iter(batches.values())))
    for step in batches:
        half = checkpoints.begin_half(config.output_dir / "checkpoints", step, checkpoints.ORCHESTRATOR)
        (half / "progress.pt").touch()
        checkpoints.publish_half(config.output_dir / "checkpoints", step, checkpoints.ORCHESTRATOR)

    async def serve() -> None:
        await asyncio.gather(ship(), receive() if versions else asyncio.sleep(0))

    async def ship() -> None:
        publisher = BatchPublisher(RolloutTransportConfig(port=config.rollout_transport.port), ranks)
        try:
            while publisher.missing and not stop.is_set():
                with contextlib.suppress(TimeoutError):
                    await publisher.wait_for_ranks(0.1)
            for step, parts in sorted(batches.items()):
                await publisher.publish([RankBatch(step, step - 1, list(part)) for part in parts])
            await asyncio.to_thread(stop.wait)
        finally:
            publisher.close()

    async def receive() -> None:
        receiver = WeightReceiver(config.output_dir / "broadcasts", config.weight_broadcast)
        newest = -1
        while not stop.is_set():
            state = receiver.offered(newest)
            if state is None:
                await asyncio.sleep(0.01)
                continue
            receiver.acknowledge(state)
            await receiver.wait_finished(state)
            newest = state.version
            received.append(newest)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        yield received
    finally:
        stop.set()
        thread.join(TIMEOUT)
