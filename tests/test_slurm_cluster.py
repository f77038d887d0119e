"""Questions to a real SLURM: one controller and three nodes on this machine."""

import dataclasses
import getpass
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mini_slurm import DEADLINE, MiniSlurm
from prl.slurm.accounting import accounting, memory_used
from prl.slurm.commands import Answer, Kind, Query, run
from prl.slurm.details import show_job
from prl.slurm.finding import find_job
from prl.slurm.hosts import expand
from prl.slurm.joblog import parse_job_log
from prl.slurm.jobs import Job, query_jobs
from prl.slurm.memory import SlurmMemory
from prl.slurm.nodes import query_nodes
from prl.slurm.probe import probe
from prl.slurm.standing import Standing
from real_run import wait_for


@pytest.fixture
def free(cluster: MiniSlurm) -> Iterator[MiniSlurm]:
    """The cluster, with no job on it before and after."""
    yield cluster
    cluster.clear()


def job(job_id: str) -> Job:
    answer = query_jobs([job_id])
    assert answer.trouble is None
    (found,) = answer.of(job_id)
    return found


def until(job_id: str, phase: str) -> Standing:
    """Ask anew until the job is in this phase."""

    def standing() -> Standing | None:
        found = SlurmMemory().standings([job_id])[job_id]
        return found if found.phase == phase else None

    found: Standing = wait_for(standing, f"job {job_id} to be {phase}", DEADLINE)
    return found


def test_running_job_with_hostile_texts(free: MiniSlurm) -> None:
    # Whoever submits chooses these texts: they must come through as they are and change no other field.
    name = "a|b  c JobState=FAILED é\nJobId=1 JobName=x"
    comment = 'hello StdOut=/x "q" \x1b[31m'
    job_id = free.submit(
        "sleep 100", "-N2", "-t5", "-J", name, "--comment", comment, "-o", str(free.work / "job_%j_%4a.log")
    )
    until(job_id, "running")
    found = job(job_id)
    assert (found.name, found.comment, found.work_dir) == (name, comment, str(free.work))
    assert (found.state.base, found.nodes, found.node_count, found.batch_host) == ("RUNNING", ("n1", "n2"), 2, "n1")
    assert found.user == getpass.getuser()
    assert found.time_limit == 300
    assert found.time_left is not None
    assert 200 < found.time_left <= 300
    assert found.start is not None
    assert found.submitted is not None
    assert found.submitted <= found.start <= time.time() + 1
    assert found.end == found.start + 300
    (detailed,) = show_job(job_id).jobs
    assert (detailed.state.base, detailed.restarts, detailed.requeue) == ("RUNNING", 0, True)
    assert detailed.stdout == str(free.work / f"job_{job_id}_4294967294.log")
    assert job_id in [each.id for each in query_jobs(None).jobs]
    used, trouble = memory_used(job_id)
    assert trouble is None
    assert set(used) <= {"batch"}


def test_pending_array_and_its_reason(free: MiniSlurm) -> None:
    running = free.submit("sleep 100", "-N3", "--exclusive")
    until(running, "running")
    array = free.submit("true", "-N2", "--array=1-8%2")
    held = free.submit("true", "-H")
    # One question for all of them, until the scheduler has given its reason.
    standings: dict[str, Standing] = {}

    def explained() -> bool:
        standings.update(SlurmMemory().standings([running, array, held]))
        return "enough nodes" in standings[array].plain

    wait_for(explained, "the scheduler to give its reason", DEADLINE)
    assert {job_id: standing.phase for job_id, standing in standings.items()} == {
        running: "running",
        array: "pending",
        held: "pending",
    }
    assert standings[array].job.id == f"{array}_[1-8%2]"
    assert standings[held].plain == "waiting: held by its user: scontrol release"
    assert standings[held].job.explained.blocked


def test_cancelled_and_forgotten(free: MiniSlurm) -> None:
    job_id = free.submit("sleep 100", "-N1", "-o", "cancelled.log")
    memory = SlurmMemory()
    until(job_id, "running")
    free.ask("scancel", job_id)
    assert until(job_id, "ended").plain == "cancelled"
    # A job that SLURM has no more, or never had: absent, not a failure of the question.
    unknown = query_jobs(["4000000"])
    assert (unknown.jobs, unknown.trouble) == ((), None)
    gone = memory.standings(["4000000"])["4000000"]
    assert (gone.phase, gone.plain) == ("gone", "ended, result unknown (this cluster keeps no accounting)")
    log = wait_for((free.work / "cancelled.log").read_text, "the job's log", DEADLINE)
    (end,) = parse_job_log(log.split("\n")).cancellations
    assert (end.job, end.id, end.cause) == (True, job_id, None)


def test_failed_and_its_exit_code(free: MiniSlurm) -> None:
    job_id = free.submit("exit 3", "-N1")
    killed = free.submit("kill -9 $$", "-N1")
    until(job_id, "ended")
    until(killed, "ended")
    memory = SlurmMemory()
    assert memory.details(job_id).plain == "failed: exit code 3"
    assert memory.details(killed).plain == "failed: signal 9 (SIGKILL)"


def test_time_limit_and_requeue(free: MiniSlurm) -> None:
    # Side by side: SLURM looks at time limits every 30 s only, and starts a requeued job after some seconds.
    limited = free.submit("sleep 100", "-N1", "-t1", "-o", "limit.log")
    requeued = free.submit("sleep 100", "-N1")
    until(limited, "running")
    until(requeued, "running")
    # The shortest limit is a minute; its end can be moved.
    free.ask("scontrol", "update", f"jobid={limited}", "EndTime=now+1")
    memory = SlurmMemory()

    def phase(wanted: str, restarts: int) -> Standing | None:
        found = memory.details(requeued, force=True)
        # Right after the request the node may still be clearing the former run.
        assert not found.over
        return found if found.phase == wanted and found.job is not None and found.job.restarts == restarts else None

    assert phase("running", 0)
    free.ask("scontrol", "requeue", requeued)
    waiting = wait_for(lambda: phase("requeued", 1), "the job to wait again", DEADLINE)
    assert waiting.plain.startswith("requeued, waits to start again, restarts so far 1: not to start before a set time")
    wait_for(lambda: phase("running", 1), "the job to run again", DEADLINE)
    assert until(limited, "ended").plain == "reached its time limit"
    (end,) = parse_job_log((free.work / "limit.log").read_text().split("\n")).cancellations
    assert (end.id, end.cause) == (limited, "TIME LIMIT")


def test_node_lost(free: MiniSlurm) -> None:
    job_id = free.submit("sleep 100", "-N3", "--no-requeue", "-o", "node.log")
    until(job_id, "running")
    free.lose("n3")
    try:
        ended = until(job_id, "ended")
        assert ended.plain == "a node failed"
        answer = query_nodes(ended.job.nodes)
        assert answer.trouble is None
        assert [node.name for node in answer.nodes if node.lost] == ["n3"]
        (lost,) = (node for node in answer.nodes if node.lost)
        assert lost.reason == "lost | power"
        assert lost.since is not None
    finally:
        free.restore("n3")


def test_controller_silent_and_away(free: MiniSlurm, tmp_path: Path) -> None:
    def hurried(query: Query) -> Answer:
        return run(dataclasses.replace(query, seconds=1.0))

    job_id = free.submit("sleep 100", "-N1")
    until(job_id, "running")
    memory = SlurmMemory(tmp_path / "jobs.json", hurried)
    assert not memory.standings([job_id])[job_id].stale
    with free.silent():
        began = time.monotonic()
        stale = memory.standings([job_id], force=True)[job_id]
        assert time.monotonic() - began < 5  # 1 s for the answer and 2 s at most to end the program
        assert (stale.phase, stale.stale) == ("running", True)
        assert stale.age is not None
        # Another command of the same user knows the same, and does not ask in vain again.
        other = SlurmMemory(tmp_path / "jobs.json", lambda query: pytest.fail(f"asked {query.argv}"))
        assert other.standings([job_id])[job_id].stale
    assert not memory.standings([job_id], force=True)[job_id].stale
    with free.away():
        answer = query_jobs([job_id], seconds=9)
        assert answer.trouble is not None
        assert answer.trouble.silent
        assert memory.standings([job_id], force=True)[job_id].phase == "running"


def test_accounting_is_off(cluster: MiniSlurm) -> None:
    answer = accounting(["1"])
    assert answer.jobs == {}
    assert answer.trouble is not None
    assert answer.trouble.kind is Kind.ACCOUNTING_DISABLED


def test_look_at_the_nodes(free: MiniSlurm) -> None:
    job_id = free.submit("sleep 123", "-N2", "-n2")
    until(job_id, "running")
    look = probe(job_id, ["n1", "n2"])
    assert look.trouble is None
    assert sorted(node.host for node in look.nodes) == ["n1", "n2"]
    # The largest processes of each node, which here is everybody's machine: the job's own may not be among them.
    assert all("RSS" in node.sections["processes"][0] for node in look.nodes)
    assert all(len(node.sections["processes"]) > 1 for node in look.nodes)
    assert all(node.sections["memory"] and node.sections["disk"] for node in look.nodes)
    nowhere = probe("4000000", ["n1"])
    assert nowhere.nodes == ()
    assert nowhere.trouble is not None
    assert nowhere.trouble.kind is Kind.UNKNOWN_JOB


def test_job_found_by_where_it_writes(free: MiniSlurm) -> None:
    # Before the job runs there is no log, no process and no id in the run directory.
    run_dir = free.work / "outputs" / "run"
    (run_dir / "launcher" / "logs").mkdir(parents=True)
    script = run_dir / "rl.sbatch"
    script.write_text("#!/bin/bash\nsleep 100\n")
    other = free.submit("sleep 100", "-H")
    job_id = free.ask("sbatch", "--parsable", "-H", "-o", str(run_dir / "launcher/logs/job_%j.log"), str(script))
    jobs = query_jobs(None).jobs
    found = find_job(str(run_dir), jobs=jobs)
    assert found is not None
    assert (found.id, found.ways) == (job_id, ("queue",))
    assert find_job(str(free.work / "outputs"), jobs=[job for job in jobs if job.id == other]) is None


def bracket(name: str, width: int, ranges: list[tuple[int, int]]) -> str:
    texts = [str(low).zfill(width) + (f"-{str(low + more).zfill(width)}" if more else "") for low, more in ranges]
    return f"{name}[{','.join(texts)}]"


NAMES = st.from_regex(r"[a-z]{1,4}", fullmatch=True)
RANGES = st.lists(st.tuples(st.integers(0, 500), st.integers(0, 12)), min_size=1, max_size=3)
PARTS = st.one_of(
    st.from_regex(r"[a-z]{1,4}[0-9]{0,3}", fullmatch=True), st.builds(bracket, NAMES, st.integers(1, 4), RANGES)
)


@settings(max_examples=60)
@given(st.lists(PARTS, min_size=1, max_size=4))
def test_host_lists_as_slurm_expands_them(cluster: MiniSlurm, parts: list[str]) -> None:
    text = ",".join(parts)
    done = subprocess.run(["scontrol", "show", "hostnames", text], capture_output=True, text=True, check=True)
    assert list(expand(text)) == done.stdout.split()
