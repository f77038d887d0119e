"""Conversations of a JSONL file as tokens, with the assistant's own tokens marked.

Each line holds ``{"messages": [{"role", "content"}, ...]}``. The model's chat template renders it; learned are the
tokens of every assistant message and the token that ends it, not the words that the template puts around them. Left
out: tools and several data sets with weights.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


class DataError(ValueError):
    """A data set that cannot be learned from, with file, line and reason."""


@dataclass(frozen=True)
class Conversation:
    """One conversation of ``n`` tokens."""

    token_ids: np.ndarray
    """int64 [n]."""
    loss_mask: np.ndarray
    """bool [n]."""


def load_conversations(path: Path, tokenizer: Any, seq_len: int) -> tuple[list[Conversation], int]:
    """The conversations of ``path`` in its order, and how many were cut to ``seq_len`` tokens. Raises DataError."""
    messages = _read(path)
    try:
        texts = tokenizer.apply_chat_template(messages, tokenize=False)
        spans = _assistant_spans(messages, texts, tokenizer)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    except Exception as error:  # a template raises what it likes
        raise DataError(f"{path}: the model's chat template refuses it ({error})") from error
    encoded = tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True)
    conversations = []
    cut = 0
    for ids, offsets, own in zip(encoded["input_ids"], encoded["offset_mapping"], spans, strict=True):
        token_ids = np.asarray(ids, dtype=np.int64)
        mask = _mask(token_ids, np.asarray(offsets, dtype=np.int64), own, tokenizer.eos_token_id)
        cut += len(token_ids) > seq_len
        conversations.append(Conversation(token_ids[:seq_len], mask[:seq_len]))
    return conversations, cut


def _read(path: Path) -> list[list[dict[str, Any]]]:
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise DataError(f"data.path = {path}: {error.strerror}") from error
    conversations = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            messages = json.loads(line)["messages"]
            roles = [message["role"] for message in messages]
            texts = [message["content"] for message in messages]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f'{path} line {number}: not {{"messages": [{{"role", "content"}}, ...]}} ({error})'
            ) from error
        if "assistant" not in roles or not all(isinstance(text, str) for text in texts):
            raise DataError(f"{path} line {number}: needs an assistant message, and text in every message")
        conversations.append(messages)
    if not conversations:
        raise DataError(f"data.path = {path}: holds no conversation")
    return conversations


def _assistant_spans(
    messages: Sequence[Sequence[dict[str, Any]]], texts: Sequence[str], tokenizer: Any
) -> list[list[tuple[int, int]]]:
    """Characters of each conversation's text that belong to its assistant messages.

    Found by rendering what comes before a message, with and without it: no template needs to mark them.
    """
    places = [
        (conversation, index)
        for conversation, turns in enumerate(messages)
        for index, message in enumerate(turns)
        if message["role"] == "assistant"
    ]
    before = tokenizer.apply_chat_template(
        [messages[conversation][:index] for conversation, index in places], tokenize=False, add_generation_prompt=True
    )
    inner = [(c, i) for c, i in places if i + 1 < len(messages[c])]
    until = iter(
        tokenizer.apply_chat_template([messages[c][: i + 1] for c, i in inner], tokenize=False) if inner else []
    )
    spans: list[list[tuple[int, int]]] = [[] for _ in messages]
    for (conversation, index), prefix in zip(places, before, strict=True):
        text = texts[conversation]
        whole = next(until) if index + 1 < len(messages[conversation]) else text
        if not text.startswith(prefix) or not text.startswith(whole):
            raise DataError(
                f"conversation {conversation + 1}: the chat template renders message {index + 1} differently once more "
                "messages follow, so its tokens cannot be told apart"
            )
        spans[conversation].append((len(prefix), len(whole)))
    return spans


def _mask(
    token_ids: np.ndarray, offsets: np.ndarray, spans: Sequence[tuple[int, int]], end_token: int | None
) -> np.ndarray:
    """Tokens within ``spans`` of characters, each up to and with its last end token where it has one."""
    mask = np.zeros(len(token_ids), dtype=bool)
    for start, stop in spans:
        inside = np.flatnonzero((offsets[:, 0] >= start) & (offsets[:, 1] <= stop))
        ends = np.flatnonzero(token_ids[inside] == end_token)
        mask[inside[: ends[-1] + 1] if len(ends) else inside] = True
    return mask


def epoch_order(count: int, seed: int, epoch: int) -> np.ndarray:
    """The order in which ``count`` conversations are seen in ``epoch`` (from 0)."""
    return np.random.default_rng([seed, epoch]).permutation(count)


def sample_indices(first: int, number: int, count: int, seed: int) -> list[int]:
    """Conversations number ``first`` up to ``first + number`` of the endless shuffled stream over ``count`` of them."""
    wanted = np.arange(first, first + number)
    epochs = wanted // count
    orders = [epoch_order(count, seed, int(epoch))[wanted[epochs == epoch] % count] for epoch in np.unique(epochs)]
    return [int(place) for order in orders for place in order]


def pack_greedily(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Places in ``lengths``, in order, in groups that sum to at most ``capacity`` (a longer one is alone)."""
    groups: list[list[int]] = []
    room = 0
    for place, length in enumerate(lengths):
        if not groups or length > room:
            groups.append([])
            room = capacity
        groups[-1].append(place)
        room -= length
    return groups
