"""Known failures in the lines that were looked at."""

from pathlib import Path

from prl.rundir.locate import locate
from prl.watch.lines import HEAD, WINDOW, read_lines
from prl.watch.surroundings import Incident
from sample_runs import T0, SampleRun

WATCHDOG = (
    "[rank{rank}]:[E1129 10:20:08.4 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600060 "
    "milliseconds before timing out."
)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"


def incidents(run: SampleRun) -> list[Incident]:
    return read_lines(locate(run.root)).incidents


def test_a_collective_is_one_incident_of_all_ranks(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    for rank in range(4):
        path = run.logs / f"trainer/torchrun/none/attempt_0/{rank}/stderr.log"
        path.parent.mkdir(parents=True)
        path.write_text(WATCHDOG.format(rank=rank) + "\n" if rank != 2 else "")
    run.log("trainer", (T0, "INFO", "Starting"), WATCHDOG.format(rank=0))
    first = incidents(run)[0]
    assert (first.signature, first.count, first.secondary) == ("nccl.watchdog", 3, False)  # rank 0 is told twice
    assert "ranks that did not: 2" in first.details
    assert "ranks that reported: 0, 1, 3" in first.details


def test_what_follows_from_a_failure_says_so(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    run.log("trainer", (T0, "ERROR", "Fatal error in train"), "Traceback (most recent call last):", OOM)
    run.log("launcher", (T0 + 1, "ERROR", "Error: Trainer failed with exit code 1"))
    found = {one.signature: one for one in incidents(run)}
    assert found["cuda.oom"].severity == "fatal"
    assert not found["cuda.oom"].secondary
    assert (found["cuda.oom"].time, found["cuda.oom"].component) == (T0, "trainer")
    assert found["cuda.oom"].cause
    assert found["cuda.oom"].fix
    assert next(iter(found)) == "cuda.oom"
    assert found["prl.fatal"].secondary  # the header of what the traceback below it names
    assert found["prl.child"].secondary


def test_a_line_without_a_header_after_a_calm_one_is_looked_at(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    run.log(
        "inference",
        (T0, "INFO", "GET /health 200"),
        "RuntimeError: CUDA error: an illegal memory access was encountered",
    )
    (one,) = incidents(run)
    assert one.signature.startswith("cuda.")


def test_a_calm_line_that_quotes_a_failure_is_none(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    run.log("orchestrator", (T0, "INFO", f"the model wrote: {OOM}"))
    assert incidents(run) == []


def test_the_beginning_of_a_long_log_is_looked_at(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    path = run.log("trainer", (T0, "ERROR", OOM), (T0 + 1, "INFO", "Resuming from step 7"))
    with path.open("a") as file:
        file.writelines(f"10:00:09    INFO all is well {number}\n" for number in range((HEAD + WINDOW) // 20))
    lines = read_lines(locate(run.root))
    assert [(one.signature, one.time) for one in lines.incidents] == [("cuda.oom", T0)]
    assert [mark.text for mark in lines.marks if mark.kind == "resume"] == ["Resuming from step 7"]
