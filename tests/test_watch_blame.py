"""Causes and echoes told apart."""

import pytest

from prl.watch.blame import root_cause, tell_echoes, to_blame
from prl.watch.facts import EXITED, LogError, Process


def error(component: str, time: float, summary: str, header: str | None = None, *, fatal: bool = False) -> LogError:
    return LogError(
        component=component,
        file=f"logs/attempt_1/{component}.log",
        offset=0,
        time=time,
        last_time=time,
        exact=True,
        header=header or summary,
        summary=summary,
        fatal=fatal,
    )


def ended(name: str, at: float, code: int | None) -> Process:
    return Process(name, "PRL::X", 1, "here", EXITED, 0.0, f"logs/attempt_1/{name}.log", at, exit_code=code, ended=at)


ECHOES = [
    "Error: Trainer failed with exit code 1",
    "Error: Train env server gsm failed with exit code -9: killed by SIGKILL (envs/train/gsm.log)",
    "Terminating all processes",
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
    "failed (exitcode: 1) local_rank: 0 (pid: 42) of binary: /usr/bin/python",
    "srun: error: n3: task 2: Exited with exit code 1",
    "ncclRemoteError: A call failed possibly due to a network error",
]


@pytest.mark.parametrize("summary", ECHOES)
def test_wrappers_are_never_primary(summary: str) -> None:
    assert [one.primary for one in tell_echoes([error("launcher", 1.0, summary)], [])] == [False]


@pytest.mark.parametrize(
    "summary",
    ["torch.OutOfMemoryError: CUDA out of memory.", "ValueError: x", "failed (exitcode: -9) local_rank: 0 (pid: 42)"],
)
def test_own_errors_are_primary(summary: str) -> None:
    assert [one.primary for one in tell_echoes([error("trainer", 1.0, summary)], [])] == [True]


def test_lost_connections_are_echoes_only_around_the_end_of_another() -> None:
    lost = [
        error("orchestrator", time, "ConnectionRefusedError: [Errno 111]") for time in (100.0, 995.0, 1060.0, 2000.0)
    ]
    told = tell_echoes(lost, [ended("inference", 1000.0, -9)])
    assert [one.primary for one in told] == [True, False, False, True]
    assert [one.primary for one in tell_echoes(lost, [])] == [True] * 4


def test_lost_connections_after_a_crash_that_no_launcher_recorded() -> None:
    crash = error("trainer", 1000.0, "ValueError: x", "Fatal error in train", fatal=True)
    told = tell_echoes([crash, error("orchestrator", 1005.0, "BrokenPipeError: [Errno 32] Broken pipe")], [])
    assert [one.primary for one in told] == [True, False]


def test_first_end_is_to_blame_unless_it_only_echoes() -> None:
    orchestrator, inference = ended("orchestrator", 10.0, 1), ended("inference", 10.5, -9)
    lost = tell_echoes([error("orchestrator", 9.9, "ConnectionResetError: lost")], [orchestrator, inference])
    assert to_blame([orchestrator, inference], lost) == inference
    own = tell_echoes([error("orchestrator", 9.9, "ValueError: x")], [orchestrator, inference])
    assert to_blame([orchestrator, inference], own) == orchestrator
    assert to_blame([orchestrator, ended("inference", 60.0, -9)], lost) == orchestrator
    assert to_blame([], []) is None


def test_cause_is_the_earliest_crash_among_the_dead() -> None:
    trainer, orchestrator = ended("trainer", 1000.0, 1), ended("orchestrator", 1001.0, 1)
    survived = error("trainer", 500.0, "ValueError: one request")
    first = error("trainer", 999.0, "ValueError: a", "Fatal error in train", fatal=True)
    later = error("orchestrator", 1000.0, "ValueError: b", "Fatal error in run_orchestrator", fatal=True)
    worker = error("envs/train/gsm", 990.0, "KeyError: 'x'", "Fatal error in run_server", fatal=True)
    assert root_cause([survived, worker, first, later], trainer, [trainer, orchestrator]) == first
    # Without a crash header the last error of the process's own log counts, and nothing from long before its end.
    assert root_cause([survived, error("trainer", 998.0, "OSError: full")], trainer, [trainer]) == error(
        "trainer", 998.0, "OSError: full"
    )
    assert root_cause([error("trainer", 10.0, "OSError: long ago")], trainer, [trainer]) is None


def test_cause_in_the_log_of_a_rank() -> None:
    trainer = ended("trainer", 1000.0, 1)
    rank = error("trainer/torchrun/f0/attempt_0/3/stderr", 999.0, "torch.OutOfMemoryError: CUDA out of memory.")
    assert root_cause([rank], trainer, [trainer]) == rank


def test_what_is_said_while_a_run_is_torn_down_is_an_echo() -> None:
    said = [
        error("trainer", time, "zmq.error.ZMQError: Socket operation on non-socket") for time in (999.0, 1001.0, 2000.0)
    ]
    told = tell_echoes(said, [ended("inference", 1000.4, -9)])
    assert [one.primary for one in told] == [True, False, True]
