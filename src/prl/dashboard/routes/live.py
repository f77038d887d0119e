"""Rollouts in flight."""

from typing import Any

from prl.dashboard.bounded import bounded
from prl.dashboard.errors import not_found
from prl.dashboard.routing import Call, Route, head

BASE = "/api/v1/runs/{run}/live"
MAX_ROWS = 2000
_DISPATCH = ("id", "kind", "env", "group", "task", "policy_version", "step", "started")


def version(call: Call) -> str:
    return call.run.rollouts.live_version()


def live(call: Call) -> dict[str, Any]:
    from prl.rundir.live.rows import STAGES

    rows, left_out = call.run.rollouts.live()
    counts = dict.fromkeys(STAGES, 0)
    for row in rows:
        counts[row.stage] += 1
    return head(
        stages=counts,
        total=len(rows),
        left_out=left_out,
        rows=[_row(row) for row in rows[:MAX_ROWS]],
        truncated=len(rows) > MAX_ROWS,
    )


def one(call: Call) -> dict[str, Any]:
    from prl.dashboard.episode_view import trace_answer
    from prl.dashboard.transcript import Transcript, message_parts
    from prl.rundir.episodes.detail import TraceDetail, stable_bound
    from prl.rundir.live.reader import read_trace
    from prl.rundir.untyped import as_list

    found = read_trace(call.run.rollouts.traces, call.path["trace"])
    if found is None:
        raise not_found("no such rollout is in flight: it may have ended, see the list of episodes")
    trace = TraceDetail(found.trace, stable_bound(call.run.path).eps)
    pending = [
        {"role": message.get("role"), "parts": message_parts(message)}
        for message in as_list(found.trace.get("pending"))[:100]
        if isinstance(message, dict)
    ]
    return head(
        dispatch=bounded(found.dispatch),
        task=bounded(found.trace.get("task")),
        pending=pending,
        trace=trace_answer(Transcript(trace)),
    )


def _row(row: Any) -> dict[str, Any]:
    dispatch = {name: bounded(row.dispatch.get(name), 2000) for name in _DISPATCH}
    started = dispatch["started"] if isinstance(dispatch["started"], int | float) else None
    return {
        **{name: value for name, value in vars(row).items() if name != "dispatch"},
        **{name: dispatch[name] for name in ("kind", "env", "group", "task", "policy_version", "step")},
        "started": started,
        "dispatch": dispatch["id"],
    }


ROUTES = (
    Route(
        BASE,
        live,
        "Rollouts in flight: those without a trace first, then by start",
        "`stages`: how many are in each; `rows`: a rollout each; `elapsed`: seconds at `as_of`",
        (),
        version,
    ),
    Route(
        BASE + "/{trace:path}",
        one,
        "One rollout in flight, as far as it has come",
        "`trace`: as in an episode; `pending`: messages that are not answered yet",
        (),
        version,
    ),
)
