"""The texts of an episode, as a reader of it means them: what can be searched, and where in the record it stands.

Keys, numbers and token ids are no texts. The task, which a record holds once for itself and again in each trace, is
given once.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from prl.rundir.untyped import as_list, get, objects

Field = Literal["content", "reasoning", "tool_calls", "errors", "task", "info", "tools", "ids"]

FIELDS: tuple[Field, ...] = ("content", "reasoning", "tool_calls", "errors", "task", "info", "tools", "ids")
"""``content``, ``reasoning`` and ``tool_calls`` of messages; ``errors`` of the episode, its traces and calls; the
``task``'s data; the ``info`` of traces; definitions of ``tools``; the ``ids`` of episode, group, task and traces."""

SEARCHED: tuple[Field, ...] = FIELDS[:6]
"""Fields searched unless others are asked for: those whose text differs from episode to episode."""

_MAX_DEPTH = 64


class Text(NamedTuple):
    """One text of a record."""

    field: Field
    text: str
    trace_id: str | None = None
    node: int | None = None
    """Index of the message's node in its trace."""
    role: str | None = None


def texts(record: Mapping[str, Any], fields: Collection[Field] = SEARCHED) -> Iterator[Text]:
    """The texts of a record, in the order in which it is read. What is not shaped as a record should be has none."""
    return (text for text in _all(record) if text.field in fields)


def _all(record: Mapping[str, Any]) -> Iterator[Text]:
    task = get(record, "task", "data")
    for name in (record.get("id"), get(record, "group", "id"), get(record, "task", "key")):
        yield from _strings(Text("ids", ""), name)
    yield from _strings(Text("task", ""), task)
    yield from _strings(Text("errors", ""), record.get("errors"))
    for trace in objects(record.get("traces")):
        yield from _of_trace(trace, task)


def _of_trace(trace: Mapping[str, Any], task: Any) -> Iterator[Text]:
    trace_id = trace.get("id") if isinstance(trace.get("id"), str) else None
    yield from _strings(Text("ids", "", trace_id), trace_id)
    data = get(trace, "task", "data")
    yield from _strings(Text("task", "", trace_id), data if data != task else None)
    yield from _strings(Text("tools", "", trace_id), trace.get("tools"))
    for index, node in enumerate(as_list(trace.get("nodes"))):
        yield from _strings(Text("tools", "", trace_id, index), get(node, "tools"))
        yield from _of_message(get(node, "message"), Text("content", "", trace_id, index))
    yield from _strings(Text("info", "", trace_id), trace.get("info"))
    yield from _strings(Text("errors", "", trace_id), trace.get("errors"))
    for call in objects(trace.get("calls")):
        node = call.get("node")
        yield from _strings(Text("errors", "", trace_id, node if type(node) is int else None), call.get("error"))


def _of_message(message: Any, at: Text) -> Iterator[Text]:
    role = get(message, "role")
    at = at._replace(role=role if isinstance(role, str) else None)
    yield from _strings(at._replace(field="reasoning"), get(message, "reasoning_content"))
    content = get(message, "content")
    # Of a list of parts only texts are read: an image is a text of a megabyte that says nothing.
    yield from _strings(at, content if isinstance(content, str) else [part.get("text") for part in objects(content)])
    for call in objects(get(message, "tool_calls")):
        yield from _strings(at._replace(field="tool_calls"), [call.get("name"), call.get("arguments")])


def _strings(at: Text, value: Any, depth: int = 0) -> Iterator[Text]:
    """All strings in ``value``, however deep, as texts that stand where ``at`` does; no keys."""
    if isinstance(value, str):
        yield at._replace(text=value)
    elif depth < _MAX_DEPTH and isinstance(value, Mapping | list):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _strings(at, part, depth + 1)
