"""``rl`` and ``sft`` as commands: exit statuses and messages of what is refused, and a dry run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from launch_stand_ins import make_model

TOML = """
max_steps = 20
output_dir = "{outputs}"
model.name = "{model}"

[orchestrator]
batch_size = 8
group_size = 4

[[orchestrator.train.source]]
env = {{ taskset = {{ id = "reverse-text" }} }}
"""


def command(module: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(
        [sys.executable, "-m", f"prl.cli.{module}", *words],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rl.toml"
    path.write_text(TOML.format(outputs=tmp_path / "outputs", model=make_model(tmp_path / "model")))
    return path


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--made-up", "1"], ["made_up"]),
        (["--max-steps", "many"], ["max_steps", "many"]),
        (["--orchestrator.batch-size", "10"], ["batch_size = 10", "group_size = 4", "multiple"]),
        (["--inference.server.port", "5555"], ["rollout_transport.port = 5555", "inference.server.port"]),
        (["--resume.step", "20"], ["resume.step = 20", "max_steps = 20"]),
        (["@", "absent.toml"], ["absent.toml"]),
        (["--model.name", "absent"], ["model.name = 'absent'", "no such directory"]),
    ],
)
def test_a_wrong_configuration_is_64_with_key_and_value(file: Path, words: list[str], told: list[str]) -> None:
    done = command("rl", "@", str(file), *words, cwd=file.parent)
    assert done.returncode == 64
    said = " ".join((done.stdout + done.stderr).split())
    assert all(part in said for part in told), said
    assert not (file.parent / "outputs").exists()


def test_a_dry_run_and_then_a_directory_in_use(file: Path) -> None:
    words = ("@", str(file), "--run.name", "mine")
    done = command("rl", *words, "--dry-run", cwd=file.parent)
    assert done.returncode == 0, done.stderr
    assert "SUCCESS Dry run complete." in done.stdout
    assert f"rl @ {file} --run.name mine\n" in done.stdout
    run = file.parent / "outputs" / "mine"
    assert (run / "configs" / "attempt_1" / "rl.toml").read_bytes() == file.read_bytes()
    (run / "monitors").mkdir()
    refused = command("rl", *words, cwd=file.parent)
    assert refused.returncode == 65
    assert "--resume" in refused.stdout


def test_sft_refuses_alike(tmp_path: Path) -> None:
    done = command("sft", "--data.path", "d.jsonl", "--max-steps", "0", cwd=tmp_path)
    assert done.returncode == 64
    assert "max_steps" in done.stdout + done.stderr


def test_the_launcher_itself_loads_no_ml_library(tmp_path: Path) -> None:
    code = (
        "import sys, prl.launch.run, prl.cli.rl, prl.cli.launching\n"
        "print([m for m in ('torch', 'transformers', 'verifiers', 'zmq', 'aiohttp') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
    assert command("rl", "--help", cwd=tmp_path).returncode == 0
