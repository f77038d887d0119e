"""What ``prl status --probe`` says of the nodes of a run's job."""

from dataclasses import replace

import pytest

from made_up_facts import facts
from prl.cli import probing
from prl.cli.probing import look_at_nodes
from prl.slurm.commands import Answer, Kind, Query, Trouble
from prl.watch.surroundings import JobNode, SlurmJob

RUNNING = SlurmJob("42", "RUNNING", 0.0, "squeue", nodes=[JobNode("n1", "ALLOCATED"), JobNode("n2", "ALLOCATED")])


def test_a_run_without_a_job_has_no_nodes() -> None:
    assert "no SLURM job" in (look_at_nodes(facts()).problem or "")


def test_a_job_that_waits_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "run", pytest.fail)
    seen = look_at_nodes(replace(facts(), jobs=[replace(RUNNING, state="PENDING")]))
    assert seen.problem == "the job is PENDING: only the nodes of a running job can be looked at"


def test_what_nodes_print_is_shown_by_section_and_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Query] = []

    def answer(query: Query) -> Answer:
        asked.append(query)
        lines = ["0: host n1", "0: section processes", *(f"0: {pid} \x1b[2Jtrainer" for pid in range(20))]
        return Answer("\n".join([*lines, "1: host n2", "1: section memory", "1: MemTotal: 1 kB"]), None, 1.0)

    monkeypatch.setattr(probing, "run", answer)
    seen = look_at_nodes(replace(facts(), jobs=[RUNNING]))
    assert "--nodelist=n1,n2" in asked[0].argv and "--overlap" in asked[0].argv
    assert [node["host"] for node in seen.to_json()["nodes"]] == ["n1", "n2"]
    assert len(seen.to_json()["nodes"][0]["processes"]) == probing.LINES
    assert "\x1b" not in seen.text() and "(8 more)" in seen.text() and "MemTotal: 1 kB" in seen.text()


def test_why_no_node_answered_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    trouble = Trouble(Kind.TIMED_OUT, "srun gave no answer within 20 s", "srun")
    monkeypatch.setattr(probing, "run", lambda query: Answer("", trouble, 1.0))
    assert look_at_nodes(replace(facts(), jobs=[RUNNING])).problem == "srun gave no answer within 20 s"
