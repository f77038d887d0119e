"""The forward pass in float32: a padded prefill of prompts and batched decode steps over a static KV cache by slots.

Written by hand rather than taken from transformers, whose import takes longer than the whole start of this server and
whose caches allocate on every step. Results equal those of transformers for the same weights to rounding (the tests
hold both to 1e-4). Left out: chunked prefill (a prompt is computed at once) and paging (a slot reserves its length;
pages that were never written cost no memory).

Shapes: N requests, P distinct prompts, T tokens of the longest prompt, D head size.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from prl.inference.architecture import Architecture
from prl.inference.weights import LayerWeights, Weights

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, queries, keys, values), each (..., heads, D) -> mixed values (..., query_size)."""


class KVCache:
    """Keys and values of ``num_slots`` requests of up to ``max_len`` tokens.

    Active requests occupy a contiguous prefix of the slots, so a decode step attends over a view, without a gather.
    """

    def __init__(self, arch: Architecture, num_slots: int, max_len: int) -> None:
        self.num_slots = num_slots
        self.max_len = max_len
        shape = (arch.num_layers, 2, num_slots, arch.num_kv_heads, max_len, arch.head_dim)
        # numpy's zeros are pages the system has not handed out yet; torch would write to all of them.
        self.data = torch.from_numpy(np.zeros(shape, dtype=np.float32))

    @staticmethod
    def num_bytes(arch: Architecture, num_slots: int, max_len: int) -> int:
        """Memory that a full cache takes."""
        return arch.num_layers * 2 * num_slots * arch.kv_size * max_len * 4

    def clear(self, slot: int) -> None:
        """Forget a slot that holds numbers that are not finite: even masked, they would spoil what follows there."""
        self.data[:, :, slot] = 0.0

    def move(self, sources: list[int], targets: list[int], length: int) -> None:
        """Copy the first ``length`` positions of some slots to others. The two lists share no slot."""
        self.data[:, :, targets, :, :length] = self.data[:, :, sources, :, :length]


class Model:
    """A decoder with its current weights. Not thread-safe: the engine's thread alone calls it."""

    def __init__(self, arch: Architecture, weights: Weights, max_len: int) -> None:
        self.arch = arch
        self.weights = weights
        self.cos, self.sin = rotary_tables(arch, max_len)

    def prefill(self, tokens: Tensor, lengths: Tensor, rows: Tensor, slots: Tensor, cache: KVCache) -> Tensor:
        """Compute P prompts, padded on the right, and keep their keys and values.

        tokens (P, T) int64; lengths (P); ``rows`` and ``slots`` (N): slot ``slots[i]`` holds prompt ``rows[i]``, so
        that equal prompts are computed once. Returns the logits after each prompt's last token, (P, vocabulary).
        """
        arch = self.arch
        length = tokens.shape[1]
        groups = arch.num_heads // arch.num_kv_heads

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
            cache.data[layer, 0, slots, :, :length] = k[rows]
            cache.data[layer, 1, slots, :, :length] = v[rows]
            if groups > 1:
                k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
            # Causal: no token of a prompt ever sees the padding behind it.
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return mixed.transpose(1, 2).flatten(-2)

        hidden = self._run(tokens, self.cos[:length, None], self.sin[:length, None], attend)
        return self._logits(hidden[torch.arange(len(tokens)), lengths - 1])

    def decode(self, tokens: Tensor, positions: Tensor, span: int, cache: KVCache) -> Tensor:
        """One more token for the requests in slots 0..N-1.

        tokens (N) int64, the newest of each; positions (N), where it stands; ``span``: the largest position plus one.
        Returns logits (N, vocabulary).
        """
        arch = self.arch
        count = len(tokens)
        slots = torch.arange(count)
        visible = torch.arange(span) <= positions[:, None]
        mask = torch.zeros(visible.shape).masked_fill_(~visible, -math.inf)[:, None, None]

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = cache.data[layer, 0], cache.data[layer, 1]
            keys[slots, :, positions] = k
            values[slots, :, positions] = v
            # The query heads that share a key head stand where further query positions would: no copy of the keys.
            grouped = q.view(count, arch.num_kv_heads, -1, arch.head_dim)
            mixed = functional.scaled_dot_product_attention(
                grouped, keys[:count, :, :span], values[:count, :, :span], mask
            )
            return mixed.reshape(count, arch.query_size)

        return self._logits(self._run(tokens, self.cos[positions, None], self.sin[positions, None], attend))

    def _run(self, tokens: Tensor, cos: Tensor, sin: Tensor, attend: Attend) -> Tensor:
        arch = self.arch
        hidden = functional.embedding(tokens, self.weights.embedding)
        for index, layer in enumerate(self.weights.layers):
            normed = functional.rms_norm(hidden, (arch.hidden_size,), layer.attention_norm, arch.norm_eps)
            q, k, v = self._project(layer, normed, cos, sin)
            hidden = hidden + functional.linear(attend(index, q, k, v), layer.output, layer.output_bias)
            normed = functional.rms_norm(hidden, (arch.hidden_size,), layer.mlp_norm, arch.norm_eps)
            gate, up = functional.linear(normed, layer.gate_up, layer.gate_up_bias).chunk(2, -1)
            hidden = hidden + functional.linear(functional.silu(gate) * up, layer.down, layer.down_bias)
        return hidden

    def _project(self, layer: LayerWeights, normed: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys (normed and rotated together) and values, each (..., heads, D)."""
        arch = self.arch
        joined = functional.linear(normed, layer.qkv, layer.qkv_bias).unflatten(-1, (-1, arch.head_dim))
        qk, v = joined.split((arch.num_heads + arch.num_kv_heads, arch.num_kv_heads), -2)
        if layer.qk_scale is not None:
            qk = functional.rms_norm(qk, (arch.head_dim,), None, arch.norm_eps) * layer.qk_scale
        # The halves of each head change places; the sign of the rotation is in the table.
        qk = torch.addcmul(qk * cos, torch.roll(qk, arch.head_dim // 2, -1), sin)
        q, k = qk.split((arch.num_heads, arch.num_kv_heads), -2)
        return q, k, v

    def _logits(self, hidden: Tensor) -> Tensor:
        arch = self.arch
        normed = functional.rms_norm(hidden, (arch.hidden_size,), self.weights.norm, arch.norm_eps)
        return functional.linear(normed, self.weights.head)


def rotary_tables(arch: Architecture, max_len: int) -> tuple[Tensor, Tensor]:
    """Cosines and signed sines of rotary position embedding (Su et al. 2021), each (max_len, D).

    The first half of the sines is negative: rotating a head is ``x * cos + roll(x, D / 2) * sin``.
    """
    frequencies = 1.0 / arch.rope_theta ** (torch.arange(0, arch.head_dim, 2, dtype=torch.float32) / arch.head_dim)
    if arch.rope_scaling is not None:
        scaling = arch.rope_scaling
        turns = scaling.original_max_position_embeddings * frequencies / (2 * math.pi)
        blend = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
        blend = blend.clamp(0.0, 1.0)
        frequencies = (1 - blend) * frequencies / scaling.factor + blend * frequencies
    angles = torch.outer(torch.arange(max_len, dtype=torch.float32), frequencies)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)
