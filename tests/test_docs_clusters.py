"""What docs/clusters.md tells people to write down works: the timer, the crontab's line, the batch script."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from launch_stand_ins import make_checkpoint, make_model
from prl.rundir.jobs import read_jobs

PAGE = (Path(__file__).parent.parent / "docs" / "clusters.md").read_text()
BIN = Path(sys.executable).parent
TOML = """
max_steps = 20
model.name = "{model}"

[orchestrator]
batch_size = 8
group_size = 4

[[orchestrator.train.source]]
env = {{ taskset = {{ id = "reverse-text" }} }}
"""


def units() -> dict[str, str]:
    """The units of the page by their names."""
    return dict(re.findall(r"^```ini\n# ~/\.config/systemd/user/(\S+)\n(.*?)^```", PAGE, flags=re.M | re.S))


def environment(**more: str) -> dict[str, str]:
    own = {key: value for key, value in os.environ.items() if not key.startswith(("PRL_", "SLURM_"))}
    return {**own, "PATH": f"{BIN}:{os.environ['PATH']}", **more}


def test_units_name_each_other_and_a_command_that_takes_the_verdicts_exit_statuses() -> None:
    known = units()
    assert set(known) == {"prl-check-in.service", "prl-check-in.timer"}
    service = known["prl-check-in.service"]
    command = re.search(r"^ExecStart=%h/prl/\.venv/bin/(.*)$", service, flags=re.M)
    assert command is not None
    help_of = [str(BIN / "prl"), shlex.split(command[1])[1], "--help"]
    assert subprocess.run(help_of, capture_output=True, check=False).returncode == 0
    assert "SuccessExitStatus=1 2 3\n" in service
    assert "[Install]\nWantedBy=timers.target\n" in known["prl-check-in.timer"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_understands_the_units(tmp_path: Path) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    for name, text in units().items():
        (tmp_path / name).write_text(text.replace("%h/prl/.venv/bin/prl", str(BIN / "prl")))
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", *(str(tmp_path / name) for name in units())],
        env=environment(XDG_RUNTIME_DIR=str(runtime)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_line_for_cron_is_five_fields_and_a_command_without_a_bare_percent_sign(tmp_path: Path) -> None:
    line = next(line for line in PAGE.splitlines() if line.startswith("7 * * * * "))
    command = line.removeprefix("7 * * * * ")
    assert "%" not in command
    (tmp_path / "prl/.venv").mkdir(parents=True)
    (tmp_path / "prl/.venv/bin").symlink_to(BIN)
    done = subprocess.run(["sh", "-c", command], env=environment(HOME=str(tmp_path)), check=False)
    assert done.returncode == 64  # it ran, and found no such run
    assert "my-run" in (tmp_path / "prl-check-in.log").read_text()


def test_the_batch_script_starts_a_run_and_goes_on_with_it_when_slurm_restarts_the_job(tmp_path: Path) -> None:
    script = next(iter(re.findall(r"^```bash\n(.*?)^```", PAGE, flags=re.M | re.S)))
    log = tmp_path / re.search(r"--output=(\S+)", script)[1].replace("%j", "4711")  # type: ignore[index]
    log.parent.mkdir(parents=True)
    log.write_text("HOSTNAMES=n1\n")  # what SLURM wrote before rl looks at the directory
    (tmp_path / "my-run.toml").write_text(TOML.format(model=make_model(tmp_path / "model")))
    dry = re.sub(r"^(exec rl .*)$", r"\1 --dry-run", script, flags=re.M)

    def start(**more: str) -> str:
        done = subprocess.run(
            ["bash"], input=dry, cwd=tmp_path, env=environment(**more), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    start(SLURM_JOB_ID="4711")
    run = tmp_path / "outputs/my-run"
    assert [(job.id, job.attempts) for job in read_jobs(run).jobs] == [("4711", (1,))]
    make_checkpoint(run / "checkpoints", 10)
    assert "--resume" in start(SLURM_JOB_ID="4711", SLURM_RESTART_COUNT="1")
