"""The command group: what it knows, what it imports, how it ends."""

import subprocess
import sys
from pathlib import Path

import pytest

PRL = str(Path(sys.executable).with_name("prl"))


def prl(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PRL, *args], capture_output=True, text=True, check=False, timeout=60)


def test_help_names_every_command() -> None:
    done = prl("--help")
    assert done.returncode == 0
    assert "status" in done.stdout
    assert "check-in" in done.stdout


@pytest.mark.parametrize("call", ["nonsense", "status --nonsense", "status a b", "status no-such-run"])
def test_wrong_calls_end_with_64_and_say_why(call: str) -> None:
    done = prl(*call.split())
    assert done.returncode == 64
    assert "Error: " in done.stderr
    assert done.stdout == ""


def test_reader_that_goes_away_is_no_error() -> None:
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {PRL} --help | true"], capture_output=True, text=True, check=False, timeout=60
    )
    assert "Traceback" not in done.stderr
