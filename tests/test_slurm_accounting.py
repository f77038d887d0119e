"""sacct: steps in their job, duplicates of a requeue, cut states, clusters without accounting."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.slurm.accounting import Accounting, accounting, memory_used, outcome, read_sacct
from prl.slurm.commands import Answer, Kind, Query, allowed
from prl.slurm.states import parse_state
from prl.slurm.values import ExitCode
from slurm_answers import NOW, Recorded, failed

ENDED = """JobID|State|ExitCode
1|CANCELLED by 1234|0:15
2|OUT_OF_MEMORY|0:125
3|FAILED|0:9
4|TIMEOUT|0:0
5|PREEMPTED|0:0
6|DEADLINE|0:0
7|BOOT_FAIL|0:0
8|REVOKED|0:0
9|OUT_OF_ME+|0:125
10|FAILED|2:0
11|HIBERNATED|0:0
12|NODE_FAIL|1:0
"""


def test_how_jobs_ended() -> None:
    assert {job_id: job.outcome for job_id, job in read_sacct(ENDED).items()} == {
        "1": "cancelled",
        "2": "out of memory on a node",
        "3": "failed: signal 9 (SIGKILL)",
        "4": "reached its time limit",
        "5": "preempted by another job",
        "6": "reached its deadline",
        "7": "a node did not boot",
        "8": "cancelled",
        "9": "out of memory on a node",
        # sacct takes 128 off: what shells make of SIGINT looks so too.
        "10": "failed: exit code 2 or 130",
        "11": "state unknown (HIBERNATED)",
        "12": "a node failed",
    }
    # Signal 9 alone is not said to be memory: anybody may send it.
    assert {job_id for job_id, job in read_sacct(ENDED).items() if job.host_oom} == {"2", "9"}


def test_reason_where_there_is_no_exit_code() -> None:
    failed_state = parse_state("FAILED")
    assert outcome(failed_state, None, "JobLaunchFailure") == "failed: it could not be started on its nodes"
    assert outcome(failed_state, ExitCode(0, 9), "JobLaunchFailure") == "failed: signal 9 (SIGKILL)"
    assert outcome(failed_state) == "failed"


STEPS = """JobID|State|ExitCode|Start|End|Elapsed|NodeList|MaxRSS|DerivedExitCode|Submit|ReqMem|Reason
4242|FAILED|0:9|1789990000|1789993600|01:00:00|n[01-02]||0:9|1789980000|4000Mn|None
4242.batch|FAILED|0:9|1789990000|1789993600|01:00:00|n01|2792K|||||
4242.batch|FAILED|0:9|1789990000|1789993600|01:00:00|n01|2792K||||
4242.extern|COMPLETED|0:0|1789990000|1789993600|01:00:00|n[01-02]|100K||||
4242.0|OUT_OF_MEMORY|0:125|1789990010|1789993600|00:59:50|n[01-02]|1.5G||||
4243_1|RUNNING|0:0|1789990000|Unknown|01:00:00|n03||||Unknown|
junk
"""


def test_steps_are_folded_into_their_job() -> None:
    jobs = read_sacct(STEPS)
    assert set(jobs) == {"4242", "4243_1"}
    job = jobs["4242"]
    # A row with more fields than the header is none.
    assert [step.name for step in job.steps] == ["batch", "extern", "0"]
    assert (job.max_rss, job.host_oom, job.outcome) == (3 * 512 * 1024**2, True, "out of memory on a node")
    assert (job.start, job.end, job.elapsed, job.submitted) == (1_789_990_000, 1_789_993_600, 3600, 1_789_980_000)
    assert (job.nodes, job.requested_memory, job.derived_exit) == (("n01", "n02"), "4000Mn", ExitCode(0, 9))
    assert (jobs["4243_1"].end, jobs["4243_1"].state.base) == (None, "RUNNING")


def test_starts_of_a_requeued_job() -> None:
    text = (
        "JobID|State|ExitCode|Start\n"
        "7|NODE_FAIL|1:0|1789990000\n7.batch|CANCELLED|0:15|1789990000\n"
        "7|PREEMPTED|0:0|1789991000\n"
        "7|COMPLETED|0:0|1789992000\n7.batch|COMPLETED|0:0|1789992000\n"
    )
    job = read_sacct(text)["7"]
    assert (job.state.base, [step.name for step in job.steps]) == ("COMPLETED", ["batch"])
    assert [earlier.state.base for earlier in job.earlier] == ["NODE_FAIL", "PREEMPTED"]
    assert [len(earlier.steps) for earlier in job.earlier] == [1, 0]


def test_steps_without_their_job() -> None:
    job = read_sacct("JobID|State|ExitCode\n7.batch|OUT_OF_MEMORY|0:125\n")["7"]
    assert not job.state.known
    assert job.host_oom


def test_one_call_and_a_delimiter_that_cannot_occur() -> None:
    queries: list[Query] = []

    def answer(query: Query) -> Answer:
        queries.append(query)
        mark = query.argv[-1].removeprefix("--delimiter=")
        return Answer(STEPS.replace("|", mark).replace("None\n", "a|b\n"), None, NOW)

    found = accounting(["4242", "4243_1"], answer)
    assert found.jobs["4242"].reason == "a|b"
    (query,) = queries
    assert query.argv[3] == "--jobs=4242,4243_1"
    assert allowed(query.argv)


def test_older_sacct_is_asked_for_what_all_have() -> None:
    queries: list[Query] = []

    def answer(query: Query) -> Answer:
        queries.append(query)
        if "Reason" in query.argv[4]:
            return failed("sacct", Kind.UNKNOWN_OPTION, 'Invalid field requested: "Reason"')
        return Answer(ENDED, None, NOW)

    found = accounting(["1"], answer)
    assert found.trouble is None
    assert found.jobs["1"].outcome == "cancelled"
    assert [allowed(query.argv) for query in queries] == [True, True]


@pytest.mark.parametrize("kind", [Kind.ACCOUNTING_DISABLED, Kind.NOT_INSTALLED, Kind.TIMED_OUT])
def test_no_accounting(kind: Kind) -> None:
    slurm = Recorded(sacct=lambda _: failed("sacct", kind))
    found = accounting(["1"], slurm)
    assert (found.jobs, found.trouble and found.trouble.kind) == ({}, kind)
    assert slurm.asked == ["sacct"]


def test_memory_used_so_far() -> None:
    text = "JobID|MaxRSS\n4242.batch|2792K\n4242.0|\n4242.1|1G\n"
    used, trouble = memory_used("4242", Recorded(sstat=lambda _: Answer(text, None, NOW)))
    assert (used, trouble) == ({"batch": 2792 * 1024, "1": 1024**3}, None)


def test_accounting_as_json_and_back() -> None:
    job = read_sacct(STEPS)["4242"]
    again = Accounting.from_json(json.loads(json.dumps(job.to_json())))
    assert (again.outcome, again.start, again.nodes, again.steps) == (job.outcome, job.start, job.nodes, job.steps)


@given(st.text(alphabet="JobID|State\n12.x_+:", max_size=200))
def test_any_output_is_read_without_an_error(text: str) -> None:
    for job in read_sacct(f"JobID|State\n{text}").values():
        assert job.outcome
