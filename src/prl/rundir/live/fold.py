"""Folding the deltas of rollouts in flight into traces.

A delta says what is new about one trace: the same objects travel on the environment server's wire and stand, one a
line, in ``live/<trace_id>.jsonl``. Repairs of routing tensors are left out: a folded trace is for people and for the
episode record, and neither holds tensors.
"""

from collections.abc import Mapping
from typing import Any

APPENDED = ("nodes", "calls", "errors", "extra_usage", "request_rewrites", "response_rewrites")
"""Fields whose items a delta adds to those already there."""


def apply_delta(traces: dict[str, dict[str, Any]], delta: Mapping[str, Any]) -> bool:
    """Fold ``delta`` into ``traces`` (by trace id), in place; ``delta`` itself is left as it was.

    A folded trace is shaped like a trace of an episode record plus ``pending``, the messages sent to the model and not
    yet answered. Returns False when the delta had to be dropped: it names no trace, it is damaged, or it continues a
    trace of which the beginning (``open``) was not seen. A trace that a damaged delta belongs to is forgotten, since
    it would be wrong from there on; whoever can read again does so from the start.
    """
    trace_id = delta.get("trace")
    if not isinstance(trace_id, str):
        return False
    if delta.get("discard"):
        traces.pop(trace_id, None)
        return True
    trace = traces.get(trace_id)
    if trace is None:
        opening = delta.get("open")
        if not isinstance(opening, Mapping):
            return False
        trace = {**opening, **{name: [] for name in APPENDED}, "pending": []}
    try:
        _apply(trace, delta)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        traces.pop(trace_id, None)
        return False
    traces[trace_id] = trace
    return True


def _apply(trace: dict[str, Any], delta: Mapping[str, Any]) -> None:
    for index, links in (delta.get("links") or {}).items():
        position = int(index)
        if position < 0:
            raise IndexError(position)
        trace["nodes"][position]["semantic_parents"].extend(links)
    for name in APPENDED:
        items = delta.get(name)
        if items:
            # later links grow a node's list in place, so the delta's own node must not be shared
            trace[name].extend([_own_node(item) for item in items] if name == "nodes" else items)
    trace.update(delta.get("set") or {})
    if "nodes" in delta:
        trace["pending"] = []
    if "pending" in delta:
        trace["pending"] = list(delta["pending"] or [])


def _own_node(node: Mapping[str, Any]) -> dict[str, Any]:
    return {**node, "semantic_parents": list(node.get("semantic_parents") or [])}
