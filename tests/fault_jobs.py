"""Run directories inside SLURM jobs, with what SLURM answers about them. The others are in ``fault_runs.py``."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from fault_runs import ENV, TITLES, State, checkpoint, pipeline
from prl.slurm.commands import Answer, Kind, Query
from sample_runs import SampleRun, running
from slurm_answers import Recorded, failed, mark_of, squeue

JOB = "4242"
TOP = """INFER_HOSTS=n1 n2
INFER_URLS=http://n1:8000/v1
ADMIN_URLS=http://n1:8100 http://n2:8100
HOSTNAMES=n1 n2 n3
TRAIN_HOSTS=n3
MASTER_ADDR=n3
MASTER_PORT=29500
ORCH_ADDR=n3
[node-cleanup] n1 procs=0 gpu_mem=3MiB
"""


def answers(now: float, *queue: dict[str, str], ended: str | None = None, node: str | None = None) -> Recorded:
    """A SLURM with these jobs in its queue. ``ended``: state and exit code in the accounting, if it keeps one."""

    def sacct(query: Query) -> Answer:
        if ended is None:
            return failed("sacct", Kind.ACCOUNTING_DISABLED, at=now)
        mark = query.argv[-1].removeprefix("--delimiter=")
        return Answer(f"JobID|State|ExitCode\n{JOB}|{ended}\n".replace("|", mark), None, now)

    def sinfo(query: Query) -> Answer:
        parts = (node, "down*", "Not responding", str(int(now))) if node else ()
        return Answer("".join(part + mark_of(query) for part in parts), None, now)

    def asked(query: Query) -> Answer:
        fields = {"V": str(int(now - 2000)), "S": str(int(now - 1900)), "e": str(int(now + 80_000)), "N": "n[1-3]"}
        return squeue(query, *({**fields, **job} for job in queue), at=now)

    no_details: Callable[[Query], Answer] = lambda query: failed("scontrol", Kind.REFUSED, at=now)  # noqa: E731
    return Recorded(squeue=asked, sacct=sacct, sinfo=sinfo, scontrol=no_details)


def silent(now: float) -> Recorded:
    """A controller that does not answer."""

    def late(query: Query) -> Answer:
        return failed(query.argv[0], Kind.TIMED_OUT, "no answer within 4 s", now)

    return Recorded(squeue=late, sacct=late, sinfo=late, scontrol=late)


def job_log(run: SampleRun, at: float, *lines: str) -> Path:
    path = run.layout.launcher / f"logs/job_{JOB}.log"
    path.parent.mkdir(exist_ok=True)
    path.write_text(TOP + "".join(line + "\n" for line in lines))
    os.utime(path, (at, at))
    return path


def in_a_job(here: Path, steps: int = 12) -> tuple[SampleRun, float]:
    """A run of prime-rl over three nodes: no launcher speaks of it, its job's log lies in its directory."""
    run, last = running(here, steps)
    run.layout.status_json.unlink()
    job_log(run, last)
    return run, last


# ---- waiting


def queued(here: Path, waits: float = 600.0, reason: str = "Priority") -> State:
    run = SampleRun(here)
    for log in run.logs.rglob("*.log"):
        log.unlink()
    (run.layout.launcher / "job.json").write_text(f'{{"job_id": {JOB}}}')
    now = time.time()
    job = {"T": "PENDING", "r": reason, "N": "", "S": "N/A", "V": str(int(now - waits)), "B": ""}
    return State(run.root, now, answers(now, job))


def queued_for_long(here: Path) -> State:
    return queued(here, 6 * 3600.0, "Resources")


def held(here: Path) -> State:
    return queued(here, 60.0, "JobHeldUser")


def preempted(here: Path) -> State:
    """It was ended for a job of higher priority and waits until it may begin again."""
    run, last = in_a_job(here)
    checkpoint(run, 8, last - 9)
    cancelled = "slurmstepd: error: *** JOB 4242 ON n1 CANCELLED AT 2026-11-29T10:01:00 DUE TO PREEMPTION ***"
    job_log(run, last + 5, cancelled)
    now = last + 600
    return State(run.root, now, answers(now, {"T": "PREEMPTED", "r": "BeginTime", "N": ""}))


def preempted_for_good(here: Path) -> State:
    """Out of the queue for ten minutes: long enough to have come back."""
    run, last = in_a_job(here)
    early, now = last + 60, last + 660
    ended = "PREEMPTED|0:0"
    return State(run.root, now, answers(now, ended=ended), State(run.root, early, answers(early, ended=ended)))


def requeued(here: Path) -> State:
    run, last = in_a_job(here)
    checkpoint(run, 8, last - 9)
    now = last + 60
    return State(run.root, now, answers(now, {"T": "REQUEUED", "r": "BeginTime", "N": ""}))


# ---- running


def runs_in_a_job(here: Path) -> State:
    run, last = in_a_job(here)
    pipeline(run, last + 4)
    return State(run.root, last + 5, answers(last + 5, {}))


def time_limit_is_near(here: Path) -> State:
    run, last = in_a_job(here)
    pipeline(run, last + 4)
    return State(run.root, last + 5, answers(last + 5, {"L": "0:20"}))


def stands_still_in_a_job(here: Path) -> State:
    """SLURM calls it running; no counter has advanced for a quarter of an hour."""
    run, last = in_a_job(here)
    return State(run.root, last + 900, answers(last + 900, {}))


def controller_is_silent(here: Path) -> State:
    """Nothing is known of the job, and the counters advance all the same."""
    run, last = in_a_job(here)
    pipeline(run, last + 4)
    return State(run.root, last + 5, silent(last + 5))


def controller_is_silent_and_nothing_moves(here: Path) -> State:
    run, last = in_a_job(here)
    return State(run.root, last + 3600, silent(last + 3600))


def state_that_nobody_knows(here: Path) -> State:
    """A column that ran into the next one: it says nothing, the counters do."""
    run, last = in_a_job(here)
    return State(run.root, last + 5, answers(last + 5, {"T": "COMPLETININVALID"}))


# ---- failing and ended


def out_of_memory_on_one_rank(here: Path) -> State:
    """CUDA memory ran out on rank 3 of 4; torchrun, the script and srun repeat it; the nodes are held in grace."""
    run, last = in_a_job(here)
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total capacity of 79 GiB"
    ranks = run.logs / "trainer/torchrun/job_4242/attempt_0"
    for rank in range(4):
        text = (
            f"[rank3]: Traceback (most recent call last):\n[rank3]: {oom}\n"
            if rank == 3
            else f"[rank{rank}]: torch.distributed.DistBackendError: NCCL error: ncclRemoteError: A call failed\n"
        )
        path = ranks / f"{rank}/stderr.log"
        path.parent.mkdir(parents=True)
        path.write_text(text)
        os.utime(path, (last + (2 if rank == 3 else 5), last + (2 if rank == 3 else 5)))
    run.log(
        "trainer",
        (last + 8, "ERROR", "failed (exitcode: 1) local_rank: 3 (pid: 4711) of binary: python"),
        "Traceback (most recent call last):",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
        "Root Cause (first observed failure):",
        "[0]:",
        "  rank      : 3 (local_rank: 3)",
        "  exitcode  : 1 (pid: 4711)",
    )
    pipeline(run, last + 50)
    job_log(
        run,
        last + 10,
        "[n3] component exited with code 1 - waiting up to 3600s for (other nodes to finish writing)",
    )
    now = last + 60
    return State(run.root, now, answers(now, {}))


def host_out_of_memory(here: Path) -> State:
    run, last = in_a_job(here)
    job_log(
        run,
        last + 5,
        f"slurmstepd: error: Detected 8 oom_kill events in StepId={JOB}.batch. Some of the step tasks have been OOM "
        "Killed.",
        "srun: error: n3: task 2: Out Of Memory",
    )
    now = last + 600
    return State(run.root, now, answers(now, ended="OUT_OF_MEMORY|0:9"))


def node_failed(here: Path) -> State:
    run, last = in_a_job(here)
    job_log(
        run, last + 5, "slurmstepd: error: *** JOB 4242 ON n3 CANCELLED AT 2026-11-29T10:01:00 DUE TO NODE FAILURE ***"
    )
    now = last + 600
    return State(run.root, now, answers(now, {"T": "NODE_FAIL", "r": "NodeDown"}, node="n3"))


def reached_its_time_limit(here: Path) -> State:
    run, last = in_a_job(here)
    job_log(
        run, last + 5, "slurmstepd: error: *** JOB 4242 ON n1 CANCELLED AT 2026-11-29T10:01:00 DUE TO TIME LIMIT ***"
    )
    now = last + 600
    return State(run.root, now, answers(now, ended="TIMEOUT|0:15"))


def cancelled(here: Path) -> State:
    run, last = in_a_job(here)
    job_log(run, last + 5, "slurmstepd: error: *** JOB 4242 ON n1 CANCELLED AT 2026-11-29T10:01:00 ***")
    now = last + 600
    return State(run.root, now, answers(now, ended="CANCELLED by 1234|0:15"))


def cancelled_and_killed(here: Path) -> State:
    """SLURM did not wait for long: the launcher is gone and has not written that it was told to end."""
    run, last = running(here)
    job_log(run, last)
    for name in (*TITLES, ENV):
        run.process(name).started = 1.0  # this pid is another process's by now
    run.write_status(started=1.0)
    now = last + 60
    return State(run.root, now, answers(now, {"T": "CANCELLED"}))


def gone_without_accounting(here: Path) -> State:
    """SLURM has forgotten the job, keeps no accounting, and the run's own files say nothing of an end."""
    run, last = in_a_job(here)
    now = last + 3600
    return State(run.root, now, answers(now))


def succeeded_without_a_finish_line(here: Path) -> State:
    run, last = in_a_job(here)
    now = last + 600
    return State(run.root, now, answers(now, ended="COMPLETED|0:0"))


def finished_and_holds_its_nodes(here: Path) -> State:
    run, last = in_a_job(here, 40)
    run.log("orchestrator", (last, "SUCCESS", "Orchestrator finished"))
    run.log("trainer", (last, "SUCCESS", "RL trainer finished"))
    return State(run.root, last + 1800, answers(last + 1800, {}))
