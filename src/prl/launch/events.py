"""What a launcher tells while it works, and how it ended. Whoever draws progress subscribes to these."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Started:
    """The attempt exists on disk; the processes come next."""

    run_name: str
    run_dir: Path
    attempt: int
    max_steps: int | None
    resume_step: int | None
    ports: dict[str, int]


@dataclass(frozen=True)
class ComponentUp:
    """A component's process exists. That says nothing about its being ready."""

    name: str
    pid: int
    log: Path


@dataclass(frozen=True)
class Waiting:
    """What the run waits for now, in words; sent again and again while ``seconds`` grows."""

    what: str
    seconds: float


@dataclass(frozen=True)
class Step:
    """The trainer finished a step. Values are None where the run directory does not say."""

    step: int
    max_steps: int | None
    reward: float | None = None
    """Mean effective reward of the batch."""
    loss: float | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class LogLine:
    """A line of the trainer's log."""

    text: str


@dataclass(frozen=True)
class Failed:
    """A component ended as it must not; the others are being ended."""

    component: str
    exit_code: int
    cause: str
    log: Path


@dataclass(frozen=True)
class Outcome:
    """How a launch ended."""

    exit_code: int
    phase: str
    """``finished``, ``failed``, ``stopped``, ``refused`` or ``dry run``."""
    component: str | None = None
    cause: str | None = None
    run_dir: Path | None = None


@dataclass(frozen=True)
class Finished:
    """The last event."""

    outcome: Outcome


Event = Started | ComponentUp | Waiting | Step | LogLine | Failed | Finished
