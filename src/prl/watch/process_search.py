"""The processes of a run of which no launcher speaks, found in the process table of this host.

Neither a name nor a path alone makes a process one of a run: it must be called as a component is (its title or its
program), and something must lead from it to the run directory: an argument, an open file (its log, for most), its
working directory. A launcher, whose title hides its arguments, counts also as the ancestor of a component that does.
Editors and readers of the directory are none. What is not found here may live on another host, unless nobody else can
write to the directory's file system.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from prl.rundir.locate import RunFiles
from prl.rundir.titles import TITLE_PATTERN
from prl.watch import proctable
from prl.watch.facts import ALIVE, GONE, Process, ProcessSearch
from prl.watch.processes import expected_ranks, members, stopped_below
from prl.watch.proctable import Entry, ProcessTable

LAUNCHER = "launcher"

_TITLES = {
    "Launcher": LAUNCHER,
    "SFT": LAUNCHER,
    "Inference": "inference",
    "EnvServer": "env server",
    "Orchestrator": "orchestrator",
    "Trainer": "trainer",
    "SFTTrainer": "trainer",
    "OnlineEvals": "evals",
}
_PROGRAMS = {
    "rl": LAUNCHER,
    "sft": LAUNCHER,
    "inference": "inference",
    "env-server": "env server",
    "orchestrator": "orchestrator",
    "trainer": "trainer",
    "torchrun": "trainer",
    "eval": "eval",
    "evals": "eval",
    "vllm-router": "router",
}
_INTERPRETER = re.compile(r"python[\d.]*|uv|bash|sh")
_ENVIRONMENT = re.compile(r"(?:^|/)envs/(train|eval)/(.+)\.(?:json|log)$")
_ATTEMPT = re.compile(r"(?:configs|logs)/attempt_(\d{1,9})(?:/|$)")
_SEPARATORS = re.compile(r"[=@,:]")
_LOCAL_FILE_SYSTEMS = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "tmpfs", "overlay", "jfs", "reiserfs", "apfs", "hfs"}
)
_NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb3", "afs", "glusterfs", "panfs", "wekafs", "pvfs2"}
)
_FIRST_NAMESPACE = 0xEFFFFFFC
"""Number of the namespace of processes that the kernel starts with (``PROC_PID_INIT_INO``)."""
_MAX_MOUNTS = 4 * 1024**2


@dataclass(frozen=True)
class _Lead:
    """What leads from a process to the run."""

    how: str
    """``argument``, ``open file`` or ``working directory``."""
    path: str
    """Relative to the run directory."""

    @property
    def attempt(self) -> int | None:
        found = _ATTEMPT.search(self.path)
        return int(found[1]) if found else None


def find_processes(files: RunFiles, table: ProcessTable, known: list[int], now: float) -> list[Process]:
    """The components that live on this host, besides the processes ``known`` (pids) and what lives below them.

    One of an earlier attempt says so.
    """
    taken = {pid for one in known for pid in _family(one, table)}
    roots = _roots(files.root)
    leads: dict[int, tuple[str, _Lead]] = {}
    for entry in table.entries.values():
        component = _component(entry)
        if component is None or entry.pid in taken or entry.pid == os.getpid():
            continue
        lead = _lead(entry, roots)
        if lead is not None:
            leads[entry.pid] = (component, lead)
    for pid in list(leads):
        for above in table.ancestors(pid):
            if above.pid not in leads and above.pid not in taken and _component(above) == LAUNCHER:
                leads[above.pid] = (LAUNCHER, _Lead("child", f"process {pid}"))
    heads = [pid for pid in leads if not _is_member(pid, leads, table)]
    found = [_process(table.entries[pid], *leads[pid], table, now) for pid in sorted(heads)]
    return _distinct([_with_attempt(process, leads[process.pid][1], files.attempt) for process in found])


def search_result(files: RunFiles, found: list[Process]) -> ProcessSearch:
    """What looking for the processes of a run without a launcher's word came to."""
    kind = _file_system(files.root)
    names = {process.name for process in found}
    written = [name for log in files.logs if (name := _component_of_log(log.component, log.rank)) is not None]
    return ProcessSearch(
        host=proctable.host_name(),
        found=len(found),
        missing=[name for name in dict.fromkeys(written) if name not in names] if found else [],
        file_system=kind,
        local=_is_local(kind),
        hidden=_is_hidden(files.root),
    )


def _component(entry: Entry) -> str | None:
    """What a process is called as: a component, or None."""
    title = TITLE_PATTERN.match(entry.title)
    if title is not None:
        return "eval" if title[1].startswith("Eval") else _TITLES.get(title[1])
    words = [word for word in entry.arguments if word]
    while words and _INTERPRETER.fullmatch(PurePosixPath(words[0]).name):
        words = [word for word in words[1:] if not word.startswith("-")]
    return _PROGRAMS.get(PurePosixPath(words[0]).name) if words else None


def _lead(entry: Entry, roots: tuple[str, ...]) -> _Lead | None:
    directory = proctable.working_directory(entry.pid)
    parts = (part for argument in entry.arguments for part in _SEPARATORS.split(argument) if "/" in part)
    ways: tuple[tuple[str, Iterable[str]], ...] = (
        ("argument", (_absolute(part, directory) for part in parts)),
        ("open file", proctable.open_files(entry.pid)),
        ("working directory", [directory or ""]),
    )
    for how, paths in ways:
        inside = [found for path in paths if (found := _below(path, roots)) is not None]
        if inside:  # a file tells more than the directory that is named beside it
            return _Lead(how, next((path for path in inside if path.endswith((".json", ".log"))), inside[0]))
    return None


def _absolute(part: str, directory: str | None) -> str:
    """A path of a command line. Of a relative one that does not exist nothing says that it is a path."""
    if part.startswith("/") or directory is None:
        return part
    path = os.path.normpath(f"{directory}/{part}")
    return path if os.path.lexists(path) else ""


def _below(path: str, roots: tuple[str, ...]) -> str | None:
    """A path relative to the run directory; None when it lies elsewhere."""
    for root in roots:
        if path == root:
            return "."
        if path.startswith(f"{root}/"):
            return path[len(root) + 1 :]
    return None


def _roots(root: Path) -> tuple[str, ...]:
    return tuple(dict.fromkeys((str(root), os.path.realpath(root))))


def _family(pid: int, table: ProcessTable) -> Iterator[int]:
    yield pid
    yield from (entry.pid for entry in table.descendants(pid))
    yield from (entry.pid for entry in table.ancestors(pid) if _component(entry) == LAUNCHER)


def _is_member(pid: int, leads: dict[int, tuple[str, _Lead]], table: ProcessTable) -> bool:
    """Whether an ancestor is the same component: then it is a rank of torchrun, or a worker."""
    component = leads[pid][0]
    return any(above.pid in leads and leads[above.pid][0] == component for above in table.ancestors(pid))


def _process(entry: Entry, component: str, lead: _Lead, table: ProcessTable, now: float) -> Process:
    name = _named(component, lead)
    zombie = entry.state == proctable.ZOMBIE
    return Process(
        name=name,
        title=entry.title[:200],
        pid=entry.pid,
        host=proctable.host_name(),
        state=GONE if zombie else ALIVE,
        started=entry.started,
        log=lead.path if lead.path.endswith(".log") else "",
        as_of=now,
        stopped=stopped_below(entry, table) if component != LAUNCHER else _own_stop(entry),
        zombie=zombie,
        members=list(members(entry, name, table)) if component != LAUNCHER else [],
        expected=expected_ranks(entry),
        parent=entry.parent,
        source=f"process table: its {lead.how} {lead.path}" if lead.how != "child" else "process table: " + lead.path,
    )


def _own_stop(entry: Entry) -> list[int]:
    return [entry.pid] if entry.state == proctable.STOPPED else []


def _named(component: str, lead: _Lead) -> str:
    """The component in the words of the launcher's messages."""
    environment = _ENVIRONMENT.search(lead.path)
    return f"{environment[1]} env server {environment[2]}" if component == "env server" and environment else component


def _with_attempt(process: Process, lead: _Lead, attempt: int | None) -> Process:
    if lead.attempt is None or lead.attempt == attempt:
        return process
    return replace(process, name=f"{process.name} of attempt {lead.attempt}")


def _distinct(processes: list[Process]) -> list[Process]:
    """Several of one name (engines of one host) are told apart by number, the oldest first."""
    counts: dict[str, int] = {}
    found = []
    for process in sorted(processes, key=lambda process: process.started):
        number = counts[process.name] = counts.get(process.name, 0) + 1
        found.append(process if number == 1 else replace(process, name=f"{process.name} {number}"))
    return found


def _component_of_log(component: str, rank: int | None) -> str | None:
    environment = re.fullmatch(r"envs/(train|eval)/(.+)", component)
    if environment is not None:
        return f"{environment[1]} env server {environment[2]}"
    return component if component in ("trainer", "orchestrator", "inference") and rank is None else None


def _file_system(root: Path) -> str | None:
    """The type of the file system that a directory lies on, as the kernel calls it."""
    try:
        with open("/proc/self/mountinfo", "rb") as file:  # noqa: PTH123
            lines = file.read(_MAX_MOUNTS).decode(errors="replace").split("\n")
    except OSError:
        return None
    path, best, kind = os.path.realpath(root), "", None
    for line in lines:
        before, separator, after = line.partition(" - ")
        fields = before.split(" ")
        if not separator or len(fields) < 5:
            continue
        place = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4])
        if (path == place or path.startswith(place.rstrip("/") + "/")) and len(place) >= len(best):
            best, kind = place, after.split(" ", 1)[0]
    return kind


def _is_local(kind: str | None) -> bool | None:
    """Whether every process that can write to a file system shows in this process table."""
    if kind in _NETWORK_FILE_SYSTEMS:
        return False
    if kind not in _LOCAL_FILE_SYSTEMS:
        return None
    if kind == "overlay" or not sys.platform.startswith("linux"):  # a container's own disk, as its process table is
        return True
    try:  # within a container, a directory of the host may be another container's too
        return os.stat("/proc/self/ns/pid").st_ino == _FIRST_NAMESPACE or None  # noqa: PTH116
    except OSError:
        return None


def _is_hidden(root: Path) -> bool:
    try:
        owner = root.stat().st_uid
    except OSError:
        return False
    return os.geteuid() not in (0, owner)
