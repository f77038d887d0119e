"""A base installation names the line to type instead of failing in an import."""

import subprocess
import sys
from pathlib import Path

import pytest

from prl.cli.requirements import install_line, require_train

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
    assert ended.stderr.startswith("inference: not installed here: torch. Type: ")
    assert ended.stderr.count("\n") == 1


def test_a_checkout_installs_itself_and_an_installation_asks_the_index(tmp_path: Path) -> None:
    source = tmp_path / "my checkout" / "src"
    assert install_line(source) == "pip install 'prl[train]'"
    source.mkdir(parents=True)
    (source.parent / "pyproject.toml").touch()
    assert install_line(source) == f"cd '{source.parent}' && pip install -e '.[train]'"
    assert install_line(source.parent / "site-packages") == "pip install 'prl[train]'"
