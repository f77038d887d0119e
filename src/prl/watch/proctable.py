"""The process table of this host at one moment, as far as it may be looked into.

On Linux ``/proc`` is read directly: a host of a cluster has thousands of processes, of which most are kernel threads
that their parent tells apart. Elsewhere psutil answers. A process of another user shows its command line at most.
Left out: what processes use; only what they are, whose children, and whether the system holds them.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

_PROC = Path("/proc")
_LINUX: bool = sys.platform.startswith("linux")
_MAX_ARGUMENTS = 64 * 1024
_MAX_OPEN = 256
"""Open files of one process that are looked at."""

STOPPED = "stopped"
ZOMBIE = "zombie"
ALIVE = "alive"
_STATES = {"T": STOPPED, "t": STOPPED, "Z": ZOMBIE, "X": ZOMBIE}


def host_name() -> str:
    """The name of this host, as ``socket.gethostname`` has it (of which loading takes longer than asking)."""
    return os.uname().nodename


@dataclass(frozen=True)
class Entry:
    """One process."""

    pid: int
    parent: int
    state: str
    """``alive``, ``stopped`` or ``zombie``."""
    started: float
    """Unix seconds."""
    arguments: tuple[str, ...]
    """Empty for a kernel thread and a zombie."""
    user: int | None = None

    @property
    def title(self) -> str:
        """What it calls itself: a title that it set, else its command line."""
        return " ".join(self.arguments).strip()


@dataclass
class ProcessTable:
    """All processes by pid."""

    entries: dict[int, Entry] = field(default_factory=dict)

    @cached_property
    def children(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for entry in self.entries.values():
            found.setdefault(entry.parent, []).append(entry.pid)
        return found

    def descendants(self, pid: int) -> list[Entry]:
        """Everything below a process, parents before children."""
        found: list[Entry] = []
        seen, waiting = {pid}, [pid]
        while waiting:
            for child in sorted(self.children.get(waiting.pop(), ())):
                if child not in seen:
                    seen.add(child)
                    waiting.append(child)
                    found.append(self.entries[child])
        return found

    def ancestors(self, pid: int) -> Iterator[Entry]:
        """Its parent, that one's parent and so on."""
        seen = {pid}
        entry = self.entries.get(pid)
        while entry is not None and entry.parent not in seen:
            seen.add(entry.parent)
            entry = self.entries.get(entry.parent)
            if entry is not None:
                yield entry


def read_table() -> ProcessTable:
    """The processes of this host. What ends meanwhile is left out."""
    entries = _read_proc() if _LINUX and _PROC.is_dir() else _ask_psutil()
    return ProcessTable({entry.pid: entry for entry in entries})


def open_files(pid: int) -> list[str]:
    """The regular files that a process of this user holds open, by path; none where that cannot be seen."""
    if not _LINUX:
        return [file.path for file in _ask(pid, "open_files") or ()][:_MAX_OPEN]
    try:
        names = os.listdir(f"/proc/{pid}/fd")[:_MAX_OPEN]  # noqa: PTH208
    except OSError:
        return []
    links = (_link(f"/proc/{pid}/fd/{name}") for name in names)
    return [target for target in links if target is not None and target.startswith("/") and "/dev/" not in target[:5]]


def working_directory(pid: int) -> str | None:
    """Where a process of this user works, None where that cannot be seen."""
    return _link(f"/proc/{pid}/cwd") if _LINUX else _ask(pid, "cwd")


def environment(pid: int) -> dict[str, str]:
    """The environment a process of this user was started with; empty where that cannot be seen."""
    if not _LINUX:
        return _ask(pid, "environ") or {}
    try:
        data = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (part.decode(errors="replace").partition("=") for part in data.split(b"\0"))
    return {name: value for name, equals, value in pairs if equals}


def _link(path: str) -> str | None:
    try:
        return os.readlink(path).removesuffix(" (deleted)")  # noqa: PTH115
    except (OSError, ValueError):
        return None


def _read_proc() -> Iterable[Entry]:
    boot, ticks = _boot_time(), os.sysconf("SC_CLK_TCK")
    for name in os.listdir(_PROC):  # noqa: PTH208
        if name.isdigit():
            entry = _read_entry(name, boot, ticks)
            if entry is not None:
                yield entry


def _boot_time() -> float:
    """Unix seconds, as psutil has them: start times that were recorded with it compare."""
    for line in (_PROC / "stat").read_bytes().split(b"\n"):
        if line.startswith(b"btime "):
            return float(line[6:])
    return 0.0


def _read_entry(name: str, boot: float, ticks: int) -> Entry | None:
    try:
        with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
            data = file.read(4096)
        # The command's name stands in brackets and may hold anything, brackets too.
        fields = data[data.rindex(b")") + 2 :].split()
        state, parent, started = fields[0].decode(), int(fields[1]), int(fields[19]) / ticks + boot
        if parent == 2 or name == "2":  # kernel threads
            return None
        with open(f"/proc/{name}/cmdline", "rb") as file:  # noqa: PTH123
            raw = file.read(_MAX_ARGUMENTS)
        user = os.stat(f"/proc/{name}").st_uid  # noqa: PTH116
    except (OSError, ValueError, IndexError):
        return None
    arguments = tuple(part.decode(errors="replace") for part in raw.rstrip(b"\0 ").split(b"\0")) if raw else ()
    return Entry(int(name), parent, _STATES.get(state, ALIVE), started, arguments, user)


def _ask(pid: int, what: str) -> Any:
    """An answer of psutil about a process, None where it has none."""
    import psutil

    try:
        return getattr(psutil.Process(pid), what)()
    except (OSError, psutil.Error):
        return None


def _ask_psutil() -> Iterable[Entry]:
    import psutil

    states = {psutil.STATUS_STOPPED: STOPPED, psutil.STATUS_TRACING_STOP: STOPPED, psutil.STATUS_ZOMBIE: ZOMBIE}
    for process in psutil.process_iter(["pid", "ppid", "status", "create_time", "cmdline", "uids"]):
        info = process.info
        yield Entry(
            pid=info["pid"],
            parent=info["ppid"] or 0,
            state=states.get(info["status"], ALIVE),
            started=info["create_time"] or 0.0,
            arguments=tuple(info["cmdline"] or ()),
            user=info["uids"].real if info["uids"] else None,
        )
