"""From complete groups to training batches.

A complete group is scored: its advantages are computed, and its clean traces queue for training in the order in which
their groups were completed. When the queue holds ``batch_size`` traces, the oldest of them are a batch; the rest waits
for the next one. With ``constant_trainer_batch_size`` a trace without signal never queues, so that every batch has
``batch_size`` traces that train; without it such traces count towards the batch and are taken out at the cut.

The staleness bound holds for everything that is shipped: a group is refused when it completes too old, and when the
next batch comes under collection what has become too old leaves the queue.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from prl.config.orchestrator import OrchestratorConfig
from prl.orchestrator.advantages import grpo
from prl.orchestrator.episodes import Episode, Outcome, TraceFacts
from prl.orchestrator.groups import Group

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Window:
    """Everything that ended since the previous ship."""

    groups: list[Group] = field(default_factory=list)
    dropped: int = 0
    """Queued traces voided for their age."""

    @property
    def episodes(self) -> Iterator[Episode]:
        return (episode for group in self.groups for episode in group.episodes)

    def count(self, *outcomes: Outcome) -> int:
        return sum(episode.outcome in outcomes for episode in self.episodes)

    @property
    def without_signal(self) -> int:
        """Clean episodes none of whose traces trains."""
        return sum(
            episode.outcome is Outcome.CLEAN and not any(trace.has_signal for trace in episode.traces)
            for episode in self.episodes
        )


@dataclass(frozen=True, slots=True)
class QueuedTrace:
    trace: TraceFacts
    episode: Episode


@dataclass(slots=True)
class Batch:
    """What is shipped for one step, and the window it was shipped from."""

    step: int
    traces: list[QueuedTrace]
    """The effective traces: each trains."""
    cut: int
    """Traces taken from the queue, those without signal included."""
    window: Window


class Batcher:
    """The queue of traces that wait for training, and the window under collection."""

    def __init__(self, config: OrchestratorConfig, step: Callable[[], int]) -> None:
        self._config = config
        self._step = step
        self._queue: deque[QueuedTrace] = deque()
        self._window = Window()
        self._filled = asyncio.Event()
        self._unproductive = 0
        """Episodes ended since one last put a trace into the queue."""

    @property
    def size(self) -> int:
        return len(self._queue)

    @property
    def full(self) -> bool:
        """Whether a whole batch waits in the queue."""
        return len(self._queue) >= self._config.batch_size

    @property
    def size_by_env(self) -> Counter[str]:
        return Counter(item.episode.source for item in self._queue)

    @property
    def oldest_version(self) -> int:
        """The oldest policy from which a trace may still train in the batch under collection."""
        return self._step() - 1 - self._config.max_off_policy_steps

    def add(self, group: Group) -> None:
        """Take in a complete group."""
        self._window.groups.append(group)
        if group.voided or group.start_version < self.oldest_version:
            _void(group)
            return
        candidates = [
            QueuedTrace(trace, episode)
            for episode in group.episodes
            if episode.outcome is Outcome.CLEAN
            for trace in episode.traces
            if trace.trainable
        ]
        for item, advantage in zip(candidates, grpo([item.trace.reward for item in candidates]), strict=True):
            item.trace.advantage = float(advantage)
        group.admitted = True
        constant = self._config.constant_trainer_batch_size
        admitted = [item for item in candidates if (item.trace.has_signal if constant else item.trace.samples)]
        self._queue.extend(admitted)
        _forget_samples(group, {id(item.trace) for item in admitted})
        self._note_output(len(group.episodes), candidates, bool(admitted))
        if self.full:
            self._filled.set()

    async def collect(self) -> Batch | None:
        """Wait until a whole batch waits and take it from the queue, with the window it closes.

        None when nothing of it trains; the window then goes on. Either way there is room for new work afterwards.
        """
        while not self.full:
            self._filled.clear()
            await self._filled.wait()
        taken = [self._queue.popleft() for _ in range(self._config.batch_size)]
        effective = [item for item in taken if item.trace.has_signal]
        if not effective:
            episodes = sum(1 for _ in self._window.episodes)
            logger.warning("Step %d: empty train batch after %d finalized episodes", self._step(), episodes)
            return None
        window, self._window = self._window, Window()
        return Batch(self._step(), effective, len(taken), window)

    def drop_stale(self) -> int:
        """Remove from the queue what is too old for the batch now under collection. Returns the traces removed."""
        kept = [item for item in self._queue if item.episode.start_version >= self.oldest_version]
        dropped = len(self._queue) - len(kept)
        if dropped:
            self._queue = deque(kept)
            self._window.dropped += dropped
            logger.warning(
                "Dropped %d queued traces past max_off_policy_steps=%d. They waited longer for a batch than their "
                "policy stayed young enough",
                dropped,
                self._config.max_off_policy_steps,
            )
        return dropped

    def _note_output(self, episodes: int, candidates: Sequence[QueuedTrace], productive: bool) -> None:
        if productive:
            self._unproductive = 0
            return
        before = self._unproductive // self._config.batch_size
        self._unproductive += episodes
        equivalents = self._unproductive // self._config.batch_size
        # At 1, 2, 4, 8, ... batches' worth: a constant reward would else fill the log with this line alone.
        if equivalents > before and equivalents.bit_length() > before.bit_length():
            logger.warning(
                "No admitted train payload after %d finalized units (%d zero-output batch equivalent%s). %s",
                self._unproductive,
                equivalents,
                "" if equivalents == 1 else "s",
                _why_no_signal(candidates),
            )


def _why_no_signal(candidates: Sequence[QueuedTrace]) -> str:
    """Why a group of these clean traces gave nothing to train on."""
    if not candidates:
        return "No episode of the last group ended clean"
    return (
        f"All rewards of the last group are {candidates[0].trace.reward:.4f}: equal rewards give no advantage. "
        "The task is too easy or too hard for the policy, or its reward is constant"
    )


def _void(group: Group) -> None:
    group.voided = True
    for episode in group.episodes:
        if episode.outcome is Outcome.CLEAN:
            episode.outcome = Outcome.CANCELLED
    _forget_samples(group, set())


def _forget_samples(group: Group, kept: set[int]) -> None:
    """Free the tokens of traces that do not train. A window lasts until a batch is shipped, which may be never."""
    for episode in group.episodes:
        for trace in episode.traces:
            if id(trace) not in kept:
                trace.samples = []
