"""Causal attention within each sequence of a packed micro batch.

Sequences lie end to end, so linear layers see no padding. For attention alone the tokens are laid out as padded rows,
sequences of similar length together, and given to PyTorch's fused kernel; a T x T mask is never built. Padding follows
a row's tokens, and causal attention never looks ahead: a real token cannot see it.

The function is registered with transformers' attention interface under :data:`NAME`; a model that was loaded with it
takes a :class:`Packing` as the keyword ``packing`` of its forward pass. Left out: sliding windows and dropout.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

NAME = "prl_packed"

LENGTH_SPREAD = 2
"""Sequences share padded rows as long as the longest is less than this many times the shortest."""


@dataclass(frozen=True)
class PaddedRows:
    """Some sequences of a micro batch, one padded row each."""

    count: int
    length: int
    tokens: Tensor | None
    """Positions of their tokens in the micro batch, int64. None: all of them, in order."""
    slots: Tensor | None
    """Places of those tokens in the ``count * length`` padded ones, int64. None: nothing is padded."""


@dataclass(frozen=True)
class Packing:
    """How to unpack and repack one micro batch of ``T`` tokens."""

    rows: tuple[PaddedRows, ...]
    inverse: Tensor | None
    """Puts the rows' tokens, taken one after the other, back in order, int64 [T]. None: they are in order."""


def make_packing(lengths: Sequence[int], device: torch.device) -> Packing:
    """The :class:`Packing` of sequences of ``lengths`` tokens that lie end to end."""
    sizes = np.asarray(lengths, dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    order = np.argsort(-sizes, kind="stable")
    groups: list[np.ndarray] = []
    first = 0
    for i in range(1, len(order) + 1):
        if i == len(order) or sizes[order[i]] * LENGTH_SPREAD <= sizes[order[first]]:
            groups.append(np.sort(order[first:i]))
            first = i
    if len(groups) == 1:
        return Packing((_padded_rows(sizes, None, device),), None)
    tokens = [np.concatenate([np.arange(starts[s], starts[s] + sizes[s]) for s in group]) for group in groups]
    rows = tuple(_padded_rows(sizes[group], index, device) for group, index in zip(groups, tokens, strict=True))
    return Packing(rows, torch.from_numpy(np.argsort(np.concatenate(tokens))).to(device))


def _padded_rows(sizes: np.ndarray, tokens: np.ndarray | None, device: torch.device) -> PaddedRows:
    count, length = len(sizes), int(sizes.max())
    slots = None
    if (sizes != length).any():
        slots = torch.from_numpy(np.flatnonzero(np.arange(length) < sizes[:, None])).to(device)
    return PaddedRows(count, length, None if tokens is None else torch.from_numpy(tokens).to(device), slots)


def packed_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    packing: Packing,
    scaling: float,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention of transformers' interface: ``query`` [1, heads, T, d], ``key`` and ``value`` [1, kv heads, T, d].

    Returns [1, T, heads, d].
    """
    q, k, v = (stream[0].transpose(0, 1) for stream in (query, key, value))
    grouped = q.shape[1] != k.shape[1]
    parts = []
    for rows in packing.rows:
        output = functional.scaled_dot_product_attention(
            _to_rows(q, rows),
            _to_rows(k, rows),
            _to_rows(v, rows),
            is_causal=True,
            scale=scaling,
            enable_gqa=grouped,
        )
        flat = output.transpose(1, 2).reshape(rows.count * rows.length, *q.shape[1:])
        parts.append(flat if rows.slots is None else flat.index_select(0, rows.slots))
    joined = parts[0] if packing.inverse is None else torch.cat(parts).index_select(0, packing.inverse)
    return joined.unsqueeze(0), None


def _to_rows(stream: Tensor, rows: PaddedRows) -> Tensor:
    """[T, heads, d] to [count, heads, length, d]."""
    if rows.tokens is not None:
        stream = stream.index_select(0, rows.tokens)
    if rows.slots is not None:
        padded = stream.new_zeros(rows.count * rows.length, *stream.shape[1:])
        stream = padded.index_copy(0, rows.slots, stream)
    return stream.reshape(rows.count, rows.length, *stream.shape[1:]).transpose(1, 2)


def register() -> None:
    """Make :data:`NAME` known to transformers. Its models then build no mask of their own."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, packed_attention)
    AttentionMaskInterface.register(NAME, _no_mask)


def _no_mask(*_: Any, **__: Any) -> None:
    return None
