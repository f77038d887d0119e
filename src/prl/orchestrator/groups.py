"""A group: the episodes of one task that are drawn together and compared with each other."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import msgspec

from prl.orchestrator.episodes import Episode
from prl.orchestrator.sources import Source


@dataclass(slots=True, eq=False)
class Flight:
    """One episode on its way."""

    id: str
    step: int
    """The batch under collection when it was dispatched."""
    started: float
    """Unix seconds."""
    task: "asyncio.Task[None] | None" = None
    begun: bool = False
    """Whether the task has taken its first step."""

    def as_dispatch(self, group: "Group") -> dict[str, Any]:
        """What live monitors show of it."""
        return {
            "id": self.id,
            "kind": "train",
            "env": group.source.name,
            "group": group.id,
            "task": str(group.task_index),
            "policy_version": group.start_version,
            "step": self.step,
            "started": self.started,
        }


@dataclass(slots=True, eq=False)
class Group:
    id: str
    """A uuid with dashes."""
    source: Source
    task_index: int
    task: msgspec.Raw
    start_version: int
    """Policy version at opening, which every member inherits as its own."""
    size: int
    """Episodes it consists of; smaller than asked for when it was voided before all were dispatched."""
    undispatched: int
    flights: list[Flight] = field(default_factory=list)
    episodes: list[Episode] = field(default_factory=list)
    """Ended members, in the order in which they ended."""
    voided: bool = False
    """Its policy became too old: nothing of it trains."""
    admitted: bool = False
    """It was complete, fresh and scored."""

    @property
    def complete(self) -> bool:
        return len(self.episodes) >= self.size
