"""An episode as it comes back: judged, stamped with where it belongs, and reduced to what a batch and a row need.

The judgement (:func:`judge`) is the gate before training. On top of what the environment reports, these are errors
here, each with a type of its own: a trace that ran into a deadline (``Timeout``), took no turn (``EmptyTrajectory``),
has a reward that is not a finite number (``NonFiniteReward``) or that scoring did not reach (``MissingReward``), was
cut off by the engine (``AbortedGeneration``) or whose token arrays do not fit together (``MalformedTrace``); and an
episode that ended well without any trace (``EmptyEpisode``). An episode with one errored trace is errored as a whole.
"""

import enum
import hashlib
import json
import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from prl.orchestrator.env_client import TIMEOUT, EnvRequestError
from prl.orchestrator.samples import MalformedTraceError, Sample, branch_samples
from prl.rundir.episodes.branches import branch_paths
from prl.rundir.episodes.record import is_truncated, stage_seconds

STAGES = ("setup", "agent", "finalize", "scoring")
EMPTY_TRAJECTORY = "EmptyTrajectory"


class Outcome(enum.Enum):
    CLEAN = "clean"
    ERRORED = "errored"
    """The episode, or one of its traces, ended in an error."""
    FAILED = "failed"
    """The request failed before any trace began: there is an error, but no rollout to look at."""
    CANCELLED = "cancelled"
    """Voided here because its policy had become too old."""


@dataclass(slots=True)
class TraceFacts:
    """One trace in numbers. Token counts are the environment's; times are seconds."""

    id: str
    agent: str
    trainable: bool
    reward: float
    """Sum of score times weight; 0 where it is missing or not finite (the trace is errored then)."""
    rewards: dict[str, float]
    metrics: dict[str, float]
    timing: dict[str, float]
    total_tokens: int
    input_tokens: int
    output_tokens: int
    turns: int
    branches: int
    truncated: bool
    completed: bool
    timeout: bool
    stop_condition: str | None
    length_stopped: bool
    """The last generation ended at a token limit."""
    error: str | None
    """Type of the last error."""
    samples: list[Sample]
    advantage: float = 0.0

    @property
    def has_signal(self) -> bool:
        return self.advantage != 0.0 and bool(self.samples)


@dataclass(slots=True)
class Episode:
    """One episode of a group, after it ended."""

    source: str
    outcome: Outcome
    start_version: int
    end_version: int
    error: str | None = None
    """Type of the error of an episode that is errored or failed."""
    traces: list[TraceFacts] = field(default_factory=list)


def failed_record(error: EnvRequestError, task_type: str, task_data: msgspec.Raw, env_id: str) -> dict[str, Any]:
    """The record of an episode whose request failed: its error, and the traces that had begun, marked with it."""
    entry = {"type": error.type, "message": error.message}
    timeout = error.type == TIMEOUT
    traces = []
    for trace in error.traces:
        ended = {"ok": False, "is_timeout": timeout, "errors": [*trace["errors"], entry]}
        traces.append({"rewards": {}, "metrics": {}, "info": {}, **trace, **ended})
    data = msgspec.msgpack.decode(task_data)
    return {
        "id": uuid.uuid4().hex,
        "env": {"id": env_id},
        "task": {"type": task_type, "data": data, "hash": _content_hash(data)},
        "ok": False,
        "is_timeout": timeout,
        "errors": [entry],
        "traces": traces,
    }


def judge(record: dict[str, Any]) -> None:
    """Add the errors that training sees in a record, in place: on traces, and on an episode without any."""
    traces: list[dict[str, Any]] = record["traces"]
    record.setdefault("ok", True)
    if not traces and record["ok"]:
        record["errors"] = [
            *(record.get("errors") or []),
            {"type": "EmptyEpisode", "message": "the episode ended without a trace"},
        ]
        record["ok"] = False
    for trace in traces:
        error = _trace_error(trace, episode_timeout=bool(record.get("is_timeout")))
        if error is not None:
            trace["errors"] = [*(trace.get("errors") or []), {"type": error[0], "message": error[1]}]
            trace["ok"] = False
        if not trace.get("ok", True):
            record["ok"] = False


def last_error(part: Mapping[str, Any]) -> tuple[str, str] | None:
    """Type and message of the last error of an episode's or a trace's record that is not ok."""
    if part.get("ok", True):
        return None
    errors = part.get("errors") or []
    if not errors:
        return "Error", "not ok, without an error"
    return str(errors[-1].get("type") or "Error"), str(errors[-1].get("message") or "")


def read_traces(record: dict[str, Any], env_name: str, temperature: float) -> list[TraceFacts]:
    """The facts of a judged record's traces, with training samples where the whole episode is clean.

    A trace whose token arrays do not fit together becomes an error, and the record with it, in place.
    """
    facts = [_facts(trace) for trace in record["traces"]]
    if not record["ok"]:
        return facts
    for fact, trace in zip(facts, record["traces"], strict=True):
        if not fact.trainable:
            continue
        try:
            fact.samples = branch_samples(trace, env_name, temperature)
        except MalformedTraceError as error:
            fact.error = "MalformedTrace"
            trace["errors"] = [*(trace.get("errors") or []), {"type": fact.error, "message": str(error)}]
            trace["ok"] = record["ok"] = False
    if not record["ok"]:
        for fact in facts:
            fact.samples = []
    return facts


def _trace_error(trace: Mapping[str, Any], *, episode_timeout: bool) -> tuple[str, str] | None:
    """What training sees wrong in a trace that its environment let pass."""
    if not trace.get("ok", True):
        return None
    if trace.get("is_timeout") or episode_timeout:
        return TIMEOUT, f"stopped by a deadline ({trace.get('stop_condition') or 'of the episode'})"
    if not any(node.get("sampled") for node in trace["nodes"]):
        return EMPTY_TRAJECTORY, "the policy took no turn"
    for index, call in enumerate(trace.get("calls") or []):
        if call.get("error") is None and call.get("node") is not None and not call.get("finish_reason"):
            return "AbortedGeneration", f"call {index} ended without a finish reason"
    for name, reward in (trace.get("rewards") or {}).items():
        if reward is None:
            return "MissingReward", f"scoring did not reach {name}"
        if not math.isfinite(reward["score"] * reward.get("weight", 1.0)):
            return "NonFiniteReward", f"{name} = {reward['score']}"
    return None


def _facts(trace: Mapping[str, Any]) -> TraceFacts:
    nodes = trace["nodes"]
    agent = trace.get("agent") or {}
    rewards = {name: _reward_value(reward) for name, reward in (trace.get("rewards") or {}).items()}
    seconds = stage_seconds(trace)
    timing = {stage: seconds.get(stage, 0.0) for stage in STAGES}
    timing["total"] = sum(timing.values())
    for part in ("agent/model", "agent/harness"):
        timing[part] = seconds.get(part, 0.0)
    answered = [call for call in trace.get("calls") or [] if call.get("error") is None]
    error = last_error(trace)
    return TraceFacts(
        id=str(trace["id"]),
        agent=str(agent.get("name") or "agent"),
        trainable=bool(agent.get("trainable", True)),
        reward=sum(rewards.values()),
        rewards=rewards,
        metrics={
            name: float(value) for name, value in (trace.get("metrics") or {}).items() if isinstance(value, int | float)
        },
        timing=timing,
        total_tokens=trace.get("num_total_tokens") or 0,
        input_tokens=trace.get("num_input_tokens") or 0,
        output_tokens=trace.get("num_output_tokens") or 0,
        turns=sum(bool(node.get("sampled")) for node in nodes),
        branches=len(branch_paths(nodes)),
        truncated=is_truncated(trace),
        completed=bool(trace.get("is_completed")),
        timeout=bool(trace.get("is_timeout")),
        stop_condition=trace.get("stop_condition"),
        length_stopped=bool(answered) and answered[-1].get("finish_reason") == "length",
        error=error[0] if error else None,
        samples=[],
    )


def _reward_value(reward: Mapping[str, Any] | None) -> float:
    """Score times weight; 0 for a reward that scoring did not reach or that is not finite."""
    if reward is None:
        return 0.0
    value = float(reward["score"]) * float(reward.get("weight", 1.0))
    return value if math.isfinite(value) else 0.0


def _content_hash(data: Any) -> str:
    """The identity that the environment library gives a task: of its data, without the fields that are not set."""

    def without_none(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: without_none(entry) for key, entry in value.items() if entry is not None}
        return value

    return hashlib.sha256(json.dumps(without_none(data), sort_keys=True, default=str).encode()).hexdigest()
