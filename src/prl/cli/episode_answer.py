"""One episode as a JSON answer: what was asked for of it, safe to print and bounded."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prl.cli.answers import MAX_ROWS, envelope
from prl.rundir.episodes.detail import EpisodeDetail, Message, TraceDetail
from prl.rundir.episodes.streams import MASKED, NO_TOKENS, OVER, STABLE, STREAMS, UNDER, Tokens
from prl.rundir.tokens.text import TokenText
from prl.text.secrets import mask_secrets
from prl.text.terminal import for_terminal
from prl.watch.outward import safe, safe_keys

_STABLE_NAMES = {STABLE: "stable", OVER: "over", UNDER: "under", MASKED: "masked"}
_LONGEST_SECRET = 1000
_CHARACTERS = 20_000
"""Characters of one text."""
_ENTRIES = 1000
"""Entries of one list that a record holds."""


@dataclass(frozen=True)
class View:
    """What was asked for, of which trace."""

    detail: EpisodeDetail
    trace: TraceDetail | None
    number: int
    """Of the trace."""
    branch: int | None
    start: int
    """The first message, token or character."""
    limit: int
    tokenizer: TokenText
    as_tokens: bool = False
    rendered: bool = False


def episode_answer(view: View, root: Path) -> dict[str, Any]:
    """The answer of ``prl episode --json`` for the run at ``root``, harmless to print."""
    outward = _Outward()
    answer: dict[str, Any] = outward.tree(_answer(view, root), most=None)
    answer["nonfinite"] = outward.nonfinite[:MAX_ROWS]
    answer["truncated"] = answer["truncated"] or outward.cut or len(outward.nonfinite) > MAX_ROWS
    return answer


def _answer(view: View, root: Path) -> dict[str, Any]:
    detail, trace = view.detail, view.trace
    rows, total = token_rows(view) if view.as_tokens else ([], 0) if view.rendered else _message_rows(view)
    asked: dict[str, Any] = {"rendered": rendered_fields(view)} if view.rendered else {}
    if view.as_tokens:
        asked |= {"tokenizer": view.tokenizer.origin, "tokenizer_reason": view.tokenizer.reason}
    return envelope(
        run_dir=str(root),
        episode={
            **{name: value for name, value in detail.row.items() if name != "trace_ids"},
            "ship_step": detail.step,
            "updates": detail.updates,
            "errors": errors_of(detail.record)[:MAX_ROWS],
        },
        traces=[_trace_row(number, each) for number, each in enumerate(detail.traces[:MAX_ROWS])],
        trace=view.number if trace is not None else None,
        branch=view.branch,
        unavailable=trace.unavailable() if trace is not None else {},
        stable_eps=detail.bound.eps,
        stable_eps_source=detail.bound.source,
        **asked,
        problems=[*detail.problems[:MAX_ROWS]],
        start=view.start,
        counts={
            "traces": len(detail.traces),
            "messages": len(trace.nodes) if trace is not None else 0,
            "branches": len(trace.branches) if trace is not None else 0,
            "rows": total,
        },
        rows=rows,
        truncated=len(rows) < total or len(detail.traces) > MAX_ROWS,
    )


def _trace_row(number: int, trace: TraceDetail) -> dict[str, Any]:
    info = trace.trace.get("info")
    return {
        "trace": number,
        "id": trace.id,
        "agent": trace.agent,
        "reward": trace.reward,
        "rewards": trace.trace.get("rewards"),
        "metrics": trace.trace.get("metrics"),
        "info": info if isinstance(info, dict) else {},
        "stop_condition": trace.trace.get("stop_condition"),
        "errors": errors_of(trace.trace)[:MAX_ROWS],
        "messages": len(trace.nodes),
        "branches": len(trace.branches),
    }


def _message_rows(view: View) -> tuple[list[dict[str, Any]], int]:
    if view.trace is None:
        return [], 0
    page = view.trace.messages(view.start, view.limit, branch=view.branch)
    return [_message_row(message) for message in page.messages], page.total


def _message_row(message: Message) -> dict[str, Any]:
    recorded = message.node.get("message")
    loss = message.tokens.streams["loss_mask"].values
    return {
        "node": message.index,
        "parent": message.parent,
        "role": message.role,
        "sampled": message.sampled,
        "message": recorded if isinstance(recorded, dict) else {},
        "tokens": len(message.tokens),
        "sampled_tokens": int((loss == 1.0).sum()) if loss is not None else 0,
        "problems": list(message.tokens.problems),
    }


def token_rows(view: View) -> tuple[list[dict[str, Any]], int]:
    """The tokens of the view, one a row, and how many its branch has."""
    if view.trace is None or view.branch is None:
        return [], 0
    page = view.trace.token_page(view.branch, view.start, view.limit)
    texts = view.tokenizer.parts(view.trace.branch_ids(view.branch))
    special = view.tokenizer.decoder.special if view.tokenizer.decoder is not None else frozenset()
    columns = {name: _cells(page.tokens, name) for name in STREAMS}
    rows = [
        {
            "position": page.start + place,
            "node": node,
            "id": token,
            "text": texts[page.start + place] if texts is not None else None,
            "special": token in special,
            **{name: column[place] if column else None for name, column in columns.items()},
        }
        for place, (node, token) in enumerate(zip(page.nodes, page.tokens.ids, strict=True))
    ]
    return rows, page.total


def _cells(tokens: Tokens, name: str) -> list[Any]:
    values = tokens.streams[name].to_list()
    if name == "stable":
        return [None if value is None else _STABLE_NAMES[value] for value in values]
    if name in ("loss_mask", "content_mask"):
        return [None if value is None else value == 1.0 for value in values]
    return values


def rendered_fields(view: View) -> dict[str, Any]:
    """The text that the model saw along the branch, or why it cannot be had."""
    if view.trace is None or view.branch is None:
        return {"status": "missing_token_ids", "text": None, "characters": 0, "reason": NO_TOKENS, "tokenizer": None}
    rendered = view.trace.rendered(view.branch, view.tokenizer)
    return {
        "status": rendered.status,
        "text": rendered.text[view.start :] if rendered.text is not None else None,
        "characters": len(rendered.text or ""),
        "reason": rendered.reason,
        "tokenizer": view.tokenizer.origin,
    }


def errors_of(part: dict[str, Any]) -> list[dict[str, Any]]:
    """The errors of an episode or a trace."""
    errors = part.get("errors")
    found = [error for error in errors if isinstance(error, dict)] if isinstance(errors, list) else []
    return [{"type": error.get("type"), "message": error.get("message")} for error in found]


class _Outward:
    """A tree of JSON values made safe and bounded; white space stays: in a message and in a token it is the text."""

    def __init__(self) -> None:
        self.cut = False
        """Whether something was too long."""
        self.nonfinite: list[str] = []
        """Where a number stood for which JSON has no form."""

    def tree(self, value: Any, most: int | None = _ENTRIES, path: str = "") -> Any:
        """``most``: entries kept of a list; None for the answer's own lists, which are bounded already."""
        if isinstance(value, str):
            self.cut = self.cut or len(value) > _CHARACTERS
            return plain(value, _CHARACTERS)
        if isinstance(value, dict):
            keys = zip(safe_keys(value), value.items(), strict=True)
            return {shown: self.tree(entry, most, f"{path}/{key}") for shown, (key, entry) in keys}
        if isinstance(value, list | tuple):
            self.cut = self.cut or (most is not None and len(value) > most)
            return [self.tree(entry, path=f"{path}/{place}") for place, entry in enumerate(value[:most])]
        if isinstance(value, float) and not math.isfinite(value):
            self.nonfinite.append(safe(path.removeprefix("/")))
            return None
        return value


def plain(text: str, most: int | None = None) -> str:
    """Harmless text of at most ``most`` characters. Masked before it is cut: half a secret is not recognised."""
    if most is not None:
        text = text[: most + _LONGEST_SECRET]
    return for_terminal(mask_secrets(text))[:most]
