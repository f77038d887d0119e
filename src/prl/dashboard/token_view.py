"""Tokens of a branch as answers: a window of them with all that is known of each, and the whole branch as a strip.

A window looks at its own messages and tokens, however long the branch is. Values are numbers, null where nothing is
known; of those that JSON has no form for, ``nonfinite`` names the position and which it was.
"""

import math
from itertools import groupby, pairwise
from typing import Any

from prl.dashboard.errors import not_found
from prl.rundir.episodes.detail import Rendered, TraceDetail
from prl.rundir.episodes.streams import STREAMS, TokenStream
from prl.rundir.tokens.text import TokenText

MAX_WINDOW = 20_000
"""Tokens of one window."""
MAX_MARKED = 2000
MAX_RENDERED = 2_000_000
"""Characters of a rendered branch."""
_AROUND = (16, 512, 8192)
"""Tokens decoded before and behind a window, since a character may be spread over several; more where some characters
came out broken: by the rules of some tokenizers one that is cut spoils all that stand beside it."""


def token_window(trace: TraceDetail, branch: int, start: int, limit: int, tokenizer: TokenText) -> dict[str, Any]:
    """Tokens ``start`` to ``start + limit`` along a branch."""
    page = trace.token_page(_existing(trace, branch), start, min(limit, MAX_WINDOW))
    ids = page.tokens.ids
    special = tokenizer.decoder.special if tokenizer.decoder is not None else frozenset()
    runs = []
    at = page.start
    for node, group in groupby(page.nodes):
        count = sum(1 for _ in group)
        runs.append([node, at, count])
        at += count
    return {
        "total": page.total,
        "start": page.start,
        "ids": ids,
        "texts": token_texts(trace, branch, page.start, len(ids), tokenizer),
        "nodes": runs,
        "special": [page.start + place for place, token in enumerate(ids) if token in special],
        "streams": {name: _stream(page.tokens.streams[name], page.start) for name in STREAMS},
        "problems": list(dict.fromkeys(page.tokens.problems))[:100],
        "tokenizer": _tokenizer(tokenizer),
    }


def token_map(trace: TraceDetail, branch: int, name: str, bins: int, threshold: float | None) -> dict[str, Any]:
    """A stream over the whole branch: of each bin the value that is furthest from zero.

    ``marked``: positions with a value at or beyond ``threshold`` (either sign); of ``stable``, those that the loss left
    out; without a threshold of no other stream any. ``furthest``: the first position of the value furthest from zero.
    """
    import numpy as np

    tokens = trace.branch_tokens(_existing(trace, branch))
    stream = tokens.streams[name]
    total = len(tokens)
    answer = {
        "total": total,
        "stream": name,
        "bins": [],
        "min": None,
        "max": None,
        "furthest": None,
        "nonfinite": 0,
        "marked": [],
        "marked_total": 0,
        "reason": stream.reason,
        "recomputed": stream.recomputed,
    }
    if stream.values is None or not total:
        return answer
    values = stream.values
    finite = np.isfinite(values)
    distance = np.where(finite, np.abs(values), -1.0)
    edges = np.unique(np.linspace(0, total, min(bins, total) + 1).astype(np.int64))
    furthest = [first + int(np.argmax(distance[first:last])) for first, last in pairwise(edges.tolist())]
    answer["bins"] = [float(values[place]) if finite[place] else None for place in furthest]
    if finite.any():
        answer["min"], answer["max"] = float(values[finite].min()), float(values[finite].max())
        answer["furthest"] = int(np.argmax(distance))
    answer["nonfinite"] = int(np.isinf(values).sum())
    beyond = 0.5 if name == "stable" and threshold is None else threshold
    if beyond is not None:
        with np.errstate(invalid="ignore"):
            marked = np.flatnonzero(np.abs(values) >= beyond)
        answer["marked"], answer["marked_total"] = marked[:MAX_MARKED].tolist(), len(marked)
    return answer


def rendered_text(trace: TraceDetail, branch: int, tokenizer: TokenText) -> dict[str, Any]:
    """What the model saw along a branch, special tokens kept."""
    made: Rendered = trace.rendered(_existing(trace, branch), tokenizer)
    text = made.text
    return {
        "status": made.status,
        "text": text[:MAX_RENDERED] if text is not None else None,
        "cut": text is not None and len(text) > MAX_RENDERED,
        "reason": made.reason,
        "tokenizer": _tokenizer(tokenizer),
    }


def _existing(trace: TraceDetail, branch: int) -> int:
    if not 0 <= branch < len(trace.branches):
        raise not_found(f"no branch {branch}: the trace has {len(trace.branches)}, numbered from 0")
    return branch


def token_texts(trace: TraceDetail, branch: int, start: int, count: int, tokenizer: TokenText) -> list[str] | None:
    """The part of the text that each of some tokens brings; None without a tokenizer that can tell."""
    shown = None
    for around in _AROUND:
        first = max(start - around, 0)
        try:
            texts = tokenizer.parts(trace.branch_ids(branch, first, start + count + around), begins=first == 0)
        except Exception:  # a tokenizer of an unforeseen kind, from the library
            return None
        shown = texts[start - first : start - first + count] if texts is not None else None
        if shown is None or not any("\ufffd" in text for text in shown):
            break
    return shown


def _stream(stream: TokenStream, start: int) -> dict[str, Any]:
    if stream.values is None:
        return {"reason": stream.reason}
    answer: dict[str, Any] = {"values": stream.values, "recomputed": stream.recomputed}
    if stream.reason is not None:
        answer["reason"] = stream.reason
    infinite = [
        [start + place, "inf" if value > 0 else "-inf"]
        for place, value in enumerate(stream.values.tolist())
        if math.isinf(value)
    ]
    if infinite:
        answer["nonfinite"] = infinite
    return answer


def _tokenizer(tokenizer: TokenText) -> dict[str, str | None]:
    return {"reason": tokenizer.reason} if tokenizer.decoder is None else {"origin": tokenizer.origin}
