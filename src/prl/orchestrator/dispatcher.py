"""Keeps episodes in flight: opens groups, plays their members, hands over each group once it is complete.

One permit an episode, ``concurrency.max_inflight`` in all. Groups that are open are continued before new ones are
opened. Nothing is dispatched while the dispatch gate is closed, while a weight update is pending, or while a whole
batch waits in the queue already: that one leaves first, and work done any earlier would only grow older. Everything
here runs in one event loop and between two awaits, so no state needs a lock.
"""

import asyncio
import logging
import time
import uuid
from collections import Counter, deque
from typing import Any

import numpy as np

from prl.config.orchestrator import OrchestratorConfig
from prl.monitors.base import Monitor
from prl.orchestrator import console
from prl.orchestrator.batcher import Batcher
from prl.orchestrator.env_client import SERVER_LOST, EnvRequestError
from prl.orchestrator.episodes import Episode, Outcome, TraceFacts, failed_record, judge, last_error, read_traces
from prl.orchestrator.gates import Gates
from prl.orchestrator.groups import Flight, Group
from prl.orchestrator.requests import RequestBuilder
from prl.orchestrator.sources import SourcePool
from prl.text.terminal import one_line

logger = logging.getLogger(__name__)

MAX_FAILED_BATCHES = 10
"""The run gives up after this many batches' worth of episodes of which not one ended without an error."""


class NoCleanEpisodeError(RuntimeError):
    """Every episode fails, and nothing says that this will change."""


class Dispatcher:
    def __init__(
        self,
        *,
        config: OrchestratorConfig,
        pool: SourcePool,
        gates: Gates,
        monitor: Monitor,
        requests: RequestBuilder,
        batcher: Batcher,
    ) -> None:
        self._config = config
        self._pool = pool
        self._gates = gates
        self._monitor = monitor
        self._requests = requests
        self._batcher = batcher
        self._loop = asyncio.get_running_loop()
        self._failure: asyncio.Future[None] = self._loop.create_future()
        self._run = {"type": "train", "id": config.run_id, "name": config.run_name}
        self._unfilled: deque[Group] = deque()
        self._live: dict[str, Group] = {}
        self._frozen = False
        self._stopped = False
        self._alarm: asyncio.TimerHandle | None = None
        self._errors_in_a_row = 0
        self._last_error: str | None = None
        self._cancelled: Counter[str] = Counter()
        self._errored: Counter[str] = Counter()
        self.inflight: Counter[str] = Counter()
        """Episodes running now, per environment."""

    @property
    def total_inflight(self) -> int:
        return self.inflight.total()

    @property
    def buffered(self) -> int:
        """Ended episodes in groups that are not yet complete."""
        return sum(len(group.episodes) for group in self._live.values())

    async def run(self) -> None:
        """Dispatch until cancelled. Raises what went wrong in handling an episode; leaves nothing in flight."""
        self.pump()
        try:
            await self._failure
        finally:
            self.stop()
            flying = [flight.task for group in self._live.values() for flight in group.flights if flight.task]
            await asyncio.gather(*flying, return_exceptions=True)

    def pump(self) -> None:
        """Dispatch as much as permits and gates allow. Called after anything that may allow more."""
        if self._frozen or self._stopped or not self._gates.dispatch_open or self._batcher.full:
            return
        now = self._loop.time()
        while self.total_inflight < self._config.concurrency.max_inflight:
            group = self._next_group(now)
            if group is None:
                break
            self._start(group)
        if self._alarm is None and (opening := self._pool.next_opening(now)) is not None:
            self._alarm = self._loop.call_at(opening, self._wake)

    def freeze(self) -> None:
        """Dispatch nothing until :meth:`thaw`: a weight update is pending."""
        self._frozen = True

    def thaw(self) -> None:
        self._frozen = False
        self.pump()

    def cancel_stale(self) -> int:
        """Void the groups whose policy is too old for the batch under collection. Returns the episodes cancelled."""
        oldest = self._gates.step - 1 - self._config.max_off_policy_steps
        stale = [group for group in self._live.values() if group.start_version < oldest]
        cancelled = sum(len(group.flights) for group in stale)
        for group in stale:
            group.voided = True
            group.size -= group.undispatched
            group.undispatched = 0
            for flight in list(group.flights):
                if flight.task is not None:
                    flight.task.cancel()
                if not flight.begun:  # a task cancelled before its first step runs none of its code
                    self._close_flight(group, flight)
                    self._add_cancelled(group)
            if group.complete:
                self._hand_over(group)
        self._unfilled = deque(group for group in self._unfilled if group.undispatched)
        if cancelled:
            logger.warning(
                "Cancelled %d train episodes past max_off_policy_steps=%d. Their policy was too old to train on; "
                "a faster trainer, shorter episodes or a higher bound would keep them",
                cancelled,
                self._config.max_off_policy_steps,
            )
        return cancelled

    def stop(self) -> int:
        """Cancel everything in flight and dispatch nothing more. Returns the episodes cancelled."""
        self._stopped = True
        if self._alarm is not None:
            self._alarm.cancel()
        flights = [flight for group in self._live.values() for flight in group.flights]
        for flight in flights:
            if flight.task is not None:
                flight.task.cancel()
        return len(flights)

    def take_metrics(self) -> dict[str, float]:
        """The dispatcher's row of the moment; counts are since the last call."""
        lags = [self._gates.step - 1 - group.start_version for group in self._live.values() for _ in group.flights]
        metrics: dict[str, float] = {
            "dispatcher/inflight/train": self.total_inflight,
            "dispatcher/inflight/eval": 0,
            "dispatcher/queued/eval": 0,
            "dispatcher/mode": 0,
            "dispatcher/off_policy/mean": float(np.mean(np.maximum(lags, 0))) if lags else 0.0,
            "dispatcher/off_policy/max": max(0, *lags) if lags else 0,
            "concurrency/max_inflight": self._config.concurrency.max_inflight,
        }
        for name, counts in (("cancelled", self._cancelled), ("errored", self._errored)):
            metrics[f"dispatcher/{name}/train"] = counts.total()
            metrics[f"dispatcher/{name}/eval"] = 0
            for source in self._pool.sources:
                metrics[f"dispatcher/{name}/{source.name}"] = counts[source.name]
            counts.clear()
        return metrics

    def _wake(self) -> None:
        self._alarm = None
        self.pump()

    def _next_group(self, now: float) -> Group | None:
        for group in self._unfilled:
            if group.source.is_open(now):
                return group
        source = self._pool.choose(now)
        if source is None:
            return None
        index, task = source.draw()
        group = Group(
            id=str(uuid.uuid4()),
            source=source,
            task_index=index,
            task=task,
            start_version=self._gates.version,
            size=source.group_size,
            undispatched=source.group_size,
        )
        self._live[group.id] = group
        self._unfilled.append(group)
        return group

    def _start(self, group: Group) -> None:
        group.undispatched -= 1
        if not group.undispatched:
            self._unfilled.remove(group)
        flight = Flight(uuid.uuid4().hex, self._gates.step, time.time())
        group.flights.append(flight)
        self.inflight[group.source.name] += 1
        flight.task = self._loop.create_task(self._fly(group, flight))
        flight.task.add_done_callback(self._landed)

    def _landed(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None and not self._failure.done():
            self._failure.set_exception(error)

    async def _fly(self, group: Group, flight: Flight) -> None:
        """One episode from its request to its place in the group."""
        flight.begun = True
        dispatch = flight.as_dispatch(group)
        self._monitor.live_pending(dispatch)
        try:
            record, failed = await self._play(group, dispatch)
            episode = self._settle(group, flight, record, failed)
            group.episodes.append(episode)
            self._count_errors(episode)
        except asyncio.CancelledError:
            if self._stopped or not group.voided:
                raise
            self._add_cancelled(group)
        finally:
            self._monitor.live_done(flight.id)
            self._close_flight(group, flight)
        if group.complete:
            self._hand_over(group)
        self.pump()

    async def _play(self, group: Group, dispatch: dict[str, Any]) -> tuple[dict[str, Any], EnvRequestError | None]:
        source = group.source
        try:
            record = await source.client.run(
                group.task,
                self._requests.client,
                self._requests.model,
                self._requests.sampling(group.start_version),
                timeout=source.config.timeout,
                on_delta=lambda delta: self._monitor.live_delta(dispatch, delta),
            )
            return record, None
        except EnvRequestError as error:
            return failed_record(error, source.tasks.type, group.task, source.config.taskset_id), error

    def _settle(self, group: Group, flight: Flight, record: dict[str, Any], failed: EnvRequestError | None) -> Episode:
        """Judge and stamp the record, keep it, and say what went wrong."""
        source = group.source
        facts: list[TraceFacts] = []
        try:
            judge(record)
            facts = read_traces(record, source.name, self._config.train.sampling.temperature)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            failed = EnvRequestError("MalformedRecord", f"{type(error).__name__}: {error}")
            record = failed_record(failed, source.tasks.type, group.task, source.config.taskset_id)
        self._stamp(group, flight, record)
        error_of = last_error(record)
        outcome = Outcome.CLEAN
        if not record["ok"]:
            outcome = Outcome.FAILED if failed is not None and not record["traces"] else Outcome.ERRORED
            self._errored[source.name] += 1
        console.episode_errors(group.id, source.name, record, failed)
        self._monitor.record_episode(record)
        if failed is None or failed.type != SERVER_LOST:  # a lost server is not asked anyway, until it is back
            source.note_outcome(outcome is not Outcome.CLEAN, self._loop.time())
        told = (failed.type, failed.message) if failed else _first_error(record) or error_of
        if told is not None:
            self._last_error = ": ".join(part for part in told if part)
        error_type = told[0] if told else None
        return Episode(source.name, outcome, group.start_version, self._gates.version, error_type, facts)

    def _stamp(self, group: Group, flight: Flight, record: dict[str, Any]) -> None:
        span = {"start": group.start_version, "end": self._gates.version}
        record["env"] = {**(record.get("env") or {}), "name": group.source.name}
        record["group"] = {"id": group.id}
        record["run"] = {**self._run, "work": {"type": "train", "step": flight.step, "policy": span}}
        stamps = {
            "kind": "train",
            "dispatch": {"step": flight.step, "time": flight.started},
            "arrival": {"step": self._gates.step, "time": time.time()},
        }
        for trace in record["traces"]:
            trace["info"] = {**(trace.get("info") or {}), **stamps}

    def _hand_over(self, group: Group) -> None:
        del self._live[group.id]
        self._batcher.add(group)

    def _close_flight(self, group: Group, flight: Flight) -> None:
        self.inflight[group.source.name] -= 1
        group.flights.remove(flight)

    def _add_cancelled(self, group: Group) -> None:
        self._cancelled[group.source.name] += 1
        group.episodes.append(Episode(group.source.name, Outcome.CANCELLED, group.start_version, self._gates.version))

    def _count_errors(self, episode: Episode) -> None:
        """Raises NoCleanEpisodeError when there have been too many in a row."""
        self._errors_in_a_row = 0 if episode.outcome is Outcome.CLEAN else self._errors_in_a_row + 1
        if self._errors_in_a_row >= MAX_FAILED_BATCHES * self._config.batch_size:
            raise NoCleanEpisodeError(
                f"the last {self._errors_in_a_row} episodes all failed, the last one in {episode.source} with "
                f"{one_line(self._last_error or 'no error given', 500)}"
            )


def _first_error(record: dict[str, Any]) -> tuple[str, str] | None:
    return next((error for trace in record["traces"] if (error := last_error(trace))), None)
