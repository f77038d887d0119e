"""Back-pressure: what may be dispatched and shipped, for every place of the two counters."""

import asyncio
import logging

import pytest

from prl.orchestrator.gates import Gates, PolicyTimeoutError


@pytest.mark.parametrize(
    ("step", "version", "bound", "is_open"),
    [
        (1, 0, 8, True),
        (2, 0, 8, True),  # one version behind the batch under collection
        (3, 0, 8, False),
        (3, 1, 8, True),
        (2, 0, 0, False),  # no staleness allowed: what is dispatched now would be too old on arrival
        (2, 1, 0, True),
    ],
)
def test_dispatch_gate(step: int, version: int, bound: int, is_open: bool) -> None:
    gates = Gates(step, bound, timeout=1, warn_interval=1)
    gates.version = version
    assert gates.dispatch_open is is_open


def test_a_batch_is_held_until_its_version_and_the_wait_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def hold() -> float:
        gates = Gates(1, 8, timeout=10, warn_interval=0.05)
        for _ in range(11):
            gates.shipped()
        held = asyncio.create_task(gates.hold())
        await asyncio.sleep(0.12)
        assert not held.done()
        gates.applied(9)
        await asyncio.sleep(0)
        assert not held.done()
        gates.applied(10)
        await asyncio.wait_for(held, 5)
        return gates.take_waited()

    with caplog.at_level(logging.INFO, "prl"):
        waited = asyncio.run(hold())
    assert caplog.messages[0] == "Pausing dispatcher until inference applies policy v1 (currently v0)"
    assert "Holding batch 12 until inference applies policy v10 (currently v0)" in caplog.messages
    assert any(message.startswith("Holding batch 12") and ", since " in message for message in caplog.messages)
    assert caplog.messages[-1] == "Resuming dispatcher (policy v10)"
    assert waited > 0


def test_a_version_that_never_comes_is_an_error_that_says_so() -> None:
    async def hold() -> None:
        gates = Gates(1, 8, timeout=0.05, warn_interval=0.02)
        gates.step = 4
        await gates.hold()

    with pytest.raises(PolicyTimeoutError, match=r"Holding batch 4 until inference applies policy v2.*runs? v0|v0"):
        asyncio.run(hold())


def test_waited_time_is_counted_once() -> None:
    gates = Gates(1, 8, timeout=1, warn_interval=1)
    gates.shipped()
    gates.shipped()  # closed from here
    first = gates.take_waited()
    gates.applied(1)
    assert first >= 0
    gates.take_waited()
    assert gates.take_waited() == 0.0
