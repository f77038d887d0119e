"""A verdict that is shown again and again, and check-ins that repeat, until the run has ended."""

import contextlib
import dataclasses
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from made_up_facts import NOW, facts
from prl.cli.check_in import check_in
from prl.cli.following import follow, lines_of_changes
from prl.cli.parameters import Interval
from prl.cli.status import status as command
from prl.rundir.status import FINISHED
from prl.text.terminal import strip_escapes
from prl.watch.assess import assess
from prl.watch.verdict import Verdict
from sample_runs import running

PRL = [sys.executable, "-m", "prl.cli.main"]
HEALTHY = assess(facts())


def wait_for(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)


@contextlib.contextmanager
def seen(shown: list[str]) -> Iterator[Callable[[Verdict], None]]:
    yield lambda verdict: shown.append(verdict.phase)


def test_follows_to_the_end_of_the_run() -> None:
    phases = iter(["starting", "running", "failed"])
    shown: list[str] = []
    last = follow(lambda: dataclasses.replace(HEALTHY, phase=next(phases)), seen(shown), seconds=0)
    assert (last.phase, shown) == ("failed", ["starting", "running", "failed"])


def test_ctrl_c_keeps_the_last_verdict() -> None:
    looks = iter([HEALTHY])

    def look() -> Verdict:
        try:
            return next(looks)
        except StopIteration:
            raise KeyboardInterrupt from None

    shown: list[str] = []
    assert follow(look, seen(shown), seconds=0) is HEALTHY
    assert shown == ["running"]


def test_without_a_terminal_a_line_for_each_change(capsys: pytest.CaptureFixture[str]) -> None:
    with lines_of_changes() as show:
        for step in (30, 30, 31):
            show(dataclasses.replace(HEALTHY, step=step, as_of=NOW))
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" UTC ")[2] for line in lines] == [
        "Healthy: running, step 30 / 100",
        "Healthy: running, step 31 / 100",
    ]


def test_on_a_terminal_one_screen_is_drawn_over_and_the_last_verdict_stays(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    run.write_status(phase="starting", updated=now)
    mine, theirs = pty.openpty()
    process = subprocess.Popen([*PRL, "status", str(run.root), "--follow"], stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    written = b""

    def read() -> bytes:
        nonlocal written
        with contextlib.suppress(OSError):  # the other end is closed
            written += os.read(mine, 65536)
        return written

    try:
        wait_for(lambda: b"step 12 / 40" in read(), "the first screen")
        run.finish(now)
        wait_for(lambda: process.poll() is not None or (read() and False), "the end")
        read()
    finally:
        process.kill()
        process.wait()
        os.close(mine)
    assert process.returncode == 0
    assert b"\x1b[?1049h" in written  # a screen of its own ...
    assert "Healthy: finished, step 12 / 40" in strip_escapes(written.partition(b"\x1b[?1049l")[2].decode())


def test_follow_goes_alone(tmp_path: Path) -> None:
    run, _ = running(tmp_path)
    for option in ("--json", "--since-restart"):
        result = CliRunner().invoke(command, [str(run.root), "--follow", option], standalone_mode=False)
        assert "goes with no other option" in str(result.exception)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("1h", 3600), ("1h 30m", 5400), ("1.5d", 129600)]
)
def test_intervals(text: str, seconds: float) -> None:
    assert Interval().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "1", "h", "0s", "0.5s", "1h x", "-1h", "1y", "99999999999d"])
def test_what_is_no_interval(text: str) -> None:
    result = CliRunner().invoke(check_in, ["run", "--every", text], standalone_mode=False)
    assert "is no interval" in str(result.exception)


def test_repeats_until_the_run_has_ended(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    process = subprocess.Popen([*PRL, "check-in", str(run.root), "--every", "1s"], stdout=subprocess.PIPE)
    try:
        wait_for(run.layout.status_md.exists, "the first entry, at once")
        run.finish(now)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert b"Healthy: finished" in output
    entries = run.layout.status_md.read_text().split("\n## ")
    assert len(entries) >= 2
    assert "-> Healthy" in entries[-1] or "health as before" in entries[-1]


def test_ctrl_c_ends_check_ins_and_not_the_run(tmp_path: Path) -> None:
    run, _ = running(tmp_path)
    process = subprocess.Popen(
        [*PRL, "check-in", str(run.root), "--every", "1h"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        while "Appended to" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 2  # of the last check-in: the sample stands still since its steps
    assert "the run goes on" in errors
    assert "Traceback" not in errors


def test_finished_run_is_checked_once(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    run.finish(now)
    assert run.status.phase == FINISHED
    result = CliRunner().invoke(check_in, [str(run.root), "--every", "1h", "--json"], standalone_mode=False)
    assert result.return_value == 0
    assert json.loads(result.stdout)["phase"] == "finished"
