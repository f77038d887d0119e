"""Which dashboard runs on this host, and which directories it serves: the files by which launchers find it.

Two places, both below the user's home, which several hosts may share:

- ``~/.cache/prime-rl/dashboard/``, the contract's: ``daemon.json`` (``pid``, ``url``, ``started``) and ``dirs.json`` (a
  list of output directories). prime-rl's launchers and dashboards use it as well; ours adds fields to the former.
- ``~/.cache/prl/dashboard/<host>.json``: ours, one a host, for when the contract's has another holder.

An entry counts only while its process lives: the pid, on this host, started when the entry says. Left out: starting
and stopping, which is :mod:`prl.dashboard.daemon`.
"""

import contextlib
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from prl.rundir import atomic
from prl.rundir.home import home

SERVICE = "prl dashboard"
"""What our ``/api/health`` and our entries call themselves."""
MAX_DIRS = 1000
_NAME = "dashboard"
"""In the title and in the command line of our server, in lower case."""
_CLOCK_SLACK = 2.0
"""Seconds by which a process may seem to have started after the entry that it wrote: boot clocks drift."""


@dataclass(frozen=True)
class Entry:
    """Who serves. ``host`` and ``service`` are None in an entry that prime-rl's dashboard wrote.

    ``token``: what its server wants of whoever asks; in our own file alone, which its user alone may read.
    """

    pid: int
    url: str
    started: float
    host: str | None = None
    service: str | None = None
    token: str | None = field(default=None, repr=False)

    @property
    def ours(self) -> bool:
        return self.service == SERVICE

    @property
    def address(self) -> str:
        """What its user opens."""
        return with_token(self.url, self.token)

    @property
    def elsewhere(self) -> bool:
        """Whether another host's process wrote it: its pid says nothing here."""
        return self.host is not None and self.host != this_host()

    def alive(self) -> bool:
        """Whether its process lives on this host.

        A process that took the pid over later is another one, and so is one that is no dashboard: containers with one
        home and one host name have the same pids.
        """
        found = None if self.elsewhere else _process(self.pid)
        if found is None:
            return False
        begun, command = found
        return begun <= self.started + _CLOCK_SLACK and (not self.ours or _NAME in command.lower())


def with_token(url: str, token: str | None) -> str:
    """The address that gives a browser the token."""
    return url if token is None else f"{url}/?token={token}"


def this_host() -> str:
    return socket.gethostname()


def shared_root() -> Path:
    """The contract's directory. Its name is fixed: prime-rl asks no variable for it."""
    return home() / ".cache" / "prime-rl" / "dashboard"


def own_root() -> Path:
    """Ours, for entries and the daemon's log."""
    return home() / ".cache" / "prl" / "dashboard"


def shared_entry() -> Path:
    return shared_root() / "daemon.json"


def own_entry() -> Path:
    return own_root() / f"{this_host()}.json"


def read_entry(path: Path) -> Entry | None:
    """The entry of a file; None where there is none that can be understood."""
    values = _read_json(path)
    if not isinstance(values, dict):
        return None
    pid, url, started = values.get("pid"), values.get("url"), values.get("started")
    if not isinstance(pid, int) or isinstance(pid, bool) or pid <= 0 or not isinstance(url, str) or not _is_url(url):
        return None
    texts = (value if isinstance(value := values.get(name), str) else None for name in ("host", "service", "token"))
    return Entry(pid, url, float(started) if isinstance(started, int | float) else time.time(), *texts)


def claim(entry: Entry) -> bool:
    """Enter ``entry`` in our file, and in the contract's unless a living process holds that. Whether it holds both.

    A holder on another host is not known to be dead, so it keeps the contract's file. A server that wants a token is
    not entered there: who finds it by that file has none.
    """
    with locked(own_root()):
        _write(own_entry(), asdict(entry), private=True)
    if entry.token is not None:
        return False
    with locked(shared_root()):
        holder = read_entry(shared_entry())
        if holder is not None and holder.pid != entry.pid and (holder.elsewhere or holder.alive()):
            return False
        _write(shared_entry(), {name: value for name, value in asdict(entry).items() if name != "token"})
        return True


def release(entry: Entry) -> None:
    """Take ``entry`` out of the files that it holds."""
    for root, path in ((own_root(), own_entry()), (shared_root(), shared_entry())):
        with contextlib.suppress(OSError), locked(root):
            found = read_entry(path)
            if found is not None and found.pid == entry.pid and not found.elsewhere:
                path.unlink()


def served_dirs() -> list[Path]:
    """The directories of ``dirs.json``, those that exist. What is no list of absolute paths is none."""
    return [path for path in _listed() if _is_dir(path)]


def dirs_changed() -> float:
    """When ``dirs.json`` was last written; 0.0 where there is none."""
    try:
        return (shared_root() / "dirs.json").stat().st_mtime
    except OSError:
        return 0.0


def register(dirs: Iterable[Path]) -> None:
    """Add directories to ``dirs.json``. One that was deleted goes: it is gone and what it lay in is still there.

    Raises OSError when the file cannot be written.
    """
    with locked(shared_root()):
        before = _listed()
        kept = [path for path in before if _is_dir(path) or not _is_dir(path.parent)]
        after = list(dict.fromkeys([*kept, *(path.resolve() for path in dirs)]))[-MAX_DIRS:]
        if after != before:
            _write(shared_root() / "dirs.json", [str(path) for path in after])


@contextlib.contextmanager
def locked(root: Path) -> Iterator[None]:
    """The files of a directory to oneself. The lock is the contract's ``.lock``; it ends with its holder."""
    root.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(root / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with contextlib.suppress(OSError):  # a file system without locks: the last writer wins
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _listed() -> list[Path]:
    values = _read_json(shared_root() / "dirs.json")
    texts = [text for text in values if isinstance(text, str)] if isinstance(values, list) else []
    return list(dict.fromkeys(path for text in texts[-MAX_DIRS:] if (path := Path(text)).is_absolute()))


def _is_dir(path: Path) -> bool:
    # Path.is_dir raises for a name that is too long, a directory that may not be entered, a stale handle.
    return os.path.isdir(path)  # noqa: PTH112


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def _write(path: Path, value: Any, *, private: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_bytes(path, atomic.json_bytes(value), private=private)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _process(pid: int) -> tuple[float, str] | None:
    """When a process of this host started, Unix seconds, and its command. None when there is none; a zombie is none."""
    import psutil

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return float(process.create_time()), " ".join(process.cmdline())
    except (psutil.Error, OSError, OverflowError):
        return None
