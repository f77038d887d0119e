"""Batches over real sockets: none is lost to a rank that is still connecting, each rank gets its own."""

import asyncio
import threading

import pytest

from prl.config import RolloutTransportConfig
from prl.transport.batches import BatchPublisher, BatchReceiver, MicroBatch, RankBatch


def batch(step: int, rank: int) -> RankBatch:
    micro = MicroBatch(
        token_ids=[1, 2, 3, 4, 5],
        loss_mask=[False, True, True, False, True],
        advantages=[0.0, 0.5, 0.5, 0.0, -0.25],
        logprobs=[0.0, -0.125, -2.0, 0.0, -1.0],
        position_ids=[0, 1, 2, 0, 1],
        sequence_lengths=[3, 2],
        temperatures=[1.0, 0.7],
        env_names=["a", f"rank{rank}"],
        trace_ids=["t1", "t2"],
        branch_indices=[0, 1],
    )
    return RankBatch(step=step, policy_version=step - 1, micro_batches=[micro])


def two_ports() -> int:
    import socket

    for _ in range(50):
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):
                continue
            return int(port)
    raise RuntimeError("no two neighbouring ports are free")


def test_every_rank_gets_its_own_batches_from_the_first_on() -> None:
    config = RolloutTransportConfig(port=two_ports())
    got: dict[int, list[RankBatch | None]] = {0: [], 1: []}

    def run_rank(rank: int) -> None:
        receiver = BatchReceiver(config, rank)
        receiver.announce()
        got[rank] = [receiver.receive(20), receiver.receive(20)]
        receiver.close()

    ranks = [threading.Thread(target=run_rank, args=(rank,)) for rank in got]
    for thread in ranks:  # the ranks come first: they must find a publisher that binds later
        thread.start()

    async def publish() -> None:
        publisher = BatchPublisher(config, num_ranks=2)
        await publisher.wait_for_ranks(20)
        for step in (1, 2):
            await publisher.publish([batch(step, rank) for rank in got])
        await asyncio.to_thread(lambda: [thread.join(20) for thread in ranks])
        publisher.close()

    asyncio.run(publish())
    assert got == {rank: [batch(1, rank), batch(2, rank)] for rank in got}


def test_a_rank_that_never_comes_is_named() -> None:
    config = RolloutTransportConfig(port=two_ports())

    async def wait() -> None:
        publisher = BatchPublisher(config, num_ranks=1)
        try:
            await publisher.wait_for_ranks(0.1)
        finally:
            publisher.close()

    with pytest.raises(TimeoutError, match=r"trainer ranks \[0\] did not connect"):
        asyncio.run(wait())


def test_receiving_is_bounded() -> None:
    receiver = BatchReceiver(RolloutTransportConfig(port=two_ports()), 0)
    assert receiver.receive(0.05) is None
    receiver.close()
