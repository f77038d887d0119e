"""Sources of training work: each an environment with its server, its tasks in a shuffled order, and its health.

The order of a source's tasks is a permutation an epoch, made from (seed, source, epoch) alone; so its whole state is an
epoch and a cursor, and a resumed run goes on with the next task. The cursor counts tasks when they are drawn: those in
flight at a crash are skipped. Which source a group is drawn from follows ``ratio``, with a generator whose state is
kept too. Left out: curricula; every task is drawn once an epoch.
"""

import logging
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from prl.config.envs import TrainSourceConfig
from prl.orchestrator.env_client import EnvClient, TaskSet

logger = logging.getLogger(__name__)

_PATIENCE = 8
"""Errored episodes in a row after which a source is given pauses."""
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0


class TaskCursor:
    """Endless walk over ``total`` tasks in a new order every epoch."""

    def __init__(self, name: str, total: int, seed: int) -> None:
        if total < 1:
            raise ValueError(f"environment {name} has no tasks")
        self.name = name
        self.total = total
        self.seed = seed
        self.epoch = 0
        self.position = 0
        self._order = self._shuffle()

    def draw(self) -> int:
        """Index of the next task."""
        if self.position == self.total:
            self.epoch += 1
            self.position = 0
            self._order = self._shuffle()
        index = self._order[self.position]
        self.position += 1
        return int(index)

    def state(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "cursor": self.position, "total": self.total, "seed": self.seed}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was taken. With another number of tasks the order is another, so a new epoch begins."""
        self.seed = int(state["seed"])
        self.epoch = int(state["epoch"])
        self.position = int(state["cursor"])
        if int(state["total"]) != self.total:
            logger.warning(
                "Environment %s has %d tasks, its checkpoint counted %d: starting a new epoch",
                self.name, self.total, int(state["total"]),
            )  # fmt: skip
            self.epoch += 1
            self.position = 0
        self._order = self._shuffle()

    def _shuffle(self) -> Any:
        return np.random.default_rng([self.seed, zlib.crc32(self.name.encode()), self.epoch]).permutation(self.total)


class Source:
    """One environment as the dispatcher sees it."""

    def __init__(
        self, config: TrainSourceConfig, group_size: int, client: EnvClient, tasks: TaskSet, seed: int
    ) -> None:
        self.config = config
        self.name = config.name
        self.group_size = group_size
        self.client = client
        self.tasks = tasks
        self.cursor = TaskCursor(config.name, len(tasks.items), seed)
        self.errors_in_a_row = 0
        self.paused_until = 0.0
        """Loop time before which nothing is dispatched here."""

    def draw(self) -> tuple[int, msgspec.Raw]:
        """Index and data of the next task."""
        index = self.cursor.draw()
        return index, self.tasks.items[index]

    def is_open(self, now: float) -> bool:
        """Whether the server can be asked to play at loop time ``now``."""
        return self.client.connected and now >= self.paused_until

    def note_outcome(self, errored: bool, now: float) -> None:
        """Slow down a source whose episodes all fail, so that a broken one does not spin and flood the records."""
        if not errored:
            self.errors_in_a_row = 0
            self.paused_until = 0.0
            return
        self.errors_in_a_row += 1
        if self.errors_in_a_row >= _PATIENCE:
            doublings = min(self.errors_in_a_row - _PATIENCE, 16)
            self.paused_until = now + min(_FIRST_PAUSE * 2**doublings, _LONGEST_PAUSE)


class SourcePool:
    """All sources, and the seeded choice among them."""

    def __init__(self, sources: Sequence[Source], seed: int) -> None:
        self.sources = list(sources)
        self._random = np.random.default_rng(seed)

    def choose(self, now: float) -> Source | None:
        """A source by ``ratio`` among those that can play; None when none can."""
        usable = [source for source in self.sources if source.is_open(now)]
        if not usable:
            return None
        edges = np.cumsum([source.config.ratio for source in usable])
        # One draw a choice, also with one source: the sequence must not depend on which others were away.
        pick = self._random.random() * edges[-1]
        return usable[min(int(np.searchsorted(edges, pick, side="right")), len(usable) - 1)]

    def next_opening(self, now: float) -> float | None:
        """Loop time at which a source that pauses can play again; None when none pauses."""
        return min((source.paused_until for source in self.sources if source.paused_until > now), default=None)

    def state(self) -> dict[str, Any]:
        return {
            "rng": self._random.bit_generator.state,
            "sources": {source.name: source.cursor.state() for source in self.sources},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Raises ValueError when the checkpoint was made with other sources."""
        names = sorted(source.name for source in self.sources)
        if sorted(state["sources"]) != names:
            raise ValueError(
                f"the checkpoint holds the state of the sources {sorted(state['sources'])}, the configuration has "
                f"{names}: resume with the same sources, or start a new run"
            )
        self._random.bit_generator.state = state["rng"]
        for source in self.sources:
            source.cursor.restore(state["sources"][source.name])
