"""From a trace to training samples: one sample a branch, the prompt masked, log-probabilities at their tokens.

A node holds the tokens it adds (``token_ids``), which of them were sampled (``mask``) and the log-probabilities of
those alone. A branch concatenates the nodes from a root to a leaf. A sampled node that several branches share trains
in the first of them only and is context in the others, so that no token counts twice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prl.rundir.episodes.branches import branch_paths


class MalformedTraceError(ValueError):
    """A trace whose token arrays do not fit together."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One branch as token arrays, all of shape ``(tokens,)``."""

    trace_id: str
    branch_index: int
    env_name: str
    temperature: float
    token_ids: NDArray[np.int64]
    sampled: NDArray[np.bool_]
    """Which tokens the policy sampled, in this branch or in one that shares the node."""
    loss_mask: NDArray[np.bool_]
    """Sampled tokens that this sample trains."""
    logprobs: NDArray[np.float64]
    """The sampler's log-probability of sampled tokens, 0 elsewhere."""

    def __len__(self) -> int:
        return len(self.token_ids)


def branch_samples(trace: Mapping[str, Any], env_name: str, temperature: float) -> list[Sample]:
    """The samples of one trace. A branch that would train no token is left out (its index stays taken).

    Raises MalformedTraceError when a node's mask or log-probabilities do not match its tokens.
    """
    nodes: Sequence[Mapping[str, Any]] = trace["nodes"]
    arrays = [_node_arrays(node, index) for index, node in enumerate(nodes)]
    trained: set[int] = set()
    samples = []
    for branch_index, path in enumerate(branch_paths(nodes)):
        parts = [arrays[index] for index in path]
        token_ids = np.concatenate([part[0] for part in parts])
        sampled = np.concatenate([part[1] for part in parts])
        logprobs = np.zeros(len(token_ids))
        logprobs[sampled] = np.concatenate([part[2] for part in parts])
        loss_mask = sampled
        if not trained.isdisjoint(path):
            loss_mask = np.concatenate(
                [part[1] & (index not in trained) for index, part in zip(path, parts, strict=True)]
            )
        trained.update(path)
        if loss_mask.any():
            samples.append(
                Sample(str(trace["id"]), branch_index, env_name, temperature, token_ids, sampled, loss_mask, logprobs)
            )
    return samples


def _node_arrays(
    node: Mapping[str, Any], index: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.float64]]:
    token_ids = np.asarray(node.get("token_ids") or (), dtype=np.int64)
    mask = np.asarray(node.get("mask") or (), dtype=np.bool_)
    logprobs = np.asarray(node.get("logprobs") or (), dtype=np.float64)
    if len(mask) != len(token_ids):
        raise MalformedTraceError(f"node {index}: {len(token_ids)} tokens with a mask of {len(mask)}")
    if len(logprobs) != np.count_nonzero(mask):
        raise MalformedTraceError(
            f"node {index}: {np.count_nonzero(mask)} sampled tokens with {len(logprobs)} log-probabilities"
        )
    if not np.isfinite(logprobs).all():
        raise MalformedTraceError(f"node {index}: a log-probability is not finite")
    return token_ids, mask, logprobs
