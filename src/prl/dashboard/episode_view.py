"""One episode as an answer: who, what came of it, its traces with messages, branches, times and the evidence.

Tokens are asked for by themselves (:mod:`prl.dashboard.token_view`), and so are messages behind the first page.
"""

from typing import Any

from prl.dashboard.bounded import bounded
from prl.dashboard.lanes import lanes
from prl.dashboard.rollouts import OpenEpisode
from prl.dashboard.transcript import MAX_NODES, Transcript, call_row, error_rows
from prl.rundir.episodes.record import stage_seconds
from prl.rundir.untyped import as_list, as_object, get, is_number, objects

MAX_TRACES = 64
_USAGE = ("num_input_tokens", "num_output_tokens", "num_total_tokens")
_OWN_INFO = ("judge_calls",)
"""Entries of a trace's ``info`` that the answer has in a place of their own."""


def episode_answer(opened: OpenEpisode) -> dict[str, Any]:
    """What the viewer shows of an episode, but for its row in the list and its neighbours."""
    detail = opened.detail
    record = detail.record
    left = MAX_NODES
    traces = []
    for number, transcript in enumerate(opened.transcripts[:MAX_TRACES]):
        traces.append({"index": number, **trace_answer(transcript, left)})
        left = max(left - len(transcript.trace.nodes), 0)
    return {
        "step": detail.step,
        "updates": detail.updates,
        "bound": {"eps": detail.bound.eps, "source": detail.bound.source},
        "policy": {
            edge: version if type(version := get(record, "run", "work", "policy", edge)) is int else None
            for edge in ("start", "end")
        },
        "task": _task(record),
        "errors": error_rows(record),
        "problems": detail.problems,
        "traces": traces,
        "traces_total": len(opened.transcripts),
        "judge": [
            {"trace": number, "call": bounded(call)}
            for number, transcript in enumerate(opened.transcripts[:MAX_TRACES])
            for call in as_list(get(transcript.record, "info", "judge_calls"))[:100]
        ],
    }


def trace_answer(transcript: Transcript, nodes: int = MAX_NODES) -> dict[str, Any]:
    """One trace with at most so many of its first messages."""
    trace, record = transcript.trace, transcript.record
    info = as_object(record.get("info"))
    return {
        "id": trace.id,
        "agent": trace.agent,
        "trainable": get(record, "agent", "trainable"),
        "reward": trace.reward,
        "rewards": _rewards(record),
        "metrics": bounded(record.get("metrics") or {}),
        "advantage": value if is_number(value := info.get("advantage")) else None,
        "stop_condition": bounded(record.get("stop_condition")),
        "ok": record.get("ok") if isinstance(record.get("ok"), bool) else None,
        "truncated": None if record.get("is_truncated") is None else bool(record.get("is_truncated")),
        "errors": error_rows(record),
        "timing": bounded(record.get("timing") or {}),
        "seconds": stage_seconds(record),
        "info": bounded({name: value for name, value in info.items() if name not in _OWN_INFO}),
        "usage": {
            **{name.removeprefix("num_"): bounded(record.get(name)) for name in _USAGE},
            "extra": bounded(record.get("extra_usage") or []),
        },
        "tools": bounded(as_list(record.get("tools"))),
        "agent_config": bounded(get(record, "agent", "config")),
        "branches": transcript.branches(),
        "branches_total": len(trace.branches),
        "nodes": transcript.nodes(0, min(nodes, MAX_NODES)),
        "nodes_total": len(trace.nodes),
        "failed_calls": [call_row(call) for call in transcript.failed_calls[:100]],
        "unavailable": trace.unavailable(),
        "lanes": lanes(transcript),
    }


def _task(record: dict[str, Any]) -> dict[str, Any]:
    task = record.get("task") or next((trace.get("task") for trace in objects(record.get("traces"))), None)
    known = as_object(task)
    return {"key": bounded(known.get("key")), "type": bounded(known.get("type")), "data": bounded(known.get("data"))}


def _rewards(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Rewards by name; the score of one that scoring did not reach is null."""
    return [
        {
            "name": bounded(str(name)),
            "score": score if is_number(score := get(reward, "score")) else None,
            "weight": weight if is_number(weight := get(reward, "weight")) else 1.0,
        }
        for name, reward in list(as_object(record.get("rewards")).items())[:1000]
    ]
