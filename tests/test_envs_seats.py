"""Seats: what is filled in, what is kept and what is refused."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from env_doubles import MODULES
from prl.config.envs import ServeConfig
from prl.envs.seats import SeatRefusedError, resolve_seats
from prl.envs.worker import BUNDLED


@pytest.fixture(autouse=True)
def _modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", [*sys.path, str(MODULES), str(BUNDLED)])
    yield


def resolve(agent: dict[str, Any] | None = None, taskset: str = "faulty-env", **serve: Any) -> Any:
    block: dict[str, Any] = {"taskset": {"id": taskset}}
    if agent is not None:
        block["agent"] = agent
    return resolve_seats(block, serve=ServeConfig(**serve), timeout=30.0)


def test_a_seat_that_says_nothing_is_local_cheap_and_bounded() -> None:
    seat = resolve().agent

    assert (seat.harness.id, seat.runtime.type) == ("prl-chat", "subprocess")
    # The stages' own 60 s never exceed what the whole episode may take.
    assert seat.timeout.model_dump() == {"setup": 30.0, "rollout": 30.0, "finalize": 30.0, "scoring": 30.0}


def test_what_a_seat_says_is_kept() -> None:
    seat = resolve({"timeout": {"scoring": 5.0}, "max_turns": 3}).agent

    assert (seat.timeout.scoring, seat.timeout.rollout, seat.max_turns) == (5.0, 30.0, 3)


def test_what_an_author_declared_is_kept() -> None:
    seat = resolve(taskset="authored-env").player

    assert (seat.harness.id, seat.runtime.type, seat.max_turns) == ("prl-chat", "subprocess", 4)
    assert (seat.timeout.scoring, seat.timeout.setup) == (7.0, 30.0)


@pytest.mark.parametrize("kind", ["prime", "modal", "e2b"])
def test_remote_sandboxes_are_refused_unless_allowed(kind: str) -> None:
    with pytest.raises(SeatRefusedError, match=rf"env\.agent\.runtime\.type = '{kind}'.*serve\.allow_remote_runtime"):
        resolve({"runtime": {"type": kind}})

    assert resolve({"runtime": {"type": kind}}, allow_remote_runtime=True).agent.runtime.type == kind


@pytest.mark.parametrize("harness", ["null", "bash"])
def test_child_process_harnesses_are_refused_unless_allowed(harness: str) -> None:
    with pytest.raises(SeatRefusedError, match=rf"env\.agent\.harness\.id = '{harness}'.*allow_subprocess_harness"):
        resolve({"harness": {"id": harness}})

    assert resolve({"harness": {"id": harness}}, allow_subprocess_harness=True).agent.harness.id == harness


def test_wrong_blocks_are_errors_with_their_key() -> None:
    with pytest.raises(ValidationError, match="max_trns"):
        resolve({"max_trns": 1})
    with pytest.raises(ModuleNotFoundError, match="no_such_env"):
        resolve(taskset="no-such-env")
    with pytest.raises(TypeError, match="exports no Taskset"):
        resolve(taskset="empty-env")
