"""Offers of an earlier attempt are not mistaken for the trainer's own."""

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from prl.config import WeightBroadcastConfig
from prl.orchestrator.watcher import WeightWatcher
from prl.transport.weights import WeightReceiver, WeightSender

CONFIG = WeightBroadcastConfig(poll_interval=0.002, timeout=20)


def write(path: Path) -> None:
    (path / "model.safetensors").write_bytes(b"fresh")


def leave_behind(directory: Path, version: int, *markers: str) -> None:
    path = directory / f"step_{version}"
    path.mkdir()
    for marker in markers:
        (path / marker).touch()


def test_a_resumed_attempt_takes_only_what_its_own_trainer_offers(tmp_path: Path) -> None:
    # v5 was finished, v6 was offered and never taken, v7 never finished: all of a run that is dead
    leave_behind(tmp_path, 5, ".sender_ready", ".receiver_ready", ".started", ".finished")
    leave_behind(tmp_path, 6, ".sender_ready")
    leave_behind(tmp_path, 7, ".sender_ready", ".receiver_ready", ".started")
    taken: list[tuple[int, bytes]] = []
    pending: list[None] = []

    async def update(directory: Path, version: int) -> None:
        taken.append((version, (directory / "model.safetensors").read_bytes()))

    async def receive() -> None:
        engines = cast(Any, SimpleNamespace(update_weights=update))
        watcher = WeightWatcher(WeightReceiver(tmp_path, CONFIG), engines)
        watcher.hook(lambda: pending.append(None), lambda version: None)
        for version in (5, 6, 7):
            await watcher.take(version)
        assert watcher.version == 7 and watcher.metrics()["watcher/update_count"] == 3

    sender = WeightSender(tmp_path, CONFIG)
    started = threading.Timer(0.05, lambda: [sender.send(version, write) for version in (5, 6, 7)])
    started.start()
    asyncio.run(asyncio.wait_for(receive(), 20))
    started.join(20)
    assert taken == [(5, b"fresh"), (6, b"fresh"), (7, b"fresh")]
    assert len(pending) == 3
