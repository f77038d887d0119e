"""Rules about what the run stands on: disks, memory, processes and their members, checkpoints."""

import dataclasses
from typing import Any

import pytest

from made_up_facts import NOW, Cases, check, checkpoint, facts, incident, mark, polls, process, said, stands_since
from prl.watch.facts import EXITED, Checkpoints, Disk, Facts, Member, ProcessSearch
from prl.watch.surroundings import Memory
from prl.watch.verdict import CRITICAL, WARNING

GIB = 1024**3
SAVED = Checkpoints(complete=[10, 20])


def disk(free: float, growth: float | None = None, max_steps: int = 10_000) -> Facts:
    base = facts(disk=Disk("/runs", int(free * GIB), 1000 * GIB, growth, "checkpoints"))
    return dataclasses.replace(base, run=dataclasses.replace(base.run, max_steps=max_steps))


def ranks(*indices: int) -> Facts:
    members = [Member("rank", 200 + index, "alive", "PRL::Trainer", index) for index in indices]
    return facts(processes=[process("trainer", members=members, expected=4)])


def finished(age: float) -> Facts:
    done = [
        mark("trainer_done", "trainer", "RL trainer finished", age),
        mark("orchestrator_done", "orchestrator", "Orchestrator finished", age),
    ]
    return facts(marks=done, processes=[process("inference")])


def nowhere(host: str) -> Facts:
    """No process of the run is here, where ``host`` is the one that the run lived on."""
    search = ProcessSearch("node-0", 0, file_system="ext4", local=True)
    return dataclasses.replace(stands_since(1000), processes=[], search=search, hosts=[host])


def saved(*states: Any, complete: tuple[int, ...] = (10, 20)) -> Facts:
    return facts(checkpoint_states=list(states), checkpoints=Checkpoints(complete=list(complete)))


CASES: Cases = {
    "disk.filling": (lambda: disk(100, GIB / 60), lambda: disk(100, GIB / 6000)),
    "memory.short": (lambda: facts(memory=Memory(64 * GIB, 2 * GIB)), lambda: facts(memory=Memory(64 * GIB, 20 * GIB))),
    "memory.killed": (
        lambda: facts(incidents=[incident("os.oomkill", "launcher", age=50)]),
        lambda: facts(memory=Memory(64 * GIB, 20 * GIB, oom_kills=2)),
    ),
    "process.rank-gone": (lambda: ranks(0, 1, 3), lambda: ranks(0, 1, 2, 3)),
    "process.worker-gone": (
        lambda: facts(polls("env_server/gsm/workers", [4.0, 4.0, 3.0], 10)),
        lambda: facts(polls("env_server/gsm/workers", [4.0, 4.0, 4.0], 10)),
    ),
    "process.vanished": (lambda: nowhere("node-0"), lambda: nowhere("node-9")),
    "process.lingering": (lambda: finished(900), lambda: finished(60)),
    "checkpoint.half": (lambda: saved(checkpoint(30, "half")), lambda: saved(checkpoint(30, "half", age=2))),
    "checkpoint.damaged": (
        lambda: saved(checkpoint(20, "damaged"), complete=(10,)),
        lambda: saved(checkpoint(10, "damaged"), checkpoint(20, "complete"), checkpoint(30, "complete")),
    ),
    "checkpoint.stuck": (
        lambda: saved(checkpoint(30, "stuck", age=900)),
        lambda: saved(checkpoint(10, "stuck", age=900), checkpoint(20, "complete")),
    ),
}


@pytest.mark.parametrize("rule", CASES)
def test_speaks_and_is_silent(rule: str) -> None:
    check(CASES, rule)


def test_the_forecast_tells_when_and_ends_with_the_run() -> None:
    finding = said(disk(100, GIB / 60), "disk.filling")
    assert finding is not None
    assert "the run adds 60.0 GiB an hour, which fills it in 1h 40m" in finding.message
    assert said(disk(100, GIB / 60, max_steps=40), "disk.filling") is None  # done in 100 s
    assert said(disk(40), "disk.filling") is not None  # little is left, whatever the forecast
    assert said(disk(0.01), "disk.filling") is None  # disk.full tells of that


def test_a_missing_rank_is_named_and_a_young_trainer_is_let_be() -> None:
    finding = said(ranks(0, 1, 3), "process.rank-gone")
    assert finding is not None
    assert "3 of 4 ranks (missing: 2)" in finding.message
    trainer = dataclasses.replace(ranks(0).processes[0], started=NOW - 10)
    assert said(facts(processes=[trainer]), "process.rank-gone") is None


def test_restarted_workers_are_counted_and_no_worker_left_is_critical() -> None:
    finding = said(facts(polls("env_server/gsm/restarts", [0.0, 1.0, 2.0], 10)), "process.worker-gone")
    assert finding is not None
    assert (finding.severity, "gsm had 2 workers restarted" in finding.message) == (WARNING, True)
    none_left = dataclasses.replace(stands_since(50), incidents=[incident("env.no_workers", "envs/train/gsm", age=20)])
    finding = said(none_left, "process.worker-gone")
    assert finding is not None
    assert finding.severity == CRITICAL


def test_how_a_worker_ended_is_said_beside_how_many_are_left() -> None:
    """Which of the two a look finds first is chance: the row of counters or the line of the log."""
    ended = incident("env.worker_exit", "envs/train/gsm", text="EnvServerPool: worker 0 exited with code -9")
    counted = polls("env_server/gsm/workers", [1.0, 1.0, 0.0], 10)
    finding = said(facts(counted, incidents=[ended]), "process.worker-gone")
    assert finding is not None
    assert finding.message.endswith("gsm has 0 of 1 workers; EnvServerPool: worker 0 exited with code -9")


def test_the_kernels_victim_is_named() -> None:
    killed = process("envs", exit_code=-9, state=EXITED, ended=NOW - 5)
    known = facts(processes=[process("trainer"), killed], incidents=[incident("slurm.oom", "launcher")])
    finding = said(known, "memory.killed")
    assert finding is not None
    assert "envs (pid 104) ended by SIGKILL" in finding.message
    assert finding.severity == CRITICAL


def test_a_half_checkpoint_is_not_resumed_from() -> None:
    finding = said(saved(checkpoint(30, "half")), "checkpoint.half")
    assert finding is not None
    assert "the newest complete one is step 20" in finding.message
    assert "--resume.step 20" in (finding.action or "")
    full = dataclasses.replace(saved(checkpoint(30, "half")), incidents=[incident("fs.enospc", "trainer")])
    finding = said(full, "checkpoint.half")
    assert finding is not None
    assert finding.cause == "its cause (trainer)"


def test_a_component_without_a_process_is_missed_on_the_only_host_it_can_be_on() -> None:
    search = ProcessSearch("node-0", 2, missing=["trainer", "envs/train/gsm"], file_system="ext4", local=True)
    known = facts(processes=[process("orchestrator"), process("inference")], search=search)
    finding = said(known, "process.component-gone")
    assert finding is not None
    assert "trainer of this run has no process" in finding.message
    shared = dataclasses.replace(known, search=dataclasses.replace(search, local=False))
    assert said(shared, "process.component-gone") is None
