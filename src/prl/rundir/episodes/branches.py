"""Branches of a trace. They are not stored: a trace is a forest of messages linked by ``parent``, and a branch is the
path from a root to one leaf. Each branch is one training sample.
"""

from collections.abc import Mapping, Sequence
from typing import Any


def branch_paths(nodes: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """Node indexes from root to leaf, one list a branch; branch ``i`` belongs to the ``i``-th leaf in node order.

    A valid parent is the index of an earlier node. Any other value (out of range, a later node, the node itself, not
    a number) makes its node a root: so damaged links can neither loop nor hide a node.
    """
    parents = [_parent(node, index) for index, node in enumerate(nodes)]
    inner = {parent for parent in parents if parent is not None}
    return [_path_to(leaf, parents) for leaf in range(len(nodes)) if leaf not in inner]


def _parent(node: Mapping[str, Any], index: int) -> int | None:
    parent = node.get("parent") if isinstance(node, Mapping) else None
    return parent if type(parent) is int and 0 <= parent < index else None


def _path_to(leaf: int, parents: list[int | None]) -> list[int]:
    path = []
    current: int | None = leaf
    while current is not None:
        path.append(current)
        current = parents[current]
    path.reverse()
    return path
