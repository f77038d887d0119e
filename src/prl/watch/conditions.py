"""What must hold before a run is started again, and what must hold afterwards: one shape for both."""

from dataclasses import dataclass, field

from prl.watch.verdict import Evidence

HOLDS = "holds"
FAILS = "does not hold"
UNKNOWN = "unknown"
STATES = (HOLDS, FAILS, UNKNOWN)


@dataclass(frozen=True)
class Condition:
    """One thing that must hold, and whether it does."""

    name: str
    state: str
    """``holds``, ``does not hold`` or ``unknown``."""
    text: str
    """What is so, in one sentence."""
    evidence: list[Evidence] = field(default_factory=list)
    action: str | None = None
    """What makes it hold, or how to find out."""
