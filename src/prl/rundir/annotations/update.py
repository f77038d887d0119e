"""Trace updates: what became known about a trace after its episode was stored, and folding it onto the trace.

An update is ``{version, trace_id, info, branches: [{index, <stream>: [one value a token of the branch]}]}``. ``info``
holds scalars (``effective``, ``ship``, ``advantage``); a stream covers the branch from its root, null where it says
nothing.
"""

from collections.abc import Iterable, Mapping
from itertools import compress
from typing import Any

from prl.rundir.episodes.branches import Branches
from prl.rundir.episodes.record import finite_floats
from prl.rundir.untyped import get

VERSION = 1
STREAMS = ("advantages", "trainer_logprobs", "entropies", "is_masked", "mismatch_kl")
PARTIAL_STREAMS = ("is_masked", "mismatch_kl")
"""Streams that may say nothing of some sampled tokens: null there is kept."""

_MISMATCH_KL_DECIMALS = 6


def stored_update(update: Mapping[str, Any], float_decimals: int | None) -> dict[str, Any]:
    """The form of an update that is written: floats rounded, non-finite ones null. ``update`` stays as it was.

    ``mismatch_kl`` keeps at least six decimals: its ordinary values are that small.
    """
    branches = []
    for branch in update.get("branches") or []:
        stored = {}
        for name, values in branch.items():
            if isinstance(values, list | tuple):
                decimals = float_decimals
                if name == "mismatch_kl" and decimals is not None:
                    decimals = max(decimals, _MISMATCH_KL_DECIMALS)
                stored[name] = list(values) if name == "is_masked" else finite_floats(values, decimals)[0]
            else:
                stored[name] = values
        branches.append(stored)
    return {
        "version": update.get("version", VERSION),
        "trace_id": update.get("trace_id"),
        "info": update.get("info") or {},
        "branches": branches,
    }


def fold_updates(trace: dict[str, Any], updates: Iterable[Mapping[str, Any]]) -> None:
    """Fold updates onto a trace in place, in order: later ones win.

    ``info`` is merged deeply. Of each branch, a node gets the values at its sampled tokens, in the layout of
    ``logprobs``; from the first node that a stream does not reach, nothing more of it is used. A node is given a
    stream only if it has a value for every sampled token, or for at least one where the stream may be partial. A
    node that branches share keeps what the last update that covers it says. What does not fit is ignored.
    """
    nodes = trace.get("nodes")
    if not isinstance(nodes, list):
        nodes = []
    paths = Branches(nodes)
    for update in updates:
        info = update.get("info")
        if isinstance(info, Mapping):
            present = trace.get("info")
            trace["info"] = _merged(present if isinstance(present, Mapping) else {}, info)
        branches = update.get("branches")
        for branch in branches if isinstance(branches, list) else []:
            index = branch.get("index") if isinstance(branch, Mapping) else None
            if type(index) is int and 0 <= index < len(paths):
                streams = [name for name in STREAMS if isinstance(branch.get(name), list)]
                path = paths[index] if streams else []
                for name in streams:
                    _spread(nodes, path, name, branch[name])


def ship_step(updates: Iterable[Mapping[str, Any]]) -> int | None:
    """The step whose batch an episode belongs to: the smallest ``ship.step`` among updates that call it effective."""
    steps = []
    for update in updates:
        step = get(update, "info", "ship", "step") if get(update, "info", "effective") is True else None
        if type(step) is int:
            steps.append(step)
    return min(steps, default=None)


def _spread(nodes: list[Any], path: list[int], name: str, values: list[Any]) -> None:
    start = 0
    for index in path:
        node = nodes[index]
        if not isinstance(node, dict):
            continue
        tokens = node.get("token_ids")
        length = len(tokens) if isinstance(tokens, list) else 0
        if start + length > len(values):
            return
        mask = node.get("mask")
        covered = values[start : start + length]
        start += length
        sampled = list(compress(covered, mask)) if isinstance(mask, list) else []
        if not sampled:
            continue
        missing = sum(value is None for value in sampled)
        if missing == 0 or (name in PARTIAL_STREAMS and missing < len(sampled)):
            node[name] = sampled


def _merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(old)
    for key, value in new.items():
        present = merged.get(key)
        merged[key] = _merged(present, value) if isinstance(present, Mapping) and isinstance(value, Mapping) else value
    return merged
