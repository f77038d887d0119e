"""Whether the launcher and the processes that it started live.

A process is asked for on its own host only, by pid and start time, so that a pid used again is not taken for it. On
another host the launcher's word counts while it is fresh; after that the answer is "unknown". Processes of runs without
``launcher/status.json`` are not searched for: nothing says which they are.
"""

import socket

import psutil

from prl.rundir.status import FAILED, FINISHED, STOPPED, LauncherStatus, ProcessStatus
from prl.watch.facts import ALIVE, EXITED, GONE, UNKNOWN, Launcher, Process

FRESH = 30.0
"""Seconds for which the word of a launcher on another host counts. It is renewed every few seconds."""

ENDED = (FINISHED, FAILED, STOPPED)
"""Phases after which a launcher writes nothing more."""

_START_TOLERANCE = 2.0
"""Seconds by which the start time that the system computes for one process varies (it rests on the boot time)."""


def launcher_facts(status: LauncherStatus, now: float) -> Launcher:
    """The launcher as a fact."""
    if status.host == socket.gethostname():
        state = ALIVE if _lives(status.pid, status.started, exact=False) else GONE
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


def process_facts(status: LauncherStatus, launcher: Launcher, now: float) -> list[Process]:
    """The processes that the launcher recorded, each as a fact."""
    here = any(process.host == socket.gethostname() for process in status.processes)
    stopped = _stopped_trees() if here and launcher.state == ALIVE else {}
    return [_process(process, launcher, now, stopped) for process in status.processes]


def _process(process: ProcessStatus, launcher: Launcher, now: float, stopped: dict[int, list[int]]) -> Process:
    as_of = launcher.updated
    if process.ended is not None or process.exit_code is not None:
        state = EXITED
    elif process.host == socket.gethostname():
        state, as_of = (ALIVE if _lives(process.pid, process.started, exact=True) else GONE), now
    elif launcher.state == ALIVE and launcher.host == process.host:
        state = ALIVE
    else:
        state = UNKNOWN
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
        stopped=stopped.get(process.pid, []) if state == ALIVE and process.host == socket.gethostname() else [],
    )


def _stopped_trees() -> dict[int, list[int]]:
    """The stopped processes of this host, under their own pid and the pid of each of their ancestors."""
    found: dict[int, list[int]] = {}
    for process in psutil.process_iter():
        try:
            if process.status() not in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP):
                continue
            line = [process, *process.parents()]
        except (psutil.Error, OSError):
            continue
        for member in line:
            found.setdefault(member.pid, []).append(process.pid)
    return found


def _lives(pid: int, started: float, *, exact: bool) -> bool:
    """Whether the process with this pid is the one that was meant and has not ended.

    ``exact`` says that ``started`` is the system's word. A launcher may give the moment at which it began to write
    instead: then a process that began later than that is another one.
    """
    try:
        process = psutil.Process(pid)
        began = process.create_time()
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
    except (psutil.Error, ValueError, OSError):
        return False
    return abs(began - started) <= _START_TOLERANCE if exact else began <= started + _START_TOLERANCE
