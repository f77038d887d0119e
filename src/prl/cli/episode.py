"""``prl episode``: one episode with everything that became known of it, as a transcript, as tokens or as JSON."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from prl.cli.answers import MAX_ROWS, envelope, locate_run, print_json, print_text
from prl.rundir.episodes.detail import EpisodeDetail, Message, TraceDetail, open_episode
from prl.rundir.episodes.streams import MASKED, NO_TOKENS, OVER, STABLE, STREAMS, UNDER, Tokens
from prl.rundir.live.rows import message_text
from prl.rundir.locate import traces_path
from prl.rundir.tokens.text import TokenText, token_text
from prl.text.human import format_duration
from prl.text.secrets import mask_secrets
from prl.text.terminal import for_terminal
from prl.watch.outward import safe, safe_keys

_STABLE_NAMES = {STABLE: "stable", OVER: "over", UNDER: "under", MASKED: "masked"}
_TEXT_CHARACTERS = 4000
"""Characters of one message that are shown without ``--rendered``."""
_ERROR_CHARACTERS = 400
_LONGEST_SECRET = 1000
_JSON_CHARACTERS = 20_000
"""Characters of one text in a JSON answer."""
_JSON_ENTRIES = 1000
"""Entries of one list that a record holds."""
_COLUMNS = {
    "advantage": "ADV",
    "inference_logprob": "INF LOGP",
    "trainer_logprob": "TRN LOGP",
    "entropy": "ENTROPY",
    "mismatch_kl": "KL",
    "stable": "STABLE",
    "loss_mask": "LOSS",
    "content_mask": "CONTENT",
}


@dataclass(frozen=True)
class _View:
    """What was asked for, of which trace."""

    detail: EpisodeDetail
    trace: TraceDetail | None
    number: int
    branch: int | None
    start: int
    limit: int
    tokenizer: TokenText


@click.command()
@click.argument("run")
@click.argument("episode_id", metavar="ID")
@click.option("--trace", "trace_number", type=click.IntRange(0), default=0, help="Which trace of the episode, from 0.")
@click.option("--branch", type=click.IntRange(0), help="Only this branch, from 0. With tokens: the first, if not said.")
@click.option("--tokens", "as_tokens", is_flag=True, help="The tokens along a branch with what is known of each.")
@click.option("--rendered", is_flag=True, help="The text that the model saw along a branch, special tokens included.")
@click.option("--start", type=click.IntRange(0), default=0, help="Begin at this message, token or character.")
@click.option("--limit", type=click.IntRange(1), default=MAX_ROWS, show_default=True, help="Show so many.")
@click.option(
    "--tokenizer",
    "directory",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Take the tokenizer.json in this directory instead of the run's.",
)
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
def episode(
    run: str,
    episode_id: str,
    *,
    trace_number: int,
    branch: int | None,
    as_tokens: bool,
    rendered: bool,
    start: int,
    limit: int,
    directory: Path | None,
    as_json: bool,
) -> int:
    """One episode: who, what came of it, its messages; what was learned later is folded in.

    ID is an episode's id, a unique beginning of one, the id of a trace, or the number of its line in the stream.
    Exit status: 0; 1 when its record is damaged or gone; 64 when there is no such episode.
    """
    if as_tokens and rendered:
        raise click.UsageError("--tokens and --rendered: one of them")
    root = locate_run(run)
    try:
        detail = open_episode(traces_path(root), episode_id)
    except LookupError as error:
        raise click.UsageError(safe(str(error))) from None
    except OSError as error:
        _show_failure(root, str(error), as_json=as_json)
        return 1
    tokenizer = token_text(root, directory) if as_tokens or rendered else TokenText(None, None, None)
    trace = _trace(detail, trace_number)
    of_one_branch = branch is not None or as_tokens or rendered
    chosen = _branch(trace, branch or 0) if of_one_branch and trace is not None else None
    view = _View(detail, trace, trace_number, chosen, start, limit, tokenizer)
    if as_json:
        outward = _Outward()
        answer = outward.tree(_answer(view, root, as_tokens=as_tokens, rendered=rendered), most=None)
        answer["nonfinite"] = outward.nonfinite[:MAX_ROWS]
        answer["truncated"] = answer["truncated"] or outward.cut or len(outward.nonfinite) > MAX_ROWS
        text = json.dumps(answer, indent=2, ensure_ascii=False, allow_nan=False)
    else:
        text = "\n".join(_lines(view, run, as_tokens=as_tokens, rendered=rendered))
    print_text(text + "\n")
    return 0


def _show_failure(root: Path, problem: str, *, as_json: bool) -> None:
    """Say that the episode is known and its record cannot be read."""
    if as_json:
        print_json(envelope(ok=False, run_dir=str(root), error=problem, counts={}, rows=[], truncated=False))
    else:
        click.echo(safe(f"prl episode: {problem}"), err=True)


def _trace(detail: EpisodeDetail, number: int) -> TraceDetail | None:
    if not detail.traces and number == 0:
        return None  # it failed before it had one
    if number >= len(detail.traces):
        raise click.UsageError(f"--trace {number}: the episode has {len(detail.traces)}, numbered from 0")
    return detail.traces[number]


def _branch(trace: TraceDetail, number: int) -> int | None:
    if number >= len(trace.branches):
        if number == 0:
            return None  # a trace without messages
        raise click.UsageError(f"--branch {number}: the trace has {len(trace.branches)}, numbered from 0")
    return number


# ---- as JSON


def _answer(view: _View, root: Path, *, as_tokens: bool, rendered: bool) -> dict[str, Any]:
    detail, trace = view.detail, view.trace
    rows, total = _token_rows(view) if as_tokens else ([], 0) if rendered else _message_rows(view)
    asked: dict[str, Any] = {"rendered": _rendered_fields(view)} if rendered else {}
    if as_tokens:
        asked |= {"tokenizer": view.tokenizer.origin, "tokenizer_reason": view.tokenizer.reason}
    return envelope(
        run_dir=str(root),
        episode={
            **{name: value for name, value in detail.row.items() if name != "trace_ids"},
            "ship_step": detail.step,
            "updates": detail.updates,
            "errors": _errors(detail.record)[:MAX_ROWS],
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
        "errors": _errors(trace.trace)[:MAX_ROWS],
        "messages": len(trace.nodes),
        "branches": len(trace.branches),
    }


def _message_rows(view: _View) -> tuple[list[dict[str, Any]], int]:
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


def _token_rows(view: _View) -> tuple[list[dict[str, Any]], int]:
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


def _rendered_fields(view: _View) -> dict[str, Any]:
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


def _errors(part: dict[str, Any]) -> list[dict[str, Any]]:
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

    def tree(self, value: Any, most: int | None = _JSON_ENTRIES, path: str = "") -> Any:
        """``most``: entries kept of a list; None for the answer's own lists, which are bounded already."""
        if isinstance(value, str):
            self.cut = self.cut or len(value) > _JSON_CHARACTERS
            return _plain(value, _JSON_CHARACTERS)
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


# ---- for people


def _lines(view: _View, run: str, *, as_tokens: bool, rendered: bool) -> Iterator[str]:
    yield from _head(view)
    yield ""
    if as_tokens:
        yield from _token_table(view)
    elif rendered:
        fields = _rendered_fields(view)
        yield _text(fields["text"] or "") if fields["status"] == "ok" else safe(f"not rendered: {fields['reason']}")
    else:
        yield from _transcript(view)
    if view.trace is not None and not (as_tokens or rendered):
        yield safe(f"tokens: prl episode {run} {view.detail.row.get('id')} --tokens")


def _head(view: _View) -> Iterator[str]:
    detail = view.detail
    row = detail.row
    ok = row.get("ok")
    outcome = "outcome unknown" if ok is None else "ok" if ok else "failed"
    reward = _number(row.get("reward"))
    name = row.get("id") or f"at line {row.get('line')}, without an id"
    kind, env = (row.get(part) or f"{part} unknown" for part in ("kind", "env"))
    yield safe(f"episode {name}  {kind}  {env}  {outcome}  reward {reward}")
    facts = [f"group {row['group']}"] if row.get("group") else []
    facts += [
        f"shipped in step {detail.step}" if detail.step is not None else "not shipped",
        f"{_number(row.get('input_tokens'))} tokens in, {_number(row.get('output_tokens'))} out",
    ]
    if row.get("stop_condition"):
        facts.append(f"stop {row['stop_condition']}")
    if isinstance(row.get("duration"), int | float):
        facts.append(format_duration(row["duration"]))
    yield safe("  ".join(facts))
    yield from (_error_line(error) for error in _errors(detail.record))
    for number, trace in enumerate(detail.traces[:MAX_ROWS]):
        yield safe(
            f"{'>' if trace is view.trace else ' '} trace {number}  {trace.id}  {trace.agent}  "
            f"reward {_number(trace.reward)}  {len(trace.nodes)} messages  {len(trace.branches)} branches"
        )
        yield from (_error_line(error) for error in _errors(trace.trace))
    yield from (safe(f"! {problem}") for problem in detail.problems)


def _error_line(error: dict[str, Any]) -> str:
    return safe(f"! {error['type']}: {error['message']}", _ERROR_CHARACTERS)


def _transcript(view: _View) -> Iterator[str]:
    if view.trace is None:
        failed = view.detail.row.get("ok") is False or view.detail.record.get("errors")
        yield "no trace: it failed before it had one" if failed else "no trace was recorded"
        return
    page = view.trace.messages(view.start, view.limit, branch=view.branch)
    for message in page.messages:
        parent = "" if message.parent in (None, message.index - 1) else f" after {message.parent}"
        yield safe(f"[{message.index}]{parent} {message.role}  {len(message.tokens)} tokens")
        for part in _parts(message.node.get("message")):
            yield _text(part, "    ", _TEXT_CHARACTERS)
        yield from (safe(f"    ! {problem}") for problem in message.tokens.problems)
    if page.truncated:
        yield f"shown {len(page.messages):,} of {page.total:,} messages, from {view.start:,} on (--start, --limit)"
    for name, reason in view.trace.unavailable().items():
        yield f"no {name}: {reason}"


def _parts(message: Any) -> Iterator[str]:
    """What a message says: its reasoning, its content, its tool calls."""
    if not isinstance(message, dict):
        return
    if isinstance(message.get("reasoning_content"), str):
        yield f"(thinks) {message['reasoning_content']}"
    if message.get("content"):
        yield message_text({"content": message["content"]})
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        if isinstance(call, dict):
            yield f"-> {call.get('name')}({call.get('arguments')})"


def _token_table(view: _View) -> Iterator[str]:
    rows, total = _token_rows(view)
    names = [name for name in _COLUMNS if any(row[name] is not None for row in rows)]
    header = ("POS", "NODE", "ID", *(_COLUMNS[name] for name in names), "TEXT")
    table = [header]
    for row in rows:
        shown = json.dumps(row["text"], ensure_ascii=False) if row["text"] is not None else ""
        numbers = (_number(row[name]) for name in names)
        table.append((str(row["position"]), str(row["node"]), str(row["id"]), *numbers, _plain(shown)))
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for cells in table:
        padded = [cell.rjust(width) for cell, width in zip(cells[:-1], widths, strict=False)]
        yield "  ".join([*padded, cells[-1]]).rstrip()
    if len(rows) < total:
        yield f"shown {len(rows):,} of {total:,} tokens, from {view.start:,} on (--start, --limit)"
    if view.trace is not None:
        for name, reason in view.trace.unavailable().items():
            yield f"no {name}: {reason}"
    if view.tokenizer.reason is not None:
        yield safe(f"no text: {view.tokenizer.reason}")


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return "x" if value else ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return "-" if value is None else str(value)


def _text(text: str, indent: str = "", most: int | None = None) -> str:
    """Text of several lines, harmless to print."""
    shown = _plain(text, most) + "…" * (most is not None and len(text) > most)
    return "\n".join(indent + line for line in shown.split("\n"))


def _plain(text: str, most: int | None = None) -> str:
    """Harmless text of at most ``most`` characters. Masked before it is cut: half a secret is not recognised."""
    if most is not None:
        text = text[: most + _LONGEST_SECRET]
    return for_terminal(mask_secrets(text))[:most]
