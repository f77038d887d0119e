"""One episode for people: its transcript, its tokens as a table, or the text that the model saw."""

import json
from collections.abc import Iterator
from typing import Any

from prl.cli.answers import MAX_ROWS
from prl.cli.episode_answer import View, errors_of, plain, rendered_fields, token_rows
from prl.rundir.live.rows import message_text
from prl.text.human import format_duration
from prl.watch.outward import safe

_TEXT_CHARACTERS = 4000
"""Characters of one message that are shown without ``--rendered``."""
_ERROR_CHARACTERS = 400
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


def episode_lines(view: View, run: str) -> Iterator[str]:
    """The lines of ``prl episode``, harmless to print. ``run``: as it was typed, for the next command."""
    yield from _head(view)
    yield ""
    if view.as_tokens:
        yield from _token_table(view)
    elif view.rendered:
        fields = rendered_fields(view)
        yield _text(fields["text"] or "") if fields["status"] == "ok" else safe(f"not rendered: {fields['reason']}")
    else:
        yield from _transcript(view)
    if view.trace is not None and not (view.as_tokens or view.rendered):
        yield safe(f"tokens: prl episode {run} {view.detail.row.get('id')} --tokens")


def _head(view: View) -> Iterator[str]:
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
    yield from (_error_line(error) for error in errors_of(detail.record))
    for number, trace in enumerate(detail.traces[:MAX_ROWS]):
        yield safe(
            f"{'>' if trace is view.trace else ' '} trace {number}  {trace.id}  {trace.agent}  "
            f"reward {_number(trace.reward)}  {len(trace.nodes)} messages  {len(trace.branches)} branches"
        )
        yield from (_error_line(error) for error in errors_of(trace.trace))
    yield from (safe(f"! {problem}") for problem in detail.problems)


def _error_line(error: dict[str, Any]) -> str:
    return safe(f"! {error['type']}: {error['message']}", _ERROR_CHARACTERS)


def _transcript(view: View) -> Iterator[str]:
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


def _token_table(view: View) -> Iterator[str]:
    rows, total = token_rows(view)
    names = [name for name in _COLUMNS if any(row[name] is not None for row in rows)]
    header = ("POS", "NODE", "ID", *(_COLUMNS[name] for name in names), "TEXT")
    table = [header]
    for row in rows:
        shown = json.dumps(row["text"], ensure_ascii=False) if row["text"] is not None else ""
        numbers = (_number(row[name]) for name in names)
        table.append((str(row["position"]), str(row["node"]), str(row["id"]), *numbers, plain(shown)))
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
    shown = plain(text, most) + "…" * (most is not None and len(text) > most)
    return "\n".join(indent + line for line in shown.split("\n"))
