"""How a job stands: one phase and one sentence, out of the queue, accounting, and how long each is silent.

A pure function of what is known. Left out: what the run inside the job says of itself; a job that runs may hold a run
that has failed.
"""

from dataclasses import dataclass
from typing import Literal

from prl.slurm.accounting import Accounting, outcome
from prl.slurm.commands import Kind, Trouble
from prl.slurm.jobs import Job
from prl.text.human import format_duration

ABSENT_SECONDS = 300.0
"""A preempted or requeued job that left the queue may come back for so long; then it has ended."""

Phase = Literal[
    "pending",  # never ran yet
    "requeued",  # ran, and waits to be started again under the same id
    "configuring",  # nodes are being made ready
    "running",
    "suspended",
    "completing",  # over, its nodes are being cleared
    "ended",  # over, and how is known
    "gone",  # over, and how is not known
    "unknown",
]


@dataclass(frozen=True)
class Standing:
    """How a job stands as far as is known, ``age`` seconds ago."""

    job_id: str
    phase: Phase
    plain: str
    """One sentence for a person. Holds SLURM's words, so not yet safe for a terminal."""
    job: Job | None = None
    age: float | None = None
    """Seconds since SLURM last told of this job. None where it never did."""
    stale: bool = False
    """SLURM did not answer when last asked: this is the last known state."""
    absent_since: float | None = None
    """Since when SLURM answers without this job, seconds since 1970."""
    accounting: Accounting | None = None
    trouble: Trouble | None = None
    accounting_trouble: Trouble | None = None

    @property
    def over(self) -> bool:
        """It will not run any more."""
        return self.phase in ("ended", "gone")


def standing(
    job_id: str,
    *,
    now: float,
    job: Job | None = None,
    seen: float | None = None,
    absent_since: float | None = None,
    accounting: Accounting | None = None,
    trouble: Trouble | None = None,
    accounting_trouble: Trouble | None = None,
) -> Standing:
    """Judge one job. ``seen``: when ``job`` was true; ``trouble``: of the last question that failed."""
    if absent_since is not None:
        phase, plain = _absent(job, now - absent_since, accounting, accounting_trouble)
    elif job is not None:
        phase, plain = _queued(job)
    else:
        phase, plain = "unknown", f"not known: {trouble}" if trouble is not None else "not known: SLURM was not asked"
    age = None if seen is None else max(now - seen, 0.0)
    stale = trouble is not None and job is not None and absent_since is None
    if stale and age is not None:
        plain = f"{plain} ({format_duration(age)} ago; since then {trouble})"
    return Standing(job_id, phase, plain, job, age, stale, absent_since, accounting, trouble, accounting_trouble)


def _queued(job: Job) -> tuple[Phase, str]:
    """A job that SLURM has."""
    state = job.state
    why = f": {job.explained.plain}" if job.explained is not None else ""
    if not state.known:
        return "unknown", f"state {state}"
    if state.terminal:
        how = outcome(state, job.exit, job.reason)
        return ("completing", f"{how}; its nodes are being cleared") if state.holds_nodes else ("ended", how)
    if job.waiting_again:
        times = f", restarts so far {job.restarts}" if job.restarts else ""
        what = "preempted, waits to be requeued" if state.base == "PREEMPTED" else "requeued, waits to start again"
        return "requeued", f"{what}{times}{why}"
    if state.base == "PENDING":
        return "pending", f"waiting{why or ': not yet looked at by the scheduler'}"
    if state.starting:
        return "configuring", f"its nodes are being made ready{why}"
    if state.holds_nodes and state.base not in ("RUNNING", "SUSPENDED"):
        return "completing", "over, its nodes are being cleared"
    if state.base == "SUSPENDED":
        return "suspended", f"suspended{why}"
    if state.base == "RUNNING":
        return "running", f"running on {_nodes(job)}" + (", stopped by a signal" if "STOPPED" in state.flags else "")
    return "gone", f"over, result unknown (state {state})"


def _absent(
    job: Job | None, seconds: float, accounting: Accounting | None, trouble: Trouble | None
) -> tuple[Phase, str]:
    """A job that SLURM does not have any more."""
    if accounting is not None and accounting.state.terminal:
        return "ended", accounting.outcome
    if job is not None and job.state.terminal:
        return "ended", outcome(job.state, job.exit, job.reason)
    last = accounting.state if accounting is not None else job.state if job is not None else None
    if last is not None and (last.base == "PREEMPTED" or last.requeued):
        what = "preempted" if last.base == "PREEMPTED" else "requeued"
        if seconds < ABSENT_SECONDS:
            return "requeued", f"{what}, and gone from the queue for {format_duration(seconds)}: it may come back"
        return "ended", f"{what}, and gone from the queue for {format_duration(seconds)}: it did not come back"
    if trouble is None:
        why = (
            f"accounting still has it as {accounting.state}" if accounting is not None else "accounting has no such job"
        )
    elif trouble.kind is Kind.ACCOUNTING_DISABLED:
        why = "this cluster keeps no accounting"
    else:
        why = str(trouble)
    return "gone", f"ended, result unknown ({why})"


def _nodes(job: Job) -> str:
    if not job.node_list:
        return "its nodes"
    return job.node_list if len(job.node_list) <= 60 else f"{job.node_count or len(job.nodes)} nodes"
