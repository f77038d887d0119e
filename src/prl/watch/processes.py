"""Whether the launcher and the processes that it started live, and what lives below them.

A process is asked for on its own host only, by pid and start time, so that a pid used again is not taken for it. On
another host the launcher's word counts while it is fresh; after that the answer is "unknown". Processes of which no
launcher speaks are found by :mod:`prl.watch.process_search`.
"""

import re
from collections.abc import Iterator

from prl.rundir.status import FAILED, FINISHED, STOPPED, LauncherStatus, ProcessStatus
from prl.rundir.titles import TITLE_PATTERN
from prl.watch import proctable
from prl.watch.facts import ALIVE, EXITED, GONE, UNKNOWN, Launcher, Member, Process
from prl.watch.proctable import Entry, ProcessTable

FRESH = 30.0
"""Seconds for which the word of a launcher on another host counts. It is renewed every few seconds."""

ENDED = (FINISHED, FAILED, STOPPED)
"""Phases after which a launcher writes nothing more."""

_MAX_MEMBERS = 256
_WORKER = re.compile(r"Verifiers::EnvWorker(\d{1,6})?")
_RANKS = re.compile(r"--nproc[-_]per[-_]node(?:=|$)")
_START_TOLERANCE = 2.0
"""Seconds by which the start time that the system computes for one process varies (it rests on the boot time)."""


def launcher_facts(status: LauncherStatus, table: ProcessTable, now: float) -> Launcher:
    """The launcher as a fact."""
    if status.host == proctable.host_name():
        state = ALIVE if _lives(table, status.pid, status.started, exact=False) else GONE
    elif status.phase in ENDED:
        state = GONE
    else:
        state = ALIVE if now - status.updated <= FRESH else UNKNOWN
    return Launcher(
        host=status.host,
        pid=status.pid,
        phase=status.phase,
        state=state,
        started=status.started,
        updated=status.updated,
        step=status.step,
        waiting_for=status.waiting_for,
        exit_code=status.exit_code,
        reason=status.reason,
        ended=status.ended,
    )


def process_facts(status: LauncherStatus, launcher: Launcher, table: ProcessTable, now: float) -> list[Process]:
    """The processes that the launcher recorded, each as a fact."""
    return [_process(process, launcher, table, now) for process in status.processes]


def _process(process: ProcessStatus, launcher: Launcher, table: ProcessTable, now: float) -> Process:
    as_of = launcher.updated
    here = process.host == proctable.host_name()
    entry = table.entries.get(process.pid) if here else None
    if process.ended is not None or process.exit_code is not None:
        state = EXITED
    elif here:
        state, as_of = (ALIVE if _lives(table, process.pid, process.started, exact=True) else GONE), now
    elif launcher.state == ALIVE and launcher.host == process.host:
        state = ALIVE
    else:
        state = UNKNOWN
    own = entry if state in (ALIVE, GONE) and entry is not None and _same(entry, process.started) else None
    alive = own if state == ALIVE else None
    return Process(
        name=process.name,
        title=process.title,
        pid=process.pid,
        host=process.host,
        state=state,
        started=process.started,
        log=process.log,
        as_of=as_of,
        exit_code=process.exit_code,
        reason=process.reason,
        ended=process.ended,
        stopped=stopped_below(alive, table) if alive is not None else [],
        zombie=own is not None and own.state == proctable.ZOMBIE,
        members=list(members(alive, process.name, table)) if alive is not None else [],
        expected=expected_ranks(alive) if alive is not None else None,
        parent=own.parent if own is not None else None,
    )


def stopped_below(entry: Entry, table: ProcessTable) -> list[int]:
    """The pids of a process and its descendants that the system holds stopped."""
    family = [entry, *table.descendants(entry.pid)]
    return [member.pid for member in family if member.state == proctable.STOPPED]


def members(entry: Entry, component: str, table: ProcessTable) -> Iterator[Member]:
    """The ranks, workers and engines below a component's process. What only helps (a resource tracker) is none."""
    for below in table.descendants(entry.pid)[:_MAX_MEMBERS]:
        kind, index = _kind(below, component)
        if kind is not None:
            yield Member(kind, below.pid, below.state, below.title[:200], index, below.started)


def expected_ranks(entry: Entry) -> int | None:
    """How many ranks the arguments of torchrun ask for on this host; None for other processes and words (``gpu``)."""
    for place, argument in enumerate(entry.arguments):
        if _RANKS.match(argument):
            following = (*entry.arguments, "")[place + 1]
            value = argument.partition("=")[2] or following
            return int(value) if value.isdigit() and len(value) < 6 else None
    return None


def _kind(entry: Entry, component: str) -> tuple[str | None, int | None]:
    """What a descendant of a component is, and its number."""
    title = entry.title
    worker = _WORKER.match(title)
    if worker is not None:
        return "worker", int(worker[1]) if worker[1] else None
    if title.startswith("VLLM::"):
        return "engine", None
    if title.lower().startswith("vllm::router") or "vllm-router" in title.split(" ", 1)[0]:
        return "router", None
    titled = TITLE_PATTERN.match(title)
    if titled is not None and titled[1] in ("Trainer", "SFTTrainer"):
        return "rank", _rank(entry.pid)
    if entry.state == proctable.ZOMBIE:  # it has no title any more: what it was follows from whose child it is
        return {"trainer": "rank", "inference": "engine"}.get(component, "worker" if _serves(component) else None), None
    if _serves(component) and "spawn_main" in title:
        return "worker", None
    return None, None


def _serves(component: str) -> bool:
    return " env server " in component


def _rank(pid: int) -> int | None:
    value = proctable.environment(pid).get("RANK", "")
    return int(value) if value.isdigit() and len(value) < 7 else None


def _lives(table: ProcessTable, pid: int, started: float, *, exact: bool) -> bool:
    """Whether the process with this pid is the one that was meant and has not ended.

    ``exact`` says that ``started`` is the system's word. A launcher may give the moment at which it began to write
    instead: then a process that began later than that is another one.
    """
    entry = table.entries.get(pid)
    if entry is None or entry.state == proctable.ZOMBIE:
        return False
    return _same(entry, started) if exact else entry.started <= started + _START_TOLERANCE


def _same(entry: Entry, started: float) -> bool:
    return abs(entry.started - started) <= _START_TOLERANCE
