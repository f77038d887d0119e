"""Where the time of a trace went, as lanes of spans: its stages, and by branch the calls of the model and the tools.

A tool worked from the end of the call that asked for it to the moment its answer was written down. Left out: what a
trace does not tell, such as the time of a tool whose answer carries no moment.
"""

from typing import Any

from prl.dashboard.transcript import Transcript, call_row, moment
from prl.rundir.episodes.record import STAGES
from prl.rundir.untyped import get

MAX_SPANS = 2000
"""Spans of one trace."""
MAX_LANES = 32


def lanes(transcript: Transcript) -> list[dict[str, Any]]:
    """The lanes of a trace: ``{label, kind, branch, spans: [{kind, start, end, node, label}]}``, times Unix seconds.

    A message that branches share has its span in the lane of the first of them.
    """
    stages = [span for stage in STAGES if (span := _stage(transcript, stage)) is not None]
    found: list[dict[str, Any]] = [{"label": "Stages", "kind": "stages", "branch": None, "spans": stages}]
    seen: set[int] = set()
    left = MAX_SPANS
    for branch, leaf in enumerate(transcript.trace.branches.leaves[:MAX_LANES]):
        path = []
        above: int | None = leaf
        while above is not None and above not in seen:
            seen.add(above)
            path.append(above)
            above = transcript.trace.branches.parents[above]
        spans = [span for index in reversed(path) if (span := _of_message(transcript, index)) is not None][:left]
        left -= len(spans)
        if spans:
            found.append({"label": f"Branch {branch + 1}", "kind": "branch", "branch": branch, "spans": spans})
    failed = [_span("failed", row["start"], row["end"], None, "failed call") for row in _failed(transcript)]
    if failed:
        found.append({"label": "Without an answer", "kind": "failed", "branch": None, "spans": failed[:MAX_SPANS]})
    return found


def _stage(transcript: Transcript, stage: str) -> dict[str, Any] | None:
    timing = transcript.record.get("timing")
    start, end = moment(get(timing, stage, "start")), moment(get(timing, stage, "end"))
    return _span(stage, start, end, None, stage) if start is not None else None


def _of_message(transcript: Transcript, index: int) -> dict[str, Any] | None:
    """The call that made a message, or the tool or environment that answered one."""
    call = transcript.calls.get(index)
    if call is not None:
        row = call_row(call)
        return _span("model", row["start"], row["end"], index, row["finish_reason"]) if row["start"] else None
    node = transcript.trace.nodes[index]
    parent = transcript.answers.get(index, transcript.trace.branches.parents[index])
    if parent is None or parent not in transcript.calls:
        return None
    start = moment(get(transcript.calls[parent], "time", "end"))
    end = moment(get(node, "timestamp"))
    if start is None or end is None or end < start:
        return None
    if index in transcript.answers:
        return _span("tool", start, end, index, _tool(transcript, index, parent))
    return _span("environment", start, end, index, get(node, "message", "role"))


def _tool(transcript: Transcript, index: int, asked: int) -> str | None:
    """The name of the tool that a message is the answer of."""
    wanted = get(transcript.trace.nodes[index], "message", "tool_call_id")
    calls = get(transcript.trace.nodes[asked], "message", "tool_calls")
    names = (get(call, "name") or get(call, "function", "name") for call in calls if get(call, "id") == wanted)
    return next((name for name in names if isinstance(name, str)), None)


def _failed(transcript: Transcript) -> list[dict[str, Any]]:
    rows = [call_row(call) for call in transcript.failed_calls]
    return [row for row in rows if row["start"] is not None]


def _span(kind: str, start: float | None, end: float | None, node: int | None, label: Any) -> dict[str, Any]:
    return {"kind": kind, "start": start, "end": end, "node": node, "label": label if isinstance(label, str) else None}
