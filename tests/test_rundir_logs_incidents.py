"""Failures of an attempt, one for each kind."""

import datetime as dt
from pathlib import Path

from prl.rundir.logs.incident_scan import find_incidents
from prl.rundir.logs.incidents import Incident
from prl.rundir.logs.merge import RunLogs

HEAD = "--- 2026-11-29 +0000 ---\n"
T = dt.datetime(2026, 11, 29, 2, 7, 8, tzinfo=dt.UTC).timestamp()


def write(root: Path, name: str, text: str) -> None:
    path = root / "logs/attempt_1" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def found(root: Path) -> dict[str, Incident]:
    return {incident.id: incident for incident in find_incidents(RunLogs(root)).incidents}


def watchdog(rank: int, sequence: int = 1580) -> str:
    return (
        f"[rank{rank}]:[E1129 02:07:08.{rank}08271257 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught "
        f"collective operation timeout: WorkNCCL(SeqNum={sequence}, OpType=ALLREDUCE, Timeout(ms)=600000) ran for "
        f"6000{rank}0 milliseconds before timing out.\n"
    )


def test_a_collective_that_timed_out_is_one_incident_with_its_suspect(tmp_path: Path) -> None:
    write(tmp_path, "trainer.log", HEAD + "".join(watchdog(rank) for rank in (0, 1, 2, 4, 5, 6, 7)))
    incident = found(tmp_path)["nccl.watchdog"]
    collective = incident.collective
    assert collective is not None
    assert (incident.count, incident.ranks) == (7, [0, 1, 2, 4, 5, 6, 7])
    assert (collective.op, set(collective.sequence.values()), collective.timeout) == ("ALLREDUCE", {1580}, 600)
    assert (collective.missing, collective.suspects) == ([3], [3])
    assert (incident.first, incident.last) == (T - 600, T)  # it began to hang ten minutes before it said so
    assert incident.is_failure


def test_without_a_missing_rank_the_one_that_is_behind_is_the_suspect(tmp_path: Path) -> None:
    lines = [watchdog(rank, 1579 if rank == 2 else 1580) for rank in range(4)]
    write(tmp_path, "trainer.log", HEAD + "".join(lines))
    collective = found(tmp_path)["nccl.watchdog"].collective
    assert collective is not None
    assert (collective.missing, collective.suspects) == ([], [2])


def test_a_rank_that_is_known_only_by_its_file_is_missed(tmp_path: Path) -> None:
    write(tmp_path, "trainer.log", HEAD + watchdog(0) + watchdog(1))
    for rank in range(3):
        write(tmp_path, f"trainer/torchrun/f0/attempt_0/{rank}/stderr.log", watchdog(rank) if rank < 2 else "fine\n")
    incident = found(tmp_path)["nccl.watchdog"]
    assert incident.collective is not None
    assert (incident.count, incident.collective.missing) == (2, [2])  # what a rank's stream repeats counts once


def test_causes_come_before_consequences(tmp_path: Path) -> None:
    write(
        tmp_path,
        "inference.log",
        HEAD + "10:00:00   ERROR torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB\n",
    )
    write(tmp_path, "orchestrator.log", HEAD + "10:00:05   ERROR vllm.v1.engine.exceptions.EngineDeadError: gone\n")
    write(
        tmp_path,
        "launcher.log",
        HEAD + "10:00:09   ERROR Error: Inference failed with exit code 1\n12:00:00   ERROR srun: Job step aborted\n",
    )
    incidents = find_incidents(RunLogs(tmp_path)).incidents
    assert [(one.id, one.consequence_of) for one in incidents] == [
        ("cuda.oom", None), ("vllm.engine_dead", "cuda.oom"), ("prl.child", "cuda.oom"), ("slurm.abort", None),
    ]  # fmt: skip
    assert incidents[0].values == {"n": "2.50", "u": "GiB"}


def test_counts_times_and_severity(tmp_path: Path) -> None:
    repeated = (
        "(Actor pid=1) No available shared memory broadcast block found in 60 seconds [repeated 15x across cluster]"
    )
    text = HEAD + "".join(f"10:00:{second:02d} WARNING Inference metrics poll failed: x\n" for second in range(9))
    write(tmp_path, "orchestrator.log", f"{text}{repeated}\n")
    incidents = found(tmp_path)
    poll = incidents["prl.metrics_poll"]
    assert (poll.count, poll.last - poll.first, poll.severity, poll.is_failure) == (9, 8, "warn", False)
    assert poll.exact
    assert incidents["vllm.shm_wait"].count == 15


def test_a_planned_end_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "slurm-7.out").write_text(
        "slurmstepd: error: *** JOB 7 ON n7 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***\n"
    )
    incidents = found(tmp_path)
    assert not any(incident.is_failure for incident in incidents.values())
    expected = dt.datetime(2026, 1, 1).timestamp()  # noqa: DTZ001
    assert incidents["slurm.timelimit"].first == expected


def test_a_bound_looks_at_the_ends_of_the_files(tmp_path: Path) -> None:
    line = "10:00:00    INFO nothing\n"
    write(
        tmp_path,
        "trainer.log",
        HEAD + "10:00:00   ERROR EngineDeadError\n" + line * 5000 + "10:00:01   ERROR Env server failed\n",
    )
    steps: list[tuple[int, int]] = []
    answer = find_incidents(RunLogs(tmp_path), max_bytes=4096, progress=lambda done, total: steps.append((done, total)))
    assert ([one.id for one in answer.incidents], answer.done) == (["env.pool_fatal"], False)
    assert steps[-1] == (answer.scanned_bytes, answer.total_bytes)
    assert find_incidents(RunLogs(tmp_path)).done


def test_unreadable_logs_are_told(tmp_path: Path) -> None:
    write(tmp_path, "trainer.log", HEAD + "10:00:00   ERROR EngineDeadError")
    (tmp_path / "logs/attempt_1/x.log").mkdir()
    answer = find_incidents(RunLogs(tmp_path))
    assert [one.id for one in answer.incidents] == ["vllm.engine_dead"]


def test_a_line_of_a_traceback_is_as_old_as_its_header(tmp_path: Path) -> None:
    trace = "Traceback (most recent call last):\n  File 'x'\n"
    write(
        tmp_path,
        "trainer.log",
        HEAD + f"02:07:00    INFO a\n02:07:08   ERROR Fatal error in train\n{trace}EngineDeadError\n",
    )
    assert found(tmp_path)["vllm.engine_dead"].first == T
