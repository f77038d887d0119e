"""Rollouts in flight as rows of a list, kept up by reading only what was added to their files.

Of each trace the counts, the stage and the end of the last message are kept, not its messages: a list of thousands of
rollouts stays small. The whole of one is folded by :func:`prl.rundir.live.reader.read_trace` when somebody opens it. A
file that is damaged is read again from its beginning once it has changed; until then its trace is not in the list.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prl.rundir import jsonl
from prl.rundir.episodes.branches import Branches
from prl.rundir.following import Follower
from prl.rundir.live.fold import apply_delta
from prl.rundir.live.reader import live_files, read_pending
from prl.rundir.live.writer import LIVE
from prl.rundir.untyped import as_list, get, is_number, objects

STAGES = ("pending", "boot", "setup", "running", "finalize", "scoring", "done", "error")

LAST_CHARACTERS = 160
"""Characters of the last message that a row shows."""
MAX_BYTES = 64 * 1024 * 1024
"""Bytes that one refresh reads at most, of all files together."""
MAX_TRACES = 10_000
"""Files that are followed. Of more than that the first by name are, and ``left_out`` counts the rest."""

_TIMING = (("scoring", "scoring"), ("finalize", "finalize"), ("agent", "running"), ("setup", "setup"), ("boot", "boot"))
"""Stages by the part of ``timing`` that began, the latest first."""
_POLL = 1024 * 1024
_KEPT_OF_CALLS = ("node", "usage", "error")


@dataclass(frozen=True)
class LiveRow:
    """One rollout in flight."""

    trace: str | None
    """None: pending, there is no trace yet."""
    dispatch: dict[str, Any]
    """``id, kind, env, group, task, policy_version, step, started``, as far as its file says."""
    stage: str
    """One of :data:`STAGES`."""
    agent: str | None = None
    turns: int = 0
    branches: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    stop_condition: str | None = None
    errors: int = 0
    pending: int = 0
    """Messages sent to the model and not answered yet."""
    last: str = ""
    """The end of the newest message, as it was written: not made safe for a terminal."""
    elapsed: float | None = None
    """Seconds since it was dispatched."""


class LiveTraces:
    """The rollouts in flight below one ``traces`` directory."""

    def __init__(self, traces: Path) -> None:
        self.traces = traces
        self.left_out = 0
        """Files beyond :data:`MAX_TRACES` at the last refresh."""
        self.damaged = 0
        """Files whose trace could not be folded at the last refresh."""
        self.at_end = True
        """Whether the last refresh read all there was."""
        self._files: dict[Path, _LiveFile] = {}

    def refresh(self, now: float | None = None, *, max_bytes: int = MAX_BYTES) -> list[LiveRow]:
        """The rollouts as their files are now: those without a trace first, then the traces, each by start.

        ``now``: Unix seconds, for ``elapsed``.
        """
        now = time.time() if now is None else now
        pending = read_pending(self.traces)
        paths = live_files(self.traces / LIVE)
        self.left_out = max(len(paths) - MAX_TRACES, 0)
        self._files = {path: self._files.get(path) or _LiveFile(path) for path in paths[:MAX_TRACES]}
        budget = max_bytes
        for file in self._files.values():
            budget -= file.refresh(max(budget, 0))
        self.at_end = all(file.at_end for file in self._files.values())
        self.damaged = sum(file.damaged for file in self._files.values())
        rows = [row for file in self._files.values() for row in file.rows(now)]
        rows.sort(key=lambda row: -(row.elapsed or 0.0))
        started = {str(row.dispatch.get("id")) for row in rows}
        waiting = [dispatch for dispatch in pending if str(dispatch.get("id")) not in started]
        return [LiveRow(None, dispatch, "pending", elapsed=_elapsed(dispatch, {}, now)) for dispatch in waiting] + rows


class _LiveFile:
    """One file of deltas, folded as it grows, without what a row does not show."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.at_end = False
        self.damaged = False
        self._damaged_state: tuple[int, int] | None = None
        self._lines = Follower(path)
        self._folded: dict[str, dict[str, Any]] = {}
        self._dispatch: dict[str, Any] = {}

    def refresh(self, max_bytes: int) -> int:
        """Fold what was added, at most about ``max_bytes`` of it. The bytes read."""
        if self.damaged:
            if self._state() == self._damaged_state:
                return 0
            self.damaged, self._lines = False, Follower(self.path)
        read = 0
        self.at_end = False
        while read < max_bytes and not self.at_end:
            restarts, state, position = self._lines.restarts, self._state(), self._position()
            block = self._lines.poll(_POLL)
            read += max(self._position() - position, 0)
            if self._lines.restarts != restarts or self._lines.absent:
                self._folded, self._dispatch = {}, {}
            if block is not None and not self._fold(block.data):
                self.damaged, self._damaged_state = True, state
                self._folded, self._dispatch = {}, {}
            self.at_end = self.damaged or self._lines.at_end
        return read

    def _position(self) -> int:
        mark = self._lines.mark
        return (mark.offset if mark else 0) + self._lines.pending_bytes

    def rows(self, now: float) -> list[LiveRow]:
        return [_row(trace_id, trace, self._dispatch, now) for trace_id, trace in self._folded.items()]

    def _fold(self, data: bytes) -> bool:
        damage = jsonl.Damage()
        for line in data.split(b"\n"):
            delta = damage.decode(0, line)
            if damage.lines:
                return False
            if delta is None:
                continue
            if isinstance(delta.get("dispatch"), dict):
                self._dispatch = delta["dispatch"]
            known = len(as_list(get(self._folded, str(delta.get("trace")), "nodes")))
            if not apply_delta(self._folded, _slim(delta)):
                return False
            nodes = as_list(get(self._folded, str(delta.get("trace")), "nodes"))
            for node in nodes[max(known - 1, 0) : -1]:
                if isinstance(get(node, "message"), dict):
                    node["message"]["content"] = ""  # only the newest is shown
        return True

    def _state(self) -> tuple[int, int] | None:
        try:
            stat = self.path.stat()
        except OSError:
            return None
        return stat.st_ino, stat.st_size


def _slim(delta: Mapping[str, Any]) -> dict[str, Any]:
    """A delta without tokens, tools and all else that no row shows. What is damaged in it stays so."""
    slim = {name: value for name, value in delta.items() if name not in ("request_rewrites", "response_rewrites")}
    nodes, calls = delta.get("nodes"), delta.get("calls")
    if isinstance(nodes, list):
        slim["nodes"] = [_slim_node(node) if isinstance(node, Mapping) else node for node in nodes]
    if isinstance(calls, list):
        kept = _KEPT_OF_CALLS
        slim["calls"] = [
            {name: call[name] for name in kept if name in call} if isinstance(call, Mapping) else call for call in calls
        ]
    return slim


def _slim_node(node: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "parent": node.get("parent"),
        "semantic_parents": node.get("semantic_parents"),
        "message": {"role": _role(node), "content": message_text(node.get("message"))[-4 * LAST_CHARACTERS :]},
    }


def _row(trace_id: str, trace: Mapping[str, Any], dispatch: dict[str, Any], now: float) -> LiveRow:
    nodes, pending = as_list(trace.get("nodes")), as_list(trace.get("pending"))
    usages = [usage for call in as_list(trace.get("calls")) if isinstance(usage := get(call, "usage"), Mapping)]
    costs = [cost for usage in usages if is_number(cost := usage.get("cost"))]
    newest = pending[-1] if pending else get(nodes[-1] if nodes else None, "message")
    stop = trace.get("stop_condition")
    agent = get(trace, "agent", "name")
    return LiveRow(
        trace=trace_id,
        dispatch=dispatch,
        stage=_stage(trace),
        agent=agent if isinstance(agent, str) else None,
        turns=sum(1 for node in nodes if _role(node) == "assistant"),
        branches=len(Branches(nodes)),
        input_tokens=_total(usages, "prompt_tokens") + _total(usages, "cached_input_tokens"),
        output_tokens=_total(usages, "completion_tokens"),
        cost=sum(costs) if costs else None,
        stop_condition=stop if isinstance(stop, str) else None,
        errors=len(as_list(trace.get("errors"))),
        pending=len(pending),
        last=message_text(newest)[-LAST_CHARACTERS:],
        elapsed=_elapsed(dispatch, trace, now),
    )


def _stage(trace: Mapping[str, Any]) -> str:
    complete = trace.get("is_completed") is True
    if trace.get("ok") is False and (complete or trace.get("errors")):
        return "error"
    timing = trace.get("timing")
    if complete or _reached(timing, "scoring", "end"):
        return "done"
    for part, stage in _TIMING:
        if _reached(timing, part, "start"):
            return stage
    return "running" if trace.get("nodes") or trace.get("pending") else "boot"


def message_text(message: Any) -> str:
    """The text of a message: its content, the text parts of it, else its reasoning, else the names of tools called."""
    if not isinstance(message, Mapping):
        return ""
    content = message.get("content")
    if isinstance(content, list):
        texts = [part.get("text") for part in objects(content)]
        content = "".join(text for text in texts if isinstance(text, str))
    if isinstance(content, str) and content:
        return content
    reasoning = message.get("reasoning_content")
    if isinstance(reasoning, str) and reasoning:
        return reasoning
    names = [call.get("name") for call in objects(message.get("tool_calls"))]
    return ", ".join(name for name in names if isinstance(name, str))


def _role(node: Any) -> Any:
    return get(node, "message", "role")


def _reached(timing: Any, part: str, edge: str) -> bool:
    value = get(timing, part, edge)
    return is_number(value) and value > 0


def _elapsed(dispatch: Mapping[str, Any], trace: Mapping[str, Any], now: float) -> float | None:
    candidates = (dispatch.get("started"), get(trace, "timing", "start"))
    started = next((value for value in candidates if is_number(value)), None)
    return max(now - started, 0.0) if started is not None else None


def _total(usages: list[Mapping[str, Any]], name: str) -> int:
    return sum(value for usage in usages if type(value := usage.get(name)) is int)
