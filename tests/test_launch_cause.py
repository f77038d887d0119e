"""The cause of a component's end, found in what it left."""

from pathlib import Path

import pytest

from prl.launch.cause import Cause, find_cause, has_fatal_line, signal_name

CRASH = """--- 2026-01-05 +0000 ---
10:00:00    INFO Starting
10:00:01 WARNING a warning
10:00:02   ERROR Fatal error in {function}
Traceback (most recent call last):
  File "made_up.py", line 3, in work
    step()
{exception}
"""
TORCHRUN = """{prefix}
Traceback (most recent call last):
  File "run.py", line 9, in main
    raise
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
prl.cli.trainer FAILED
Root Cause (first observed failure):
[0]:
  time      : 2026-01-05_10:00:03
  rank      : 1 (local_rank: 1)
  exitcode  : {code} (pid: 4242)
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (CRASH.format(function="train", exception="ValueError: made up"), "ValueError: made up"),
        (
            "10:00:00   ERROR an episode failed\n" + CRASH.format(function="train", exception="KeyError: 'x'"),
            "KeyError: 'x'",
        ),
        (
            "Traceback (most recent call last):\n  File \"a.py\", line 1\nImportError: no such thing\n",
            "ImportError: no such thing",
        ),
        ("10:00:00   ERROR first\n10:00:01   ERROR second\n10:00:02    INFO bye\n", "second"),
        ("usage: it\nwhat is --this?\n", "usage: it / what is --this?"),
        ("", "ended with exit code 1 and said nothing"),
    ],
)  # fmt: skip
def test_one_log(tmp_path: Path, text: str, cause: str) -> None:
    log = write(tmp_path / "a.log", text)
    assert find_cause(1, log) == Cause(cause, log)


def test_of_chained_exceptions_the_last_counts(tmp_path: Path) -> None:
    chained = (
        'Traceback (most recent call last):\n  File "a.py", line 1, in a\nKeyError: 1\n\n'
        "The above exception was the direct cause of the following exception:\n\n"
        'Traceback (most recent call last):\n  File "a.py", line 2, in b\nRuntimeError: no task 1\n'
    )
    log = write(tmp_path / "a.log", "10:00:02   ERROR Fatal error in run_server\n" + chained)
    assert find_cause(1, log).text == "RuntimeError: no task 1"


def test_a_signal_is_its_own_cause(tmp_path: Path) -> None:
    log = write(tmp_path / "a.log", CRASH.format(function="train", exception="ValueError: of another time"))
    assert find_cause(-11, log).text == "killed by SIGSEGV"
    assert "out" in find_cause(-9, log).text
    assert signal_name(250) == "signal 250"


def test_a_ranks_own_file_is_believed_before_the_echo_of_the_others(tmp_path: Path) -> None:
    """Rank 1 has the trouble; rank 0, whose lines reach the trainer's log, only loses its peer."""
    echo = CRASH.format(function="train", exception="RuntimeError: [gloo] Connection closed by peer [127.0.0.1]:1")
    prefixed = "".join(f"[trainer0]:{line}\n" for line in echo.splitlines())
    log = write(tmp_path / "trainer.log", TORCHRUN.format(prefix=prefixed, code=1))
    first = write(tmp_path / "0" / "stderr.log", echo)
    second = write(tmp_path / "1" / "stderr.log", CRASH.format(function="train", exception="ValueError: made up"))
    assert find_cause(1, log, (first, second)) == Cause("ValueError: made up", second)


def test_a_killed_rank_is_found_in_torchruns_table(tmp_path: Path) -> None:
    echo = CRASH.format(function="train", exception="RuntimeError: Connection reset by peer")
    log = write(tmp_path / "trainer.log", TORCHRUN.format(prefix=echo, code=-9))
    assert find_cause(1, log).text.startswith("rank 1 (pid 4242) killed by SIGKILL")


def test_a_crash_with_exit_code_0_is_seen(tmp_path: Path) -> None:
    crashed = write(tmp_path / "a.log", CRASH.format(function="run_orchestrator", exception="ValueError: x"))
    fine = write(tmp_path / "b.log", "10:00:00   ERROR an episode failed: Fatal error in a tool\n")
    assert has_fatal_line(crashed)
    assert not has_fatal_line(fine)
    assert not has_fatal_line(tmp_path / "absent.log")


def test_a_cause_shows_no_secret(tmp_path: Path) -> None:
    secret = "hf_" + "a" * 34
    log = write(tmp_path / "trainer.log", CRASH.format(function="train", exception=f"OSError: no access with {secret}"))
    assert find_cause(1, log).text == "OSError: no access with hf_***"
