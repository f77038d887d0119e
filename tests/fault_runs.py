"""Run directories in the states that people meet: each made file by file, with the moment at which it is judged.

What is told of them stands in ``test_watch_faults.py``. Components are this project's unless a name says otherwise; the
processes of a run that lives are the test's own. States of SLURM jobs are in ``fault_jobs.py``.
"""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prl.rundir import status
from prl.synth import RunShape, write_run
from sample_runs import T0, SampleRun, running
from slurm_answers import Recorded

TITLES = {"trainer": "Trainer", "orchestrator": "Orchestrator", "inference": "Inference"}
ENV = "train env server reverse-text"


@dataclass(frozen=True)
class State:
    """A run directory and what surrounds it."""

    root: Path
    now: float
    """When it is judged, Unix seconds."""
    slurm: Recorded | None = None
    """What answers for SLURM; None: nobody does."""
    before: "State | None" = None
    """When somebody looked at it before."""


Maker = Callable[[Path], State]


def stands_for(run: SampleRun, last: float, seconds: float) -> State:
    """The run ``seconds`` after the last thing that happened."""
    return State(run.root, last + seconds)


def pipeline(run: SampleRun, at: float, train: int = 40, evaluation: int = 0, filled: int = 10) -> None:
    """What the orchestrator writes every few seconds while its event loop runs and engines answer it."""
    flight = f"{train + evaluation} inflight episodes (train={train}, eval={evaluation})"
    run.log("orchestrator", (at, "INFO", f"Train batch {filled}/64 ({filled / 0.64:.1f}%); {flight}"))
    for before in (40, 30, 20, 10, 0):
        run.metrics("orch", None, at - before, **{"inference/agg/kv_cache_usage_perc/max": 0.4})


def checkpoint(run: SampleRun, step: int, at: float, *halves: str) -> None:
    """A checkpoint, both halves of it or those that are named."""
    marks = {"trainer": "trainer/.metadata", "orchestrator": "orchestrator/progress.pt"}
    for half in halves or marks:
        path = run.layout.checkpoints / f"step_{step}" / marks[half]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 64)
        for each in (path, path.parent, path.parent.parent):
            os.utime(each, (at, at))


# ---- before and after the work


def configured(here: Path) -> State:
    run = SampleRun(here)
    for log in run.logs.rglob("*.log"):
        log.unlink()
    return State(run.root, T0)


def waits_for_environment_server(here: Path, seconds: float = 40.0) -> State:
    run = SampleRun(here)
    run.log("launcher", (T0, "INFO", "Starting inference, 1 environment server, orchestrator, trainer"))
    run.log("inference", (T0 + 1, "INFO", "Serving"))
    run.write_status(phase=status.STARTING)
    return State(run.root, run.status.started + seconds)


def environment_server_never_came(here: Path) -> State:
    return waits_for_environment_server(here, 700.0)


def finished(here: Path) -> State:
    run, now = running(here, 40)
    run.finish(now)
    return stands_for(run, now, 86_400)


def stopped_by_signal(here: Path) -> State:
    run, now = running(here)
    for name in (*TITLES, ENV):
        run.end(name, -15, now)
    run.log("trainer", (now, "ERROR", "Fatal error in train"), "Traceback (most recent call last):", "SystemExit: 143")
    run.log("launcher", (now, "WARNING", "Received SIGTERM, terminating all processes"))
    run.write_status(phase=status.STOPPED, exit_code=143, reason="stopped by SIGTERM", ended=now, updated=now)
    return stands_for(run, now, 60)


def hidden_crash(here: Path) -> State:
    run, now = running(here, 40)
    run.finish(now)
    path = run.logs / "orchestrator.log"
    path.write_text(path.read_text().replace("Orchestrator finished", "Stopping"))
    text = "Orchestrator shutdown did not complete within 300s; forcing process exit."
    run.log("orchestrator", (now + 300, "WARNING", text))
    return stands_for(run, now, 400)


# ---- healthy


def milliseconds_a_step(here: Path) -> State:
    run, last = running(here, 300, max_steps=2000, seconds=0.02)
    return stands_for(run, last, 2)


def minutes_a_step(here: Path) -> State:
    # Ten minutes since the last step are one and a half steps here.
    run, last = running(here, 12, seconds=400.0)
    pipeline(run, last + 595)
    run.log("inference", (last + 599, "INFO", "GET /health 200"))
    return stands_for(run, last, 600)


def evaluates_between_steps(here: Path) -> State:
    run, last = running(here)
    for minute in range(1, 11):
        run.episode(200 + minute, last + 60 * minute)
    pipeline(run, last + 600, train=0, evaluation=30)
    return stands_for(run, last, 605)


def writes_a_checkpoint(here: Path) -> State:
    run, last = running(here)
    checkpoint(run, 12, last + 290, "orchestrator")
    (run.layout.checkpoints / "step_12/trainer").mkdir()
    os.utime(run.layout.checkpoints / "step_12/trainer", (last + 290, last + 290))
    return stands_for(run, last, 300)


def last_evaluations(here: Path, quiet: float = 20.0) -> State:
    """The trainer has finished an hour ago, its nodes are held, and the orchestrator evaluates the last policy."""
    run, last = running(here, 40)
    run.log("trainer", (last, "SUCCESS", "RL trainer finished"))
    run.end("trainer", 0, last)
    run.write_status(updated=last + 3600)
    run.log("orchestrator", (last + 1, "INFO", "Reached max_steps — draining pipeline"))
    for minute in range(1, 61):
        run.episode(700 + minute, last + 60 * minute)
    pipeline(run, last + 3600 + quiet - 5, train=0, evaluation=8)
    return stands_for(run, last, 3600 + quiet)


def last_evaluation_hangs(here: Path) -> State:
    # The same two hours later: the line about the pipeline goes on, no episode comes any more.
    return last_evaluations(here, 7200.0)


# ---- a component ends


def crash(run: SampleRun, now: float, name: str, code: int, *lines: str, cause: str | None = None) -> State:
    """A component ends, others lose their connection to it, and the launcher says so and ends the rest."""
    log = {ENV: "envs/train/reverse-text"}.get(name, name)
    if lines:
        run.log(log, (now, "ERROR", f"Fatal error in {log.rpartition('/')[2]}"), *lines)
    others = [other for other in (*TITLES, ENV) if other != name]
    for other in others:
        if other != "trainer":
            lost = "ConnectionResetError: [Errno 104] Connection reset by peer"
            other_log = {ENV: "envs/train/reverse-text"}.get(other, other)
            run.log(other_log, (now + 1, "ERROR", f"Request failed: {lost}"))
        run.end(other, -15, now + 2)
    title = TITLES.get(name, "Train env server reverse-text")
    run.log(
        "launcher",
        (now + 1, "ERROR", f"Error: {title} failed with exit code {code}"),
        (now + 1, "WARNING", "Terminating all processes"),
    )
    run.end(name, code, now + 0.5)
    run.process(name).reason = cause
    reason = f"{name} ended with exit code {code}"
    run.write_status(phase=status.FAILED, exit_code=1, reason=reason, ended=now + 3, updated=now + 3)
    return stands_for(run, now, 600)


def trainer_crashed(here: Path) -> State:
    return crash(
        *running(here), "trainer", 1, "Traceback (most recent call last):", "ValueError: advantages have 7 rows, not 8"
    )


def orchestrator_crashed(here: Path) -> State:
    return crash(
        *running(here), "orchestrator", 1, "Traceback (most recent call last):", "KeyError: 'reward of the judge'"
    )


def environment_server_crashed(here: Path) -> State:
    return crash(
        *running(here), ENV, 1, "Traceback (most recent call last):", "ModuleNotFoundError: No module named 'word_list'"
    )


def engine_dead_with_the_cause_above(here: Path) -> State:
    """vLLM's own lines: the core's error comes first, and everything after it only reports that the core is dead."""
    run, now = running(here)
    run.log(
        "inference",
        "(EngineCore_DP0 pid=77) ERROR 11-29 10:00:30 [core.py:700] EngineCore encountered a fatal error.",
        "(EngineCore_DP0 pid=77) ERROR 11-29 10:00:30 [core.py:700] Traceback (most recent call last):",
        "(EngineCore_DP0 pid=77) ERROR 11-29 10:00:30 [core.py:700] torch.OutOfMemoryError: CUDA out of memory. "
        "Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 79.1 GiB",
        "(APIServer pid=70) ERROR 11-29 10:00:31 [async_llm.py:500] AsyncLLM output_handler failed.",
        "(APIServer pid=70) ERROR 11-29 10:00:31 [async_llm.py:500] vllm.v1.engine.exceptions.EngineDeadError: "
        "EngineCore encountered an issue. See stack trace (above) for the root cause.",
    )
    return crash(run, now, "inference", 1)


def engine_killed(here: Path) -> State:
    return crash(*running(here), "inference", -9)


def rpc_timed_out(here: Path) -> State:
    """An engine's worker stops answering after hours; everybody waits for it and the trainer is the first to end."""
    run, now = running(here)
    run.log(
        "inference",
        (now, "ERROR", "EngineCore encountered an issue"),
        "Traceback (most recent call last):",
        "TimeoutError: RPC call to sample_tokens timed out.",
    )
    run.write_status(updated=now + 100)
    return stands_for(run, now, 100)


def launcher_killed(here: Path) -> State:
    # Its pid belongs to a process that began at another time: it was given out again.
    run, now = running(here)
    run.write_status(started=1.0)
    return stands_for(run, now, 5)


def component_ended_a_moment_ago(here: Path) -> State:
    run, now = running(here)
    run.log(
        "trainer", (now, "ERROR", "Fatal error in train"), "Traceback (most recent call last):", "ValueError: made up"
    )
    run.end("trainer", 1, now)
    run.write_status(updated=now)
    return stands_for(run, now, 1)


def cuda_fault(here: Path) -> State:
    """CUDA reports a fault later than it happens, and with advice on how to find it."""
    return crash(
        *running(here),
        "trainer",
        1,
        "Traceback (most recent call last):",
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
        "CUDA kernel errors might be asynchronously reported at some other API call.",
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
    )


def collective_timed_out(here: Path) -> State:
    """Ranks 0, 1 and 3 of four wait for an all-reduce that rank 2 never came to."""
    run, now = running(here)
    for rank in range(4):
        path = f"trainer/torchrun/local_1/attempt_0/{rank}/stderr"
        if rank == 2:
            run.log(path, "INFO: reading shard 12")
            continue
        work = "WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000)"
        run.log(
            path,
            f"[rank{rank}]:[E1129 10:10:31.{rank}00 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective "
            f"operation timeout: {work} ran for 600060 milliseconds before timing out.",
        )
        os.utime(run.logs / f"{path}.log", (now + 600, now + 600))
    pipeline(run, now + 625)
    return stands_for(run, now, 630)


# ---- it lives and does not move


def keeps_its_logs_warm(here: Path) -> State:
    """Nothing advances, but health checks write a line every few seconds."""
    run, last = running(here)
    for second in range(5, 400, 5):
        run.log("inference", (last + second, "INFO", "GET /health 200"))
    for log in run.logs.rglob("*.log"):
        os.utime(log, (last + 399, last + 399))
    return stands_for(run, last, 400)


def deadlock_at_resume(here: Path) -> State:
    """Both sides were resumed and wait for each other before the first step."""
    run = SampleRun(here, attempt=2)
    run.write_resolved(
        trainer={"max_steps": 40, "resume": {"step": 8}},
        orchestrator={
            "max_steps": 40,
            "resume": {"step": 8},
            "train": {"source": [{"name": "reverse-text", "env": {"taskset": {"id": "reverse-text"}}}]},
        },
    )
    checkpoint(run, 8, T0 - 100)
    run.start_up()
    run.log("trainer", (T0 + 4, "INFO", "Resuming training from step 8"))
    run.broadcast(8, T0 + 6, markers=1)
    run.log("orchestrator", (T0 + 7, "INFO", "Holding batch 9 until inference applies policy v8 (currently v7)"))
    run.log("trainer", (T0 + 190, "WARNING", "Still waiting for the broadcast receiver after 180s"))
    pipeline(run, T0 + 195, train=0)
    run.write_status(updated=T0 + 200)
    return State(run.root, T0 + 200)


def deadlock_at_resume_in_older_words(here: Path) -> State:
    """The same in a run whose broadcasts leave no markers: each side's last line is that it waits."""
    run = SampleRun(here)
    run.start_up()
    for marker in run.layout.broadcast(0).iterdir():
        marker.unlink()
    run.log("orchestrator", (T0 + 7, "INFO", "Created NCCL_READY marker"))
    run.log("trainer", (T0 + 7, "INFO", "Looking for batches"))
    run.write_status(updated=T0 + 240)
    return State(run.root, T0 + 240)


def hang_after_weight_update(here: Path) -> State:
    run, last = running(here)
    for second in (1, 300):
        run.metrics("orch", None, last + second, **{"watcher/policy_version": 12})
    run.broadcast(13, last)
    pipeline(run, last + 300, train=40)
    return stands_for(run, last, 305)


def no_batch_comes_of_the_episodes(here: Path) -> State:
    """Episodes arrive and no batch comes of them."""
    run, last = running(here)
    for second in range(10, 300, 10):
        run.episode(200 + second, last + second)
    pipeline(run, last + 295)
    return stands_for(run, last, 300)


# ---- values


def nan_dropped_by_the_writer(here: Path) -> State:
    run, _ = running(here)
    return stands_for(run, run.step(13, **{"loss/mean": float("nan"), "optim/grad_norm": float("inf")}), 1)


def after(values: Callable[[SampleRun, int], None], name: str = "make", steps: int = 8) -> Maker:
    """A healthy run to whose next steps ``values`` adds metrics."""

    def make(here: Path) -> State:
        run, last = running(here, 20)
        for step in range(21, 21 + steps):
            last = run.step(step)
            values(run, step)
        return stands_for(run, last, 1)

    make.__name__ = name
    return make


def _group_rates(trainable: float, none: float, every: float) -> Callable[[SampleRun, int], None]:
    head = "train/reverse-text/all/agent"

    def add(run: SampleRun, step: int) -> None:
        rates = {"is_trainable/mean": trainable, "solved_none": none, "solved_all": every}
        at = T0 + 6 + step * run.seconds - 1
        run.metrics("orch", step, at, **{f"{head}/{key}": value for key, value in rates.items()})

    return add


zero_signal = after(_group_rates(0.15, 0.85, 0.0), "zero_signal")
"""85 % of the groups fail at every attempt."""
constant_reward = after(_group_rates(0.0, 0.0, 1.0), "constant_reward")


def reward_against_the_task(here: Path) -> State:
    """The format is learnt at the cost of what the task asks for, as evaluations of the same environment show."""
    run, last = running(here, 0, max_steps=100)
    head = "train/reverse-text/effective/agent/rewards"
    for step in range(1, 41):
        parts = {"correct": 0.6 - step / 200, "format": 3 * step / 200 - 0.1}
        run.metrics("orch", step, last + 0.5, **{f"{head}/{name}/mean": value for name, value in parts.items()})
        if step % 5 == 0:
            run.metrics("orch", step, last + 0.6, **{"eval/reverse-text/effective/agent/avg@4": 0.6 - step / 200})
        last = run.step(step)
    return stands_for(run, last, 1)


def all_episodes_fail(here: Path) -> State:
    run, last = running(here)
    for step in (13, 14, 15):
        last = run.step(step, error_rate=1.0)
    return stands_for(run, last, 1)


def a_third_of_the_episodes_fails(here: Path) -> State:
    run, last = running(here)
    for step in (13, 14, 15):
        last = run.step(step, error_rate=0.3)
    return stands_for(run, last, 1)


def slow_episodes_starve(here: Path) -> State:
    def add(run: SampleRun, step: int) -> None:
        values = {
            "train/reverse-text/all/cancelled/mean": 0.2,
            "train/reverse-text/all/num_total_tokens/mean": 900.0,
            "train/reverse-text/effective/num_total_tokens/mean": 300.0,
            "off_policy/dropped": 8.0,
        }
        run.metrics("orch", step, T0 + 6 + step * run.seconds - 1, **values)

    return after(add)(here)


def diverges(here: Path) -> State:
    run, last = running(here, 20)
    for step in range(21, 27):
        last = run.step(step, **{"mismatch_kl/all/mean": 0.4, "optim/grad_norm": 60.0, "entropy/all/mean": 0.05})
    return stands_for(run, last, 1)


def event_loop_lags(here: Path, seconds: float = 25.0) -> State:
    """It still works: tens of seconds late, before it stops."""
    run, last = running(here, 20)
    for poll in range(6):
        lag = {"event_loop_lag/max": seconds, "event_loop_lag/p99": 4.0}
        run.metrics("orch", None, last - 50 + 10 * poll, **lag)
    return stands_for(run, last, 1)


def event_loop_lags_by_minutes(here: Path) -> State:
    return event_loop_lags(here, 700.0)


def cache_is_full(here: Path) -> State:
    run, last = running(here, 40, max_steps=100)
    for poll in range(20):
        values = {"kv_cache_usage_perc/max": 0.99, "num_requests_waiting/sum": 40.0}
        row = {f"inference/agg/{key}": value for key, value in values.items()}
        run.metrics("orch", None, last - 95 + 5 * poll, **row)
    return stands_for(run, last, 1)


# ---- what it writes to, and who works for it


def half_checkpoint(here: Path) -> State:
    """The machine stopped while step 12 was saved: the orchestrator's half alone is there."""
    run, last = running(here)
    checkpoint(run, 8, last - 10)
    checkpoint(run, 12, last, "orchestrator")
    state = crash(run, last, "trainer", -9)
    return State(state.root, state.now + 3600)


def half_checkpoint_of_a_run_that_goes_on(here: Path) -> State:
    run, last = running(here, 20)
    checkpoint(run, 8, last - 30)
    checkpoint(run, 12, last - 3000, "orchestrator")
    return stands_for(run, last, 1)


def disk_full(here: Path) -> State:
    run, last = running(here)
    text = "No space left on device for broadcasts/step_13: waiting for space, since 12s"
    run.log("trainer", (last + 20, "ERROR", text))
    pipeline(run, last + 28, train=0)
    return stands_for(run, last, 30)


def environment_worker_killed(here: Path) -> State:
    run, last = running(here)
    run.log(
        "envs/train/reverse-text",
        (last, "ERROR", "EnvServerPool worker 2 exited with code -9; failing its in-flight work"),
    )
    for row in range(4):
        values = {"env_server/reverse-text/workers": 4.0 - (row == 3), "env_server/reverse-text/restarts": 0.0}
        run.metrics("orch", None, last - 9 + 3 * row, **values)
    return stands_for(run, last, 2)


def no_worker_is_left(here: Path) -> State:
    run, last = running(here)
    text = "EnvServerPool has no live workers left; exiting"
    run.log("envs/train/reverse-text", (last + 1, "ERROR", text))
    pipeline(run, last + 28)
    return stands_for(run, last, 30)


# ---- runs of prime-rl: no launcher's word; the host is another one


def of_prime_rl(layout: str, ended: str, **shape: Any) -> Maker:
    """A run of prime-rl in one of its layouts, a minute after its last sign of life."""

    def make(here: Path) -> State:
        wanted = RunShape(layout=layout, writer="prime-rl", state=ended, rollouts=8, answer_tokens=8, **shape)  # type: ignore[arg-type]
        root = write_run(here / "run", wanted)
        return State(root, _newest(root) + (60 if ended != "hung" else 3600))

    make.__name__ = f"of_prime_rl_{layout}_{ended}"
    return make


def silent_since_an_hour(here: Path) -> State:
    state = of_prime_rl("C", "running")(here)
    return State(state.root, state.now + 3600)


def silent_since_its_engine_hung(here: Path) -> State:
    return _silent_since(here, "inference", "TimeoutError: RPC call to sample_tokens timed out.")


def silent_since_its_disk_was_full(here: Path) -> State:
    return _silent_since(here, "trainer", "OSError: [Errno 28] No space left on device: 'made up'")


def _silent_since(here: Path, component: str, line: str) -> State:
    state = of_prime_rl("C", "running")(here)
    log, at = state.root / f"logs/attempt_1/{component}.log", state.now
    with log.open("a") as file:
        file.write(f"{time.strftime('%H:%M:%S', time.localtime(at))}   ERROR {line}\n")
    os.utime(log, (at, at))
    return State(state.root, at + 3600)


def of_this_project(ended: str, **shape: Any) -> Maker:
    """A run of this project whose launcher is on another host."""

    def make(here: Path) -> State:
        root = write_run(here / "run", RunShape(state=ended, rollouts=8, answer_tokens=8, **shape))  # type: ignore[arg-type]
        updated = json.loads((root / "launcher/status.json").read_text())["updated"]
        return State(root, updated + 5)

    make.__name__ = "_".join(["of_this_project", ended, *map(str, shape.values())])
    return make


def _newest(root: Path) -> float:
    return max(path.stat().st_mtime for path in root.rglob("*") if path.is_file())


def launcher_of_another_host_is_silent(here: Path) -> State:
    state = of_this_project("running")(here)
    return State(state.root, state.now + 3600)


def nothing_at_all(here: Path) -> State:
    (here / "run/notes").mkdir(parents=True)
    return State(here / "run", T0)
