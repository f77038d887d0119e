"""sinfo: which nodes are lost or drained, and why."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.slurm.commands import Answer, Kind, Query
from prl.slurm.nodes import NodesAnswer, query_nodes, read_sinfo
from slurm_answers import NOW, Recorded, failed, mark_of


def ask(*rows: tuple[str, str, str, str]) -> NodesAnswer:
    def sinfo(query: Query) -> Answer:
        mark = mark_of(query)
        return Answer("".join("".join(cell + mark for cell in row) + "\n" for row in rows), None, NOW)

    return query_nodes(["n1"], Recorded(sinfo=sinfo))


@pytest.mark.parametrize(
    ("printed", "state", "sign", "lost", "draining"),
    [
        ("idle", "idle", None, False, False),
        ("mixed", "mixed", None, False, False),
        ("down*", "down", "not responding", True, False),
        ("idle*", "idle", "not responding", True, False),
        ("idle~", "idle", "powered off", True, False),
        ("draining", "draining", None, False, True),
        ("drained", "drained", None, False, True),
        ("drained*", "drained", "not responding", True, True),
        ("allocated$", "allocated", "in maintenance", False, False),
        ("sleeping", "sleeping", None, None, False),
    ],
)
def test_states(printed: str, state: str, sign: str | None, lost: bool | None, draining: bool) -> None:
    (node,) = ask(("n1", printed, "none", "Unknown")).nodes
    assert (node.state, node.sign, node.lost, node.draining) == (state, sign, lost, draining)
    assert (node.reason, node.since) == (None, None)


def test_reason_and_a_node_of_two_partitions() -> None:
    row = ("n1", "down", "bad | fan\nreplace", "1790000000")
    (node,) = ask(row, row).nodes
    assert (node.reason, node.since) == ("bad | fan\nreplace", 1_790_000_000)


def test_what_is_no_node_is_not_asked() -> None:
    for names in (["-a"], ["n[1-2]"], ["a b"], []):
        with pytest.raises(ValueError, match="no"):
            query_nodes(names, lambda query: pytest.fail("asked"))
    silent = query_nodes(["n1"], Recorded(sinfo=lambda _: failed("sinfo", Kind.TIMED_OUT)))
    assert silent.nodes == ()
    assert silent.trouble is not None


@given(st.text(alphabet="<m>n1*\n", max_size=60))
def test_any_output_is_read_without_an_error(text: str) -> None:
    read_sinfo(text, "<m>")
