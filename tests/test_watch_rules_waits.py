"""Rules about waits that do not end, and known failures in the logs."""

import dataclasses
from typing import Any

import pytest

from made_up_facts import (
    NOW,
    Cases,
    broadcast,
    check,
    checkpoint,
    facts,
    incident,
    job,
    judged,
    mark,
    pipeline,
    process,
    said,
    stands_since,
)
from prl.watch.facts import EXITED, Clock, Facts, LogError, Progress
from prl.watch.verdict import CRITICAL, DOWN, WARNING

WAITS_FOR_BATCH = mark("trainer_wait", "trainer", "Still waiting for the batch of step 21 after 60s", 200)


def resumed(age: float) -> Facts:
    """A resume in which the trainer waits for a batch and the orchestrator for the policy of the step before."""
    base = facts(
        marks=[
            mark("trainer_loop", "trainer", "Starting training loop (max_steps=100)", age + 5, 100),
            mark("trainer_wait", "trainer", "Still waiting for the batch of step 21", age),
        ],
        broadcast=broadcast(20, age + 1, age),
        series=[],
        attempt_started=NOW - age - 60,
        progress=Progress(),
    )
    return dataclasses.replace(base, run=dataclasses.replace(base.run, resume_step=20))


def with_incident(signature: str, component: str, since_progress: float = -5, **changes: Any) -> Facts:
    """Told of so many seconds before the last progress, less than nothing: after it."""
    return stands_since(20, incidents=[incident(signature, component, age=20 + since_progress, **changes)])


def killed_worker() -> list[Any]:
    return [
        incident("os.oomkill", "launcher", age=40),
        incident("env.worker_exit", "envs/train/gsm", age=39, severity="error", text="worker 3 died (exit code -9)"),
    ]


CASES: Cases = {
    "progress.deadlock": (lambda: resumed(180), lambda: resumed(60)),
    "progress.handshake": (lambda: facts(broadcast=broadcast(30, 200)), lambda: facts(broadcast=broadcast(30, 60))),
    "incident.known": (
        lambda: with_incident("nccl.watchdog", "trainer"),
        lambda: with_incident("nccl.watchdog", "trainer", since_progress=5),
    ),
    "incident.compound": (
        lambda: stands_since(40, incidents=killed_worker()),
        lambda: stands_since(40, incidents=killed_worker()[1:]),
    ),
}


@pytest.mark.parametrize("rule", CASES)
def test_speaks_and_is_silent(rule: str) -> None:
    check(CASES, rule)


def test_a_deadlock_at_a_resume_names_both_waits_within_minutes() -> None:
    verdict = judged(resumed(180))
    assert (verdict.health, verdict.findings[0].rule) == (DOWN, "progress.deadlock")
    message = verdict.findings[0].message
    assert "orchestrator waits for the trainer to send policy v20" in message
    assert "trainer: Still waiting for the batch of step 21" in message
    assert len(verdict.findings[0].evidence) == 2


def test_a_circle_that_was_left_is_none() -> None:
    base = resumed(180)
    episodes = Clock(10, NOW - 5, "monitors/file/traces/stream.index.jsonl")
    assert said(dataclasses.replace(base, progress=Progress(episodes=episodes)), "progress.deadlock") is None


@pytest.mark.parametrize(
    ("ages", "severity"),
    [((200.0,), WARNING), ((700.0,), CRITICAL), ((700.0, 650.0), CRITICAL), ((700.0, 690.0, 400.0), WARNING)],
)
def test_a_handshake_is_late_and_then_stuck(ages: tuple[float, ...], severity: str) -> None:
    finding = said(facts(broadcast=broadcast(30, *ages)), "progress.handshake")
    assert finding is not None
    assert finding.severity == severity


def test_a_stall_after_a_weight_update_says_so() -> None:
    known = stands_since(200, broadcast=broadcast(30, 205, 204, 203, 200))
    finding = said(known, "progress.stalled")
    assert finding is not None
    assert "since policy v30 was sent" in finding.message


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pipeline": pipeline(age=3)}, "engines or environments hang"),
        ({"pipeline": pipeline(train=0)}, "no episode is in flight"),
        ({"pipeline": pipeline(age=150)}, "not even its event loop speaks"),
        (
            {"marks": [mark("hold", "orchestrator", "Holding batch 32 until inference applies policy v30", 190)]},
            "the trainer hangs",
        ),
    ],
)
def test_a_stall_is_laid_at_the_door_of_who_is_silent(changes: dict[str, Any], words: str) -> None:
    known = stands_since(200, **changes)
    quiet = changes.get("pipeline", pipeline()).time
    progress = dataclasses.replace(known.progress, pipeline=Clock(40, quiet, "logs/attempt_1/orchestrator.log"))
    finding = said(dataclasses.replace(known, progress=progress), "progress.stalled")
    assert finding is not None
    assert words in (finding.cause or "")


def test_root_cause_first_across_ranks_and_nodes() -> None:
    """A rank of another node ran out of device memory; the launcher and torchrun only report the end."""
    known = facts(
        processes=[
            process("inference"),
            process("orchestrator"),
            process("trainer", state=EXITED, exit_code=1, ended=NOW - 5),
        ],
        errors=[
            LogError(
                "trainer",
                "logs/attempt_1/trainer.log",
                10,
                NOW - 6,
                NOW - 6,
                True,
                "Fatal error in train",
                "RuntimeError: x",
                True,
            )
        ],
        incidents=[
            incident(
                "cuda.oom", "trainer/rank_3", age=9, file="logs/attempt_1/trainer/rank_3.log", details=["ranks: 3"]
            ),
            incident("elastic.child", "trainer", age=5, secondary=True),
        ],
    )
    verdict = judged(known)
    assert [one.rule for one in verdict.findings] == ["process.component-gone"]
    cause = verdict.findings[0].cause or ""
    assert cause.startswith("trainer/rank_3: a line that tells of cuda.oom (ranks: 3). Usually: its cause")
    assert "logs/attempt_1/trainer/rank_3.log" in [one.source for one in verdict.findings[0].evidence]


def test_consequences_are_counted_and_never_named_first() -> None:
    known = stands_since(
        20,
        incidents=[
            incident("nccl.takedown", "trainer", age=12, secondary=True),
            incident("nccl.watchdog", "trainer", age=10, details=["ranks that did not: 1"]),
        ],
    )
    finding = said(known, "incident.known")
    assert finding is not None
    assert "nccl.watchdog" in finding.message
    assert "ranks that did not: 1" in finding.message
    assert "1 more in the logs" in finding.message


def test_what_an_environments_own_code_meets_is_no_end_of_the_run() -> None:
    finding = said(with_incident("fs.eio", "envs/train/gsm"), "incident.known")
    assert finding is not None
    assert finding.severity == WARNING


@pytest.mark.parametrize(
    ("known", "words"),
    [
        (
            stands_since(
                30, broadcast=broadcast(30, 60, 55, 50), incidents=[incident("vllm.worker_failed", "inference", age=25)]
            ),
            "while it took new weights",
        ),
        (
            facts(
                jobs=[job()],
                incidents=[incident("gpu.xid", "launcher"), incident("slurm.task_exit", "launcher", secondary=True)],
            ),
            "fault of the hardware",
        ),
        (
            facts(
                progress=Progress(),
                series=[],
                checkpoint_states=[checkpoint(20, "half")],
                incidents=[incident("ckpt.missing", "trainer")],
            ),
            "newest checkpoint is not whole",
        ),
    ],
)
def test_several_signs_with_one_cause(known: Facts, words: str) -> None:
    finding = said(known, "incident.compound")
    assert finding is not None
    assert words in finding.message
