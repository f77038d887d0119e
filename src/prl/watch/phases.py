"""The phase of a run, out of the launcher's word, the processes, the logs, and the SLURM job around them.

The launcher's word on its own end is believed. Where it is silent or absent, processes that are found here, the job's
state and the progress of the counters say in turn whether the run lives; where nothing does, the phase is unknown.
"""

import re
from typing import TYPE_CHECKING

from prl.rundir import status
from prl.watch.facts import ALIVE, GONE, UNKNOWN
from prl.watch.surroundings import SlurmJob
from prl.watch.verdict import (
    CONFIGURED,
    DRAINING,
    EVALUATING,
    FAILED,
    FAILING,
    FINISHED,
    PHASE_UNKNOWN,
    PREEMPTED,
    QUEUED,
    REQUEUED,
    RUNNING,
    STARTING,
    STOPPED,
)

if TYPE_CHECKING:
    from prl.watch.view import View

WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"})
"""States of a job that has no processes yet."""
HOLDING = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"})
"""States of a job that has nodes."""
FAILURES = frozenset({"FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE", "REVOKED"})
_REQUEUE_STATES = frozenset({"REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"})

_SIGNAL = re.compile(r"\bSIG[A-Z]+\b|\binterrupt")
_ENDED = (status.FINISHED, status.FAILED, status.STOPPED)


def phase_of(view: "View") -> str:
    """The run's phase, one of those in :mod:`prl.watch.verdict`."""
    launcher, job = view.facts.launcher, view.job
    if job is not None and _waits(view, job):
        return _waiting_phase(job)
    if launcher is None:
        return _without_launcher(view)
    if launcher.phase in _ENDED:
        return _recorded_end(view)
    if launcher.state == UNKNOWN:
        return _by_job(view) or PHASE_UNKNOWN
    if launcher.state == GONE:
        if view.work_done:
            return FINISHED
        if any(process.state == ALIVE for process in view.facts.processes):
            return FAILING
        # Who is told to end with its job is killed soon after, and may not get to write its last word.
        return {"PREEMPTED": PREEMPTED, "CANCELLED": STOPPED}.get(job.state, FAILED) if job is not None else FAILED
    return _live(view)


def _waits(view: "View", job: SlurmJob) -> bool:
    """Whether the run is in the queue: its job is, and nothing of it lives or has ended since."""
    if job.state not in WAITING or (view.facts.launcher is not None and view.facts.launcher.state == ALIVE):
        return False
    return not view.work_done or job.restarts not in (None, 0)


def _waiting_phase(job: SlurmJob) -> str:
    if "PREEMPTED" in job.flags:
        return PREEMPTED
    again = job.state in _REQUEUE_STATES or _REQUEUE_STATES & set(job.flags) or (job.restarts or 0) > 0
    return REQUEUED if again else QUEUED


def _recorded_end(view: "View") -> str:
    launcher = view.facts.launcher
    assert launcher is not None
    if launcher.phase == status.FINISHED:
        return FAILED if view.unfinished_workers else FINISHED
    if view.job is not None and view.job.state == "PREEMPTED":
        return PREEMPTED
    return FAILED if launcher.phase == status.FAILED else STOPPED


def _live(view: "View") -> str:
    """Of a run whose launcher, processes or job live."""
    launcher = view.facts.launcher
    if view.lost or view.missing or view.in_grace:
        return FAILING
    if (launcher is not None and launcher.phase == status.STOPPING) or view.draining:
        return DRAINING
    if view.stage is not None:
        return STARTING
    return EVALUATING if view.evaluating else RUNNING


def _without_launcher(view: "View") -> str:
    facts = view.facts
    if not facts.launched:
        by_job = _by_job(view)
        return by_job if by_job is not None else CONFIGURED if facts.configured else PHASE_UNKNOWN
    if view.work_done:
        return FAILED if facts.mark("forced_exit") else FINISHED
    if view.last_words is not None:
        return FAILING if view.job is not None and view.job.state in HOLDING else FAILED
    if any(process.state == ALIVE for process in facts.processes):
        return _live(view)
    by_job = _by_job(view)
    if by_job is not None:
        return by_job
    if view.vanished:
        return FAILED
    if _was_stopped(view):
        return STOPPED
    if view.job is not None and view.job.ended is not None:
        return PHASE_UNKNOWN  # it is over, and nothing says how
    if view.idle is not None and view.idle <= view.stall_bound:
        return DRAINING if view.draining else EVALUATING if view.evaluating else RUNNING
    return PHASE_UNKNOWN


def _was_stopped(view: "View") -> bool:
    """Whether the launcher's last line, in the log of its job, is that a signal made it end everything."""
    mark = view.facts.mark("teardown")
    if mark is None or mark.time is None or not _SIGNAL.search(mark.text):
        return False
    return mark.time >= (view.last_progress or 0.0) - 1  # its clock is cut to whole seconds


def _by_job(view: "View") -> str | None:
    """What the state of the job says of a run that nothing else tells of; None: nothing."""
    job = view.job
    if job is None:
        return None
    if job.state in HOLDING:
        if view.work_done:
            return FINISHED
        old = job.as_of is None or view.facts.as_of - job.as_of > view.limits.jobs.silent
        moves = view.idle is not None and view.idle <= view.stall_bound
        return None if old and not moves else _live(view)
    if job.state in FAILURES:
        return FAILED
    if job.state == "PREEMPTED":
        return PREEMPTED
    if job.state == "CANCELLED":
        return STOPPED
    if job.state == "COMPLETED" and view.facts.launched:
        return FINISHED if view.work_done else FAILED if view.unfinished_workers else None
    return None
