"""One phase and one sentence for a job, out of what is known of it."""

import pytest

from prl.slurm.accounting import Accounting
from prl.slurm.commands import Kind, Trouble
from prl.slurm.jobs import Job
from prl.slurm.standing import Standing, standing
from prl.slurm.states import parse_state
from prl.slurm.values import ExitCode

NOW = 1_790_000_000.0
OFF = Trouble(Kind.ACCOUNTING_DISABLED, "Slurm accounting storage is disabled", "sacct")


def queued(state: object, **fields: object) -> Standing:
    return standing("1", now=NOW, seen=NOW - 5, job=Job("1", parse_state(state), **fields))  # type: ignore[arg-type]


def absent(seconds: float, last: object = None, accounting: object = None, trouble: Trouble | None = None) -> Standing:
    return standing(
        "1",
        now=NOW,
        job=None if last is None else Job("1", parse_state(last)),
        seen=None if last is None else NOW - seconds,
        absent_since=NOW - seconds,
        accounting=None if accounting is None else Accounting("1", parse_state(accounting)),
        accounting_trouble=trouble,
    )


@pytest.mark.parametrize(
    ("found", "phase", "plain"),
    [
        (queued("PENDING"), "pending", "waiting: not yet looked at by the scheduler"),
        (
            queued("PENDING", reason="Resources"),
            "pending",
            "waiting: first in line, waiting until enough nodes are free",
        ),
        (queued("CONFIGURING"), "configuring", "its nodes are being made ready"),
        (queued("RUNNING", node_list="n[1-2]"), "running", "running on n[1-2]"),
        (
            queued("RUNNING", node_list=",".join(f"gpu{n}-a" for n in range(20))),
            "running",
            "running on 20 nodes",
        ),
        (queued("SUSPENDED"), "suspended", "suspended"),
        (queued(["RUNNING", "STOPPED"]), "running", "running on its nodes, stopped by a signal"),
        (queued("COMPLETING"), "completing", "over, its nodes are being cleared"),
        (
            queued(["FAILED", "COMPLETING"], exit=ExitCode(1, 0)),
            "completing",
            "failed: exit code 1; its nodes are being cleared",
        ),
        (queued("FAILED", exit=ExitCode(1, 0)), "ended", "failed: exit code 1"),
        (queued("NODE_FAIL", reason="NodeDown"), "ended", "a node failed"),
        # In the queue, preempted means that it will be requeued.
        (queued("PREEMPTED"), "requeued", "preempted, waits to be requeued"),
        (
            queued(["PENDING", "REQUEUED"], reason="BeginTime", restarts=1),
            "requeued",
            "requeued, waits to start again, restarts so far 1: not to start before a set time; a requeued job waits "
            "so too",
        ),
        (queued("PENDING", restarts=2), "requeued", "requeued, waits to start again, restarts so far 2"),
        (queued("HIBERNATED"), "unknown", "state unknown (HIBERNATED)"),
    ],
)
def test_job_that_slurm_has(found: Standing, phase: str, plain: str) -> None:
    assert (found.phase, found.plain, found.age, found.stale) == (phase, plain, 5, False)
    assert found.over == (phase == "ended")


@pytest.mark.parametrize(
    ("found", "phase", "plain"),
    [
        (absent(10, "RUNNING", "TIMEOUT"), "ended", "reached its time limit"),
        (absent(10, "FAILED", None, OFF), "ended", "failed"),
        # Gone, and nothing says how.
        (absent(10, "RUNNING", None, OFF), "gone", "ended, result unknown (this cluster keeps no accounting)"),
        (absent(10), "gone", "ended, result unknown (accounting has no such job)"),
        (absent(10, "RUNNING", "RUNNING"), "gone", "ended, result unknown (accounting still has it as RUNNING)"),
        (
            absent(10, "RUNNING", None, Trouble(Kind.TIMED_OUT, "no answer within 10 s", "sacct")),
            "gone",
            "ended, result unknown (sacct: timed out (no answer within 10 s))",
        ),
        # Preempted and in accounting only: it may come back for five minutes.
        (
            absent(120, "RUNNING", "PREEMPTED"),
            "requeued",
            "preempted, and gone from the queue for 2m 0s: it may come back",
        ),
        (
            absent(301, "RUNNING", "PREEMPTED"),
            "ended",
            "preempted, and gone from the queue for 5m 1s: it did not come back",
        ),
        (
            absent(20, ["PENDING", "REQUEUED"], None, OFF),
            "requeued",
            "requeued, and gone from the queue for 20.0s: it may come back",
        ),
    ],
)
def test_job_that_slurm_has_no_more(found: Standing, phase: str, plain: str) -> None:
    assert (found.phase, found.plain) == (phase, plain)


def test_silence_leaves_the_last_known_state() -> None:
    silent = Trouble(Kind.CONTROLLER_SILENT, "Unable to contact slurm controller (connect failure)", "squeue")
    job = Job("1", parse_state("RUNNING"), node_list="n1")
    found = standing("1", now=NOW, job=job, seen=NOW - 90, trouble=silent)
    assert (found.phase, found.stale, found.age) == ("running", True, 90)
    assert found.plain == f"running on n1 (1m 30s ago; since then {silent})"
    never = standing("1", now=NOW, trouble=silent)
    assert (never.phase, never.age, never.over) == ("unknown", None, False)
    assert never.plain == f"not known: {silent}"
    assert standing("1", now=NOW).plain == "not known: SLURM was not asked"
