"""One episode with everything that became known of it: the record, what was learned later folded onto its traces,
its branches, and each token with its streams.

A record can be large (tens of thousands of messages). It is decoded once, and everything made of it is made when asked
for and in pages: a page of messages, one branch, a range of its tokens. Left out: drawing. What a model wrote is data
here, to be escaped by whoever shows it.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

from prl.rundir.annotations.locator import UpdateLocator
from prl.rundir.annotations.update import fold_updates, ship_step
from prl.rundir.configs import attempts_of, read_documents
from prl.rundir.episodes.branches import Branches
from prl.rundir.episodes.folded import record_of, traces_by_id
from prl.rundir.episodes.lookup import find_episode, place_of
from prl.rundir.episodes.record import trace_reward
from prl.rundir.episodes.stream import find_stream, run_root
from prl.rundir.episodes.streams import (
    DEFAULT_EPS,
    NO_TOKENS,
    NOT_RECORDED,
    NOT_SHIPPED,
    Tokens,
    joined_tokens,
    node_tokens,
    stored_streams,
    token_ids,
    unavailable_streams,
)
from prl.rundir.tokens.text import TokenText, token_text
from prl.rundir.tree import RunTree
from prl.rundir.untyped import as_list, as_object, get, objects

PAGE = 2000
"""Messages or tokens of a page."""
KEPT_TOKENS = 200_000
"""Tokens of a trace whose streams are kept, made: of 9 streams some 20 MB."""


@dataclass(frozen=True)
class StableBound:
    """The bound of ``stable``, and where it is from."""

    eps: float = DEFAULT_EPS
    source: str = "default"
    """``trainer.json``, or ``default`` where the run's loss has none."""


@dataclass(frozen=True)
class Message:
    """One node of a trace."""

    index: int
    parent: int | None
    role: str | None
    sampled: bool
    node: dict[str, Any]
    """As recorded and folded; empty where the record holds something else."""
    tokens: Tokens


@dataclass(frozen=True)
class MessagePage:
    """Some messages of a trace, in node order or along a branch."""

    messages: list[Message]
    start: int
    total: int

    @property
    def truncated(self) -> bool:
        """Whether there are more than these."""
        return len(self.messages) < self.total


@dataclass(frozen=True)
class TokenPage:
    """Some tokens along a branch."""

    tokens: Tokens
    nodes: list[int]
    """The node of each."""
    start: int
    total: int


@dataclass(frozen=True)
class Rendered:
    """What the model saw along a branch."""

    status: str
    """``ok``, ``missing_token_ids``, ``tokenizer_unavailable`` or ``decode_error``."""
    text: str | None
    reason: str | None = None


class TraceDetail:
    """One trace of an episode, folded."""

    def __init__(self, trace: dict[str, Any], eps: float) -> None:
        self.trace = trace
        self.nodes = as_list(trace.get("nodes"))
        self.branches = Branches(self.nodes)
        """Node indexes from root to leaf: branch ``i`` is that of the ``i``-th leaf."""
        self._eps = eps
        self._messages: OrderedDict[int, Message] = OrderedDict()
        self._messages_tokens = 0

    @property
    def id(self) -> str | None:
        name = self.trace.get("id")
        return name if isinstance(name, str) else None

    @property
    def agent(self) -> str | None:
        name = get(self.trace, "agent", "name")
        return name if isinstance(name, str) else None

    @property
    def reward(self) -> float | None:
        """Sum of score times weight; None when scoring did not reach one of them."""
        return trace_reward(self.trace)

    @cached_property
    def token_counts(self) -> list[int]:
        """How many tokens each node has."""
        return [len(as_list(get(node, "token_ids"))) for node in self.nodes]

    def message(self, index: int) -> Message:
        """One node with its tokens. The last ones that were asked for are kept. Raises IndexError."""
        kept = self._messages.pop(index, None)
        if kept is None:
            kept = self._message(index)
            self._messages_tokens += len(kept.tokens)
        self._messages[index] = kept
        while self._messages_tokens > KEPT_TOKENS and len(self._messages) > 1:
            self._messages_tokens -= len(self._messages.popitem(last=False)[1].tokens)
        return kept

    def _message(self, index: int) -> Message:
        known = as_object(self.nodes[index])
        role = get(known, "message", "role")
        return Message(
            index=index,
            parent=self.branches.parents[index],
            role=role if isinstance(role, str) else None,
            sampled=known.get("sampled") is True,
            node=known,
            tokens=node_tokens(known, eps=self._eps, has=self._stored),
        )

    def messages(self, start: int = 0, limit: int = PAGE, *, branch: int | None = None) -> MessagePage:
        """A page of messages in node order, or along a branch from its root. Raises IndexError: no such branch."""
        path = range(len(self.nodes)) if branch is None else self.branches[branch]
        chosen = path[max(start, 0) : max(start, 0) + limit]
        return MessagePage([self.message(index) for index in chosen], start, len(path))

    def branch_tokens(self, branch: int) -> Tokens:
        """All tokens along a branch with their streams. Raises IndexError."""
        return joined_tokens([self.message(index).tokens for index in self.branches[branch]])

    def token_page(self, branch: int, start: int = 0, limit: int = PAGE) -> TokenPage:
        """A page of the tokens along a branch: only its messages are looked into. Raises IndexError."""
        path = self.branches[branch]
        ends = list(accumulate(self.token_counts[index] for index in path))
        total = ends[-1] if ends else 0
        start = max(start, 0)
        stop = min(start + max(limit, 0), total)
        parts: list[Tokens] = []
        nodes: list[int] = []
        for place in range(bisect_right(ends, start), len(path)):
            index = path[place]
            before = ends[place] - self.token_counts[index]
            if before >= stop:
                break
            part = self.message(index).tokens.part(max(start - before, 0), max(stop - before, 0))
            parts.append(part)
            nodes += [index] * len(part)
        return TokenPage(joined_tokens(parts), nodes, start, total)

    def branch_ids(self, branch: int, start: int = 0, stop: int | None = None) -> list[int]:
        """The token ids along a branch, or those from ``start`` up to ``stop``. Raises IndexError."""
        ids: list[int] = []
        at = 0
        for index in self.branches[branch]:
            count = self.token_counts[index]
            if at + count > start and count:
                ids += token_ids(self.nodes[index])[max(start - at, 0) : None if stop is None else max(stop - at, 0)]
            at += count
            if stop is not None and at >= stop:
                break
        return ids

    def unavailable(self) -> dict[str, str]:
        """The streams that no message of the trace has anything to show of, each with the reason."""
        missing = unavailable_streams(self.nodes)
        if missing.get("advantage") == NOT_SHIPPED and get(self.trace, "info", "effective") is True:
            missing["advantage"] = NOT_RECORDED
        return missing

    def rendered(self, branch: int, tokenizer: TokenText) -> Rendered:
        """The recorded tokens along a branch as text, special tokens kept. Raises IndexError."""
        ids = self.branch_ids(branch)
        if not ids:
            return Rendered("missing_token_ids", None, NO_TOKENS)
        try:
            text = tokenizer.text(ids)
        except Exception as error:  # a tokenizer of an unforeseen kind, from the library
            return Rendered("decode_error", None, str(error)[:200])
        return Rendered("ok", text) if text is not None else Rendered("tokenizer_unavailable", None, tokenizer.reason)

    @cached_property
    def _stored(self) -> frozenset[str]:
        return stored_streams(self.nodes)


@dataclass(frozen=True)
class EpisodeDetail:
    """One episode as :func:`open_episode` found it."""

    row: dict[str, Any]
    """Its index row."""
    record: dict[str, Any]
    """The record, with trace updates folded onto its traces."""
    traces: list[TraceDetail]
    updates: int
    """Trace updates that were folded."""
    step: int | None
    """The step whose batch it went into."""
    bound: StableBound
    run: Path
    problems: list[str] = field(default_factory=list)
    """What could not be read as it stood, for a person."""

    @cached_property
    def tokenizer(self) -> TokenText:
        """The run's tokenizer, or the reason why there is none."""
        return token_text(self.run)


def open_episode(
    traces: Path, wanted: Mapping[str, Any] | str, *, locator: UpdateLocator | None = None
) -> EpisodeDetail:
    """Open one episode below ``traces`` (``monitors/file/traces``, or a run directory of an older layout).

    ``wanted``: its index row, or what :func:`find_episode` takes. ``locator``: one kept for many looks at this run.
    Raises EpisodeNotFoundError (a LookupError); OSError when its record cannot be read.
    """
    row = dict(find_episode(traces, wanted) if isinstance(wanted, str) else wanted)
    problems: list[str] = []
    record = _read_record(traces, row, problems)
    found = traces_by_id(record)
    locator = locator or UpdateLocator(traces, mapped=False)
    updates = locator.updates(found)
    for trace_id, of_trace in updates.items():
        for trace in found[trace_id]:
            fold_updates(trace, of_trace)
    step = ship_step(update for of_trace in updates.values() for update in of_trace)
    run = run_root(traces)
    bound = stable_bound(run)
    return EpisodeDetail(
        row=row,
        record=record,
        traces=[TraceDetail(trace, bound.eps) for trace in objects(record.get("traces"))],
        updates=sum(map(len, updates.values())),
        step=row.get("ship_step") if step is None else step,  # a table's row has it of layouts without updates
        bound=bound,
        run=run,
        problems=[*problems, *locator.problems],
    )


def stable_bound(run: Path) -> StableBound:
    """The bound of the run's loss: ``loss.eps`` of the newest attempt's trainer, when that loss is of type ``ipo``."""
    tree = RunTree(run)
    for attempt in [*reversed(attempts_of(tree)), None]:
        trainer = read_documents(tree, attempt, ("trainer",)).get("trainer")
        if trainer is not None:
            loss = trainer.get("loss")
            eps = loss.get("eps") if isinstance(loss, Mapping) and loss.get("type") == "ipo" else None
            if isinstance(eps, int | float) and not isinstance(eps, bool) and eps > 0:
                return StableBound(float(eps), "trainer.json")
            break
    return StableBound()


def _read_record(traces: Path, row: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    stream = find_stream(traces)
    place = place_of(stream, row)
    line = next(stream.lines_at([place]), None) if place >= 0 else None
    record, replaced = record_of(traces, row, line)
    if replaced:
        problems.append("the record holds bytes that are not UTF-8: they were replaced")
    return record
