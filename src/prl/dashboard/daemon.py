"""One dashboard a host and user: finding it, starting it, being it, stopping it.

Launchers call :func:`ensure`; the ``dashboard`` command calls :func:`serve`. Two that start at once end as one: whoever
has bound a port and entered itself under the lock serves, the other finds it.
"""

import contextlib
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from prl.dashboard import registry
from prl.dashboard.registry import SERVICE, Entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from prl.dashboard.workspace import Workspace

PORT = 7788
PORTS_TRIED = 100
TITLE = "PRL::Dashboard"
PROBE_SECONDS = 1.0
START_SECONDS = 10.0
STOP_SECONDS = 10.0
"""A download that nobody reads on keeps a server two seconds, and many of them on a busy machine more."""
_WATCH_SECONDS = 1.0
_WARM_SECONDS = 0.5


class DashboardError(Exception):
    """A dashboard that cannot be served, found, started or stopped, in words for whoever asked."""


@dataclass(frozen=True)
class Settings:
    """How to serve. ``isolated``: neither found by others nor serving what others registered."""

    dirs: tuple[Path, ...]
    host: str = "127.0.0.1"
    port: int = PORT
    isolated: bool = False
    allow_hosts: tuple[str, ...] = ()
    token: str | None = None


@dataclass(frozen=True)
class Found:
    """A dashboard that answers, and whether it was started for this."""

    url: str
    started: bool = False
    notes: tuple[str, ...] = field(default=())


def running() -> Entry | None:
    """Our dashboard on this host, if its process lives: by our entry, else by the contract's."""
    for path in (registry.own_entry(), registry.shared_entry()):
        entry = registry.read_entry(path)
        if entry is not None and entry.ours and entry.alive():
            return entry
    return None


def answers(entry: Entry, seconds: float = PROBE_SECONDS) -> bool:
    """Whether the server of an entry answers as ours, and is the process that the entry names."""
    # No proxy stands between a host and itself, whatever the environment says.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    headers = {"Authorization": f"Bearer {entry.token}"} if entry.token is not None else {}
    for address in _addresses(entry.url):
        request = urllib.request.Request(f"{address}/api/health", headers=headers)
        with contextlib.suppress(OSError, ValueError), opener.open(request, timeout=seconds) as response:
            said = json.loads(response.read(65536))
            if isinstance(said, dict) and said.get("service") == SERVICE and said.get("pid") == entry.pid:
                return True
    return False


def _addresses(url: str) -> list[str]:
    """Where to ask for a server of this host: its name need not lead to it, nor ``localhost`` to the right loopback."""
    parts = urlsplit(url)
    names = ["127.0.0.1"] if parts.hostname in ("localhost", registry.this_host().lower()) else []
    netlocs = [*(f"{name}:{parts.port or 80}" for name in names), parts.netloc]
    return [parts._replace(netloc=netloc).geturl().rstrip("/") for netloc in dict.fromkeys(netlocs)]


def ensure(output_dir: Path, log: Path | None = None) -> Found:
    """The dashboard that shows the runs below ``output_dir``, started if there is none. Raises DashboardError.

    ``log``: where a started one writes, default ``daemon.log`` beside our entry.
    """
    try:
        registry.register([output_dir])
    except OSError as error:
        raise DashboardError(f"cannot register {output_dir} in {registry.shared_root()}: {error}") from None
    entry = running()
    if entry is not None and answers(entry):
        return Found(entry.url)
    notes = _foreign_notes()
    log = log or registry.own_root() / "daemon.log"
    _spawn(log)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        entry = running()
        if entry is not None and answers(entry, 0.25):
            return Found(entry.url, started=True, notes=notes)
        time.sleep(0.1)
    if entry is not None:
        raise DashboardError(f"process {entry.pid} does not answer at {entry.url}: `dashboard --stop` ends it")
    raise DashboardError(f"it did not answer within {START_SECONDS:.0f} s; {log} says why")


def _foreign_notes() -> tuple[str, ...]:
    holder = registry.read_entry(registry.shared_entry())
    if holder is None or holder.ours or not holder.alive():
        return ()
    return (f"another dashboard is at {holder.url}; it was given the directory as well",)


def _spawn(log: Path) -> None:
    """Start the ``dashboard`` command detached: it outlives the launcher and its terminal."""
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with log.open("ab") as output:
        subprocess.Popen(
            [sys.executable, "-m", "prl.cli.dashboard", "--registered"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd="/",
            env=environment,
        )


def stop() -> Entry | None:
    """End our dashboard on this host. None when none runs. Raises DashboardError when it does not end."""
    entry = running()
    if entry is None:
        return None
    with contextlib.suppress(ProcessLookupError):
        os.kill(entry.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while entry.alive():
        if time.monotonic() > deadline:
            raise DashboardError(f"process {entry.pid} did not end within {STOP_SECONDS:.0f} s of SIGTERM")
        time.sleep(0.05)
    registry.release(entry)
    return entry


def bind(host: str, first: int, tried: int = PORTS_TRIED) -> socket.socket:
    """A listening socket at the first free port from ``first`` on; port 0 is any. Raises DashboardError.

    The socket itself goes to the server, so that nobody takes the port in between.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    ports = [first] if first == 0 else range(first, min(first + tried, 65536))
    for port in ports:
        # Only of a socket that says TCP does asyncio turn off Nagle's algorithm, which holds a body back for 40 ms.
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((host, port))
            bound.listen(128)
        except OSError as error:
            bound.close()
            if port == ports[-1] or error.errno != errno.EADDRINUSE:
                raise DashboardError(f"cannot listen at {host}, port {port}: {error.strerror or error}") from None
            continue
        return bound
    raise DashboardError(f"no port from {first} on")


def url_of(bound: socket.socket, host: str) -> str:
    """The address to type: ``localhost`` for loopback, this host's name for all interfaces, else what was asked."""
    port = bound.getsockname()[1]
    if host in ("127.0.0.1", "localhost"):
        return f"http://localhost:{port}"
    if host in ("", "0.0.0.0", "::"):
        return f"http://{registry.this_host()}:{port}"
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def serve(settings: Settings, announce: "Callable[[str], None]") -> str | None:
    """Serve until a signal ends it; ``announce`` hears the address first. Raises DashboardError.

    Returns the address of another one that serves already, having given it the directories, else None.
    """
    from prl.rundir.titles import set_process_title

    set_process_title(TITLE)
    if settings.isolated:
        bound = bind(settings.host, settings.port)
        _run(settings, bound, None, announce)
        return None
    registry.register(settings.dirs)
    with registry.locked(registry.own_root() / "start"):
        entry = running()
        if entry is not None:
            return entry.address
        bound = bind(settings.host, settings.port)
        url, here = url_of(bound, settings.host), registry.this_host()
        entry = Entry(os.getpid(), url, time.time(), here, SERVICE, settings.token)
        registry.claim(entry)
    _run(settings, bound, entry, announce)
    return None


def _run(settings: Settings, bound: socket.socket, entry: Entry | None, announce: "Callable[[str], None]") -> None:
    import uvicorn

    from prl.dashboard.app import create_app
    from prl.dashboard.workspace import Workspace

    stopping = threading.Event()
    url = url_of(bound, settings.host)
    workspace = Workspace(_dirs(settings), url=url)
    if entry is not None:
        threading.Thread(target=_follow_registry, args=(settings, entry, workspace, stopping), daemon=True).start()
    threading.Thread(target=_warm, args=(stopping,), name="warm", daemon=True).start()
    names = (*settings.allow_hosts, urlsplit(url).hostname or "")
    config = uvicorn.Config(
        create_app(workspace, allow_hosts=names, token=settings.token),
        http="h11",  # the other one takes headers of any length into memory
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    _end_by(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # uvicorn hands it on when it has ended
    _end_by(signal.SIGHUP, lambda *_: setattr(server, "should_exit", True))
    try:
        workspace.start()
        announce(registry.with_token(url, settings.token))
        server.run(sockets=[bound])
    finally:
        stopping.set()
        workspace.close()
        bound.close()
        if entry is not None:
            registry.release(entry)


def _end_by(number: signal.Signals, handler: "Callable[[int, Any], None]") -> None:
    """Have a signal end this process by the usual way out, on which entries and made-up runs are removed, unless
    whoever started it had it ignored (``nohup``)."""
    if signal.getsignal(number) is signal.SIG_DFL:
        signal.signal(number, handler)


def _warm(stopping: threading.Event) -> None:
    """Load what the first pages need and the first answers do not: a tenth of a second that nobody then waits for."""
    if not stopping.wait(_WARM_SECONDS):
        import prl.dashboard.comparison
        import prl.dashboard.overview
        import prl.rundir.episodes.table
        import prl.rundir.logs.merge  # noqa: F401


def _dirs(settings: Settings) -> list[Path]:
    registered = [] if settings.isolated else registry.served_dirs()
    return list(dict.fromkeys([*(path.resolve() for path in settings.dirs), *registered]))


def _follow_registry(settings: Settings, entry: Entry, workspace: "Workspace", stopping: threading.Event) -> None:
    """Serve what launchers register, as they do, and enter this server again where somebody cleared the cache."""
    seen = registry.dirs_changed()
    while not stopping.wait(_WATCH_SECONDS):
        changed = registry.dirs_changed()
        if changed != seen:
            seen = changed
            workspace.set_dirs(_dirs(settings))
        if not os.path.exists(registry.own_entry()):  # noqa: PTH110 - it never raises, whatever home is
            with contextlib.suppress(OSError):
                registry.claim(entry)
