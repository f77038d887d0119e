"""A whole run with its real processes on a tiny model, small enough to be started many times in the suite."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from prl.rundir.layout import RunLayout
from prl.rundir.status import LauncherStatus, read_status

DEADLINE = 120.0
"""Seconds for anything a test waits for: a run starts in ten on a quiet machine, in more on a busy one."""


def wait_for(condition: Callable[[], Any], what: str, deadline: float = DEADLINE) -> Any:
    """The first true value of ``condition``; fails the test naming ``what`` when there is none in time."""
    end = time.monotonic() + deadline
    while not (value := condition()):
        assert time.monotonic() < end, f"waited {deadline:.0f} s in vain for {what}"
        time.sleep(0.05)
    return value


def configuration(root: Path, model: Path, **shared: Any) -> Path:
    """A configuration file of a run of 16 traces a step; ``shared`` are keys of its top level."""
    config = {
        "max_steps": 4,
        "output_dir": str(root / "outputs"),
        "run": {"name": "run"},
        "model": {"name": str(model)},
        "ckpt": {"interval": 2},
        "shutdown_timeout": 20.0,
        "orchestrator": {
            "batch_size": 16,
            "group_size": 4,
            "seq_len": 256,
            "constant_trainer_batch_size": False,
            "concurrency": {"max_inflight": 16},
            "log": {"interval": 0.5},
            "train": {
                "sampling": {"max_completion_tokens": 8},
                "source": [
                    {"env": {"taskset": {"id": "reverse-text"}}, "timeout": 30, "serve": {"interval": 0.5}},
                ],
            },
        },
        "trainer": {"optim": {"lr": 1e-4}},
        "inference": {"engine": {"max_model_len": 64, "max_num_seqs": 16}},
    }
    path = root / "rl.json"
    path.write_text(json.dumps(_merged(config, shared)))
    return path


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    both = dict(base)
    for key, value in over.items():
        both[key] = _merged(both[key], value) if isinstance(value, dict) and isinstance(both.get(key), dict) else value
    return both


class Run:
    """``rl @ config`` as a child of the test, in a session of its own as from a terminal."""

    def __init__(self, config: Path, *args: str, cwd: Path | None = None) -> None:
        values = json.loads(config.read_text())
        self.layout = RunLayout(Path(values["output_dir"]) / values["run"]["name"])
        self.output = config.with_suffix(f".{time.monotonic_ns()}.out")
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONDONTWRITEBYTECODE", "PRL_OUTPUT_DIR")}
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "prl.cli.rl", "@", str(config), *args],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**environment, "OMP_NUM_THREADS": "1"},
                cwd=cwd,
                start_new_session=True,
            )
        self.seen: set[psutil.Process] = set()

    @property
    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def status(self) -> LauncherStatus | None:
        """The launcher's status if it is of this launch."""
        status = read_status(self.layout.status_json)
        return status if status and status.pid == self.process.pid else None

    def step(self) -> int:
        """The trainer's last finished step in this attempt, 0 before."""
        status = self.status()
        try:
            path = self.layout.trainer_step
            fresh = status is not None and path.stat().st_mtime >= status.started
            return int(path.read_text()) if fresh else 0
        except (OSError, ValueError):
            return 0

    def wait_for_step(self, step: int) -> None:
        def reached() -> bool:
            assert self.process.poll() is None, f"ended with {self.process.returncode}:\n{self.text[-4000:]}"
            self.look()
            return self.step() >= step

        wait_for(reached, f"step {step}; so far:\n{self.text[-2000:]}")

    def look(self) -> None:
        """Remember which processes the run has, to know later that all are gone."""
        try:
            self.seen.update(psutil.Process(self.process.pid).children(recursive=True))
        except psutil.Error:
            return

    def find(self, name: str) -> psutil.Process:
        """The process of the component that the launcher calls ``name``."""
        status = wait_for(self.status, "status.json")
        return psutil.Process(next(p.pid for p in status.processes if p.name == name))

    def titled(self, title: str) -> psutil.Process:
        """The one descendant whose title begins with ``title``."""
        self.look()
        return next(p for p in self.seen if p.is_running() and " ".join(p.cmdline()).startswith(title))

    def end(self) -> int:
        """Wait for the launcher's end and return its exit status."""
        try:
            return self.process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the launcher did not end:\n{self.text[-4000:]}") from None

    def orphans(self) -> list[str]:
        """Processes of the run that are still there."""
        return [p.name() for p in self.seen if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]

    def kill_all(self) -> None:
        self.look()
        for process in [*self.seen, self.process]:
            try:
                process.send_signal(signal.SIGKILL)
            except (psutil.Error, ProcessLookupError):
                continue
        self.process.wait()


@contextmanager
def running(config: Path, *args: str, cwd: Path | None = None) -> Iterator[Run]:
    """A run that is killed with all its processes when the test is over, however that ends."""
    run = Run(config, *args, cwd=cwd)
    try:
        yield run
    finally:
        run.kill_all()
