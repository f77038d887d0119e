"""Rules about the SLURM job that a run lives in, and its phases."""

import dataclasses
from typing import Any

import pytest

from made_up_facts import (
    NOW,
    Cases,
    check,
    checkpoint,
    facts,
    incident,
    job,
    judged,
    mark,
    pipeline,
    said,
    stands_since,
)
from prl.watch.facts import Checkpoints, Facts, Launcher
from prl.watch.restart_conditions import job_is_over
from prl.watch.surroundings import RECORDED, JobNode, SlurmJob
from prl.watch.verdict import DEGRADED, DOWN, HEALTHY, INFO, UNKNOWN


def queued(**changes: Any) -> Facts:
    waiting = job("PENDING", started=None, reason="Priority", reason_text="others come first", **changes)
    return facts(launched=False, processes=[], series=[], pipeline=None, jobs=[waiting])


def running(**changes: Any) -> Facts:
    return facts(jobs=[job(**changes)])


def over(state: str, **changes: Any) -> Facts:
    """The job ended 1000 s ago, and the run was not done."""
    return dataclasses.replace(stands_since(1000), processes=[], jobs=[job(state, ended=NOW - 1000, **changes)])


def finished(age: float, **changes: Any) -> Facts:
    done = [
        mark("trainer_done", "trainer", "RL trainer finished", age),
        mark("orchestrator_done", "orchestrator", "Orchestrator finished", age),
    ]
    return facts(processes=[], marks=done, jobs=[job(**changes)])


SAVED = Checkpoints(complete=[10, 20])
CASES: Cases = {
    "slurm.pending": (lambda: queued(submitted=NOW - 7200), lambda: queued(submitted=NOW - 600)),
    "slurm.preempted": (lambda: over("PREEMPTED"), lambda: running(restarts=1)),
    "slurm.requeued": (lambda: over("PENDING", flags=["REQUEUED"], restarts=1), lambda: running(restarts=1)),
    "slurm.time-limit": (
        lambda: dataclasses.replace(running(time_left=300.0), checkpoints=SAVED),
        lambda: running(time_left=3000.0),
    ),
    "slurm.node-failure": (
        lambda: running(nodes=[JobNode("gpu-7", "DOWN", "Not responding", "train")]),
        lambda: running(nodes=[JobNode("gpu-7", "MIXED")]),
    ),
    "slurm.out-of-memory": (lambda: over("OUT_OF_MEMORY"), lambda: over("FAILED")),
    "slurm.ended": (lambda: over("TIMEOUT"), lambda: over("CANCELLED")),
    "slurm.grace": (
        lambda: running(grace_since=NOW - 60, grace_seconds=3600.0, nodes=[JobNode("gpu-1", "ALLOCATED")]),
        running,
    ),
    "slurm.finished-holding": (lambda: finished(900), lambda: finished(60)),
    "slurm.silent": (lambda: running(as_of=NOW - 1200, problem="Unable to contact slurm controller"), running),
}


@pytest.mark.parametrize("rule", CASES)
def test_speaks_and_is_silent(rule: str) -> None:
    check(CASES, rule)


@pytest.mark.parametrize(
    ("known", "phase", "health"),
    [
        (queued(), "queued", HEALTHY),
        (queued(submitted=NOW - 7200), "queued", DEGRADED),
        (queued(restarts=1), "requeued", DEGRADED),
        (queued(flags=["PREEMPTED"]), "preempted", DEGRADED),
        (over("PREEMPTED"), "preempted", DEGRADED),
        (over("FAILED"), "failed", DOWN),
        (over("CANCELLED"), "stopped", DOWN),
        (running(), "running", HEALTHY),
        (running(grace_since=NOW - 60), "failing", DOWN),
        (finished(60), "finished", HEALTHY),
        (facts(pipeline=pipeline(train=0, evaluation=12)), "evaluating", HEALTHY),
    ],
)
def test_phases_and_their_health(known: Facts, phase: str, health: str) -> None:
    verdict = judged(known)
    assert (verdict.phase, verdict.health) == (phase, health)


def test_a_silent_controller_leaves_the_last_word_with_its_age() -> None:
    verdict = judged(running(as_of=NOW - 1200))
    assert verdict.health == HEALTHY  # the counters advance: the run is as it was
    assert "RUNNING, 20m 0s ago" in verdict.findings[0].message
    assert judged(dataclasses.replace(stands_since(900), processes=[], jobs=[job(as_of=NOW - 1200)])).health == UNKNOWN


def test_who_was_not_asked_does_not_fail_to_answer() -> None:
    known = SlurmJob("4711", "UNKNOWN", None, RECORDED, problem="squeue is not installed here")
    (found,) = judged(facts(jobs=[known])).findings
    assert (found.rule, found.severity) == ("slurm.silent", INFO)
    assert found.message == "Nothing is known of job 4711: squeue is not installed here"


def test_a_job_that_lives_while_nothing_advances_is_down() -> None:
    verdict = judged(dataclasses.replace(stands_since(900), processes=[], jobs=[job()]))
    assert (verdict.health, verdict.findings[0].rule) == (DOWN, "progress.stalled")


def test_what_waiting_does_not_mend_is_told_at_once() -> None:
    held = dataclasses.replace(queued().jobs[0], reason="JobHeldUser", submitted=NOW - 5)
    finding = said(dataclasses.replace(queued(), jobs=[held]), "slurm.pending")
    assert finding is not None
    assert finding.action == "It is held: scontrol release 4711 lets it start, once what it was held for is settled."
    refused = dataclasses.replace(held, reason="InvalidAccount")
    finding = said(dataclasses.replace(queued(), jobs=[refused]), "slurm.pending")
    assert finding is not None
    assert "will not start" in (finding.action or "")


@pytest.mark.parametrize(
    ("left", "complete", "interval", "words"),
    [
        (120.0, [20], 10, "about 12 more steps fit in; a checkpoint is due at step 40, before it"),
        (
            45.0,
            [20],
            10,
            "none is due before it (the newest complete checkpoint is step 20): about 14 steps will be lost",
        ),
        (45.0, [], None, "no checkpoint is complete yet"),
    ],
)
def test_the_time_limit_tells_what_is_saved(left: float, complete: list[int], interval: int | None, words: str) -> None:
    known = running(time_left=left + 5)  # SLURM said so 5 s ago
    known = dataclasses.replace(
        known,
        checkpoints=Checkpoints(complete=complete),
        run=dataclasses.replace(known.run, checkpoint_interval=interval),
    )
    finding = said(known, "slurm.time-limit")
    assert finding is not None
    assert words in finding.message


def test_a_run_that_will_be_done_in_time_fears_no_limit() -> None:
    known = running(time_left=1200.0)  # 120 steps of 10 s, and 70 are to come
    assert said(known, "slurm.time-limit") is None


def test_commands_are_handed_over() -> None:
    for rule in ("slurm.grace", "slurm.finished-holding"):
        finding = said(CASES[rule][0](), rule)
        assert finding is not None
        assert "scancel 4711" in (finding.action or "")


def test_in_grace_a_checkpoint_that_is_being_written_is_waited_for() -> None:
    known = dataclasses.replace(CASES["slurm.grace"][0](), checkpoint_states=[checkpoint(30, "writing", 1)])
    finding = said(known, "slurm.grace")
    assert finding is not None
    assert "wait for it" in (finding.action or "")


def test_memory_of_the_host_is_told_from_that_of_a_device() -> None:
    lines = [incident("slurm.oom", "launcher")]
    assert said(dataclasses.replace(over("FAILED"), incidents=lines), "slurm.out-of-memory") is not None
    device = [incident("cuda.oom", "trainer")]
    assert said(dataclasses.replace(over("FAILED"), incidents=device), "slurm.out-of-memory") is None


def test_success_without_a_finish_line_is_suspicious() -> None:
    verdict = judged(over("COMPLETED"))
    assert (verdict.health, verdict.findings[0].rule) == (DOWN, "slurm.ended")
    assert "never wrote its finish line" in verdict.findings[0].message


def test_failed_run_whose_script_goes_on_still_holds_its_node() -> None:
    launcher = Launcher("node-0", 99, "failed", "gone", NOW - 2000, NOW - 900, ended=NOW - 900, exit_code=1)
    known = dataclasses.replace(running(), launcher=launcher, processes=[])
    finding = said(known, "slurm.finished-holding")
    assert finding is not None
    assert finding.message.startswith("The run ended 15m 0s ago and job 4711 still holds")
    assert "scancel 4711" in (finding.action or "")
    # Started after that: it is the next attempt's, which has not recorded anything yet.
    again = dataclasses.replace(known, jobs=[job(started=NOW - 600)])
    assert said(again, "slurm.finished-holding") is None


@pytest.mark.parametrize(
    ("changes", "words", "over"),
    [
        # A reason to wait, or a flag: it comes back.
        ({"reason": "BeginTime"}, "it starts again by itself", False),
        ({"flags": ["REQUEUED"]}, "it starts again by itself", False),
        # PreemptMode=CANCEL: a real controller shows the same state, and no reason. It never comes back.
        ({}, "Look whether it comes back (squeue -j 4711)", None),
        ({"ended": NOW - 1000}, "It does not start again by itself", True),
    ],
)
def test_preempted_job_comes_back_or_not(changes: dict[str, Any], words: str, over: bool | None) -> None:
    preempted = job("PREEMPTED", **changes)
    finding = said(dataclasses.replace(stands_since(1000), processes=[], jobs=[preempted]), "slurm.preempted")
    assert finding is not None
    assert words in (finding.action or "")
    assert job_is_over(preempted) is over


def test_requeued_and_held_waits_for_somebody() -> None:
    # As a real controller says it after `scontrol requeuehold`, and after a node failed at the start.
    for reason in ("job requeued in held state", "launch failed requeued held", "JobHeldAdmin"):
        held = dataclasses.replace(queued().jobs[0], reason=reason, flags=["REQUEUED"], restarts=1)
        finding = said(dataclasses.replace(queued(), jobs=[held]), "slurm.requeued")
        assert finding is not None
        assert "scontrol release 4711" in (finding.action or "")
        assert "by itself" not in (finding.action or "")


def test_step_out_of_memory_behind_a_script_that_ends_with_success() -> None:
    # What sacct says of `srun TRAINING; echo done` whose step the kernel ended: the job COMPLETED with 0:0.
    hidden = over("COMPLETED", exit_code=0, source="sacct", step_failure="step 0 ended: out of memory on a node")
    verdict = judged(hidden)
    assert (verdict.health, verdict.findings[0].rule) == (DOWN, "slurm.out-of-memory")
    assert "slurm.ended" not in [one.rule for one in verdict.findings]


@pytest.mark.parametrize(
    ("code", "source", "words"),
    # sacct 22.05 prints 15 for 143; scontrol prints 143. A code that no signal makes is what it is.
    [(15, "sacct", "exit code 15 or 143"), (143, "squeue", "exit code 143"), (3, "sacct", "exit code 3, at")],
)
def test_exit_code_as_far_as_it_is_known(code: int, source: str, words: str) -> None:
    finding = said(over("FAILED", exit_code=code, source=source), "slurm.ended")
    assert finding is not None
    assert words in finding.message
