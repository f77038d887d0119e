"""The log of a job over several nodes."""

from hypothesis import given
from hypothesis import strategies as st

from prl.slurm.joblog import Cancellation, Cleanup, Grace, HostOom, JobLog, parse_job_log

TOP = """INFER_HOSTS=n1 n2
INFER_URLS=http://n1:8000/v1
ADMIN_URLS=http://n1:8100 http://n2:8100
HOSTNAMES=n1 n2 n3 n4
TRAIN_HOSTS=n3 n4
MASTER_ADDR=n3
MASTER_PORT=29500
ORCH_ADDR=n3
[node-cleanup] n1 procs=0 gpu_mem=3MiB
[node-cleanup] n3 procs=2 gpu_mem=40960MiB
"""
CRASH = """12:00:00    INFO something of the run
[n3] component exited with code 1 - waiting up to 3600s for (other nodes to finish writing)
[n1] component exited with code 143 - waiting up to 3600s for (other nodes to finish writing)
"""
END = """[n3] tearing down (exit code 1) - (after the wait)
srun: error: n3: task 2: Exited with exit code 1
slurmstepd: error: *** STEP 8123.0 ON n1 CANCELLED AT 2026-01-01T10:05:00 ***
slurmstepd-n1: error: *** JOB 8123 ON n1 CANCELLED AT 2026-01-01T10:05:01 DUE TO TIME LIMIT ***
"""


def parse(text: str) -> JobLog:
    return parse_job_log(text.split("\n"))


def test_roles_of_the_hosts() -> None:
    log = parse(TOP)
    assert log.roles == {
        "n1": ("inference", "router"),
        "n2": ("inference",),
        "n3": ("trainer", "master", "orchestrator"),
        "n4": ("trainer",),
    }
    assert log.values["MASTER_PORT"] == "29500"
    # Memory that is held before the start foretells a failure.
    assert log.cleanups == {"n1": Cleanup("n1", 0, 3), "n3": Cleanup("n3", 2, 40960)}
    assert (log.starts, log.restarts, log.holding) == (1, 0, False)


def test_values_as_bash_arrays_and_host_lists() -> None:
    log = parse('INFER_HOSTS=(n1 n2)\nTRAIN_HOSTS="n[3-4]"\n\x1b[32mORCH_ADDR=n4\x1b[0m\nMASTER_ADDR=n3\n')
    assert log.roles == {
        "n1": ("inference",),
        "n2": ("inference",),
        "n3": ("trainer", "master"),
        "n4": ("trainer", "orchestrator"),
    }


def test_holding_nodes_in_grace_names_the_first_to_end() -> None:
    log = parse(TOP + CRASH)
    assert log.holding
    assert log.grace == Grace("n3", 1, 3600, TOP.count("\n") + 1)
    over = parse(TOP + CRASH + END)
    assert not over.holding
    assert over.teardown == 1
    assert over.cancellations == [
        Cancellation(False, "8123.0", "n1", "2026-01-01T10:05:00", None),
        Cancellation(True, "8123", "n1", "2026-01-01T10:05:01", "TIME LIMIT"),
    ]


def test_lines_with_srun_labels() -> None:
    assert parse("2: [n3] component exited with code 1 - waiting up to 60s for (x)\n").holding


def test_requeued_job_goes_on_in_the_same_log() -> None:
    log = parse(TOP + CRASH + END + TOP.replace("n4", "n5"))
    assert (log.starts, log.restarts, log.holding, log.grace, log.cancellations) == (2, 1, False, None, [])
    assert log.roles["n5"] == ("trainer",)
    assert "n4" not in log.roles
    # Where the log was begun anew only the script's own count tells.
    assert parse("SLURM_RESTART_COUNT=3\n" + TOP).restarts == 3


def test_host_memory_with_job_and_step() -> None:
    said = (
        "slurmstepd: error: Detected 8 oom-kill event(s) in step 123.batch cgroup. Some of your processes may have "
        "been killed by the cgroup out-of-memory handler.\n"
        "slurmstepd: error: Detected 1 oom_kill event in StepId=124.0. Some of the step tasks have been OOM Killed.\n"
    )
    log = parse(said)
    assert log.ooms == [HostOom(8, "123", "batch"), HostOom(1, "124", "0")]
    # A GPU that is out of memory is another matter.
    assert parse("torch.OutOfMemoryError: CUDA out of memory.\n").ooms == []


def test_why_slurm_ended_it() -> None:
    lines = "".join(
        f"slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T10:05:00 DUE TO {cause} ***\n"
        for cause in ("NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS", "PREEMPTION", "JOB REQUEUE")
    )
    assert [end.cause for end in parse(lines).cancellations] == ["NODE FAILURE", "PREEMPTION", "JOB REQUEUE"]


@given(st.lists(st.one_of(st.text(), st.sampled_from((TOP + CRASH + END).split("\n")))))
def test_any_lines_are_read_without_an_error(lines: list[str]) -> None:
    log = parse_job_log(lines)
    assert log.restarts >= 0
    assert isinstance(log.roles, dict)
