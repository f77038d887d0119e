"""A base installation names the line to type instead of failing in an import."""

import subprocess
import sys

import pytest

from prl.cli.requirements import require_train

WITHOUT = (
    "import importlib.util as u; real = u.find_spec; "
    "u.find_spec = lambda name, *rest: None if name == 'torch' else real(name, *rest); "
)


def test_with_the_train_extra_nothing_happens(capsys: pytest.CaptureFixture[str]) -> None:
    require_train("rl")
    assert capsys.readouterr() == ("", "")


def test_without_it_the_command_ends_with_64_and_the_install_line() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT + "from prl.cli.inference import main; main()"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 64
    assert ended.stderr == "inference: not installed here: torch. Type: pip install 'prl[train]'\n"
