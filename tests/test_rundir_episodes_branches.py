"""Branches are the paths from roots to leaves, whatever the links look like."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from prl.rundir.episodes.branches import branch_paths


def test_branches_come_in_the_order_of_their_leaves() -> None:
    nodes: list[dict[str, Any]] = [{}, {"parent": 0}, {"parent": 1}, {"parent": 1}, {"parent": 2}]
    assert branch_paths(nodes) == [[0, 1, 3], [0, 1, 2, 4]], "node 3 is the first leaf, node 4 the second"
    assert branch_paths([]) == []
    assert branch_paths([{"parent": None}, {}]) == [[0], [1]], "two roots without children are two branches"


def test_bad_links_make_a_root() -> None:
    assert branch_paths([{"parent": 1}, {"parent": 0}]) == [[0, 1]], "a cycle is cut at the link to a later node"
    assert branch_paths([{"parent": 0}, {"parent": 7}, {"parent": -1}, {"parent": "0"}]) == [[0], [1], [2], [3]]


@given(st.lists(st.one_of(st.none(), st.integers(-2, 12), st.booleans(), st.text(max_size=1)), max_size=12))
def test_every_node_lies_on_a_branch_and_each_branch_ends_in_a_leaf(parents: list[Any]) -> None:
    paths = branch_paths([{"parent": parent} for parent in parents])
    assert {index for path in paths for index in path} == set(range(len(parents)))
    assert [path[-1] for path in paths] == sorted({path[-1] for path in paths})
    assert all(path == sorted(path) for path in paths), "a parent is an earlier node"
