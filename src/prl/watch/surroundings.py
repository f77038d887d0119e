"""Facts about what a run lives in: its SLURM job, its engines, the memory of its host, and known failures in its logs.

Plain data, as all facts (:mod:`prl.watch.facts`). Times are Unix seconds, durations seconds, sizes bytes; None: nothing
says. Texts from SLURM and from logs are other people's: they are made safe when they are shown.
"""

import re
from dataclasses import dataclass, field

from prl.slurm.states import explain


@dataclass(frozen=True)
class JobNode:
    """A node of a job."""

    name: str
    state: str
    """Base state as SLURM has it, e.g. ``IDLE``, ``DOWN``."""
    reason: str | None = None
    role: str | None = None
    """What runs there, by the job log: ``train``, ``inference``; None: not told."""


RECORDED = "the run directory"
"""The source of a job that only the run's own files tell of."""


@dataclass(frozen=True)
class SlurmJob:
    """A SLURM job of the run."""

    id: str
    state: str
    """Base state (``PENDING``, ``RUNNING``, ``COMPLETED`` ...), or ``UNKNOWN``."""
    as_of: float | None
    """When SLURM said so. Older than the facts: the controller is silent and this is its last known word."""
    source: str
    """``squeue``, ``scontrol``, ``sacct`` or the job log, in words for evidence."""
    flags: list[str] = field(default_factory=list)
    """``COMPLETING``, ``REQUEUED`` ... beside the base state."""
    raw_state: str | None = None
    name: str | None = None
    reason: str | None = None
    reason_text: str | None = None
    """The reason in plain words."""
    restarts: int | None = None
    submitted: float | None = None
    started: float | None = None
    """When it started; of a waiting job, when SLURM expects it to."""
    ended: float | None = None
    """When it ended; None while it has not."""
    time_limit: float | None = None
    time_left: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    step_failure: str | None = None
    """How a step of it failed, which the job's own state need not show."""
    work_dir: str | None = None
    script: str | None = None
    """The batch script that was submitted, with its arguments as SLURM prints them, unquoted."""
    log: str | None = None
    """The job's log, relative to the run directory where it lies in it."""
    nodes: list[JobNode] = field(default_factory=list)
    batch_host: str | None = None
    grace_since: float | None = None
    """Since when the job log says that a failed job keeps its nodes for others to finish writing."""
    grace_seconds: float | None = None
    problem: str | None = None
    """Why less is known than SLURM could say: controller silent, no accounting."""

    @property
    def asked(self) -> bool:
        """Whether SLURM was asked about it: it is not where it is not installed."""
        return self.source != RECORDED

    @property
    def blocked(self) -> bool:
        """It waits for what no waiting brings: held, no such account, more time than its partition allows."""
        why = explain(self.reason or "")
        return why is not None and why.blocked

    @property
    def waits_again(self) -> bool:
        """It ran and SLURM says that it is to run again. Of a preempted job only a reason to wait says so: where
        preempted jobs are cancelled (``PreemptMode=CANCEL``) the state is the same."""
        if any("REQUEUE" in flag for flag in self.flags):
            return True
        return self.state == "PREEMPTED" and explain(self.reason or "") is not None and self.ended is None

    @property
    def held(self) -> bool:
        """It is blocked until somebody releases it."""
        return self.blocked and re.search("held|hold", self.reason or "", re.I) is not None


@dataclass(frozen=True)
class Engine:
    """One inference engine at one moment, scraped from its address or as the run recorded it."""

    name: str
    source: str
    """The address that answered, or the metrics file."""
    state: str
    """``alive``, ``gone`` (its address refuses) or ``unknown``."""
    as_of: float | None = None
    running: float | None = None
    """Requests being generated."""
    waiting: float | None = None
    """Requests in its queue."""
    kv_usage: float | None = None
    """Share of the KV cache in use, 0 to 1."""
    preemptions: float | None = None
    """Requests preempted since the engine started."""
    generated: float | None = None
    """Tokens generated since the engine started."""
    generation_rate: float | None = None
    """Tokens a second, where the run recorded it."""
    problem: str | None = None


@dataclass(frozen=True)
class Memory:
    """Main memory of the host that the facts were gathered on, while the run's processes live there."""

    total: int
    available: int
    limit: int | None = None
    """Of the control group that the launcher runs in."""
    used: int | None = None
    """In that control group."""
    oom_kills: int | None = None
    """Processes that the kernel killed there for want of memory."""
    source: str = "/proc/meminfo"


@dataclass(frozen=True)
class Incident:
    """A known failure found in the logs (:mod:`prl.rundir.logs.signatures`), all its lines as one."""

    signature: str
    severity: str
    """``fatal``, ``error``, ``warn`` or ``info``."""
    component: str
    """Where it was said first."""
    file: str
    offset: int
    text: str
    cause: str
    fix: str
    time: float | None = None
    """Of the first line."""
    last_time: float | None = None
    count: int = 1
    secondary: bool = False
    """A consequence, or somebody's report, of another failure."""
    components: list[str] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    """What its lines say together: operation, ranks seen and missing, when it began."""


@dataclass(frozen=True)
class CheckpointFact:
    """A checkpoint of one step."""

    step: int
    path: str
    state: str
    """``writing``, ``half``, ``complete``, ``stuck`` or ``damaged``."""
    bytes: int
    changed: float
    problem: str | None = None


@dataclass(frozen=True)
class Launch:
    """How the attempt was started: what it takes to start it again."""

    command: str | None
    """One line for a shell, as it was typed."""
    command_source: str | None = None
    cwd: str | None = None
    interpreter: str | None = None
    host: str | None = None
    source: str | None = None
    """File that tells directory, interpreter and host."""
    ports: list[int] = field(default_factory=list)
    """Ports that the run listens on."""
    script: str | None = None
    """The batch script, relative to the run directory, where it was submitted to SLURM."""
