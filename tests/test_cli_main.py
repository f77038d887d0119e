"""The command group: what it knows, what it imports, how it ends."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from prl.cli import main

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


def test_what_a_library_warns_of_moves_no_cursor(tmp_path: Path) -> None:
    run = tmp_path / "x\x1b[31m\x1b]0;P\x07y"
    (run / "monitors/file/traces/stream/00000.jsonl").mkdir(parents=True)
    for name in ("episodes", "status", "metrics"):
        done = subprocess.run([PRL, name, str(run)], capture_output=True, check=False, timeout=60)
        assert not set(done.stderr + done.stdout) & {0x1B, 0x07}, name


def test_a_warning_is_one_harmless_line() -> None:
    record = logging.LogRecord("a", logging.WARNING, "f", 1, "%s: lost", ("a\x1b[2J\nb",), None)
    assert main.HarmlessFormatter("%(message)s").format(record) == "a b: lost"


def test_one_broken_module_takes_no_help_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(main.COMMANDS, "logs", ("prl.cli.no_such_module", "logs"))
    help_text = CliRunner().invoke(main.prl, ["--help"], standalone_mode=False)
    assert help_text.exception is None
    assert "cannot be loaded" in help_text.stdout
    assert "metrics" in help_text.stdout
    called = CliRunner().invoke(main.prl, ["logs", "run", "--json"], standalone_mode=False)
    assert called.return_value == 70
    assert "No module named" in called.stderr
