"""The verdict on a run: one shape for the terminal, STATUS.md, JSON answers and every later face."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from prl.watch.facts import LogError, Process

SCHEMA_VERSION = 1

HEALTHY = "Healthy"
DEGRADED = "Degraded"
DOWN = "Down"
UNKNOWN = "Unknown"
HEALTHS = (HEALTHY, DEGRADED, DOWN, UNKNOWN)

CONFIGURED = "configured"
QUEUED = "queued"
STARTING = "starting"
RUNNING = "running"
EVALUATING = "evaluating"
DRAINING = "draining"
FINISHED = "finished"
FAILING = "failing"
FAILED = "failed"
STOPPED = "stopped"
PREEMPTED = "preempted"
REQUEUED = "requeued"
PHASE_UNKNOWN = "unknown"

WORKING = (RUNNING, EVALUATING, DRAINING)
"""Phases in which steps, episodes or an evaluation are made."""
LIVE = (STARTING, *WORKING)
"""Phases in which the processes of a run should live."""

CRITICAL = "critical"
WARNING = "warning"
INFO = "info"
SEVERITIES = (CRITICAL, WARNING, INFO)
"""Critical: the run does not do its work and will not by itself. Warning: it works, but worse than it should. Info:
worth knowing, and nothing is wrong."""

ALARM = "alarm"
ADVICE = "advice"
"""Kinds of findings: something is wrong, or something could be better. Advice is held back while an alarm is active."""


@dataclass(frozen=True)
class Evidence:
    """Where something stands that a finding rests on."""

    source: str
    """A file relative to the run directory, or ``process <pid> on <host>``."""
    text: str
    offset: int | None = None
    """Byte offset in the file."""
    step: int | None = None
    time: float | None = None


@dataclass(frozen=True)
class Finding:
    """What a rule says."""

    rule: str
    severity: str
    message: str
    """One sentence."""
    evidence: list[Evidence] = field(default_factory=list)
    cause: str | None = None
    """The likely cause."""
    action: str | None = None
    """What to do."""
    kind: str = ALARM
    """``alarm`` or ``advice``."""


@dataclass(frozen=True)
class Number:
    """A key number: its newest value beside what is usual for this attempt."""

    label: str
    value: float | None
    """None: the newest row has no finite value."""
    step: int | None
    producer: str
    key: str
    usual: float | None = None
    """Median of the values before it, up to 20 of them in this attempt; None with fewer than 5."""


@dataclass(frozen=True)
class Numbers:
    """Key numbers in the three groups of a check-in."""

    progress: list[Number] = field(default_factory=list)
    stability: list[Number] = field(default_factory=list)
    performance: list[Number] = field(default_factory=list)


@dataclass(frozen=True)
class Share:
    """What part of the wall time went to one cause."""

    cause: str
    """``generation``, ``environment``, ``scoring``, ``waiting for a batch``, ``waiting for a policy``, ``training``,
    ``weight broadcast``, ``checkpoint`` or ``evaluation``."""
    share: float
    """Of the wall time, 0 to 1."""
    seconds: float
    """A step, on average."""


@dataclass(frozen=True)
class Bottleneck:
    """Where the wall time of the last steps went. The shares and ``unaccounted`` make 1."""

    first_step: int
    last_step: int
    seconds: float
    """A step, on average."""
    shares: list[Share]
    """The largest first."""
    unaccounted: float
    """Share of the wall time of which no record says where it went."""
    trainer_waits: float
    """Share of its time that the trainer waits for batches."""
    orchestrator_waits: float | None
    """Share of its time that the orchestrator waits for policies; None: not recorded."""
    grow: str | None
    """Which side to give more: ``inference``, ``environments`` or ``trainer``; None: neither holds up the other."""
    why: str


@dataclass(frozen=True)
class Verdict:
    """How a run is doing, and why."""

    as_of: float
    host: str
    run: str
    run_dir: str
    kind: str
    attempt: int | None
    phase: str
    health: str
    reason: str | None
    """Why the health is what it is, in one sentence; None when there is nothing to say."""
    stage: str | None
    """While starting: the stage reached."""
    awaits: str | None
    """What the run waits for, in words, where that is known."""
    step: int | None
    """Last finished optimizer step."""
    max_steps: int | None
    """None: without an end (``endless``), or not known."""
    since_progress: float | None
    """Seconds since a progress counter last advanced."""
    bottleneck: Bottleneck | None = None
    """None: too few steps are recorded."""
    numbers: Numbers = Numbers()
    findings: list[Finding] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    errors: list[LogError] = field(default_factory=list)
    """The newest error of each log; the earliest primary one first."""
    unknown: list[str] = field(default_factory=list)
    endless: bool = False
    """Whether the run was configured to have no last step."""
    schema_version: int = SCHEMA_VERSION

    @property
    def exit_code(self) -> int:
        """Of ``prl status``: 0 healthy or finished, 1 degraded, 2 down, 3 unknown."""
        return HEALTHS.index(self.health)

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)
