"""Branches of a trace. They are not stored: a trace is a forest of messages linked by ``parent``, and a branch is the
path from a root to one leaf. Each branch is one training sample; branch ``i`` belongs to the ``i``-th leaf in node
order, here and wherever an index of a branch is stored or shown.

All paths together can be as long as the square of the number of nodes. So whoever needs one asks for one.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


class Branches:
    """The branches of a trace, each the node indexes from root to leaf, made when it is asked for.

    A valid parent is the index of an earlier node. Any other value (out of range, a later node, the node itself, not
    a number) makes its node a root: so damaged links can neither loop nor hide a node.
    """

    def __init__(self, nodes: Sequence[Any]) -> None:
        self.parents = [_parent(node, index) for index, node in enumerate(nodes)]
        inner = {parent for parent in self.parents if parent is not None}
        self.leaves = [index for index in range(len(nodes)) if index not in inner]

    def __len__(self) -> int:
        return len(self.leaves)

    def __iter__(self) -> Iterator[list[int]]:
        return (self.path_to(leaf) for leaf in self.leaves)

    def __getitem__(self, branch: int) -> list[int]:
        return self.path_to(self.leaves[branch])

    def path_to(self, node: int) -> list[int]:
        """The nodes from a root to ``node``."""
        path = []
        current: int | None = node
        while current is not None:
            path.append(current)
            current = self.parents[current]
        path.reverse()
        return path


def branch_paths(nodes: Sequence[Any]) -> list[list[int]]:
    """All branches at once: for traces known to be small."""
    return list(Branches(nodes))


def _parent(node: Any, index: int) -> int | None:
    parent = node.get("parent") if isinstance(node, Mapping) else None
    return parent if type(parent) is int and 0 <= parent < index else None
