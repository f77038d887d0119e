"""The ports of a run on this host: defaults of several runs move together, what the user chose is taken or refused.

A port is claimed by a lock on a file of its number for as long as the launcher lives. Trying to bind it alone would let
two launchers choose the same one, because the processes that bind come up seconds later. The locks are per user; ports
of other users show when binding is tried.
"""

import fcntl
import os
import socket
import stat
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import psutil

from prl.config import InferenceConfig, RLConfig, RolloutTransportConfig
from prl.launch.exits import CONFIGURATION, RefusedError

MOVES = 100
"""Offsets tried. The engine's range begins 100 above the server's."""
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Ports:
    """The four TCP ports of an RL run."""

    server: int
    engine: int
    batches: int

    @property
    def ready(self) -> int:
        """READY signals of the trainer's ranks arrive beside the batches."""
        return self.batches + 1

    def by_name(self) -> dict[str, int]:
        """Ports by what they are for, as ``status.json`` and people have them."""
        return {"inference": self.server, "engine": self.engine, "batches": self.batches, "ready": self.ready}

    def by_key(self) -> dict[str, int]:
        """Ports by the configuration key that sets them."""
        return {
            "inference.server.port": self.server,
            "inference.backend_port": self.engine,
            "rollout_transport.port": self.batches,
            "rollout_transport.port + 1": self.ready,
        }


@dataclass
class PortClaim:
    """Ports held against other launchers of this user until :meth:`release`."""

    ports: Ports
    _locks: list[IO[str]] = field(default_factory=list)

    def release(self) -> None:
        while self._locks:
            self._locks.pop().close()


def claim_ports(config: RLConfig, *, directory: Path | None = None) -> PortClaim:
    """Claim the ports of ``config``: those the user set as they are, the defaults at the first offset with all free.

    ``directory`` holds the lock files. Raises RefusedError when a port that the user set is taken, naming key, port and
    holder, or when the orchestrator is told of another address than the server will have.
    """
    locks = directory or _lock_directory()
    _refuse_foreign_addresses(config)
    candidate, moves = _candidates(config)
    fixed = _fixed_keys(config)
    for offset in range(MOVES if moves else 1):
        ports = candidate(offset)
        taken, claim = _try(ports, locks, config.inference.server.host)
        if claim is not None:
            return claim
        for key, port in taken.items():
            if key in fixed:
                raise RefusedError(
                    CONFIGURATION, f"{key} = {port}: taken by {holder_of(port, locks)}; choose another port"
                )
    first, last = candidate(0), candidate(MOVES - 1)
    raise RefusedError(
        CONFIGURATION,
        f"no free set of ports for a run between {first.by_key()} and {last.by_key()}: end what holds them "
        "or set inference.server.port and rollout_transport.port",
    )


def default_ports(offset: int = 0) -> Ports:
    """The ports of a run that sets none, ``offset`` runs after the first."""
    inference, batches = InferenceConfig(), RolloutTransportConfig().port
    return Ports(inference.server.port + offset, inference.engine_port + offset, batches + 2 * offset)


def taken_ports(ports: Ports) -> list[int]:
    """Those that a run could not have now, because they are listened on or a launcher holds them. Claims nothing."""
    locks = _locks_of_this_user()
    return [port for port in ports.by_name().values() if _is_claimed(locks, port) or not _bindable(port, {_LOOPBACK})]


def _is_claimed(locks: Path, port: int) -> bool:
    try:
        with (locks / f"{port}.lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no such file: nobody claimed it
        return False
    return False


def holder_of(port: int, locks: Path) -> str:
    """Who has ``port``, in words, as far as the operating system tells this user."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        connections = []
    for connection in connections:
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port:
            return _describe(connection.pid)
    # Whoever holds the lock wrote its pid there; a file that nobody holds is of the past.
    lock = _lock(locks, port)
    if lock is not None:
        lock.close()
        return "another process"
    owner = (locks / f"{port}.lock").read_text().strip()
    return f"a launcher that is starting a run ({_describe(int(owner) if owner.isdigit() else None)})"


def _candidates(config: RLConfig) -> tuple[Callable[[int], Ports], bool]:
    """The ports at each offset, and whether anything moves with it."""
    fixed = _fixed_keys(config)
    inference, batches = config.inference, config.rollout_transport.port
    move_server, move_batches = "inference.server.port" not in fixed, "rollout_transport.port" not in fixed
    move_engine = "inference.backend_port" not in fixed

    def at(offset: int) -> Ports:
        return Ports(
            server=inference.server.port + offset * move_server,
            engine=inference.engine_port + offset * move_engine,
            batches=batches + 2 * offset * move_batches,
        )

    return at, move_server or move_batches or move_engine


def _fixed_keys(config: RLConfig) -> set[str]:
    """Keys whose ports the user chose, directly or through an address that must agree with them."""
    client = config.orchestrator.model.client
    fixed: set[str] = set()
    if "port" in config.inference.server.model_fields_set or "base_url" in client.model_fields_set:
        fixed.add("inference.server.port")
    if (
        config.inference.backend_port is not None
        or "admin_base_url" in client.model_fields_set
        or "port" in config.inference.server.model_fields_set
    ):
        fixed.add("inference.backend_port")
    if "port" in config.rollout_transport.model_fields_set:
        fixed |= {"rollout_transport.port", "rollout_transport.port + 1"}
    return fixed


def _refuse_foreign_addresses(config: RLConfig) -> None:
    client, inference = config.orchestrator.model.client, config.inference
    if "base_url" in client.model_fields_set and _port_of(client.base_url) != inference.server.port:
        raise RefusedError(
            CONFIGURATION,
            f"orchestrator.model.client.base_url = {client.base_url!r}: its port must be "
            f"inference.server.port = {inference.server.port}",
        )
    if "admin_base_url" in client.model_fields_set and [_port_of(url) for url in client.admin_base_url] != [
        inference.engine_port
    ]:
        raise RefusedError(
            CONFIGURATION,
            f"orchestrator.model.client.admin_base_url = {client.admin_base_url!r}: must be one address with "
            f"the engine's port {inference.engine_port}",
        )


def _port_of(url: str) -> int | None:
    try:
        return urlsplit(url).port
    except ValueError:
        return None


def _try(ports: Ports, locks: Path, host: str) -> tuple[dict[str, int], PortClaim | None]:
    """Claim all of ``ports``, or none: then also which are taken, by key."""
    by_key = ports.by_key()
    if len(set(by_key.values())) < len(by_key):
        return {}, None
    claim = PortClaim(ports)
    taken: dict[str, int] = {}
    for key, port in by_key.items():
        lock = _lock(locks, port)
        if lock is not None:
            claim._locks.append(lock)
        if lock is None or not _bindable(port, {_LOOPBACK, host}):
            taken[key] = port
    if taken:
        claim.release()
        return taken, None
    return {}, claim


def _bindable(port: int, hosts: Iterable[str]) -> bool:
    for host in hosts:
        try:
            family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            with socket.socket(family, kind) as probe:
                # Connections of an earlier run that linger in TIME_WAIT are no reason to move away.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
        except OSError:
            return False
    return True


def _lock(directory: Path, port: int) -> IO[str] | None:
    file = (directory / f"{port}.lock").open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file


def _lock_directory() -> Path:
    """A directory that only this user can write to: lock files are emptied, wherever another's link may lead."""
    directory = _locks_of_this_user()
    mine = directory.parent
    mine.mkdir(mode=0o700, exist_ok=True)
    found = mine.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise RefusedError(
            CONFIGURATION, f"{mine}: not a directory that you alone can write to; remove it, or set TMPDIR to another"
        )
    directory.mkdir(exist_ok=True)
    return directory


def _locks_of_this_user() -> Path:
    return Path(tempfile.gettempdir()) / f"prl-{os.getuid()}" / "ports"


def _describe(pid: int | None) -> str:
    if pid is None:
        return "a process of another user"
    try:
        # A process that set its title left the room of its arguments behind it, as blanks.
        command = " ".join(" ".join(psutil.Process(pid).cmdline()).split())
    except psutil.Error:
        return f"process {pid}"
    return f"process {pid} ({command[:120]})"
