"""The broadcast handshake between a trainer and an orchestrator, over real files."""

import asyncio
import errno
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from prl.config import WeightBroadcastConfig
from prl.rundir import broadcasts
from prl.rundir.broadcasts import BroadcastState, list_broadcasts, verify_weights
from prl.transport.weights import WeightReceiver, WeightSender


def write(path: Path) -> None:
    (path / "model.safetensors").write_bytes(b"w" * 64)


def test_versions_arrive_whole_and_old_ones_go(tmp_path: Path) -> None:
    config = WeightBroadcastConfig(poll_interval=0.001, timeout=20)
    sender, receiver = WeightSender(tmp_path, config), WeightReceiver(tmp_path, config)

    async def receive() -> list[int]:
        applied = -1
        seen = []
        while applied < 3:
            if (offer := receiver.offered(applied)) is None:
                await asyncio.sleep(0.001)
                continue
            receiver.acknowledge(offer)
            await receiver.wait_finished(offer)
            assert verify_weights(offer.path, offer.version) == offer.version
            applied = offer.version
            seen.append(applied)
        return seen

    thread = threading.Thread(target=lambda: [sender.send(v, write) for v in range(4)])
    thread.start()
    assert asyncio.run(asyncio.wait_for(receive(), 20)) == [0, 1, 2, 3]
    thread.join(20)
    assert [state.version for state in list_broadcasts(tmp_path)] == [2, 3]


def test_what_an_earlier_attempt_left_never_looks_like_an_offer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory is deleted file by file. Whoever looks meanwhile must not find it without its acknowledgement."""
    config = WeightBroadcastConfig(poll_interval=0.001, timeout=20)
    receiver = WeightReceiver(tmp_path, config)
    (tmp_path / "step_4").mkdir()
    for marker in (".sender_ready", ".receiver_ready", ".started", ".finished"):
        (tmp_path / "step_4" / marker).touch()
    offers = []
    remove = shutil.rmtree

    def slowly(path: Path, **options: bool) -> None:
        (path / ".receiver_ready").unlink(missing_ok=True)
        offers.append(receiver.open_offer(4))
        remove(path, **options)

    monkeypatch.setattr(shutil, "rmtree", slowly)
    sender = WeightSender(tmp_path, WeightBroadcastConfig(timeout=0.05, poll_interval=0.005))
    with pytest.raises(TimeoutError):
        sender.send(4, write)
    assert offers == [None] * len(offers) != []
    assert [path.name for path in tmp_path.iterdir()] == ["step_4"]
    assert receiver.open_offer(4) is not None


def test_a_sender_gives_up_naming_what_it_waited_for(tmp_path: Path) -> None:
    sender = WeightSender(tmp_path, WeightBroadcastConfig(timeout=0.05, poll_interval=0.005))
    with pytest.raises(TimeoutError, match="No receiver joined the broadcast within"):
        sender.send(1, write)
    assert not (tmp_path / "step_1" / "model.safetensors").exists()


def test_a_receiver_gives_up_on_files_that_never_finish(tmp_path: Path) -> None:
    receiver = WeightReceiver(tmp_path, WeightBroadcastConfig(timeout=0.05, poll_interval=0.005))
    (tmp_path / "step_2").mkdir()
    (tmp_path / "step_2" / ".sender_ready").touch()
    offer = receiver.offered(1)
    assert offer is not None
    receiver.acknowledge(offer)
    with pytest.raises(TimeoutError, match="did not finish writing"):
        asyncio.run(receiver.wait_finished(offer))


def test_an_offer_that_was_applied_is_not_offered_again(tmp_path: Path) -> None:
    (tmp_path / "step_2").mkdir()
    (tmp_path / "step_2" / ".sender_ready").touch()
    receiver = WeightReceiver(tmp_path, WeightBroadcastConfig())
    assert receiver.offered(2) is None


def iter_offers(receiver: WeightReceiver) -> Iterator[BroadcastState]:
    while True:
        if offer := receiver.offered(0):
            yield offer
        time.sleep(0.001)


def full(_: Path) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_waited_out(tmp_path: Path) -> None:
    config = WeightBroadcastConfig(poll_interval=0.001, timeout=20)
    (tmp_path / "step_1").mkdir()
    tries = []

    def write_when_there_is_space(path: Path) -> None:
        tries.append(path)
        full(path) if len(tries) < 3 else write(path)

    sender = threading.Thread(target=lambda: WeightSender(tmp_path, config).send(1, write_when_there_is_space))
    sender.start()

    async def receive() -> None:
        receiver = WeightReceiver(tmp_path, config)
        offer = await asyncio.to_thread(lambda: next(iter_offers(receiver)))
        receiver.acknowledge(offer)
        await receiver.wait_finished(offer)

    asyncio.run(asyncio.wait_for(receive(), 20))
    sender.join(20)
    assert len(tries) == 3
    assert verify_weights(tmp_path / "step_1") == 1


@pytest.mark.parametrize(("error", "match"), [(full, "No space left"), (lambda _: 1 / 0, "division")])
def test_a_disk_that_stays_full_and_other_faults_are_raised(
    tmp_path: Path, error: Callable[[Path], object], match: str
) -> None:
    def write_acknowledged(path: Path) -> None:
        error(path)

    sender = WeightSender(tmp_path, WeightBroadcastConfig(poll_interval=0.001, timeout=2))
    offer = tmp_path / "step_1"

    def acknowledge() -> None:
        while not (offer / broadcasts.SENDER_READY).exists():
            time.sleep(0.001)
        (offer / broadcasts.RECEIVER_READY).touch()

    receiver = threading.Thread(target=acknowledge)
    receiver.start()
    with pytest.raises((OSError, ArithmeticError), match=match):
        sender.send(1, write_acknowledged)
    receiver.join(20)
