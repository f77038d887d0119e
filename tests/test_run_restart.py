"""A real run that loses a component is started again with the line that the plan prints, and takes up its work."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from prl.rundir.status import LauncherStatus, read_status
from prl.trainer.tiny import make_tiny_model
from real_run import Run, configuration, running, wait_for


def prl(run: Run, *args: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "prl.cli.main", args[0], str(run.layout.root), *args[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def launcher(run: Run) -> LauncherStatus:
    status = read_status(run.layout.status_json)
    assert status
    return status


def test_crash_plan_command_and_progress(tmp_path: Path) -> None:
    model = make_tiny_model(tmp_path / "tiny", hidden_size=32, num_layers=1)
    with running(configuration(tmp_path, model, max_steps=5000), cwd=tmp_path) as run:
        wait_for(lambda: run.layout.checkpoint(2).exists(), "a checkpoint")
        wait_for(run.layout.status_md.exists, "the first entry")
        assert "**Command**: rl @ " in run.layout.status_md.read_text()
        code, text = prl(run, "restart-plan", "--json")
        live = json.loads(text)
        assert (code, live["warranted"]) == (2, "no"), live["why"]
        run.find("inference").send_signal(signal.SIGKILL)
        assert run.end() == 1

        code, text = prl(run, "restart-plan", "--json")
        plan = json.loads(text)
        assert (code, plan["ok"], plan["warranted"]) == (0, True, "yes"), plan["rows"]
        assert plan["resume_step"] >= 2
        assert {row["state"] for row in plan["rows"] if row["name"] != "cause removed"} == {"holds"}
        assert prl(run, "status", "--since-restart")[0] == 2  # nobody has typed it yet

        with (tmp_path / "again.out").open("wb") as output:
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            environment.pop("PRL_OUTPUT_DIR", None)
            again = subprocess.Popen(
                ["bash", "-c", plan["command"]["line"]],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd="/",
                start_new_session=True,
            )
        try:
            wait_for(lambda: prl(run, "status", "--since-restart")[0] == 0, "progress", 90)
            code, text = prl(run, "status", "--since-restart", "--json")
            answer = json.loads(text)
            assert (answer["result"], answer["attempt"], answer["resume_step"]) == ("resumed", 2, plan["resume_step"])
            assert prl(run, "check-in")[0] in (0, 1)
            assert "attempt 2; before: attempt 1" in run.layout.status_md.read_text()
        finally:
            os.killpg(again.pid, signal.SIGTERM)
            again.wait(60)
            wait_for(lambda: not psutil.pid_exists(launcher(run).pid), "the launcher's end")
