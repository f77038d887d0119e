"""The SLURM jobs of a run: found, asked for once, kept with their age, read in their logs."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from prl.rundir.jobs import read_jobs
from prl.rundir.locate import locate
from prl.slurm.commands import Answer, Kind, Query
from prl.watch import gather
from prl.watch.jobs import Jobs, Traces, ask_together, job_facts
from sample_runs import SampleRun
from slurm_answers import NOW, Recorded, failed, mark_of, squeue
from test_slurm_details import line
from test_slurm_joblog import CRASH, TOP
from test_slurm_memory import accounted


@pytest.fixture(autouse=True)
def no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRL_STATE_DIR", str(tmp_path / "state"))


def cluster(*queue: dict[str, str], **programs: Callable[[Query], Answer]) -> Recorded:
    """A SLURM with these jobs in its queue."""
    usual: dict[str, Callable[[Query], Answer]] = {
        "squeue": lambda query: squeue(query, *queue),
        "scontrol": lambda query: Answer(line(), None, NOW),
        "sacct": lambda query: failed("sacct", Kind.ACCOUNTING_DISABLED),
        "sinfo": lambda query: Answer("", None, NOW),
    }
    return Recorded(**{**usual, **programs})


def run_with_job(tmp_path: Path, text: str = "") -> SampleRun:
    run = SampleRun(tmp_path)
    log = run.layout.launcher / "logs/job_4242.log"
    log.parent.mkdir()
    log.write_text(text)
    os.utime(log, (NOW - 60, NOW - 60))
    return run


def jobs(run: SampleRun, slurm: Recorded | None, now: float = NOW, **traces: object) -> Jobs:
    known = Traces(read_jobs(run.root), run_name=run.name, **traces)  # type: ignore[arg-type]
    return job_facts(locate(run.root), known, now, slurm)


def test_a_running_job_with_its_details(tmp_path: Path) -> None:
    slurm = cluster({})
    (job,) = jobs(run_with_job(tmp_path), slurm).jobs
    assert (job.id, job.state, job.source, job.as_of, job.problem) == ("4242", "RUNNING", "squeue", NOW, None)
    assert (job.time_limit, job.time_left, job.started, job.ended) == (86400.0, 82800.0, 1789996400.0, None)
    assert [node.name for node in job.nodes] == ["n01", "n02"]
    assert job.log == "launcher/logs/job_4242.log"
    assert slurm.asked == ["squeue", "scontrol", "sinfo"]


def test_nothing_is_asked_twice_within_seconds(tmp_path: Path) -> None:
    run, slurm = run_with_job(tmp_path), cluster({"N": "n01", "D": "1"})
    assert jobs(run, slurm).jobs == jobs(run, slurm).jobs
    assert slurm.asked == ["squeue", "scontrol"]


def test_jobs_of_many_runs_are_asked_for_at_once(tmp_path: Path) -> None:
    slurm = cluster({"N": "n01", "D": "1"})
    ask_together(["4241", "4242", "4243"], NOW, slurm)
    assert slurm.asked == ["squeue", "sacct"]  # the two others have left the queue
    (job,) = jobs(run_with_job(tmp_path), slurm).jobs
    assert (job.state, slurm.asked) == ("RUNNING", ["squeue", "sacct", "scontrol"])
    ask_together(["no id"], NOW, slurm)
    ask_together([], NOW, slurm)
    assert slurm.asked == ["squeue", "sacct", "scontrol"]


def test_a_silent_controller_leaves_the_last_word_with_its_age(tmp_path: Path) -> None:
    run = run_with_job(tmp_path)
    jobs(run, cluster({}))
    silent = cluster(squeue=lambda query: failed("squeue", Kind.TIMED_OUT, "no answer within 4 s", NOW + 100))
    (job,) = jobs(run, silent, now=NOW + 100).jobs
    assert (job.state, job.as_of) == ("RUNNING", NOW)
    assert job.problem is not None
    assert "timed out" in job.problem


@pytest.mark.parametrize(
    ("queued", "wanted"),
    [
        ({"T": "PENDING", "r": "Priority", "N": "", "S": "N/A"}, ("PENDING", [], "Priority")),
        ({"T": "PENDING", "r": "BeginTime", "N": ""}, ("PENDING", [], "BeginTime")),
        ({"T": "COMPLETING"}, ("ENDED", ["COMPLETING"], None)),
        ({"T": "PREEMPTED"}, ("PREEMPTED", [], None)),
        ({"T": "COMPLETININVALID"}, ("UNKNOWN", [], None)),
    ],
)
def test_states(tmp_path: Path, queued: dict[str, str], wanted: tuple[str, list[str], str | None]) -> None:
    slurm = cluster(queued, scontrol=lambda query: failed("scontrol", Kind.REFUSED))
    (job,) = jobs(run_with_job(tmp_path), slurm).jobs
    assert (job.state, job.flags, job.reason) == wanted
    assert job.raw_state == queued["T"]
    assert (job.reason_text is None) == (wanted[2] is None)


def test_a_job_that_left_the_queue(tmp_path: Path) -> None:
    run = run_with_job(tmp_path)
    (job,) = jobs(run, cluster()).jobs
    assert (job.state, job.problem) == ("UNKNOWN", "ended, result unknown (this cluster keeps no accounting)")
    (job,) = jobs(run, cluster(sacct=accounted("TIMEOUT")), now=NOW + 100).jobs
    assert (job.state, job.source, job.problem) == ("TIMEOUT", "sacct", None)


def test_hosts_roles_and_nodes_held_in_grace(tmp_path: Path) -> None:
    sinfo = lambda query: Answer(  # noqa: E731
        "".join(part + mark_of(query) for part in ("n3", "down*", "Not responding", "1790000000")), None, NOW
    )
    run = run_with_job(tmp_path, TOP + CRASH.splitlines()[1] + "\n")
    found = jobs(run, cluster({"N": "n[1-4]"}, sinfo=sinfo))
    (job,) = found.jobs
    assert (job.grace_since, job.grace_seconds) == (NOW - 60, 3600.0)
    assert {node.name: node.role for node in job.nodes}["n3"] == "trainer master orchestrator"
    assert {node.name: (node.state, node.reason) for node in job.nodes}["n3"] == ("DOWN", "Not responding")
    assert found.log.values["ADMIN_URLS"] == "http://n1:8100 http://n2:8100"


def test_a_job_is_found_in_the_queue_before_it_has_a_log(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    slurm = cluster({"T": "PENDING", "o": f"{run.root}/launcher/rl.sbatch"}, {"i": "7", "A": "7", "o": "/x/rl.sbatch"})
    (job,) = jobs(run, slurm, ask_queue=True).jobs
    assert (job.id, job.state, job.log) == ("4242", "PENDING", "/w d/run.log")
    assert jobs(run, cluster()).jobs == []


def test_what_runs_now_comes_last(tmp_path: Path) -> None:
    run = run_with_job(tmp_path)
    slurm = cluster({}, {"i": "4300", "A": "4300"})
    found = jobs(run, slurm, environments=[{"SLURM_JOB_ID": "4300"}]).jobs
    assert [job.id for job in found] == ["4242", "4300"]
    assert slurm.asked.count("squeue") == 1


def test_task_of_an_array_is_one_job(tmp_path: Path) -> None:
    # Its log is called after %j, its own number; the environment of its processes tells number, array and task.
    run = run_with_job(tmp_path)
    task = {"SLURM_JOB_ID": "4242", "SLURM_ARRAY_JOB_ID": "4240", "SLURM_ARRAY_TASK_ID": "2"}
    slurm = cluster({"i": "4240_2", "F": "4240", "K": "2"}, {"i": "4240_1", "A": "4241", "F": "4240", "K": "1"})
    (job,) = jobs(run, slurm, environments=[task]).jobs
    assert (job.id, job.state, job.log) == ("4242", "RUNNING", "launcher/logs/job_4242.log")
    # Without a log of that name it is called as SLURM calls it.
    named = SampleRun(tmp_path / "named")
    (job,) = jobs(named, slurm, environments=[task]).jobs
    assert job.id == "4240_2"


def test_socket_of_an_engine_on_this_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nobody else tells: the environment of another user's processes cannot be read, the names in /tmp can.
    sockets = tmp_path / "tmp"
    sockets.mkdir()
    monkeypatch.setattr("prl.watch.jobs._SOCKETS", sockets)
    (sockets / "vllm-rpc-ada-4242-5555").touch()
    run = SampleRun(tmp_path)
    run.start_up()
    mine = {"Z": "/elsewhere", "o": "/elsewhere/x.sbatch", "j": "x", "S": str(int(NOW - 3600))}

    def found(written: float) -> list[str]:
        for log in run.logs.rglob("*.log"):
            os.utime(log, (written, written))
        return [job.id for job in jobs(run, cluster(mine), ask_queue=True).jobs]

    assert found(NOW - 60) == ["4242"]
    # Nothing of the run is as new as the job: it is another run's.
    assert found(NOW - 7200) == []
    (sockets / "vllm-rpc-ada-4243-5556").touch()
    assert found(NOW - 60) == []


def test_exit_code_that_accounting_cuts(tmp_path: Path) -> None:
    # The queue said 143 while it had the job, sacct says 15 of the same end: 143 is what the script ended with.
    run = run_with_job(tmp_path)
    ended = line().replace("ExitCode=0:9", "ExitCode=143:0")
    queue = cluster({"T": "FAILED"}, scontrol=lambda query: Answer(ended, None, NOW))
    assert jobs(run, queue).jobs[0].exit_code == 143

    def sacct(query: Query) -> Answer:
        text = "JobID|State|ExitCode|JobIDRaw\n4242|FAILED|15:0|4242\n4242.batch|FAILED|15:0|4242.batch\n"
        return Answer(text.replace("|", query.argv[-1].removeprefix("--delimiter=")), None, NOW)

    (job,) = jobs(run, cluster(sacct=sacct), NOW + 600).jobs
    assert (job.state, job.source, job.exit_code, job.step_failure) == ("FAILED", "sacct", 143, None)


def test_without_slurm_the_directory_alone_speaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_with_job(tmp_path, TOP)
    found = jobs(run, None)
    (job,) = found.jobs
    assert (job.state, job.as_of, job.problem) == ("UNKNOWN", None, "SLURM was not asked")
    assert [node.name for node in job.nodes] == ["n1", "n2", "n3", "n4"]
    assert found.unknown == ["SLURM job 4242: SLURM was not asked"]
    monkeypatch.setenv("PATH", str(tmp_path))
    facts = gather(run.root)
    assert facts.jobs[0].problem == "squeue is not installed here"
    assert set(facts.hosts) >= {"n1", "n4"}


def test_a_local_run_asks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = SampleRun(tmp_path)
    run.write_status()
    marker = tmp_path / "bin/squeue"
    marker.parent.mkdir()
    marker.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\n")
    marker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{marker.parent}:{os.environ['PATH']}")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert gather(run.root).jobs == []
    assert not (tmp_path / "asked").exists()
