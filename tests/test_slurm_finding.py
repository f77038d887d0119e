"""Which job runs a run: six ways, and what counts when they disagree."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.slurm.finding import find_job
from prl.slurm.jobs import Job
from prl.slurm.states import parse_state

RUN = "/out/my-run"


def queued(job_id: str = "4242", state: str = "RUNNING", **fields: Any) -> Job:
    return Job(job_id, parse_state(state), **fields)


@pytest.mark.parametrize(
    ("facts", "way"),
    [
        ({"launcher_text": "SUCCESS Submitted batch job 4242\nlogs: x\n"}, "launcher"),
        ({"log_names": ["job_4242.log"]}, "job log"),
        ({"log_names": ["rl-job_4242.log", "launcher.log"]}, "job log"),
        ({"environments": [{"PATH": "/bin"}, {"SLURM_JOB_ID": "4242"}]}, "environment"),
        ({"rendezvous_names": ["job_4242_x1y2", "none"]}, "rendezvous"),
        ({"rendezvous_names": ["job_4242"]}, "rendezvous"),
        ({"socket_names": ["vllm-rpc-ada-b-4242-5555"]}, "engine socket"),
        ({"jobs": [queued(command=f"{RUN}/rl.sbatch --x")]}, "queue"),
        ({"jobs": [queued(stdout=f"{RUN}/launcher/logs/job_4242.log")]}, "queue"),
        ({"jobs": [queued(comment=f"dir={RUN}/ me")]}, "queue"),
        ({"jobs": [queued(work_dir=RUN)]}, "queue name"),
        ({"jobs": [queued(name="my-run")]}, "queue name"),
        ({"job_json": {"job_id": 4242, "cluster": "c"}}, "job.json"),
        ({"job_json": {"job_id": "4242"}}, "job.json"),
    ],
)
def test_each_way(facts: dict[str, Any], way: str) -> None:
    found = find_job(RUN, run_name="my-run", **facts)
    assert found is not None
    assert (found.id, found.ways, found.others) == ("4242", (way,), ())


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"log_names": ["job_.log", "job_x.log", "myjob_7.logs", "job_7.log.gz", "jobs_7.log"]},
        {"job_json": ["4242"]},
        {"job_json": {"job_id": True}},
        {"job_json": {"job_id": "4242; reboot"}},
        {"environments": [{"SLURM_JOB_ID": "x"}]},
        # Beside the run, above it, or out of it again.
        {"jobs": [queued(command="/out/my-run-2/rl.sbatch"), queued(work_dir="/out"), queued(name="prime-rl")]},
        {"jobs": [queued(command=f"{RUN}/../other/rl.sbatch")]},
        {"jobs": [queued(comment="/out/my-run-2")]},
        # A job of that name that ended says nothing about this run.
        {"jobs": [queued(state="COMPLETED", name="my-run")]},
    ],
)
def test_nothing_tells(facts: dict[str, Any]) -> None:
    assert find_job(RUN, run_name="my-run", **facts) is None


def test_ways_that_agree_are_all_named() -> None:
    found = find_job(
        f"{RUN}/",
        job_json={"job_id": 4242},
        log_names=["job_4242.log"],
        environments=[{"SLURM_JOB_ID": "4242"}],
        jobs=[queued(command=f"{RUN}/rl.sbatch")],
    )
    assert found is not None
    assert found.ways == ("environment", "queue", "job log", "job.json")


def test_what_lives_counts_before_what_was_recorded() -> None:
    found = find_job(
        RUN, job_json={"job_id": 5000}, log_names=["job_4990.log"], jobs=[queued(work_dir=RUN, stdout=f"{RUN}/o")]
    )
    assert found is not None
    assert (found.id, found.others) == ("4242", ("5000", "4990"))


def test_newest_of_the_recorded_ones() -> None:
    # Each restart by hand is a new job; its logs stay.
    logs = ["job_99.log", "job_100.log", "job_101.log"]
    found = find_job(RUN, log_names=logs, job_json={"job_id": 99}, socket_names=["vllm-rpc-ada-777-1"])
    assert found is not None
    assert (found.id, found.others) == ("101", ("100", "99"))


def test_task_of_an_array_has_two_numbers() -> None:
    task = queued("4244_3", raw_id="4250", array_id="4244", array_index="3", stdout=f"{RUN}/job_4244_3.log")
    environment = {"SLURM_JOB_ID": "4250", "SLURM_ARRAY_JOB_ID": "4244", "SLURM_ARRAY_TASK_ID": "3"}
    found = find_job(RUN, jobs=[task], environments=[environment], rendezvous_names=["job_4250"])
    assert found is not None
    assert (found.id, found.ways, found.others) == ("4244_3", ("environment", "queue", "rendezvous"), ())


@given(st.text(), st.lists(st.text(max_size=20)), st.text(), st.text())
def test_any_facts_are_read_without_an_error(text: str, names: list[str], path: str, comment: str) -> None:
    find_job(
        path,
        run_name=text,
        job_json={"job_id": text},
        log_names=names,
        rendezvous_names=names,
        socket_names=names,
        launcher_text=text,
        environments=[{"SLURM_JOB_ID": text}],
        jobs=[queued(work_dir=path, comment=comment, command=text)],
    )
