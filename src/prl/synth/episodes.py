"""Episodes of a sample run: drawn a cohort (a step, or an evaluation's epoch) at a time, written as they would arrive.

The rows of index and values are made by :mod:`prl.rundir.episodes.record` from an outline of the record, without its
texts and tokens, which they do not look at. Of an episode that was lost nothing but its failure is recorded.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from prl.rundir import jsonl
from prl.rundir.episodes.record import index_row, values_row
from prl.rundir.episodes.writer import INDEX, STREAM, VALUES
from prl.synth import parts
from prl.synth.course import Course
from prl.synth.shape import Environment, RunShape
from prl.synth.signals import TokenSignals
from prl.synth.streams import ChunkStream, open_rows
from prl.synth.template import Template
from prl.synth.text import language
from prl.synth.traces import ERROR, LOST, OK, TIMEOUT, TRUNCATED, TraceDraft, TraceWriter, WrittenTrace, json_bytes

_OUTCOME_SHARES = {LOST: 0.1, TIMEOUT: 0.3, ERROR: 0.6}
"""How the error rate divides."""
_TRUNCATED_SHARE = 0.04
_EVAL_PART = 256
"""Episodes of an evaluation that are drawn together."""
_LOST = {"type": "EnvWorkerDied", "message": "the worker was killed by signal 9"}


@dataclass(slots=True)
class Episode:
    """One episode as drawn, and what became of it."""

    environment: int
    """Its number among the run's."""
    kind: str
    id: str
    group: str
    task: int
    step: int
    policy: tuple[int, int]
    dispatch: float
    arrival: float
    outcome: str
    drafts: list[TraceDraft]
    traces: list[WrittenTrace] = field(default_factory=list)
    index: dict[str, Any] = field(default_factory=dict)
    """Its row of the index, once written."""
    values: dict[str, Any] = field(default_factory=dict)
    """Its row of values."""

    @property
    def trains(self) -> bool:
        """Whether its traces may be shipped."""
        return self.outcome in (OK, TRUNCATED)


@dataclass(frozen=True)
class Cohort:
    """What is drawn together: the episodes of one environment and kind that arrive between two moments."""

    environment: int
    kind: str
    step: int
    policy: tuple[int, int]
    begin: float
    end: float
    count: int
    group_size: int
    first_task: int
    key: tuple[int, ...]
    """Seeds the draws together with the run's seed."""


class EpisodeDrafts:
    """Draws episodes. The same cohort always gives the same ones."""

    def __init__(self, shape: RunShape, course: Course) -> None:
        self.shape = shape
        self.course = course

    def draw(self, cohort: Cohort) -> list[Episode]:
        """The episodes of a cohort by time of arrival."""
        environment = self.shape.environments[cohort.environment]
        rng = np.random.default_rng([self.shape.seed, 3, *cohort.key])
        count, agents = cohort.count, len(environment.agents)
        span = cohort.end - cohort.begin
        arrivals = cohort.begin + span * np.sort(rng.random(count))
        seconds = span * 0.5 * np.exp(rng.normal(0.0, 0.4, count))
        luck, solved = rng.random(count), rng.random((count, agents))
        branched = rng.random((count, agents)) < self.shape.branch_rate
        turns = rng.integers(environment.turns[0], environment.turns[1] + 1, (count, agents)).tolist()
        keys = rng.integers(0, 1 << 31, (count, agents)).tolist()
        forms = rng.integers(5000, 10_001, (count, agents)).tolist()
        hexes = rng.bytes(16 * count * (agents + 1)).hex()
        groups = rng.permutation(count) // cohort.group_size
        group_ids = [_uuid(rng.bytes(16).hex()) for _ in range(-(-count // cohort.group_size))]
        chance = self._chance(environment, cohort.step)
        episodes = []
        for index, (group, arrived, duration) in enumerate(
            zip(groups.tolist(), arrivals.tolist(), seconds.tolist(), strict=True)
        ):
            outcome = self._outcome(float(luck[index]))
            dispatch, arrival = round(arrived - duration, 3), round(arrived, 3)
            at = 32 * index * (agents + 1)
            task = (cohort.first_task + group) % environment.tasks
            width = (arrival - dispatch - 0.02) / agents
            drafts = [
                TraceDraft(
                    id=hexes[at + 32 * (n + 1) : at + 32 * (n + 2)],
                    agent=agent,
                    turns=turns[index][n],
                    branched=bool(branched[index, n]) and outcome in (OK, TRUNCATED),
                    outcome=outcome,
                    failure=keys[index][n] % 3,
                    # Some tasks are harder than others, so groups differ in how many of them succeed.
                    correct=float(solved[index, n] < chance + (0.5 - task * 31 % 100 / 100) * 0.8),
                    format=forms[index][n] / 10_000,
                    metrics=_metrics(environment, keys[index][n]),
                    key=keys[index][n],
                    start=round(dispatch + 0.01 + n * width, 4),
                    end=round(dispatch + 0.01 + (n + 1) * width, 4),
                )
                for n, agent in enumerate(environment.agents)
            ]
            episode_id, group_id = hexes[at : at + 32], group_ids[group]
            episodes.append(
                Episode(cohort.environment, cohort.kind, episode_id, group_id, task, cohort.step, cohort.policy,
                        dispatch, arrival, outcome, [] if outcome == LOST else drafts)
            )  # fmt: skip
        return episodes

    def _chance(self, environment: Environment, step: int) -> float:
        return 0.08 + 0.9 * (1.0 - environment.difficulty) * self.course.skill(step)

    def _outcome(self, luck: float) -> str:
        share = luck / self.shape.error_rate if self.shape.error_rate else 1.0
        for outcome, part in _OUTCOME_SHARES.items():
            if share < part:
                return outcome
            share -= part
        return TRUNCATED if luck > 1.0 - _TRUNCATED_SHARE else OK


class EpisodeStream:
    """Writes episodes with their rows below ``traces``; where that is None, only works out what they come to."""

    def __init__(self, shape: RunShape, signals: TokenSignals, traces: Path | None) -> None:
        self.shape = shape
        self._writers = [TraceWriter(shape, environment, signals) for environment in shape.environments]
        self._episodes = [Template(parts.episode(shape, environment)) for environment in shape.environments]
        self._tasks: dict[tuple[int, int], tuple[dict[str, Any], bytes]] = {}
        self._lines = 0
        self._stream = ChunkStream(traces / STREAM, shape.chunk_bytes) if traces is not None else None
        self._index = open_rows(traces / INDEX) if traces is not None else None
        with_values = traces is not None and shape.writer == "prl"
        self._values = open_rows(traces / VALUES) if traces is not None and with_values else None

    def write(self, episode: Episode) -> None:
        """Write one episode and fill in its traces and rows."""
        task, task_line = self._task(episode)
        policy = {"start": episode.policy[0], "end": episode.policy[1]}
        work = {"type": episode.kind, "step": episode.step, "policy": policy}
        episode.traces = self.write_traces(episode)
        given = sum(node.given for trace in episode.traces for node in trace.nodes)
        sampled = sum(node.sampled for trace in episode.traces for node in trace.nodes)
        outline = {
            "id": episode.id,
            "env": {"name": self.shape.environments[episode.environment].name},
            "task": task,
            "group": {"id": episode.group},
            "run": {"work": work},
            "ok": episode.outcome not in (ERROR, LOST),
            "errors": [_LOST] if episode.outcome == LOST else [],
            "traces": [trace.outline for trace in episode.traces],
            "num_input_tokens": given,
            "num_output_tokens": sampled,
        }
        record = self._episodes[episode.environment].fill(
            episode.id.encode(),
            task_line,
            episode.group.encode(),
            json_bytes(work),
            json_bytes(outline["ok"]),
            json_bytes(outline["errors"]),
            b"[" + b",".join([trace.line for trace in episode.traces]) + b"]",
            b"%d" % given,
            b"%d" % sampled,
            b"%d" % (given + sampled),
        )
        self._store(episode, record, outline)

    def write_traces(self, episode: Episode) -> list[WrittenTrace]:
        """The traces of an episode, which is not stored."""
        info = {
            "kind": episode.kind,
            "dispatch": {"step": episode.step, "time": episode.dispatch},
            "arrival": {"step": episode.step, "time": episode.arrival},
        }
        task, key, writer = self._task(episode)[1], _task_key(episode), self._writers[episode.environment]
        return [writer.write(draft, task, key, info) for draft in episode.drafts]

    def flush(self) -> None:
        """Records reach their file before the rows that point to them."""
        for file in (self._stream, self._index, self._values):
            if file is not None:
                file.flush()

    def close(self) -> None:
        for file in (self._stream, self._index, self._values):
            if file is not None:
                file.close()

    def _store(self, episode: Episode, record: bytes, outline: dict[str, Any]) -> None:
        self._lines += 1
        chunk, offset = self._stream.append(record + b"\n") if self._stream is not None else (0, 0)
        place = {"line": self._lines, "chunk": chunk, "offset": offset}
        episode.index = index_row(outline, **place, arrival=episode.arrival)
        episode.values = values_row(outline, line=self._lines)
        if self._values is not None:
            self._values.write(jsonl.encode(episode.values))
        if self._index is not None:
            self._index.write(jsonl.encode(episode.index))

    def _task(self, episode: Episode) -> tuple[dict[str, Any], bytes]:
        place = episode.environment, episode.task
        if place not in self._tasks:
            words, key = language().words, _task_key(episode)
            question = " ".join(words[key * 7 % 1009 + n] for n in range(5))
            task = parts.task(self.shape.environments[episode.environment], episode.task, question, words[key % 1009])
            self._tasks[place] = task, json_bytes(task)
        return self._tasks[place]


def train_cohorts(shape: RunShape, attempt: int, step: int, begin: float, end: float) -> Iterator[Cohort]:
    """The cohorts of one training step: each environment's share of the rollouts."""
    groups = shape.rollouts // shape.group_size
    environments = len(shape.environments)
    for index in range(environments):
        # Groups go round the environments, so that a step too small for all has others than the next.
        share = (groups + (index - step * groups) % environments) // environments
        if share:
            policy = max(step - 2, 0), max(step - 1, 0)
            key = (attempt, step, index)
            count = share * shape.group_size
            yield Cohort(index, "train", step, policy, begin, end, count, shape.group_size, step * share, key)


def eval_cohorts(shape: RunShape, attempt: int, version: int, begin: float, end: float) -> Iterator[Cohort]:
    """The cohorts of one evaluation, one after the other: the same tasks of every environment each time.

    They are of bounded size, however large the evaluation is.
    """
    group_size = shape.group_size if shape.kind == "eval" else 1
    total = shape.rollouts if shape.kind == "eval" else shape.eval_examples
    part = max(_EVAL_PART // group_size, 1) * group_size
    parts = [(index, first) for first in range(0, total, part) for index in range(len(shape.environments))]
    width = (end - begin) / len(parts)
    for number, (index, first) in enumerate(parts):
        yield Cohort(
            environment=index,
            kind="eval",
            step=version,
            policy=(version, version),
            begin=begin + number * width,
            end=begin + (number + 1) * width,
            count=min(part, total - first),
            group_size=group_size,
            first_task=first // group_size,
            key=(attempt, version, index, 1, first),
        )


def _task_key(episode: Episode) -> int:
    return episode.environment * 1_000_003 + episode.task


def _metrics(environment: Environment, key: int) -> dict[str, float]:
    return {name: key // 7**n % 10_001 / 10_000 for n, name in enumerate(environment.metrics)}


def _uuid(digits: str) -> str:
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
