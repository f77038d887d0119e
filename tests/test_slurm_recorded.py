"""What a real accounting daemon said of jobs that ended in every way, and what is made of it.

``recorded/sacct-22.05.8.txt`` is the output of one ``sacct`` as :func:`prl.slurm.accounting.accounting` asks it, from a
controller, three nodes, slurmdbd and MariaDB on one machine. How it was made stands in ``docs/clusters.md``.
"""

from pathlib import Path
from typing import NamedTuple

import pytest

from prl.slurm.accounting import Accounting, AccountingAnswer, accounting, read_sacct
from prl.slurm.commands import Answer, Query
from prl.slurm.memory import SlurmMemory
from prl.slurm.values import ExitCode
from slurm_answers import NOW, Recorded

TEXT = (Path(__file__).parent / "recorded/sacct-22.05.8.txt").read_text()


class Row(NamedTuple):
    """What is right for a job."""

    id: str
    did: str
    state: str
    outcome: str
    earlier: tuple[str, ...] = ()
    """States of its starts before a requeue."""


ROWS = [
    Row("4", "srun true", "COMPLETED", "completed"),
    Row("5", "exit 3", "FAILED", "failed: exit code 3"),
    # `scontrol show job` says 143:0 of it.
    Row("6", "exit 143", "FAILED", "failed: exit code 15 or 143"),
    # The batch step's own state is CANCELLED; nobody cancelled it.
    Row("7", "kill -9 $$", "FAILED", "failed: signal 9 (SIGKILL)"),
    Row("8", "srun sh -c 'exit 7'; exit 0", "COMPLETED", "completed, but step 0 ended: failed: exit code 7"),
    Row("9", "more memory than --mem, in the script", "OUT_OF_MEMORY", "out of memory on a node"),
    Row("10", "the same in a step; exit 0", "COMPLETED", "completed, but step 0 ended: out of memory on a node"),
    Row("11", "scancel", "CANCELLED", "cancelled"),
    Row("12", "scancel before it started", "CANCELLED", "cancelled"),
    Row("15", "its node lost, --no-requeue", "NODE_FAIL", "a node failed"),
    # Its node came back and could not start it: held, with a row of its own that never started.
    Row("16", "its node lost, --requeue", "PENDING", "state PENDING", ("NODE_FAIL", "REQUEUED")),
    Row("18", "scontrol requeuehold", "PENDING", "state PENDING", ("REQUEUED",)),
    Row("20_1", "task 1 of an array: exit 0", "COMPLETED", "completed"),
    Row("20_2", "task 2: exit 1", "FAILED", "failed: exit code 1"),
    Row("20_3", "task 3: exit 2", "FAILED", "failed: exit code 2 or 130"),
    Row("21_[0-7%2]", "an array that waits, held", "PENDING", "state PENDING"),
    Row("22+0", "the first part of a heterogeneous job: exit 4", "FAILED", "failed: exit code 4"),
    Row("22+1", "its second part", "FAILED", "failed: exit code 4"),
    Row("30", "sleep beyond --time", "TIMEOUT", "reached its time limit"),
    Row("38", "waited until its --deadline", "DEADLINE", "reached its deadline"),
    Row(
        "31",
        "--output in a directory that is not there",
        "FAILED",
        "failed: its output file or working directory could not be used (0:53)",
    ),
    Row("32", "scontrol requeue", "COMPLETED", "completed", ("REQUEUED",)),
    Row("33", "preempted, and requeued", "COMPLETED", "completed", ("PREEMPTED",)),
    Row("34", "preempted by PreemptMode=CANCEL", "PREEMPTED", "preempted by another job"),
]


@pytest.fixture(scope="module")
def jobs() -> dict[str, Accounting]:
    return read_sacct(TEXT)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.did)
def test_end(jobs: dict[str, Accounting], row: Row) -> None:
    job = jobs[row.id]
    assert (job.state.base, job.outcome) == (row.state, row.outcome)
    assert tuple(earlier.state.raw for earlier in job.earlier) == row.earlier
    again = Accounting.from_json(job.to_json())
    assert (again.outcome, again.raw_id) == (job.outcome, job.raw_id)


def test_every_job_is_told_of(jobs: dict[str, Accounting]) -> None:
    assert set(jobs) == {row.id for row in ROWS}
    assert all(job.state.known for job in jobs.values())
    assert all(step.state.known for job in jobs.values() for step in job.steps)


def test_times_nodes_and_memory(jobs: dict[str, Accounting]) -> None:
    limited = jobs["30"]
    assert (limited.start, limited.end, limited.elapsed, limited.submitted) == (
        1_795_983_602,
        1_795_983_631,
        29,
        1_795_983_601,
    )
    assert (limited.nodes, limited.requested_memory, limited.max_rss) == (("n1",), "100M", 10_928 * 1024)
    assert [step.name for step in limited.steps] == ["batch", "0"]
    # One that never started has neither start nor nodes, and an end.
    assert (jobs["12"].start, jobs["12"].nodes, jobs["12"].end) == (None, (), 1_795_983_512)
    # The steps of a lost node have no exit code at all.
    assert [step.exit for step in jobs["15"].steps] == [None, None]
    assert jobs["8"].derived_exit == ExitCode(7, 0)


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("30", "30"),
        ("20_2", "20_2"),
        # The number of a task alone, as %j has it in the name of its log.
        ("27", "20_2"),
        # The last task of an array has the array's number as its own.
        ("20", "20_3"),
        # Its script, and with it the run, is in the first part.
        ("22", "22+0"),
        ("23", "22+1"),
        ("21", "21_[0-7%2]"),
        ("2", None),
    ],
)
def test_what_a_number_names(jobs: dict[str, Accounting], asked: str, named: str | None) -> None:
    found = AccountingAnswer(jobs, NOW).of(asked)
    assert (None if found is None else found.id) == named


def test_job_that_left_the_queue_is_found_by_any_of_its_numbers() -> None:
    def sacct(query: Query) -> Answer:
        return Answer(TEXT.replace("|", query.argv[-1].removeprefix("--delimiter=")), None, NOW)

    slurm = Recorded(squeue=lambda query: Answer("", None, NOW), sacct=sacct)
    found = SlurmMemory(None, slurm, lambda: NOW).standings(["22", "27", "23", "20_1"])
    assert [standing.phase for standing in found.values()] == ["ended"] * 4
    assert found["22"].plain == "failed: exit code 4"
    assert accounting(["22"], slurm).jobs.keys() == read_sacct(TEXT).keys()
