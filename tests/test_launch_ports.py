"""Ports of several runs on one host."""

import contextlib
import fcntl
import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from prl.config import RLConfig
from prl.launch.exits import CONFIGURATION, RefusedError
from prl.launch.ports import PortClaim, Ports, claim_ports, default_ports, taken_ports


@pytest.fixture
def claims(tmp_path: Path) -> Iterator[list[PortClaim]]:
    held: list[PortClaim] = []
    yield held
    for claim in held:
        claim.release()


@pytest.fixture
def quiet_port() -> int:
    """A port that is free with its neighbour and the one 100 above, where the system hands out none by itself."""
    for port in random.sample(range(20_000, 30_000), 1000):
        with contextlib.ExitStack() as probes:
            try:
                for offset in (0, 1, 100):
                    probes.enter_context(socket.socket()).bind(("127.0.0.1", port + offset))
            except OSError:
                continue
            return port
    raise AssertionError("no free ports")


def config(**changes: Any) -> RLConfig:
    source = {"env": {"taskset": {"id": "word-game"}}}
    orchestrator = {"train": {"source": [source]}, **changes.pop("orchestrator", {})}
    return RLConfig.model_validate({"orchestrator": orchestrator, **changes})


@pytest.fixture
def server_port() -> Iterator[int]:
    """A port that something listens on."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def test_locks_lie_where_nobody_else_can_put_links(
    tmp_path: Path, claims: list[PortClaim], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    claims.append(claim_ports(config()))
    mine = tmp_path / f"prl-{os.getuid()}"
    assert (mine / "ports").is_dir()
    mine.chmod(0o777)
    with pytest.raises(RefusedError, match="you alone"):
        claim_ports(config())
    mine.rename(tmp_path / "elsewhere")
    mine.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RefusedError, match="you alone"):
        claim_ports(config())


def test_two_launchers_move_apart_together(tmp_path: Path, claims: list[PortClaim]) -> None:
    """Nothing of the first is bound yet: only its claim keeps the second away."""
    claims.append(claim_ports(config(), directory=tmp_path))
    claims.append(claim_ports(config(), directory=tmp_path))
    first, second = (claim.ports for claim in claims)
    moved = second.server - first.server
    assert moved >= 1
    assert first.engine == first.server + 100
    assert second.engine == first.engine + moved
    assert second.batches == first.batches + 2 * moved
    assert (first.batches - 5555) == 2 * (first.server - 8000)
    assert second.ready == second.batches + 1


def test_a_released_claim_can_be_taken_again(tmp_path: Path, claims: list[PortClaim]) -> None:
    first = claim_ports(config(), directory=tmp_path)
    first.release()
    claims.append(claim_ports(config(), directory=tmp_path))
    assert claims[0].ports == first.ports


def test_a_port_that_is_bound_moves_the_defaults(tmp_path: Path, claims: list[PortClaim], server_port: int) -> None:
    chosen = config(inference={"server": {"port": server_port}})
    chosen.inference.server.model_fields_set.discard("port")  # as if it were the default
    claims.append(claim_ports(chosen, directory=tmp_path))
    assert claims[0].ports.server > server_port


def test_a_taken_port_of_the_user_is_refused_with_its_holder(tmp_path: Path, server_port: int) -> None:
    with pytest.raises(RefusedError) as refused:
        claim_ports(config(inference={"server": {"port": server_port}}), directory=tmp_path)
    assert refused.value.exit_code == CONFIGURATION
    message = str(refused.value)
    assert f"inference.server.port = {server_port}: taken by process {os.getpid()}" in message


def test_the_room_behind_a_title_is_not_told(tmp_path: Path, server_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil.Process, "cmdline", lambda _self: ["PRL::Inference" + " " * 95])
    with pytest.raises(RefusedError, match=r"\(PRL::Inference\)"):
        claim_ports(config(inference={"server": {"port": server_port}}), directory=tmp_path)


def test_a_port_set_on_a_component_counts_as_the_users(tmp_path: Path, server_port: int) -> None:
    chosen = config(orchestrator={"rollout_transport": {"port": server_port}})
    with pytest.raises(RefusedError, match=f"rollout_transport.port = {server_port}: taken"):
        claim_ports(chosen, directory=tmp_path)


def test_another_launchers_claim_on_a_users_port_is_named(
    tmp_path: Path, claims: list[PortClaim], quiet_port: int
) -> None:
    chosen = config(rollout_transport={"port": quiet_port})
    claims.append(claim_ports(chosen, directory=tmp_path))
    with pytest.raises(RefusedError, match=f"a launcher that is starting a run \\(process {os.getpid()}"):
        claim_ports(chosen, directory=tmp_path)


def test_an_address_that_is_not_the_servers_is_refused(tmp_path: Path, quiet_port: int) -> None:
    client = {"base_url": "http://localhost:1/v1"}
    chosen = config(orchestrator={"model": {"client": client}}, inference={"server": {"port": quiet_port}})
    with pytest.raises(RefusedError, match=f"base_url = 'http://localhost:1/v1'.*server.port = {quiet_port}"):
        claim_ports(chosen, directory=tmp_path)
    admin = {"admin_base_url": ["http://localhost:2"]}
    with pytest.raises(RefusedError, match="admin_base_url"):
        claim_ports(config(orchestrator={"model": {"client": admin}}), directory=tmp_path)


def test_an_address_that_agrees_holds_the_port(tmp_path: Path, claims: list[PortClaim], quiet_port: int) -> None:
    client = {"base_url": f"http://localhost:{quiet_port}/v1"}
    chosen = config(orchestrator={"model": {"client": client}}, inference={"server": {"port": quiet_port}})
    claims.append(claim_ports(chosen, directory=tmp_path))
    assert claims[0].ports.server == quiet_port


def test_a_port_that_a_launcher_holds_is_taken_and_looking_claims_nothing(
    tmp_path: Path, quiet_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launcher's processes bind seconds after it chose: its lock is what tells."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ports = Ports(server=quiet_port + 100, engine=quiet_port + 100, batches=quiet_port)
    assert taken_ports(ports) == []
    locks = tmp_path / f"prl-{os.getuid()}" / "ports"
    assert not locks.exists()
    locks.mkdir(parents=True)
    with (locks / f"{ports.batches}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert taken_ports(ports) == [ports.batches]
    assert taken_ports(ports) == []


def test_the_default_ports_are_those_that_a_launcher_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prl.launch.ports._bindable", lambda *_: True)
    claim = claim_ports(config(), directory=tmp_path)
    claim.release()
    assert claim.ports == default_ports()
