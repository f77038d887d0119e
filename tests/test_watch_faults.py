"""What is said of runs in the states that people meet: phase, health, first finding, exit status, and the cause."""

import dataclasses
import json
from pathlib import Path
from typing import NamedTuple

import pytest

import fault_jobs as jobs
import fault_runs as runs
from fault_runs import Maker
from prl.slurm import commands
from prl.watch import gather
from prl.watch.facts import Disk, Facts
from prl.watch.verdict import (
    CONFIGURED,
    DEGRADED,
    DOWN,
    DRAINING,
    EVALUATING,
    FAILED,
    FAILING,
    FINISHED,
    HEALTHY,
    PHASE_UNKNOWN,
    PREEMPTED,
    QUEUED,
    REQUEUED,
    RUNNING,
    STARTING,
    STOPPED,
    UNKNOWN,
)
from test_cli_status import call, save

NOBODY = None


class Row(NamedTuple):
    """What is right for a state."""

    make: Maker
    phase: str
    health: str
    rule: str | None
    """Of the first finding; None: there is none."""
    code: int
    """Exit status of ``prl status``."""
    words: tuple[str, ...] = ()
    """In what is said: the evidence that a person needs, the component to blame."""
    never: tuple[str, ...] = ()
    """Not in what is said: echoes, and who only suffers."""


TABLE = [
    # -- before and after the work
    # Nothing was launched: nothing is wrong.
    Row(runs.configured, CONFIGURED, HEALTHY, None, 0),
    # In time: a start-up is Healthy, and what it waits for is named.
    Row(runs.waits_for_environment_server, STARTING, HEALTHY, None, 0, ("environment server reverse-text",)),
    # Over the time that the run itself allows.
    Row(runs.environment_server_never_came, STARTING, DOWN, "startup.over-bound", 2, ("reverse-text",)),
    # A day later still: a finished run does not stand still.
    Row(runs.finished, FINISHED, HEALTHY, None, 0),
    # Somebody ended it: Down, for it does not run, and no failure is sought in what was said while it ended.
    Row(runs.stopped_by_signal, STOPPED, DOWN, None, 2, ("SIGTERM",), ("SystemExit",)),
    # The launcher says success; the orchestrator never wrote its finish line.
    Row(runs.hidden_crash, FAILED, DOWN, "process.hidden-failure", 2, ("orchestrator", "did not complete within 300s")),
    # -- healthy at any pace
    Row(runs.milliseconds_a_step, RUNNING, HEALTHY, None, 0),
    # Ten minutes without a step, but one takes seven.
    Row(runs.minutes_a_step, RUNNING, HEALTHY, None, 0),
    # Ten minutes without a step of two seconds, but episodes of an evaluation arrive.
    Row(runs.evaluates_between_steps, EVALUATING, HEALTHY, None, 0),
    # Nor does a step end while a checkpoint is written.
    Row(runs.writes_a_checkpoint, RUNNING, HEALTHY, None, 0),
    # The trainer has finished; the orchestrator works, so the run is not over.
    Row(runs.last_evaluations, DRAINING, HEALTHY, None, 0),
    # It holds everybody's nodes for an evaluation that does not end.
    Row(runs.last_evaluation_hangs, DRAINING, DOWN, "progress.stalled", 2, ("eval=8",)),
    # -- a component ends: who ended first and why, not who lost it
    Row(runs.trainer_crashed, FAILED, DOWN, "process.run-failed", 2, ("trainer", "advantages have 7 rows"), ("reset",)),
    Row(runs.orchestrator_crashed, FAILED, DOWN, "process.run-failed", 2, ("orchestrator", "KeyError"), ("reset",)),
    Row(runs.environment_server_crashed, FAILED, DOWN, "process.run-failed", 2, (runs.ENV, "word_list"), ("reset",)),
    # The core's own error, not the engine that reports its core dead, nor who lost the engine.
    Row(
        runs.engine_dead_with_the_cause_above,
        FAILED,
        DOWN,
        "process.run-failed",
        2,
        ("inference: torch.OutOfMemoryError: CUDA out of memory",),
        ("inference: AsyncLLM", "reset"),
    ),
    # Killed from outside: its log says nothing, and what others lost is no cause.
    Row(runs.engine_killed, FAILED, DOWN, "process.run-failed", 2, ("SIGKILL",), ("reset",)),
    # Said at another call than the one at fault, and no lack of memory.
    Row(runs.cuda_fault, FAILED, DOWN, "process.run-failed", 2, ("illegal memory access",), ("out of memory",)),
    # The launcher has not ended the others yet.
    Row(runs.component_ended_a_moment_ago, FAILING, DOWN, "process.component-gone", 2, ("trainer", "made up")),
    Row(runs.launcher_killed, FAILING, DOWN, "process.launcher-gone", 2),
    # The engine is down; the trainer only waits.
    Row(runs.rpc_timed_out, RUNNING, DOWN, "incident.known", 2, ("inference tells", "RPC call to sample_tokens")),
    # One incident of all ranks; the one that is absent is the suspect. It began ten minutes before it was said.
    Row(
        runs.collective_timed_out,
        RUNNING,
        DOWN,
        "incident.known",
        2,
        ("ALLREDUCE", "reported: 0, 1, 3", "did not: 2", "after 10m 0s"),
    ),
    # -- it lives and does not move
    # Logs are kept warm by health checks: counters decide.
    Row(runs.keeps_its_logs_warm, RUNNING, DOWN, "progress.stalled", 2),
    # Both sides wait for each other; within minutes, not after the half hour of their own time limits.
    Row(runs.deadlock_at_resume, STARTING, DOWN, "progress.deadlock", 2, ("Holding batch 9", "accept policy v8")),
    Row(
        runs.deadlock_at_resume_in_older_words,
        STARTING,
        DOWN,
        "progress.deadlock",
        2,
        ("NCCL_READY", "Looking for batches"),
    ),
    # Tied to what was going on when it stopped.
    Row(runs.hang_after_weight_update, RUNNING, DOWN, "progress.stalled", 2, ("inference to apply policy v13",)),
    # Something moves: not Down, but not well.
    Row(runs.no_batch_comes_of_the_episodes, RUNNING, DEGRADED, "progress.no-step", 1),
    # -- values
    # A value that was dropped by the writer is missing from the file: the line about it counts.
    Row(runs.nan_dropped_by_the_writer, RUNNING, DOWN, "training.non-finite", 2, ("loss", "13")),
    # All attempts fail in 85 % of the groups: that points to failures, not to a task that is too easy.
    Row(runs.zero_signal, RUNNING, DEGRADED, "episodes.no-signal", 1, ("85",), ("too easy",)),
    # Everything is solved: nothing is learnt from any trace.
    Row(runs.constant_reward, RUNNING, DOWN, "episodes.no-signal", 2, ("easy",)),
    # Evidence for a person: nothing says that it is no trade-off that is meant, so health stays.
    Row(
        runs.reward_against_the_task,
        RUNNING,
        HEALTHY,
        "episodes.reward-hacking",
        0,
        ("evaluation falls", "format", "--sort reward"),
    ),
    Row(runs.all_episodes_fail, RUNNING, DOWN, "episodes.error-rate", 2, ("reverse-text", "TaskError")),
    Row(runs.a_third_of_the_episodes_fails, RUNNING, DEGRADED, "episodes.error-rate", 1, ("30", "TaskError")),
    # Those that are thrown away are the long ones.
    Row(runs.slow_episodes_starve, RUNNING, DEGRADED, "episodes.cancelled", 1, ("slow-starved",)),
    Row(runs.diverges, RUNNING, DOWN, "training.mismatch-kl", 2, ("entropy", "grad-norm")),
    # Tens of seconds late: it still works, and is told before it stops.
    Row(runs.event_loop_lags, RUNNING, DEGRADED, "loop.lag", 1, ("25",)),
    Row(runs.event_loop_lags_by_minutes, RUNNING, DOWN, "loop.lag", 2),
    Row(runs.cache_is_full, RUNNING, DEGRADED, "inference.saturated", 1),
    # -- what it writes to, and who works for it
    # What ended it comes first; the half is not offered for a restart.
    Row(
        runs.half_checkpoint,
        FAILED,
        DOWN,
        "process.run-failed",
        2,
        ("complete checkpoint is step 8", "checkpoint.half"),
    ),
    Row(runs.half_checkpoint_of_a_run_that_goes_on, RUNNING, DEGRADED, "checkpoint.half", 1, ("resume from step 8",)),
    Row(runs.disk_full, RUNNING, DOWN, "disk.full", 2, ("No space left on device",)),
    # The others work on: Degraded.
    Row(runs.environment_worker_killed, RUNNING, DEGRADED, "process.worker-gone", 1, ("3 of 4 workers",)),
    Row(runs.no_worker_is_left, RUNNING, DOWN, "process.worker-gone", 2),
    # -- whoever wrote it
    Row(runs.of_prime_rl("A", "running"), RUNNING, HEALTHY, NOBODY, 0),
    Row(runs.of_prime_rl("A", "finished"), FINISHED, HEALTHY, NOBODY, 0),
    Row(runs.of_prime_rl("A", "failed"), FAILED, DOWN, "process.run-failed", 2, ("trainer",)),
    Row(runs.of_prime_rl("B", "running"), RUNNING, HEALTHY, NOBODY, 0),
    Row(runs.of_prime_rl("B", "failed"), FAILED, DOWN, "process.run-failed", 2, ("trainer",)),
    Row(runs.of_prime_rl("C", "running"), RUNNING, HEALTHY, NOBODY, 0),
    # The launcher's line in its job's log: it was told to end.
    Row(runs.of_prime_rl("C", "stopped"), STOPPED, DOWN, NOBODY, 2),
    # Nothing says whether its processes live, on another host. Whether they do or not: both sides wait for each other.
    Row(runs.of_prime_rl("C", "hung"), PHASE_UNKNOWN, DOWN, "progress.deadlock", 2, ("Holding batch",)),
    # An hour without progress, and nothing says why, nor whether its processes live.
    Row(runs.silent_since_an_hour, PHASE_UNKNOWN, UNKNOWN, NOBODY, 3),
    # Here its log says why.
    Row(runs.silent_since_its_disk_was_full, PHASE_UNKNOWN, DOWN, "disk.full", 2, ("No space left on device",)),
    Row(runs.silent_since_its_engine_hung, PHASE_UNKNOWN, DOWN, "incident.known", 2, ("RPC call to sample_tokens",)),
    # The launcher on the other host speaks: its word is fresh.
    Row(runs.of_this_project("running"), RUNNING, HEALTHY, None, 0),
    # The orchestrator holds a batch for a policy that the trainer offers and it does not accept.
    Row(runs.of_this_project("hung"), RUNNING, DOWN, "progress.deadlock", 2),
    Row(runs.of_this_project("running", kind="sft"), RUNNING, HEALTHY, None, 0),
    Row(runs.of_this_project("finished", kind="eval"), FINISHED, HEALTHY, None, 0),
    # It has not written for an hour and cannot be asked from here.
    Row(runs.launcher_of_another_host_is_silent, PHASE_UNKNOWN, UNKNOWN, None, 3, ("cannot be asked",)),
    Row(runs.nothing_at_all, PHASE_UNKNOWN, UNKNOWN, None, 3, ("neither a configuration nor a log",)),
    # -- inside SLURM jobs
    Row(jobs.queued, QUEUED, HEALTHY, None, 0, ("4242",)),
    Row(jobs.queued_for_long, QUEUED, DEGRADED, "slurm.pending", 1, ("6h",)),
    # No waiting mends it.
    Row(jobs.held, QUEUED, DEGRADED, "slurm.pending", 1, ("held",)),
    # It comes back by itself: no plan of a restart.
    Row(jobs.preempted, PREEMPTED, DEGRADED, "slurm.preempted", 1, ("from step 8",), ("restart-plan",)),
    # It does not.
    Row(jobs.preempted_for_good, PREEMPTED, DEGRADED, "slurm.preempted", 1, ("left the queue", "restart-plan")),
    Row(jobs.requeued, REQUEUED, DEGRADED, "slurm.requeued", 1, ("from step 8",)),
    # The state of its nodes is not known, which is no failure of theirs.
    Row(jobs.runs_in_a_job, RUNNING, HEALTHY, None, 0),
    # Twenty seconds are ten steps of two.
    Row(jobs.time_limit_is_near, RUNNING, DEGRADED, "slurm.time-limit", 1, ("about 10 more steps", "no checkpoint")),
    # A job that runs proves no progress.
    Row(jobs.stands_still_in_a_job, RUNNING, DOWN, "progress.stalled", 2),
    # The counters advance: the run is well, and what is not known is said.
    Row(jobs.controller_is_silent, RUNNING, HEALTHY, "slurm.silent", 0),
    Row(jobs.controller_is_silent_and_nothing_moves, PHASE_UNKNOWN, UNKNOWN, "slurm.silent", 3),
    # The raw text is no state.
    Row(jobs.state_that_nobody_knows, RUNNING, HEALTHY, None, 0),
    # Rank 3 is the cause, not torchrun, srun or the ranks that lost it; the nodes are held for others to finish.
    Row(
        jobs.out_of_memory_on_one_rank,
        FAILING,
        DOWN,
        "slurm.grace",
        2,
        ("rank_3", "CUDA out of memory", "scancel 4242", "3 nodes"),
        ("ncclRemoteError", "ChildFailedError"),
    ),
    # Main memory, by SLURM's word; no device.
    Row(jobs.host_out_of_memory, FAILED, DOWN, "slurm.out-of-memory", 2, ("4242", "main memory"), ("CUDA",)),
    Row(jobs.node_failed, FAILED, DOWN, "slurm.node-failure", 2, ("node n3",)),
    Row(jobs.reached_its_time_limit, FAILED, DOWN, "slurm.ended", 2, ("time limit",)),
    # Somebody cancelled it: the reason says so, no rule does.
    Row(jobs.cancelled, STOPPED, DOWN, None, 2, ("cancelled",)),
    Row(jobs.cancelled_and_killed, STOPPED, DOWN, None, 2, ("job 4242 was cancelled",)),
    # How it ended, nobody says.
    Row(jobs.gone_without_accounting, PHASE_UNKNOWN, UNKNOWN, None, 3, ("result unknown",)),
    Row(jobs.succeeded_without_a_finish_line, FAILED, DOWN, "slurm.ended", 2, ("never wrote its finish line",)),
    Row(jobs.finished_and_holds_its_nodes, FINISHED, DEGRADED, "slurm.finished-holding", 1, ("scancel 4242",)),
]


def facts_of(make: Maker, here: Path, monkeypatch: pytest.MonkeyPatch) -> Facts:
    """Of a state, without what this machine adds of its own: its memory and its disk."""
    monkeypatch.setenv("PRL_STATE_DIR", str(here / "state"))
    state = make(here)
    for look in filter(None, (state.before, state)):
        if look.slurm is not None:
            monkeypatch.setattr(commands, "run", look.slurm)
        facts = gather(look.root, look.now, ask_slurm=look.slurm is not None)
    return dataclasses.replace(facts, memory=None, disk=Disk("/runs", 2**40, 2**41))


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.make.__name__)
def test_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: Row) -> None:
    facts = save(facts_of(row.make, tmp_path, monkeypatch), tmp_path / "facts.json")
    code, result = call("--facts", facts, "--json")
    answer = json.loads(result.stdout)
    alarms = [finding["rule"] for finding in answer["findings"] if finding["severity"] != "info"]
    first = next((finding["rule"] for finding in answer["findings"]), None) if row.rule else next(iter(alarms), None)
    assert (answer["phase"], answer["health"], first, code) == (row.phase, row.health, row.rule, row.code)
    first_finding = answer["findings"][:1]
    said = json.dumps([answer["reason"], answer["awaits"], answer["findings"]], ensure_ascii=False)
    assert [words for words in row.words if words not in said] == []
    blamed = json.dumps([answer["reason"], [(one["message"], one["cause"], one["action"]) for one in first_finding]])
    assert [words for words in row.never if words in blamed] == []


def test_states_are_many_and_told_apart() -> None:
    assert len(TABLE) >= 25
    assert {row.health for row in TABLE} == {HEALTHY, DEGRADED, DOWN, UNKNOWN}
