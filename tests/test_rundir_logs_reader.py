"""Console logs as entries."""

import datetime as dt
import io
import json
import logging
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.rundir.logs.console import log_fatal, setup_logging
from prl.rundir.logs.reader import LogRead, errors, read_log

HEAD = "--- 2026-11-29 +0000 ---\n"
T = dt.datetime(2026, 11, 29, 10, 4, 20, tzinfo=dt.UTC).timestamp()


def read(path: Path, data: bytes | str, window: int = 1 << 20) -> LogRead:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return read_log(path, window)


def messages(log: LogRead) -> list[str]:
    return [entry.message for entry in log.entries]


def test_lines_of_this_project_are_read_back(tmp_path: Path) -> None:
    stream = io.StringIO()
    root, before = logging.getLogger(), logging.getLogger().handlers[:]
    try:
        logger = setup_logging("info", stream=stream)
        logger.info("Starting")
        try:
            raise ValueError("no such task")
        except ValueError:
            log_fatal(logger, "train")
    finally:
        root.handlers[:] = before
    log = read(tmp_path / "trainer.log", stream.getvalue())
    assert [(entry.level, entry.message) for entry in log.entries] == [
        ("INFO", "Starting"),
        ("ERROR", "Fatal error in train"),
    ]
    assert all(entry.exact and abs((entry.time or 0) - dt.datetime.now().timestamp()) < 60 for entry in log.entries)  # noqa: DTZ005
    assert log.entries[1].exception == "ValueError: no such task"


def test_offset_points_at_the_line(tmp_path: Path) -> None:
    data = HEAD + "10:04:20    INFO one\n10:04:21   ERROR twö\n10:04:22    INFO three\n"
    log = read(tmp_path / "x.log", data)
    for entry in log.entries:
        assert entry.message.encode() in data.encode()[entry.offset :].split(b"\n")[0]
    assert (log.entries[1].time, log.skipped, log.partial) == (T + 1, 0, False)


def test_colours_prefixes_and_other_headers(tmp_path: Path) -> None:
    lines = [
        "\x1b[2m10:04:20\x1b[0m \x1b[31m\x1b[1m  ERROR\x1b[0m red",
        "[trainer0]:10:04:21 SUCCESS Step 1",
        "10:04:22    INFO [gsm] tagged",
        "(EngineCore pid=7) WARNING 11-29 10:04:23 [core.py:1] vllm",
        "[rank3]:[E1129 10:04:24.5 ProcessGroupNCCL.cpp:607] [Rank 3] Watchdog caught collective operation timeout",
        "E1129 10:04:25.123456 4242 torch/distributed/elastic/api.py:882] failed (exitcode: -9) local_rank: 0",
        "ERROR:    Exception in ASGI application",
        json.dumps(
            {"timestamp": "2026-11-29T10:04:27+00:00", "level": "ERROR", "message": "json", "exception": "a: b"}
        ),
    ]
    log = read(tmp_path / "x.log", HEAD + "".join(line + "\n" for line in lines))
    seconds = [20, 21, 22, 23, 24, 25, 25, 27]
    assert [(entry.level, entry.time) for entry in log.entries] == [
        (level, T - 20 + second)
        for level, second in zip(
            ("ERROR", "SUCCESS", "INFO", "WARNING", "ERROR", "ERROR", "ERROR", "ERROR"), seconds, strict=True
        )
    ]
    assert messages(log)[:3] == ["red", "Step 1", "tagged"]
    assert [entry.rank for entry in log.entries if entry.rank] == ["trainer0", "rank3"]


def test_traceback_belongs_to_its_header_and_the_last_exception_counts(tmp_path: Path) -> None:
    text = (
        "10:04:20   ERROR Fatal error in train\n"
        "Traceback (most recent call last):\n"
        '> File "/x/train.py", line 1, in train\n'
        "    │    └ <function>\n"
        "KeyError: 'a'\n"
        "\nDuring handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n"
        '  File "/x/train.py", line 2, in train\n'
        "torch.OutOfMemoryError: CUDA out of memory.\n"
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
        "10:04:21    INFO after\n"
    )
    log = read(tmp_path / "x.log", HEAD + text)
    (error,) = errors(log)
    assert (error.message, error.exception) == ("Fatal error in train", "torch.OutOfMemoryError: CUDA out of memory.")
    assert error.summary == error.exception
    assert messages(log) == ["Fatal error in train", "after"]


def test_bare_tracebacks_are_entries_of_their_own(tmp_path: Path) -> None:
    text = (
        "10:04:20    INFO loading\n"
        "Traceback (most recent call last):\n"
        '  File "/x/my_env.py", line 3, in <module>\n'
        "ModuleNotFoundError: No module named 'my_env'\n"
        "Traceback (most recent call last):\n"
        '  File "/x/b.py", line 3\n'
        "KeyboardInterrupt\n"
    )
    log = read(tmp_path / "x.log", HEAD + text)
    assert [error.summary for error in errors(log)] == [
        "ModuleNotFoundError: No module named 'my_env'",
        "KeyboardInterrupt",
    ]
    assert all(error.time == T for error in errors(log))


def test_exception_groups_give_the_innermost_error(tmp_path: Path) -> None:
    text = (
        "10:04:20   ERROR Fatal error in run_orchestrator\n"
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "/x/loop.py", line 1, in run\n'
        "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)\n"
        "  +-+---------------- 1 ----------------\n"
        "    | Traceback (most recent call last):\n"
        '    |   File "/x/loop.py", line 9, in step\n'
        "    | TimeoutError: waited 5s for policy v3\n"
        "    +------------------------------------\n"
    )
    (error,) = errors(read(tmp_path / "x.log", HEAD + text))
    assert error.exception == "TimeoutError: waited 5s for policy v3"


def test_interleaved_ranks_keep_their_own_lines(tmp_path: Path) -> None:
    text = (
        "[trainer0]:10:04:20   ERROR Fatal error in train\n"
        "[trainer1]:10:04:20    INFO fine\n"
        "[trainer0]:Traceback (most recent call last):\n"
        "[trainer1]:more of rank 1\n"
        "[trainer0]:ValueError: rank 0\n"
    )
    first, second = read(tmp_path / "x.log", HEAD + text).entries
    assert first.exception == "ValueError: rank 0"
    assert second.more == ["more of rank 1"]


def test_redrawn_line_keeps_its_last_state_and_the_error_after_it(tmp_path: Path) -> None:
    bar = b"\r".join(b"loading %d%%" % (step % 100) for step in range(20_000))
    log = read(tmp_path / "x.log", bar + b"\r10:04:20   ERROR it broke\n", window=4096)
    assert messages(log) == ["loading 99%", "it broke"]
    assert log.entries[0].states > 300
    assert log.skipped > 0
    assert messages(read(tmp_path / "y.log", b"loading 1%\rloading 9%\r\nnext\r\n"))[0] == "loading 9%"


def test_bytes_that_are_not_utf8_are_replaced_and_counted(tmp_path: Path) -> None:
    log = read(tmp_path / "x.log", HEAD.encode() + b"10:04:20    INFO caf\xe9\n10:04:21    INFO a\xe2\x80\xa8b\n")
    assert messages(log) == ["caf\ufffd", "a\u2028b"]
    assert log.replaced == 1


def test_a_window_says_what_it_left_out(tmp_path: Path) -> None:
    lines = [f"10:{second // 60:02d}:{second % 60:02d}    INFO line {second}\n" for second in range(1000)]
    log = read(tmp_path / "x.log", HEAD + "".join(lines), window=2000)
    assert log.skipped == log.size - 2000
    assert messages(log)[-1] == "line 999"
    # The zone of the date line at the file's beginning still counts, the date is taken from the modification time.
    os.utime(tmp_path / "x.log", (T + 3600, T + 3600))
    last = read_log(tmp_path / "x.log", 2000).entries[-1]
    assert (last.exact, last.time) == (False, T - 4 * 60 - 20 + 999)


def test_last_line_without_newline_is_given_and_marked(tmp_path: Path) -> None:
    log = read(tmp_path / "x.log", HEAD + "10:04:20   ERROR it bro")
    assert (messages(log), log.partial) == (["it bro"], True)


def test_absent_file_and_directory_are_told(tmp_path: Path) -> None:
    assert (read_log(tmp_path / "no.log").problem or "").startswith("FileNotFoundError")
    assert (read_log(tmp_path).problem or "").startswith("IsADirectoryError")
    assert read(tmp_path / "empty.log", b"").entries == []


PIECES = (
    b"10:04:20   ERROR Fatal error in train", b"--- 2026-11-29 +0000 ---", b"Traceback (most recent call last):", b"\n",
    b"ValueError: x", b"\r", b"[trainer0]:", b"\x1b[31m", b"\xff", b'{"timestamp": 1, "level": 2}', b"{", b"  | ",
    b"25:99:99 INFO a",
)  # fmt: skip


@given(
    st.one_of(st.binary(max_size=500), st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join)),
    st.integers(1, 500),
)
def test_any_bytes_are_read(tmp_path_factory: pytest.TempPathFactory, data: bytes, window: int) -> None:
    log = read(tmp_path_factory.getbasetemp() / "any.log", data, window)
    assert log.problem is None
    assert all(entry.time is not None and 0 <= entry.offset < len(data) for entry in log.entries)


CHAINS = {
    "cause": ("OSError: inner", "RuntimeError: outer", "RuntimeError: outer"),
    "small class": ("KeyError: 'a'", "socket.gaierror: [Errno -2] outer", "socket.gaierror: [Errno -2] outer"),
    "local class": ("OSError: inner", "__main__.f.<locals>.Foo: outer", "__main__.f.<locals>.Foo: outer"),
    "wrapper": ("OSError: inner", "torch.distributed.elastic.SignalException: got 15", "OSError: inner"),
    "quoted": (
        "x.CheckpointException: ranks\nTraceback (most recent call last): (RANK 0)\n  File x\nKeyError: 3",
        "RuntimeError: outer",
        "RuntimeError: outer",
    ),
}


@pytest.mark.parametrize("header", ["10:00:00   ERROR Fatal error in train\n", ""])
@pytest.mark.parametrize("chain", CHAINS)
def test_of_chained_exceptions_the_last_is_meant(tmp_path: Path, chain: str, header: str) -> None:
    inner, outer, meant = CHAINS[chain]
    trace = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n'
    link = "\nThe above exception was the direct cause of the following exception:\n\n"
    path = tmp_path / "a.log"
    path.write_text(f"{header}{trace}{inner}\n{link}{trace}{outer}\n")
    (entry,) = read_log(path).entries
    assert entry.exception == meant
    assert entry.message == ("Fatal error in train" if header else meant)


@pytest.mark.parametrize("header", ["10:00:00   ERROR Fatal error in train\n", ""])
def test_two_tracebacks_without_a_link_are_two_errors(tmp_path: Path, header: str) -> None:
    # Neither is to blame for the other, also where the first one ends in something that looks like no exception.
    trace = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n'
    log = read(tmp_path / "a.log", f"{header}{trace}odd: ending\n{trace}KeyError: 'b'\n{trace}ValueError: c\n")
    assert [entry.exception for entry in errors(log)] == [None, "KeyError: 'b'", "ValueError: c"]


def test_a_group_and_what_follows_it_are_two_errors(tmp_path: Path) -> None:
    group = (
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "/x/loop.py", line 1, in run\n'
        "  | ExceptionGroup: two (2 sub-exceptions)\n"
        "  +-+---------------- 1 ----------------\n"
        "    | Traceback (most recent call last):\n"
        '    |   File "/x/loop.py", line 9, in step\n'
        "    | KeyError: 'a'\n"
        "    +---------------- 2 ----------------\n"
        "    | Traceback (most recent call last):\n"
        '    |   File "/x/loop.py", line 9, in step\n'
        "    | TimeoutError: b\n"
        "    +------------------------------------\n"
    )
    log = read(tmp_path / "x.log", HEAD + group + "Traceback (most recent call last):\n  File 'x'\nOSError: c\n")
    assert [entry.exception for entry in errors(log)] == ["TimeoutError: b", "OSError: c"]


def test_vllm_repeats_its_header_before_each_line_of_a_traceback(tmp_path: Path) -> None:
    head = "(EngineCore_DP0 pid=9) ERROR 11-29 10:04:23 [core.py:700] "
    lines = ("EngineCore encountered a fatal error.", "Traceback (most recent call last):", "  File 'x'", "OSError: c")
    text = "".join(f"{head}{line}\n" for line in lines) + "(EngineCore_DP0 pid=9) INFO 11-29 10:04:24 [core.py:1] on\n"
    failed, on = read(tmp_path / "x.log", text).entries
    assert (failed.message, failed.exception, on.message) == (lines[0], "OSError: c", "on")


def test_slurm_output_has_levels_and_times(tmp_path: Path) -> None:
    text = (
        "slurmstepd: error: *** STEP 7.0 ON n7 CANCELLED AT 2026-01-02T03:04:05 ***\n"
        "srun: error: n8: task 1: Exited with exit code 1\nsrun: Job step aborted: Waiting\nplain words\n"
    )
    log = read(tmp_path / "slurm-7.out", text)
    assert [entry.level for entry in log.entries] == ["ERROR", "ERROR", "INFO"]
    assert log.entries[0].exact
    assert log.entries[0].time == dt.datetime(2026, 1, 2, 3, 4, 5).timestamp()  # noqa: DTZ001
    assert log.entries[2].more == ["plain words"]


def test_a_character_that_is_cut_is_left_for_later(tmp_path: Path) -> None:
    log = read(tmp_path / "x.log", "ok\nloss … déjà 语言\n".encode()[:-3])
    assert (log.entries[0].more, log.replaced, log.partial) == (["loss … déjà 语"], 0, True)
    broken = read(tmp_path / "y.log", b"one\ntwo \xd0 bytes \xff\xfe\nthree\n")
    assert (broken.entries[0].more, broken.replaced) == (["two \ufffd bytes \ufffd\ufffd", "three"], 1)


def test_the_first_line_keeps_its_colours_for_a_page(tmp_path: Path) -> None:
    text = "\x1b[2m12:00:01\x1b[0m\x1b[31m\x1b[1m   ERROR\x1b[0m \x1b[31mboom\x1b[0m\n\x1b]0;title\x07\x1b[2Jmore\n"
    (entry,) = read(tmp_path / "x.log", text).entries
    assert (entry.level, entry.message, entry.more) == ("ERROR", "boom", ["more"])
    assert entry.first_line == "12:00:01   ERROR boom"
    assert "\x1b[31mboom" in (entry.styled or "")


def test_two_bars_and_a_line_between_are_three(tmp_path: Path) -> None:
    text = "\rload 1%\rload 2%\rtrain 1%\rtrain 2%\rtrain 3%\r10:00:00    INFO in between\rtrain 4%\n"
    entries = read(tmp_path / "x.log", text).entries
    assert [(entry.message, entry.states) for entry in entries] == [
        ("load 2%", 2), ("train 3%", 3), ("in between", 1),
    ]  # fmt: skip
    assert entries[2].more == ["train 4%"]
