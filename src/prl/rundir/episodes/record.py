"""What is kept of an episode: its record in the stream, its row in the index, its row of values.

A record is the environment library's own episode with provenance stamped on it. Left out of it: tensors that only the
trainer needs (``routed_experts``, ``sampling_mask``), image tensors (``multi_modal_data``) and fields without a value.
The record alone suffices to build both rows, so an index that is lost can be made again.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prl.rundir.episodes.branches import Branches
from prl.rundir.untyped import get, is_number, objects

TOKEN_FLOATS = ("logprobs", "advantages", "reference_logprobs", "trainer_logprobs", "entropies")
"""Per-token floats of a node, which ``float_decimals`` rounds. Rewards, metrics and times keep all digits."""

_FAST_DECIMALS, _FAST_LENGTH, _FAST_MAGNITUDE = 8, 64, 1e6
"""Where scaling in double precision rounds as well as decimal arithmetic, and is worth its overhead."""

_TENSORS = frozenset({"routed_experts", "sampling_mask", "multi_modal_data"})
_WORKING_STATE = frozenset({"state", "pending", "renderer_token_ids"})
"""Fields of a trace or node while it grows, which are no part of a finished one."""
_FREE_FORM = frozenset({"info", "sampling", "parameters", "provider_state"})
"""Objects whose keys belong to somebody else: there a null is a value, not an absent field."""
_TRUNCATING_STOPS = frozenset(
    {"max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens", "compaction_failed"}
)
_TASK_LIMITS = ("timeout", "resources")
STAGES = ("boot", "setup", "agent", "finalize", "scoring")


def stored_record(record: dict[str, Any], float_decimals: int | None) -> dict[str, Any]:
    """The form of an episode that is written to the stream. ``record`` is left as it was.

    Fields that are None are dropped, except the values of ``rewards``, ``metrics``, ``info`` and of sampling settings,
    where null says something. ``float_decimals`` rounds per-token floats (None keeps all digits). JSON has no NaN and
    no infinity: a reward with such a score becomes null, like one that scoring did not reach, a metric or a token's
    value becomes null, and ``info.nonfinite`` of the trace names where.
    """
    stored = {
        key: _without_none(value, key)
        for key, value in record.items()
        if value is not None and key not in ("traces", "task")
    }
    if record.get("task") is not None:
        stored["task"] = _stored_task(record["task"])
    stored["traces"] = [_stored_trace(trace, float_decimals) for trace in objects(record.get("traces"))]
    return stored


def stored_node(node: Mapping[str, Any], float_decimals: int | None) -> tuple[dict[str, Any], list[str]]:
    """The stored form of one message node, and the names of its token streams that held non-finite values."""
    stored: dict[str, Any] = {}
    nonfinite = []
    for key, value in node.items():
        if value is None or key in _TENSORS or key in _WORKING_STATE or (key == "tools" and not value):
            continue
        if key in TOKEN_FLOATS and isinstance(value, Sequence):
            stored[key], finite = finite_floats(value, float_decimals)
            if not finite:
                nonfinite.append(key)
        elif key in ("message", "semantic_parents", "tools"):
            stored[key] = _without_none(value, key)
        else:
            stored[key] = value
    return stored, nonfinite


def finite_floats(values: Sequence[Any], decimals: int | None) -> tuple[list[Any], bool]:
    """``values`` rounded to ``decimals`` with every non-finite float replaced by None, and whether all were finite.

    Nulls stay null and count as finite.
    """
    if decimals is not None and decimals <= _FAST_DECIMALS and len(values) >= _FAST_LENGTH:
        fast = _rounded_array(values, decimals)
        if fast is not None:
            return fast, True
    kept: list[Any] = []
    finite = True
    for value in values:
        if not isinstance(value, float):
            kept.append(value)
        elif math.isfinite(value):
            kept.append(value if decimals is None else round(value, decimals))
        else:
            kept.append(None)
            finite = False
    return kept, finite


def _rounded_array(values: Sequence[Any], decimals: int) -> list[Any] | None:
    """All values rounded at once, five times as fast. None when one is null, not finite or too large for that."""
    import numpy as np

    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
    if array.ndim != 1 or not bool((np.abs(array) < _FAST_MAGNITUDE).all()):
        return None
    scale = 10.0**decimals
    rounded: list[Any] = (np.rint(array * scale) / scale).tolist()
    return rounded


def trace_reward(trace: Mapping[str, Any]) -> float | None:
    """The reward of a trace: the sum of score times weight.

    None when it has no reward, when scoring did not reach one of them (null), or when the sum is not finite.
    """
    rewards = trace.get("rewards")
    if not isinstance(rewards, Mapping) or not rewards:
        return None
    total = 0.0
    for reward in rewards.values():
        if not isinstance(reward, Mapping):
            return None
        score, weight = reward.get("score"), reward.get("weight", 1.0)
        if not is_number(score) or not is_number(weight):
            return None
        total += score * weight
    return total if math.isfinite(total) else None


def is_truncated(trace: Mapping[str, Any]) -> bool:
    """Whether a limit of turns or tokens ended the trace, or the last answer was cut for its length."""
    if trace.get("stop_condition") in _TRUNCATING_STOPS:
        return True
    answered = [call for call in objects(trace.get("calls")) if call.get("error") is None]
    return bool(answered) and answered[-1].get("finish_reason") == "length"


def index_row(
    record: Mapping[str, Any], *, line: int, chunk: int, offset: int, arrival: float | None = None
) -> dict[str, Any]:
    """The row of ``stream.index.jsonl``: what a list of episodes shows, and where the record lies.

    ``line``: 1-based number of the record in the whole stream. ``offset``: of its first byte in the uncompressed
    chunk. ``reward``: mean over the traces that have one. ``dispatch`` and ``arrival`` are Unix seconds, ``duration``
    seconds; ``arrival`` (the argument) serves a record without a trace, which has nowhere to be stamped.
    """
    traces = objects(record.get("traces"))
    infos = [info for trace in traces if isinstance(info := trace.get("info"), Mapping)]
    dispatched = min(_numbers(_time_of(info, "dispatch") for info in infos), default=None)
    arrived = max(_numbers(_time_of(info, "arrival") for info in infos), default=arrival)
    nodes = [objects(trace.get("nodes")) for trace in traces]
    usages = [call.get("usage") for trace in traces for call in objects(trace.get("calls"))]
    usages += [usage for trace in traces for usage in objects(trace.get("extra_usage"))]
    costs = _numbers(usage.get("cost") for usage in usages if isinstance(usage, Mapping))
    return {
        "cost": sum(costs) if costs else None,
        "line": line,
        "offset": offset,
        "chunk": chunk,
        "id": record.get("id"),
        "kind": episode_kind(record),
        "trace_ids": [trace.get("id") for trace in traces],
        "env": environment_name(record),
        "group": get(record, "group", "id"),
        "ok": ok if isinstance(ok := record.get("ok"), bool) else None,
        "num_errors": sum(len(objects(part.get("errors"))) for part in (record, *traces)),
        "reward": _mean(_numbers(trace_reward(trace) for trace in traces)),
        "advantage": _mean(_numbers(info.get("advantage") for info in infos)),
        "input_tokens": _tokens(record, traces, "num_input_tokens"),
        "output_tokens": _tokens(record, traces, "num_output_tokens"),
        "turns": sum(get(node, "message", "role") == "assistant" for trace in nodes for node in trace),
        "branches": sum(len(Branches(trace)) for trace in nodes),
        "stop_condition": next((stop for trace in traces if (stop := trace.get("stop_condition"))), None),
        "truncated": any(is_truncated(trace) for trace in traces),
        "timeout": any(bool(part.get("is_timeout")) for part in (record, *traces)),
        "dispatch": dispatched,
        "arrival": arrived,
        "duration": arrived - dispatched if arrived is not None and dispatched is not None else None,
    }


def values_row(record: Mapping[str, Any], *, line: int) -> dict[str, Any]:
    """The row of ``stream.values.jsonl``: what the episode was of, and per trace rewards by name, metrics, and seconds
    spent in each stage.

    ``dispatch_step`` and ``arrival_step``: the trainer's step when the episode was sent out and when it came back;
    ``policy`` the first and last policy version that had a part in it. ``timing`` holds the stages that ran (``boot,
    setup, agent, finalize, scoring``), ``agent/model`` and ``agent/harness`` (how the agent's time divides), and
    ``total`` from the start to the last end.
    """
    task = record.get("task") or next((trace.get("task") for trace in objects(record.get("traces"))), None)
    infos = [trace.get("info") for trace in objects(record.get("traces"))]
    dispatched = _integers(get(info, "dispatch", "step") for info in infos)
    return {
        "line": line,
        "id": record.get("id"),
        "task": {name: get(task, name) for name in ("type", "key", "hash")},
        "dispatch_step": min(dispatched or _integers([get(record, "run", "work", "step")]), default=None),
        "arrival_step": max(_integers(get(info, "arrival", "step") for info in infos), default=None),
        "policy": {end: get(record, "run", "work", "policy", end) for end in ("start", "end")},
        "traces": [
            {
                "id": trace.get("id"),
                "agent": get(trace, "agent", "name"),
                "reward": trace_reward(trace),
                "rewards": trace.get("rewards") or {},
                "metrics": trace.get("metrics") or {},
                "timing": stage_seconds(trace),
            }
            for trace in objects(record.get("traces"))
        ],
    }


def stage_seconds(trace: Mapping[str, Any]) -> dict[str, float]:
    """Seconds that a trace spent in each stage that ended (see :func:`values_row`)."""
    timing = trace.get("timing")
    if not isinstance(timing, Mapping):
        return {}
    seconds: dict[str, float] = {}
    ends = []
    for stage in STAGES:
        start, end = get(timing, stage, "start"), get(timing, stage, "end")
        if is_number(start) and is_number(end) and start > 0 and end > 0:
            seconds[stage] = max(end - start, 0.0)
            ends.append(end)
    for part in ("model", "harness"):
        duration = get(timing, "agent", part, "duration")
        if "agent" in seconds and is_number(duration):
            seconds[f"agent/{part}"] = duration
    start = timing.get("start")
    if ends and is_number(start):
        seconds["total"] = max(max(ends) - start, 0.0)
    return seconds


def episode_kind(record: Mapping[str, Any]) -> str | None:
    """``train`` or ``eval``: as stamped on a trace, else the kind of work, else of run."""
    stamped = [get(trace, "info", "kind") for trace in objects(record.get("traces"))]
    candidates = [*stamped, get(record, "run", "work", "type"), get(record, "run", "type")]
    return next((kind for kind in candidates if isinstance(kind, str)), None)


def environment_name(record: Mapping[str, Any]) -> str | None:
    """The run's name for the environment, else the environment's id."""
    name = get(record, "env", "name") or get(record, "env", "id")
    return name if isinstance(name, str) else None


def _stored_trace(trace: Mapping[str, Any], float_decimals: int | None) -> dict[str, Any]:
    stored: dict[str, Any] = {}
    nonfinite: list[str] = []
    for key, value in trace.items():
        if value is None or key in _TENSORS or key in _WORKING_STATE:
            continue
        if key == "nodes":
            stored[key] = []
            for index, node in enumerate(objects(value)):
                kept, names = stored_node(node, float_decimals)
                stored[key].append(kept)
                nonfinite += [f"nodes/{index}/{name}" for name in names]
        elif key == "task":
            stored[key] = _stored_task(value)
        elif key in ("rewards", "metrics") and isinstance(value, Mapping):
            stored[key] = {name: entry if _is_finite(entry) else None for name, entry in value.items()}
            nonfinite += [f"{key}/{name}" for name, entry in value.items() if not _is_finite(entry)]
        elif key == "mm_token_type_id_map" and isinstance(value, Mapping):
            stored[key] = {str(token): kind for token, kind in value.items()}
        else:
            stored[key] = _without_none(value, key)
    if nonfinite:
        info = stored.get("info")
        stored["info"] = {**(info if isinstance(info, Mapping) else {}), "nonfinite": nonfinite}
    return stored


def _stored_task(task: Any) -> Any:
    if not isinstance(task, Mapping):
        return task
    stored = {key: value for key, value in task.items() if value is not None}
    if isinstance(stored.get("data"), Mapping):
        # deeper than the task's own fields lies the environment's data, in which a null is a value
        stored["data"] = {
            key: _without_none(value, key) if key in _TASK_LIMITS else value
            for key, value in stored["data"].items()
            if value is not None
        }
    return stored


def _without_none(value: Any, key: str) -> Any:
    if key in _FREE_FORM:
        return value
    if isinstance(value, Mapping):
        return {
            name: _without_none(entry, name)
            for name, entry in value.items()
            if entry is not None and name not in _TENSORS
        }
    if isinstance(value, list):
        return [_without_none(entry, key) if isinstance(entry, dict | list) else entry for entry in value]
    return value


def _is_finite(entry: Any) -> bool:
    """False for a non-finite number or a reward that holds one."""
    values: Iterable[Any] = entry.values() if isinstance(entry, Mapping) else (entry,)
    return all(not isinstance(value, float) or math.isfinite(value) for value in values)


def _time_of(info: Mapping[str, Any], event: str) -> Any:
    return get(info, event, "time")


def _tokens(record: Mapping[str, Any], traces: Sequence[Mapping[str, Any]], name: str) -> int:
    total = record.get(name)
    if isinstance(total, int):
        return total
    return sum(count for trace in traces if isinstance(count := trace.get(name), int))


def _numbers(values: Iterable[Any]) -> list[float]:
    return [value for value in values if is_number(value) and math.isfinite(value)]


def _integers(values: Iterable[Any]) -> list[int]:
    return [value for value in values if type(value) is int]


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
