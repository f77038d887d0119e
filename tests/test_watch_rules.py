"""Every rule speaks where it should and is silent where it should, on real run directories."""

import dataclasses
import importlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from prl.rundir import status
from prl.watch import Finding, Verdict, gather, status_of
from prl.watch.assess import RULE_FAILED, assess
from prl.watch.facts import Disk
from prl.watch.lines import WINDOW
from prl.watch.rules import RULES, Rule
from prl.watch.verdict import ALARM, CRITICAL, DEGRADED, DOWN, HEALTHY, WARNING
from sample_runs import T0, SampleRun, running

Case = Callable[[Path], tuple[SampleRun, float]]
"""Writes a run below a directory; returns it and the moment at which it is judged."""

CRASH = (
    "Traceback (most recent call last):",
    '  File "/x/train.py", line 7, in step',
    "torch.OutOfMemoryError: CUDA out of memory.",
)


def trainer_died(output_dir: Path) -> tuple[SampleRun, float]:
    run, now = running(output_dir)
    run.log("trainer", (now, "ERROR", "Fatal error in train"), *CRASH)
    run.log("orchestrator", (now + 1, "ERROR", "Inference pool: ConnectionRefusedError: Connect call failed"))
    run.log("launcher", (now + 1, "ERROR", "Error: Trainer failed with exit code 1: out of memory (trainer.log)"))
    run.end("trainer", 1, now + 1)
    run.write_status(updated=now + 1)
    return run, now + 2


def trainer_done_first(output_dir: Path) -> tuple[SampleRun, float]:
    run, now = running(output_dir)
    run.log("trainer", (now, "SUCCESS", "RL trainer finished"))
    run.end("trainer", 0, now)
    run.write_status(updated=now)
    return run, now + 1


def failed(output_dir: Path) -> tuple[SampleRun, float]:
    run, now = trainer_died(output_dir)
    for name in ("inference", "train env server reverse-text", "orchestrator"):
        run.end(name, -15, now + 2)
    run.write_status(phase=status.FAILED, exit_code=1, reason="trainer: out of memory", ended=now + 3, updated=now + 3)
    return run, now + 1000


def stopped(output_dir: Path) -> tuple[SampleRun, float]:
    run, now = running(output_dir)
    for name in ("inference", "train env server reverse-text", "orchestrator", "trainer"):
        run.end(name, -15, now)
    run.write_status(phase=status.STOPPED, exit_code=130, reason="stopped by SIGINT", ended=now, updated=now)
    return run, now + 10


def launcher_vanished(output_dir: Path) -> tuple[SampleRun, float]:
    run, now = running(output_dir)
    run.write_status(started=1.0)  # this pid is alive, but began at another time: it was used again
    return run, now


def healthy(output_dir: Path) -> tuple[SampleRun, float]:
    return running(output_dir)


def no_finish_line(output_dir: Path) -> tuple[SampleRun, float]:
    run, now = running(output_dir)
    run.finish(now)
    path = run.logs / "orchestrator.log"
    path.write_text(path.read_text().replace("Orchestrator finished", "Stopping"))
    return run, now + 5


def finished(output_dir: Path) -> tuple[SampleRun, float]:
    run, now = running(output_dir)
    run.finish(now)
    return run, now + 100_000


def finish_line_out_of_sight(output_dir: Path) -> tuple[SampleRun, float]:
    run, now = finished(output_dir)
    run.log("trainer", "x" * (2 * WINDOW))
    return run, now


def only_steps_in_sight(output_dir: Path) -> tuple[SampleRun, float]:
    """The beginning of the log was not looked at, but a finish line would stand after the last step."""
    run, now = running(output_dir)
    run.log("trainer", "x" * (2 * WINDOW), (now, "SUCCESS", "Step 13 |    2.0s | Loss 0.0010 | Entropy 1.5000"))
    run.finish(now)
    path = run.logs / "trainer.log"
    path.write_text(path.read_text().replace("RL trainer finished", "Stopping"))
    return run, now + 5


def still_for(seconds: float, **kwargs: float) -> Case:
    def case(output_dir: Path) -> tuple[SampleRun, float]:
        run, now = running(output_dir)
        return run, now + seconds

    return case


def episodes_without_steps(output_dir: Path) -> tuple[SampleRun, float]:
    run, now = running(output_dir)
    run.episode(500, now + 90)
    return run, now + 100


def starting(seconds: float) -> Case:
    def case(output_dir: Path) -> tuple[SampleRun, float]:
        run = SampleRun(output_dir)
        run.log("inference", (T0, "INFO", "Serving"))
        run.write_status(phase=status.STARTING)
        return run, run.status.started + seconds

    return case


def loss_not_a_number(output_dir: Path) -> tuple[SampleRun, float]:
    run, _ = running(output_dir)
    at = run.step(13, **{"loss/mean": float("nan"), "optim/grad_norm": float("inf")})
    run.write_status(updated=at)
    return run, at + 1


def gradient_norm_not_written(output_dir: Path) -> tuple[SampleRun, float]:
    # Clipping was turned off for a step: its norm is missing, and no line says that a value was dropped.
    run, now = running(output_dir)
    run.metrics("trainer", 13, now, **{"loss/mean": 0.1})
    run.metrics("trainer", 13, now, **{"time/step": 2.0})
    return run, now + 1


def errors_at(*rates: float) -> Case:
    def case(output_dir: Path) -> tuple[SampleRun, float]:
        run, now = running(output_dir)
        for step, rate in enumerate(rates, start=13):
            now = run.step(step, error_rate=rate) + 1
        return run, now

    return case


FULL = "No space left on device for broadcasts/step_13: waiting for space, since 12s"


def waiting_for_space(output_dir: Path) -> tuple[SampleRun, float]:
    run, now = running(output_dir)
    run.log("trainer", (now + 20, "ERROR", FULL))
    return run, now + 30


def space_was_made(output_dir: Path) -> tuple[SampleRun, float]:
    run, now = running(output_dir)
    run.log("trainer", (now, "ERROR", FULL))
    for step in range(13, 60):
        now = run.step(step)
    return run, now + 1


def stopped_child(output_dir: Path) -> tuple[SampleRun, float]:
    """The processes of a sample run are this one, so a stopped child of it is a stopped worker of theirs."""
    child = subprocess.Popen(["sleep", "60"])
    CHILDREN.append(child)
    child.send_signal(signal.SIGSTOP)
    os.waitpid(child.pid, os.WUNTRACED)  # returns once it is stopped
    return running(output_dir)


CASES: dict[str, tuple[Case, Case]] = {
    "process.component-gone": (trainer_died, trainer_done_first),
    "process.run-failed": (failed, stopped),
    "process.launcher-gone": (launcher_vanished, healthy),
    "process.hidden-failure": (no_finish_line, finished),
    "progress.stalled": (still_for(100), still_for(50)),
    "progress.no-step": (episodes_without_steps, still_for(100)),
    "process.stopped": (stopped_child, healthy),
    "disk.full": (waiting_for_space, space_was_made),
    "startup.over-bound": (starting(700), starting(500)),
    "training.non-finite": (loss_not_a_number, gradient_norm_not_written),
    "episodes.error-rate": (errors_at(0.08, 0.07), errors_at(0.0, 0.08)),
}
"""For each rule a run on which it speaks and one that is close to it on which it is silent."""


CHILDREN: list[subprocess.Popen[bytes]] = []


@pytest.fixture(autouse=True)
def no_child_is_left() -> Iterator[None]:
    yield
    while CHILDREN:
        child = CHILDREN.pop()
        child.kill()
        child.wait()


def verdict(case: Case, output_dir: Path) -> Verdict:
    run, now = case(output_dir)
    return status_of(run.root, now)


def finding(case: Case, output_dir: Path, rule: str) -> Finding:
    found = verdict(case, output_dir).findings
    return next(one for one in found if one.rule == rule)


def test_every_rule_has_both_cases() -> None:
    """Those of the areas stand in ``test_watch_rules_<area>.py``."""
    areas = [importlib.import_module(path.stem) for path in Path(__file__).parent.glob("test_watch_rules_*.py")]
    assert sorted([*CASES, *(rule for area in areas for rule in area.CASES)]) == sorted(rule.id for rule in RULES)


@pytest.mark.parametrize("rule", CASES)
def test_speaks(tmp_path: Path, rule: str) -> None:
    found = verdict(CASES[rule][0], tmp_path).findings
    assert [one.rule for one in found] == [rule]
    assert found[0].evidence
    assert found[0].action


@pytest.mark.parametrize("rule", CASES)
def test_is_silent(tmp_path: Path, rule: str) -> None:
    assert rule not in [one.rule for one in verdict(CASES[rule][1], tmp_path).findings]


def test_a_crash_is_told_with_its_cause_and_not_its_echo(tmp_path: Path) -> None:
    for index, case in enumerate((trainer_died, failed)):
        told = verdict(case, tmp_path / str(index))
        assert told.health == DOWN
        assert told.findings[0].cause == "trainer: torch.OutOfMemoryError: CUDA out of memory."
        assert "trainer ended with exit code 1" in told.findings[0].message
        assert [(error.component, error.primary) for error in told.errors] == [
            ("trainer", True),
            ("launcher", False),
            ("orchestrator", False),
        ]
        crash = next(one for one in told.findings[0].evidence if one.source.endswith("trainer.log"))
        assert crash.offset is not None


@pytest.mark.parametrize(("case", "speaks"), [(finish_line_out_of_sight, False), (only_steps_in_sight, True)])
def test_a_log_that_was_read_in_part_hides_a_finish_line_or_not(tmp_path: Path, case: Case, speaks: bool) -> None:
    assert ("process.hidden-failure" in [one.rule for one in verdict(case, tmp_path).findings]) == speaks


def test_a_stopped_process_is_named_with_what_lets_it_go_on(tmp_path: Path) -> None:
    said = finding(stopped_child, tmp_path, "process.stopped")
    assert f"(pid {CHILDREN[0].pid})" in said.message
    assert said.action == f"Let it go on: kill -CONT {CHILDREN[0].pid}"
    assert said.severity == WARNING


def test_counters_that_stood_long_are_not_said_to_advance(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    run.episode(500, now + 20)
    (said,) = (one for one in status_of(run.root, now + 75).findings if one.rule == "progress.no-step")
    assert "no other counter has advanced for 55" in said.message


def test_a_restart_is_left_to_the_plan(tmp_path: Path) -> None:
    nothing = finding(failed, tmp_path / "a", "process.run-failed").action or ""
    assert "has no complete checkpoint" in nothing
    run, now = failed(tmp_path / "b")
    for half, name in (("trainer", ".metadata"), ("orchestrator", "progress.pt")):
        (run.layout.checkpoints / "step_8" / half).mkdir(parents=True)
        (run.layout.checkpoints / "step_8" / half / name).write_bytes(b"x")
    (said,) = status_of(run.root, now).findings
    assert "newest complete checkpoint is step 8" in (said.action or "")
    # A bare --resume without the recorded directory, options and conditions would be a trap: the plan has them all.
    assert all(
        f"prl restart-plan {tmp_path}" in text and "--resume" not in text for text in (nothing, said.action or "")
    )


def test_a_full_disk_is_critical_only_while_no_step_is_finished(tmp_path: Path) -> None:
    assert finding(waiting_for_space, tmp_path / "a", "disk.full").severity == CRITICAL
    run, now = running(tmp_path / "b")
    run.log("trainer", (now, "ERROR", "The checkpoint could not be saved: no space left on device"))
    at = run.step(13)
    run.write_status(updated=at)
    (said,) = status_of(run.root, at + 1).findings
    assert (said.rule, said.severity) == ("disk.full", WARNING)
    assert "trainer.log" in said.evidence[0].source


@pytest.mark.parametrize(("free", "total", "speaks"), [(63, 100, True), (65, 100, False), (400, 100_000, True)])
def test_little_free_space_is_told_before_it_is_none(tmp_path: Path, free: int, total: int, speaks: bool) -> None:
    run, now = running(tmp_path)
    disk = Disk(str(run.root), free * 1024**2, total * 1024**2)
    found = assess(dataclasses.replace(gather(run.root, now), disk=disk)).findings
    assert [one.rule for one in found] == (["disk.full"] if speaks else [])


def test_a_killed_engine_is_blamed_rather_than_who_lost_it(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    run.log("orchestrator", (now, "ERROR", "Fatal error in run_orchestrator"), *CRASH[:2], "ConnectionResetError: lost")
    run.end("orchestrator", 1, now + 0.5)
    run.end("inference", -9, now + 0.6)
    run.write_status(phase=status.FAILED, exit_code=1, ended=now + 1)
    (told,) = status_of(run.root, now + 5).findings
    assert "inference was killed by signal 9 (SIGKILL)" in told.message
    assert "memory" in (told.cause or "")


def test_a_killed_rank_is_told_by_its_exit_code(tmp_path: Path) -> None:
    # torchrun ends with 1 and a summary; the servers then end with 0 because the launcher asks them to.
    run, now = running(tmp_path)
    killed = "failed (exitcode: -9) local_rank: 0 (pid: 4242) of binary: python"
    run.log("trainer", f"E1129 10:00:{int(now - T0):02d}.937000 4241 torch/distributed/elastic/api.py:1002] {killed}")
    run.log("trainer", *CRASH[:2], "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ")
    run.end("trainer", 1, now + 2)
    run.end("inference", 0, now + 3)
    run.write_status(phase=status.FAILED, exit_code=1, ended=now + 4)
    (told,) = status_of(run.root, now + 5).findings
    assert "trainer ended with exit code 1" in told.message
    assert told.cause == f"trainer: {killed}"
    run.process("trainer").reason = "rank 0 (pid 4242) killed by SIGKILL"
    run.write_status()
    assert status_of(run.root, now + 5).findings[0].cause == "trainer: rank 0 (pid 4242) killed by SIGKILL"


def test_a_killed_launcher_is_told_in_the_words_of_who_cleaned_up(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    for name in ("inference", "train env server reverse-text", "orchestrator", "trainer"):
        process = run.process(name)
        process.ended, process.reason = now, "ended after the launcher was killed"
    reason = "the launcher (process 4241) was killed; its processes were ended"
    run.write_status(phase=status.FAILED, reason=reason, ended=now)
    (told,) = status_of(run.root, now + 5).findings
    assert (told.rule, told.message, told.cause) == ("process.run-failed", f"The run failed: {reason}", reason)


def test_a_hold_for_a_policy_that_was_never_sent_names_the_trainer(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    run.metrics("orch", 14, now, **{"time/step": 2.0})
    run.log("orchestrator", (now, "INFO", "Holding batch 15 until inference applies policy v13 (currently v12)"))
    message = status_of(run.root, now + 100).findings[0].message
    assert message.endswith("policy v13 (currently v12); the trainer has not sent v13, it is at step 13")


def test_an_environment_worker_that_crashed_and_was_replaced_is_not_the_cause(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    run.log("envs/train/reverse-text", (now - 20, "ERROR", "Fatal error in run_server"), *CRASH[:2], "KeyError: 'x'")
    run.log("trainer", (now, "ERROR", "Fatal error in train"), *CRASH)
    run.end("trainer", 1, now)
    run.write_status()
    (told,) = status_of(run.root, now + 1).findings
    assert told.cause == "trainer: torch.OutOfMemoryError: CUDA out of memory."


def test_a_server_that_ends_with_zero_is_missed(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    run.end("inference", 0, now)
    run.write_status()
    (told,) = status_of(run.root, now + 1).findings
    assert (told.rule, told.severity) == ("process.component-gone", CRITICAL)
    assert "inference ended with exit code 0" in told.message


def test_a_process_that_nobody_saw_end_is_missed(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    run.process("orchestrator").started = 1.0
    run.write_status()
    (told,) = status_of(run.root, now).findings
    assert "orchestrator is gone; nobody recorded its exit code" in told.message
    assert told.evidence[0].source.startswith(f"process {os.getpid()} on ")


@pytest.mark.parametrize(
    ("seconds", "idle", "speaks"), [(0.05, 59, False), (0.05, 62, True), (120, 1100, False), (120, 1300, True)]
)
def test_what_is_stuck_scales_with_the_run(tmp_path: Path, seconds: float, idle: float, speaks: bool) -> None:
    # Steps of 50 ms: the floor of 60 s counts. Steps of 120 s: 10 x 120 s.
    run = SampleRun(tmp_path, seconds=seconds)
    run.start_up()
    last = [run.step(step) for step in range(1, 13)][-1]
    run.write_status()
    rules = [one.rule for one in status_of(run.root, last + idle).findings if one.kind == ALARM]
    assert rules == (["progress.stalled"] if speaks else [])


def test_a_warm_log_is_no_progress(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    for second in range(0, 100, 10):
        run.log("inference", (now + second, "INFO", "GET /health 200"))
    assert status_of(run.root, now + 100).findings[0].rule == "progress.stalled"


@pytest.mark.parametrize(
    ("component", "line", "waits"),
    [
        ("orchestrator", "Holding batch 14 until inference applies policy v12 (currently v11)", "Holding batch 14"),
        ("orchestrator", "Pausing dispatcher until inference applies policy v12 (currently v11)", "Pausing dispatcher"),
        (
            "trainer",
            "Still waiting for the batch of step 13 from the orchestrator (localhost:5555) after 60s",
            "batch of",
        ),
        ("launcher", "nothing to say", "trainer waits for batch 13"),
    ],
)
def test_a_stall_names_who_waits_for_what(tmp_path: Path, component: str, line: str, waits: str) -> None:
    run, now = running(tmp_path)
    run.log(component, (now, "INFO", line))
    told = status_of(run.root, now + 100)
    assert waits in told.findings[0].message
    assert waits in (told.awaits or "")


@pytest.mark.parametrize(
    ("markers", "waits"),
    [
        (1, "trainer waits for the orchestrator to accept policy v13"),
        (2, "orchestrator waits for the trainer to send policy v13"),
        (3, "orchestrator waits for the trainer to finish writing policy v13"),
    ],
)
def test_a_stall_in_the_broadcast_names_its_stage(tmp_path: Path, markers: int, waits: str) -> None:
    run, now = running(tmp_path)
    run.broadcast(13, now, markers)
    assert waits in status_of(run.root, now + 100).findings[0].message


def test_a_checkpoint_being_written_is_no_stall(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    half = run.layout.checkpoints / "step_12.tmp/trainer.tmp"
    half.mkdir(parents=True)
    (half / "model.safetensors").write_bytes(b"0")
    for path in (half / "model.safetensors", half, half.parent):
        os.utime(path, (now + 90, now + 90))
    assert status_of(run.root, now + 100).findings == []
    assert status_of(run.root, now + 200).findings[0].rule == "progress.stalled"


def test_start_up_names_stage_and_what_is_awaited(tmp_path: Path) -> None:
    told = finding(starting(700), tmp_path, "startup.over-bound")
    assert "'environment servers'" in told.message
    assert "environment server reverse-text: no address yet" in told.message


def test_divergence_is_critical_while_it_lasts_and_a_warning_after(tmp_path: Path) -> None:
    run, now = loss_not_a_number(tmp_path)
    (told,) = status_of(run.root, now).findings
    assert (told.severity, told.message) == (CRITICAL, "loss/mean, optim/grad_norm not a number at step 13")
    now = run.step(14) + 1
    (told,) = status_of(run.root, now).findings
    assert told.severity == WARNING
    assert "since then the values are numbers again (step 14)" in told.message


def test_a_step_line_with_nan_counts_without_metrics(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    run.layout.metrics.unlink()
    run.log("trainer", (now, "SUCCESS", "Step 13 |    2.0s | Loss nan | Entropy nan | Grad. Norm nan | LR 1.00e-05"))
    (told,) = status_of(run.root, now + 1).findings
    assert told.message == "loss/mean, optim/grad_norm not a number at step 13"


def test_nan_in_the_file_itself_counts(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    with run.layout.metrics.open("a") as file:
        file.write(f'{{"step": 13, "time": {now}, "loss/mean": NaN, "time/step": 2.0, "producer": "trainer"}}\n')
    assert "loss/mean not a number at step 13" in status_of(run.root, now).findings[0].message


def test_error_rate_names_environment_step_and_types(tmp_path: Path) -> None:
    run, now = errors_at(0.3)(tmp_path)
    told = status_of(run.root, now)
    assert (told.health, told.findings[0].message) == (DEGRADED, "Episodes fail: reverse-text 30.0% at step 13")
    assert told.findings[0].cause == "by type: TaskError 30 (step 13)"


def test_errors_of_a_run_that_was_stopped_are_echoes(tmp_path: Path) -> None:
    run, now = stopped(tmp_path)
    run.log("launcher", (now - 10, "WARNING", "Received an interrupt, terminating all processes (again: kill them)"))
    run.log("envs/train/reverse-text", (now - 10, "ERROR", "ZMQError: Socket operation on non-socket"))
    told = status_of(run.root, now)
    assert (told.phase, told.reason, [error.primary for error in told.errors]) == (
        "stopped",
        "stopped by SIGINT",
        [False],
    )


def test_a_rule_that_raises_is_a_finding_and_hides_nothing(tmp_path: Path) -> None:
    def broken(_view: object) -> Finding | None:
        raise ZeroDivisionError("division by zero")

    run, now = errors_at(0.3)(tmp_path)
    told = assess(gather(run.root, now), rules=[Rule("broken.rule", broken), *RULES])
    assert [one.rule for one in told.findings] == [RULE_FAILED, "episodes.error-rate"]
    assert "broken.rule" in told.findings[0].message
    assert assess(gather(run.root, now)).findings == told.findings[1:]


def test_healthy_run_has_no_findings(tmp_path: Path) -> None:
    assert (verdict(healthy, tmp_path).health, verdict(healthy, tmp_path / "again").findings) == (HEALTHY, [])
