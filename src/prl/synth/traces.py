"""One trace of a record: its messages with their tokens, its calls, its rewards and its times.

Everything random is decided in the :class:`TraceDraft`; here it is written out as bytes, together with the facts that
the rows of the indexes state.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from prl.rundir import jsonl
from prl.rundir.episodes.branches import branch_paths
from prl.synth import parts
from prl.synth.shape import Environment, RunShape
from prl.synth.signals import FALSE, RING, TRUE, TokenSignals, listed
from prl.synth.template import Template
from prl.synth.text import Encoded, Language, language
from prl.synth.tokenizer import CALL, CALL_END, END, START

OK, ERROR, LOST, TIMEOUT, TRUNCATED = "ok", "error", "lost", "timeout", "truncated"
"""How an episode ended. Lost: its worker died before it had a trace."""

FORMAT_WEIGHT = 0.2


class _Failure(NamedTuple):
    type: str
    message: str
    status_code: int | None
    stop: str


_FAILURES = (
    _Failure("ProviderError", "the engine answered 503: no capacity", 503, "provider_error"),
    _Failure("TaskError", "reward exact: KeyError('answer')", None, "task_error"),
    _Failure("ToolsetError", "tool look_up: connection refused\n  at <worker> \x1b[31m", None, "toolset_error"),
)
_TRACEBACK = "Traceback (most recent call last):\n  File \"task.py\", line 41, in exact\nKeyError: 'answer'\n"


class NodeTokens(NamedTuple):
    """Tokens of one message: those given, then those sampled, whose signals begin at a place of the ring."""

    given: int
    sampled: int
    place: int


@dataclass(slots=True)
class TraceDraft:
    """One trace before it is written."""

    id: str
    agent: str
    turns: int
    branched: bool
    outcome: str
    failure: int
    """Which failure, when the outcome is an error."""
    correct: float
    format: float
    metrics: dict[str, float]
    key: int
    """Decides the words."""
    start: float
    end: float


class WrittenTrace(NamedTuple):
    """A trace as bytes, and what rows and annotations are made from."""

    line: bytes
    outline: dict[str, Any]
    """The trace without its texts and tokens: all that the rows of the indexes need."""
    nodes: list[NodeTokens]
    paths: list[list[int]]


class _Nodes:
    """Grows the message forest of one trace."""

    def __init__(self, draft: TraceDraft) -> None:
        self.draft = draft
        self.lines: list[bytes] = []
        self.tokens: list[NodeTokens] = []
        self.length: list[int] = []
        """Tokens from the root to each message."""
        self.outline: list[dict[str, Any]] = []
        self.calls: list[bytes] = []
        self.call_outline: list[dict[str, Any]] = []
        answers = draft.turns + draft.branched
        self._tick = (draft.end - draft.start) / (2 * answers + 2)
        self.time = draft.start

    def advance(self) -> float:
        self.time = round(self.time + self._tick, 4)
        return self.time

    def add(self, line: bytes, role: str, parent: int, tokens: NodeTokens) -> int:
        self.lines.append(line)
        self.outline.append({"parent": parent if parent >= 0 else None, "message": {"role": role}})
        self.tokens.append(tokens)
        self.length.append(tokens.given + tokens.sampled + (self.length[parent] if parent >= 0 else 0))
        return len(self.lines) - 1


class TraceWriter:
    """Writes the traces of one environment."""

    def __init__(self, shape: RunShape, environment: Environment, signals: TokenSignals) -> None:
        self.shape = shape
        self.environment = environment
        self.signals = signals
        self.language: Language = language()
        encode = self.language.encode
        roles = ("system", "user", "assistant", "tool")
        self._root_heads = {role: encode(f"{START}{role}\n") for role in roles}
        # The line break after a message's end belongs to the message that follows.
        self._heads = {role: encode(f"\n{START}{role}\n") for role in roles}
        self._end = encode(END)
        self._tool_call = encode(f'\n{CALL}\n{{"name": "{parts.TOOL}", "arguments": {{"query": "')
        self._tool_call_end = encode(f'"}}}}\n{CALL_END}')
        self._roots = {role: Template(parts.node(role, root=True)) for role in ("system", "user")}
        self._nodes = {role: Template(parts.node(role, root=False)) for role in ("user", "tool")}
        self._answer = Template(parts.node("assistant", root=False))
        self._tool_answer = Template(parts.node("assistant", root=False, calls_tool=True))
        self._call, self._failed_call = Template(parts.call(shape)), Template(parts.failed_call(shape))
        self._traces = {agent: Template(parts.trace(shape, environment, agent)) for agent in environment.agents}
        self.prompt = lru_cache(maxsize=4096)(self.language.message)

    def write(self, draft: TraceDraft, task: bytes, task_key: int, info: dict[str, Any]) -> WrittenTrace:
        """``task``: as JSON. ``task_key`` decides the prompt."""
        nodes = _Nodes(draft)
        stop = self._converse(nodes, task_key)
        failed, timeout = draft.outcome == ERROR, draft.outcome == TIMEOUT
        given = sum(node.given for node in nodes.tokens)
        sampled = sum(node.sampled for node in nodes.tokens)
        outline = {
            "id": draft.id,
            "agent": {"name": draft.agent},
            "nodes": nodes.outline,
            "calls": nodes.call_outline,
            "rewards": _rewards(draft, stop),
            "metrics": draft.metrics,
            "info": info,
            "stop_condition": stop,
            "is_timeout": timeout,
            "errors": [_error(draft.failure)] if failed else [],
            "timing": _timing(draft, unscored=failed or timeout),
        }
        line = self._traces[draft.agent].fill(
            draft.id.encode(),
            task,
            b"[" + b",".join(nodes.lines) + b"]",
            b"[" + b",".join(nodes.calls) + b"]",
            json_bytes(outline["rewards"]),
            json_bytes(outline["metrics"]),
            json_bytes(info),
            json_bytes(not failed),
            json_bytes(not failed),
            stop.encode(),
            json_bytes(timeout),
            json_bytes(outline["errors"]),
            json_bytes(outline["timing"]),
            b"%d" % given,
            b"%d" % sampled,
            b"%d" % (given + sampled),
        )
        return WrittenTrace(line, outline, nodes.tokens, branch_paths(nodes.outline))

    # ---- messages

    def _converse(self, nodes: _Nodes, task_key: int) -> str:
        """The conversation; returns what ended it."""
        draft, shape = nodes.draft, self.shape
        parent = -1
        if self.environment.tools:
            parent = self._message(nodes, "system", self.prompt(task_key % 97, 12), parent)
        prompt = parent = self._message(nodes, "user", self.prompt(task_key, shape.prompt_tokens), parent)
        for turn in range(draft.turns):
            last = turn == draft.turns - 1
            if last and draft.outcome == ERROR and _FAILURES[draft.failure].type == "ProviderError":
                nodes.calls.append(self._failed_call.fill(json_bytes(nodes.advance()), json_bytes(nodes.advance())))
                nodes.call_outline.append({"error": {}})
                return _FAILURES[draft.failure].stop
            cut = last and draft.outcome == TRUNCATED
            calls_tool = self.environment.tools and not last
            parent = self._assistant(nodes, parent, turn, cut=cut, calls_tool=calls_tool)
            if not last:
                reply = self.language.message(draft.key + 31 * turn, shape.prompt_tokens // 4)
                parent = self._message(nodes, "tool" if calls_tool else "user", reply, parent, turn)
        if draft.branched:
            self._assistant(nodes, prompt, draft.turns, cut=False, calls_tool=False)
        if draft.outcome == ERROR:
            return _FAILURES[draft.failure].stop
        return "agent_timeout" if draft.outcome == TIMEOUT else "agent_completed"

    def _message(self, nodes: _Nodes, role: str, text: Encoded, parent: int, turn: int = 0) -> int:
        root = parent < 0
        head = (self._root_heads if root else self._heads)[role]
        given = head.tokens + text.tokens + 1
        values = [] if root else [b"%d" % parent]
        if role == "tool":
            values.append(_tool_call_id(nodes.draft, turn))
        line = (self._roots if root else self._nodes)[role].fill(
            *values,
            text.escaped,
            json_bytes(nodes.advance()),
            listed(head.listed, text.listed, self._end.listed),
            listed(FALSE * given),
            listed(FALSE * head.tokens, TRUE * text.tokens, FALSE),
        )
        return nodes.add(line, role, parent, NodeTokens(given, 0, 0))

    def _assistant(self, nodes: _Nodes, parent: int, turn: int, *, cut: bool, calls_tool: bool) -> int:
        draft = nodes.draft
        key = draft.key + 7 * turn
        # Answers differ in length: from half to one and a half of the average.
        text = self.language.message(key, self.shape.answer_tokens // 2 + key % (self.shape.answer_tokens + 1))
        head = self._heads["assistant"]
        after: list[Encoded] = [] if cut else [self._end]
        values = [b"%d" % parent, text.escaped]
        if calls_tool:
            query = self.language.encode(f"{self.language.words[key % 900]} {turn}")
            after = [self._tool_call, query, self._tool_call_end, self._end]
            values += [_tool_call_id(draft, turn), query.escaped]
        sampled = text.tokens + sum(part.tokens for part in after)
        place = key * 104_729 % (RING - sampled)
        began = nodes.advance()
        template = self._tool_answer if calls_tool else self._answer
        line = template.fill(
            *values,
            json_bytes(nodes.advance()),
            listed(head.listed, text.listed, *(part.listed for part in after)),
            listed(FALSE * head.tokens, TRUE * sampled),
            listed(FALSE * head.tokens, TRUE * text.tokens, FALSE * (sampled - text.tokens)),
            listed(self.signals.logprobs(place, sampled)),
        )
        index = nodes.add(line, "assistant", parent, NodeTokens(head.tokens, sampled, place))
        prompt = nodes.length[parent] + head.tokens
        reason = "length" if cut else "tool_calls" if calls_tool else "stop"
        usage = {"cost": round(2e-7 * prompt + 8e-7 * sampled, 9)} if self.shape.kind == "eval" else {}
        nodes.call_outline.append({"finish_reason": reason, "usage": usage})
        numbers = [prompt, sampled, *usage.values(), began, nodes.time]
        nodes.calls.append(self._call.fill(b"%d" % index, reason.encode(), *map(json_bytes, numbers)))
        return index


def json_bytes(value: Any) -> bytes:
    """``value`` as JSON without a newline."""
    return jsonl.encode(value)[:-1]


def failure_types() -> list[tuple[str, str]]:
    """Type and message of each failure, by its number."""
    return [(failure.type, failure.message) for failure in _FAILURES]


def _rewards(draft: TraceDraft, stop: str) -> dict[str, dict[str, float] | None]:
    if stop == "provider_error":
        return {}
    if draft.outcome in (ERROR, TIMEOUT):
        return {"correct": None, "format": None}
    return {
        "correct": {"score": draft.correct, "weight": 1.0},
        "format": {"score": draft.format, "weight": FORMAT_WEIGHT},
    }


def _error(failure: int) -> dict[str, Any]:
    told = _FAILURES[failure]
    error: dict[str, Any] = {"type": told.type, "message": told.message}
    if told.status_code is not None:
        error["status_code"] = told.status_code
    if told.type == "TaskError":
        error["traceback"] = _TRACEBACK
    return error


def _timing(draft: TraceDraft, *, unscored: bool) -> dict[str, Any]:
    """The times of the stages; 0.0 for one that was not reached."""
    total = draft.end - draft.start
    edges = [round(draft.start + total * share, 4) for share in (0.0, 0.01, 0.05, 0.9, 0.92, 1.0)]
    start, booted, ready, done, finalized, scored = edges
    return {
        "start": start,
        "boot": {"start": start, "end": booted},
        "setup": {"start": booted, "end": ready},
        "agent": {
            "start": ready,
            "end": done,
            "model": {"duration": round(0.8 * (done - ready), 4)},
            "harness": {"duration": round(0.15 * (done - ready), 4)},
        },
        "finalize": {"start": done, "end": finalized},
        "scoring": {"start": 0.0, "end": 0.0} if unscored else {"start": finalized, "end": scored},
    }


def _tool_call_id(draft: TraceDraft, turn: int) -> bytes:
    return b"call_%b%d" % (draft.id[:8].encode(), turn)
