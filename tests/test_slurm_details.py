"""scontrol's one long line, and recorded JSON of several versions."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.slurm.commands import Answer, Kind
from prl.slurm.details import read_json, read_scontrol, show_job
from prl.slurm.values import ExitCode
from slurm_answers import NOW, Recorded, failed

HEAD = (
    "UserId=ada(1000) GroupId=ada(1000) MCS_label=N/A Priority=4294901759 Nice=0 Account=(null) QOS=normal "
    "JobState=FAILED Reason=NonZeroExitCode Dependency=(null) Requeue=1 Restarts=2 BatchFlag=1 Reboot=0 ExitCode=0:9 "
    "RunTime=00:00:01 TimeLimit=1-00:00:00 TimeMin=N/A SubmitTime=1789996000 EligibleTime=1789996000 "
    "AccrueTime=1789996000 StartTime=1789996400 EndTime=Unknown Deadline=N/A SuspendTime=None SecsPreSuspend=0 "
    "LastSchedEval=1789996400 Scheduler=Main Partition=gpu AllocNode:Sid=login1:23222 ReqNodeList=(null) "
    "ExcNodeList=(null) NodeList=n[01-02] BatchHost=n01 NumNodes=2 NumCPUs=2 NumTasks=2 CPUs/Task=1 "
    "ReqB:S:C:T=0:0:*:* TRES=cpu=2,node=2,billing=2 Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=* MinCPUsNode=1 "
    "MinMemoryNode=0 MinTmpDiskNode=0 Features=(null) DelayBoot=00:00:00 OverSubscribe=OK Contiguous=0 Licenses=(null) "
    "Network=(null) "
)
TAIL = (
    "Command={command} WorkDir=/w d Comment={comment} StdErr=/w d/run.log StdIn=/dev/null StdOut=/w d/run.log Power= \n"
)


def line(
    number: str = "JobId=4242", name: str = "rl", command: str = "/w d/s.sh a b", comment: str = "none of it"
) -> str:
    return f"{number} JobName={name} {HEAD}{TAIL.format(command=command, comment=comment)}"


def test_values_with_spaces() -> None:
    (job,) = read_scontrol(line())
    assert (job.id, job.name, job.user, job.state.base, job.reason) == (
        "4242",
        "rl",
        "ada",
        "FAILED",
        "NonZeroExitCode",
    )
    assert (job.restarts, job.requeue, job.exit) == (2, True, ExitCode(0, 9))
    assert (job.nodes, job.node_count, job.batch_host) == (("n01", "n02"), 2, "n01")
    assert (job.time_limit, job.submitted, job.start, job.end) == (86400, NOW - 4000, NOW - 3600, None)
    assert (job.command, job.work_dir, job.comment, job.stdout) == (
        "/w d/s.sh a b",
        "/w d",
        "none of it",
        "/w d/run.log",
    )


@pytest.mark.parametrize(
    "name",
    [
        "a  b",
        "x JobState=RUNNING Restarts=9",
        "two\nlines",
        "n\nJobId=1 JobName=other",
        "UserId=root",
        "ü=ö",
        "",
        "none",
    ],
)
def test_name_that_looks_like_something_else(name: str) -> None:
    (job,) = read_scontrol(line(name=name))
    assert (job.id, job.name, job.state.base, job.restarts, job.stdout) == ("4242", name, "FAILED", 2, "/w d/run.log")


def test_comment_and_arguments_that_look_like_paths() -> None:
    (job,) = read_scontrol(line(command="/w d/s.sh WorkDir=/evil", comment="StdOut=/evil JobState=RUNNING"))
    assert (job.work_dir, job.stdout, job.state.base) == ("/w d", "/w d/run.log", "FAILED")


def test_tasks_of_an_array_and_their_output() -> None:
    text = (
        line("JobId=4245 ArrayJobId=4244 ArrayTaskId=1 ArrayTaskThrottle=2")
        + line("JobId=4244 ArrayJobId=4244 ArrayTaskId=3-8 ArrayTaskThrottle=2")
    ).replace("StdOut=/w d/run.log", "StdOut=logs/%x_%A_%a_%j_%N_%u.log")
    first, rest = read_scontrol(text)
    assert (first.id, first.raw_id, first.array_id, first.array_index) == ("4244_1", "4245", "4244", "1")
    assert first.stdout == "/w d/logs/rl_4244_1_4245_n01_ada.log"
    assert rest.id == "4244_[3-8%2]"
    assert rest.stdout == "/w d/logs/rl_4244_%a_4244_n01_ada.log"


def test_only_the_job_asked_for() -> None:
    # A comment with a newline can look like the record of another job.
    text = line(comment="x\nJobId=7 JobName=fake UserId=a(1) GroupId=a(1) JobState=RUNNING")
    answer = show_job("4242", Recorded(scontrol=lambda _: Answer(text, None, NOW)))
    assert [(job.id, job.state.base) for job in answer.jobs] == [("4242", "FAILED")]
    forgotten = show_job("4242", Recorded(scontrol=lambda _: failed("scontrol", Kind.UNKNOWN_JOB)))
    assert forgotten.jobs == ()
    assert forgotten.trouble is not None
    with pytest.raises(ValueError, match="not a job id"):
        show_job("4242 StdOut", Recorded())


def number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


UNLIMITED = {"set": True, "infinite": True, "number": 0}


def recorded(**fields: object) -> str:
    job = {"job_id": 4242, "name": "rl", "partition": "gpu", **fields}
    return json.dumps({"meta": {"plugin": {"data_parser": "data_parser/v0.0.41"}}, "jobs": [job], "errors": []})


@pytest.mark.parametrize(
    ("fields", "state", "nodes", "count"),
    [
        ({"job_state": "RUNNING", "nodes": "n[01-02]", "node_count": 2}, "RUNNING", ("n01", "n02"), 2),
        ({"job_state": ["RUNNING"], "nodes": "n[01-02]", "node_count": number(2)}, "RUNNING", ("n01", "n02"), 2),
        (
            {"job_state": ["RUNNING"], "nodes": {"count": 2, "list": ["n01", "n02"], "allocation": []}},
            "RUNNING",
            ("n01", "n02"),
            2,
        ),
        ({"job_state": ["RUNNING"], "nodes": {"count": 2, "list": "n[01-02]"}}, "RUNNING", ("n01", "n02"), 2),
        ({"job_state": ["PREEMPTED", "COMPLETING"], "nodes": ""}, "PREEMPTED+COMPLETING", (), None),
        ({"job_state": ["HIBERNATED"]}, "unknown (HIBERNATED)", (), None),
        ({}, "unknown", (), None),
    ],
)
def test_recorded_json_of_several_versions(
    fields: dict[str, Any], state: str, nodes: tuple[str, ...], count: int | None
) -> None:
    (job,) = read_json(recorded(**fields))
    assert (job.id, str(job.state), job.nodes, job.node_count) == ("4242", state, nodes, count)


def test_recorded_requeue_exit_and_limits() -> None:
    (job,) = read_json(recorded(job_state=["PENDING", "REQUEUED"], state_reason="BeginTime", restart_cnt=1))
    assert job.waiting_again
    assert (job.reason, job.restarts) == ("BeginTime", 1)
    code = {"return_code": number(3), "signal": {"id": number(9), "name": "KILL"}}
    (job,) = read_json(recorded(job_state=["NODE_FAIL"], exit_code=code, time_limit=UNLIMITED))
    assert (job.exit, job.time_limit) == (ExitCode(3, 9), math.inf)
    # Before objects there was the number that wait() gives, and minutes.
    (job,) = read_json(recorded(job_state="FAILED", exit_code=256 + 9, time_limit=5))
    assert (job.exit, job.time_limit) == (ExitCode(1, 9), 300)


def test_recorded_array_and_its_output() -> None:
    fields = {"array_job_id": number(4240), "array_task_id": number(7), "standard_output": "%A_%4a.log"}
    (job,) = read_json(recorded(job_state="RUNNING", current_working_directory="/w d", **fields))
    assert (job.id, job.stdout) == ("4240_7", "/w d/4240_0007.log")


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    read_scontrol(text)
    read_scontrol(line().replace("rl", text, 1))
    read_json(text)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=5,
)
KEYS = [
    "job_id",
    "job_state",
    "nodes",
    "node_count",
    "exit_code",
    "time_limit",
    "array_job_id",
    "array_task_id",
    "array_task_string",
    "state_reason",
    "restart_cnt",
    "requeue",
    "name",
    "start_time",
    "standard_output",
]


@given(st.dictionaries(st.sampled_from(KEYS), JSON))
def test_any_json_is_read_without_an_error(fields: dict[str, Any]) -> None:
    (job,) = read_json(json.dumps({"jobs": [fields]}))
    assert isinstance(job.id, str)
    job.to_json()
