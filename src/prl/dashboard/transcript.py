"""One trace as a page shows it: messages in parts, tool results with the calls they answer, calls with their messages.

A trace may hold tens of thousands of messages: they come in pages, and long texts are cut and can be asked for whole.
What a model saw and wrote is given as it stands.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from prl.dashboard.bounded import MAX_TEXT, bounded, masked
from prl.rundir.episodes.detail import TraceDetail
from prl.rundir.untyped import as_list, as_object, get, is_number, objects

MAX_NODES = 1000
"""Messages of one page."""
MAX_CHARACTERS = 3_000_000
"""Characters of one page; texts behind them are cut short."""
_SHORT = 200
_MAX_PARTS = 1000
_MAX_PATHS = 20_000
"""Indexes of messages that the branches of one answer may have together."""
_MAX_BRANCHES = 1000


class Transcript:
    """A trace, with what its messages have to do with one another worked out once."""

    def __init__(self, trace: TraceDetail) -> None:
        self.trace = trace
        self.record = trace.trace

    @cached_property
    def calls(self) -> dict[int, dict[str, Any]]:
        """The call that made each message; of several the last that was answered."""
        found: dict[int, dict[str, Any]] = {}
        for call in objects(self.record.get("calls")):
            node = call.get("node")
            if type(node) is not int or not 0 <= node < len(self.trace.nodes):
                continue
            if node not in found or call.get("error") is None:
                found[node] = call
        return found

    @cached_property
    def failed_calls(self) -> list[dict[str, Any]]:
        """Calls that no message came of."""
        return [call for call in objects(self.record.get("calls")) if type(call.get("node")) is not int]

    @cached_property
    def answers(self) -> dict[int, int]:
        """From a tool's message to the one whose call it answers: the nearest above it with a call of that id."""
        found = {}
        parents = self.trace.branches.parents
        asked = {index: ids for index, node in enumerate(self.trace.nodes) if (ids := _call_ids(node))}
        for index, node in enumerate(self.trace.nodes):
            wanted = get(node, "message", "tool_call_id")
            if not isinstance(wanted, str):
                continue
            above = parents[index]
            while above is not None and wanted not in asked.get(above, ()):
                above = parents[above]
            if above is not None:
                found[index] = above
        return found

    @cached_property
    def results(self) -> dict[int, dict[str, list[int]]]:
        """From a message to the answers of each of its calls: several where branches part between."""
        found: dict[int, dict[str, list[int]]] = {}
        for index, asked in self.answers.items():
            wanted = get(self.trace.nodes[index], "message", "tool_call_id")
            found.setdefault(asked, {}).setdefault(wanted, []).append(index)
        return found

    def up_to(self, values: Sequence[int]) -> list[int]:
        """Sums of a value of each message from the root up to and with each message."""
        totals: list[int] = []
        for value, parent in zip(values, self.trace.branches.parents, strict=True):
            totals.append(value + (totals[parent] if parent is not None else 0))
        return totals

    def nodes(self, start: int = 0, limit: int = MAX_NODES) -> list[dict[str, Any]]:
        """A page of messages in the order in which they were written."""
        left = MAX_CHARACTERS
        page = []
        for index in range(max(start, 0), min(start + limit, len(self.trace.nodes))):
            node = self._node(index, MAX_TEXT if left > 0 else _SHORT)
            left -= sum(len(part["text"]) for part in node["parts"])
            page.append(node)
        return page

    def branches(self) -> list[dict[str, Any]]:
        """The branches. ``parts_at``: messages that it shares with an earlier one; ``nodes`` is null where all paths
        together would be too long: a message's ``parent`` leads back to the root."""
        nodes, parents = self.trace.nodes, self.trace.branches.parents
        tokens = self.up_to(self.trace.token_counts)
        lengths = self.up_to([1] * len(nodes))
        turns = self.up_to([int(get(node, "message", "role") == "assistant") for node in nodes])
        found = []
        seen: set[int] = set()
        left = _MAX_PATHS
        for number, leaf in enumerate(self.trace.branches.leaves[:_MAX_BRANCHES]):
            above: int | None = leaf
            while above is not None and above not in seen:
                seen.add(above)
                above = parents[above]
            left -= lengths[leaf]
            found.append(
                {
                    "index": number,
                    "leaf": leaf,
                    "nodes": self.trace.branches[number] if left >= 0 else None,
                    "length": lengths[leaf],
                    "tokens": tokens[leaf],
                    "turns": turns[leaf],
                    "parts_at": (lengths[above] if above is not None else 0) if number else None,
                }
            )
        return found

    def text(self, index: int, part: int) -> str | None:
        """The whole text of a part of a message. None when there is no such part."""
        if not 0 <= index < len(self.trace.nodes):
            return None
        found = list(_parts(as_object(self.trace.nodes[index]), {}))
        return found[part]["text"] if 0 <= part < len(found) else None

    def _node(self, index: int, limit: int) -> dict[str, Any]:
        known = as_object(self.trace.nodes[index])
        role = get(known, "message", "role")
        parts = []
        for part in _parts(known, self.results.get(index, {})):
            if len(part["text"]) > limit:
                part |= {"text": part["text"][:limit], "cut": True, "length": len(part["text"])}
            parts.append(part)
        wanted = get(known, "message", "tool_call_id")
        name = get(known, "message", "name")
        return {
            "index": index,
            "parent": self.trace.branches.parents[index],
            "role": role if isinstance(role, str) else None,
            "name": name[:_SHORT] if isinstance(name, str) else None,
            "sampled": known.get("sampled") is True,
            "parts": parts,
            "tool_call_id": wanted[:_SHORT] if isinstance(wanted, str) else None,
            "answers": self.answers.get(index),
            "timestamp": moment(known.get("timestamp")),
            "tokens": self.trace.token_counts[index],
            "tools": bounded(tools) if (tools := as_list(known.get("tools"))) else None,
            "call": call_row(call) if (call := self.calls.get(index)) is not None else None,
        }


def call_row(call: Mapping[str, Any]) -> dict[str, Any]:
    """A model call as the page of its message shows it."""
    usage = as_object(call.get("usage"))
    start, end = moment(get(call, "time", "start")), moment(get(call, "time", "end"))
    salt = get(call, "sampling", "extra_body", "cache_salt")
    error = call.get("error")
    return {
        "model": bounded(call.get("model")),
        "input": _count(usage.get("prompt_tokens")),
        "output": _count(usage.get("completion_tokens")),
        "cached": _count(usage.get("cached_input_tokens")),
        "reasoning": _count(usage.get("reasoning_tokens")),
        "cost": cost if is_number(cost := usage.get("cost")) and math.isfinite(cost) else None,
        "finish_reason": bounded(call.get("finish_reason")),
        "start": start,
        "end": end,
        "seconds": end - start if start is not None and end is not None else None,
        "policy": int(salt) if isinstance(salt, str) and salt.isascii() and salt.isdigit() and len(salt) < 12 else None,
        "sampling": bounded(call.get("sampling"), 4000),
        "error": bounded(error, 4000) if error is not None else None,
    }


def error_rows(part: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The errors of an episode or a trace, secrets masked."""
    return [
        {
            "type": _text(error.get("type"), _SHORT),
            "message": _text(error.get("message")),
            "status_code": _count(error.get("status_code")),
            "traceback": _text(error.get("traceback")),
        }
        for error in objects(part.get("errors"))[:100]
    ]


def message_parts(message: Any) -> list[dict[str, Any]]:
    """The parts of a message by itself, as of one that is not answered yet."""
    return [part | {"text": part["text"][:MAX_TEXT]} for part in _parts({"message": message}, {})]


def _parts(node: Mapping[str, Any], results: Mapping[str, list[int]]) -> Iterator[dict[str, Any]]:
    """Reasoning, content and tool calls of a message, each with a text."""
    message = node.get("message")
    reasoning, content = get(message, "reasoning_content"), get(message, "content")
    if isinstance(reasoning, str) and reasoning:
        yield {"type": "reasoning", "text": reasoning}
    if isinstance(content, str) and content:
        yield {"type": "text", "text": content}
    for part in objects(content)[:_MAX_PARTS] if isinstance(content, list) else []:
        yield _content_part(part)
    for call in objects(get(message, "tool_calls"))[:_MAX_PARTS]:
        arguments, name, identity = call.get("arguments"), call.get("name"), call.get("id")
        function = as_object(call.get("function"))  # as the engine's API nests them
        name, arguments = (
            name or function.get("name"),
            arguments if arguments is not None else function.get("arguments"),
        )
        yield {
            "type": "tool_call",
            "id": identity if isinstance(identity, str) else None,
            "name": name if isinstance(name, str) else None,
            "text": arguments if isinstance(arguments, str) else "" if arguments is None else str(bounded(arguments)),
            "results": results.get(identity, []) if isinstance(identity, str) else [],
        }


def _content_part(part: Mapping[str, Any]) -> dict[str, Any]:
    text, kind = part.get("text"), part.get("type")
    if isinstance(text, str):
        return {"type": "text", "text": text}
    source = get(part, "image_url", "url")
    if isinstance(source, str):
        # The picture itself stays in the record: a page of them would be megabytes.
        inline = source.startswith("data:")
        form = source[5:].partition(";")[0][:_SHORT] if inline else None
        return {"type": "image", "text": "" if inline else source, "media_type": form, "length": len(source)}
    return {"type": str(kind)[:_SHORT] if kind is not None else "unknown", "text": ""}


def _call_ids(node: Any) -> set[str]:
    calls = objects(get(node, "message", "tool_calls"))
    return {name for call in calls if isinstance(name := call.get("id"), str)}


def _text(value: Any, limit: int = MAX_TEXT) -> str | None:
    return masked(value, limit) if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    return value if type(value) is int and abs(value) < 2**53 else None


def moment(value: Any) -> float | None:
    """A moment, Unix seconds; the records have 0.0 where there was none."""
    return float(value) if is_number(value) and math.isfinite(value) and value > 0 else None
