"""A look at a job's nodes, only where it is asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.slurm.commands import Answer, Kind, Query, allowed
from prl.slurm.probe import MAX_NODES, probe, read_probe
from slurm_answers import NOW, failed

LABELLED = """0: host n1
1: host n2
0: section processes
1: section processes
0:   PID  PPID STAT ELAPSED   RSS COMMAND
1:   PID  PPID STAT ELAPSED   RSS COMMAND
0:  2445     1 Rl       100  5000 PRL::Trainer: x
srun: a remark
0: section gpus
"""


def test_lines_of_nodes_that_speak_at_once() -> None:
    first, second = read_probe(LABELLED)
    assert (first.host, second.host) == ("n1", "n2")
    assert first.sections["processes"][1].split()[-2:] == ["PRL::Trainer:", "x"]
    assert (len(second.sections["processes"]), first.sections["gpus"]) == (1, [])


def test_one_step_on_all_nodes_by_an_allowed_command() -> None:
    queries: list[Query] = []

    def answer(query: Query) -> Answer:
        queries.append(query)
        return Answer(LABELLED, None, NOW)

    found = probe("4242", [f"n{number}" for number in range(100)], answer)
    assert len(found.nodes) == 2
    (query,) = queries
    assert allowed(query.argv)
    assert {f"--nodes={MAX_NODES}", "--overlap", "--time=1", "--input=none"} <= set(query.argv)


def test_srun_that_knows_no_overlap() -> None:
    found = probe("4242", ["n1"], lambda query: failed("srun", Kind.UNKNOWN_OPTION, "unrecognized option '--overlap'"))
    assert found.nodes == ()
    assert found.trouble is not None


def test_no_node_and_no_job() -> None:
    for job_id, nodes in (("4242", []), ("x", ["n1"])):
        with pytest.raises(ValueError, match=r"no node|not a job id"):
            probe(job_id, nodes, lambda query: pytest.fail("asked"))


@given(st.text(alphabet="01: hostsection\n"))
def test_any_output_is_read_without_an_error(text: str) -> None:
    read_probe(text)
