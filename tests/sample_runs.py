"""Small run directories in the contract's layout, written through the project's own writers where it has them."""

import datetime as dt
import json
import os
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from prl.rundir import atomic, broadcasts, jsonl, status
from prl.rundir.layout import RunLayout
from prl.rundir.metrics.writer import metrics_row
from prl.rundir.status import LauncherStatus, ProcessStatus

T0 = dt.datetime(2026, 11, 29, 10, 0, tzinfo=dt.UTC).timestamp()
"""The moment at which sample runs begin."""

NAME = "reverse-text--tiny--0a1b2c3d"
TITLES = {
    "inference": "PRL::Inference",
    "train env server reverse-text": "PRL::EnvServer",
    "orchestrator": "PRL::Orchestrator",
    "trainer": "PRL::Trainer",
}
LOGS = {
    "inference": "inference",
    "train env server reverse-text": "envs/train/reverse-text",
    "orchestrator": "orchestrator",
    "trainer": "trainer",
}


@dataclass
class SampleRun:
    """A run of kind ``rl`` on this host. Its launcher and processes are this test's process: they live."""

    output_dir: Path
    max_steps: int = 40
    attempt: int = 1
    name: str = NAME
    seconds: float = 2.0
    """Duration of a step."""
    status: LauncherStatus = field(init=False)

    def __post_init__(self) -> None:
        self.root = self.output_dir / self.name
        self.layout = RunLayout(self.root)
        for directory in (
            self.resolved / "envs/train",
            self.logs / "envs/train",
            self.layout.launcher,
            self.layout.traces,
        ):
            directory.mkdir(parents=True, exist_ok=True)
        for parent in (self.layout.configs, self.layout.logs):
            atomic.replace_symlink(parent / "latest", f"attempt_{self.attempt}")
        self.configs.joinpath("command.txt").write_text("rl @ rl.toml\n")
        source = {"name": "reverse-text", "env": {"taskset": {"id": "reverse-text"}}}
        self.write_resolved(
            orchestrator={"max_steps": self.max_steps, "train": {"source": [source]}, "model": {"name": "models/tiny"}},
            trainer={"max_steps": self.max_steps, "model": {"name": "models/tiny"}},
        )
        self.env_config = self.resolved / "envs/train/reverse-text.json"
        self.env_config.write_text("{}")
        me = psutil.Process()
        self.status = LauncherStatus(
            run_id="0" * 32,
            run_name=self.name,
            kind="rl",
            attempt=self.attempt,
            phase=status.RUNNING,
            host=socket.gethostname(),
            pid=os.getpid(),
            started=me.create_time(),
            updated=T0,
            max_steps=self.max_steps,
            processes=[
                ProcessStatus(
                    name=name,
                    title=TITLES[name],
                    pid=os.getpid(),
                    host=socket.gethostname(),
                    started=me.create_time(),
                    log=f"logs/attempt_{self.attempt}/{log}.log",
                )
                for name, log in LOGS.items()
            ],
        )

    @property
    def configs(self) -> Path:
        return self.layout.attempt_configs(self.attempt)

    @property
    def resolved(self) -> Path:
        return self.configs / "resolved"

    @property
    def logs(self) -> Path:
        return self.layout.attempt_logs(self.attempt)

    def write_resolved(self, **documents: object) -> None:
        for name, document in documents.items():
            (self.resolved / f"{name}.json").write_text(json.dumps(document))

    def write_status(self, **changes: object) -> None:
        for name, value in changes.items():
            setattr(self.status, name, value)
        self.status.write(self.layout.status_json)

    def process(self, name: str) -> ProcessStatus:
        return next(process for process in self.status.processes if process.name == name)

    def end(self, name: str, exit_code: int, at: float) -> None:
        """Let a process have ended, as its launcher saw it."""
        process = self.process(name)
        process.ended, process.exit_code = at, exit_code

    def log(self, component: str, *lines: tuple[float, str, str] | str) -> Path:
        """Append lines ``(time, level, message)`` (or raw ones) to a component's log, in UTC with its date line."""
        path = self.logs / f"{component}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = []
        for line in lines:
            if isinstance(line, str):
                text.append(line)
                continue
            time, level, message = line
            when = dt.datetime.fromtimestamp(time, dt.UTC)
            if not path.exists() and not text:
                text.append(f"--- {when:%Y-%m-%d} +0000 ---")
            text.append(f"{when:%H:%M:%S} {level:>7} {message}")
        with path.open("a") as file:
            file.write("".join(line + "\n" for line in text))
        return path

    def metrics(self, producer: str, step: int | None, time: float, **values: float) -> None:
        self.metrics_row(producer, step, time, values)

    def metrics_row(self, producer: str, step: int | None, time: float, values: dict[str, float]) -> list[str]:
        """Append a row; returns the names of the values that the writer drops."""
        row, dropped = metrics_row(values, step=step, time=time, producer=producer)
        self.layout.metrics.parent.mkdir(parents=True, exist_ok=True)
        with self.layout.metrics.open("ab") as file:
            file.write(jsonl.encode(row))
        return dropped

    def start_up(self) -> None:
        """Everything up to the first batch."""
        self.env_config.with_suffix(".address").write_text("tcp://127.0.0.1:40001")
        os.utime(self.env_config.with_suffix(".address"), (T0 + 3, T0 + 3))
        self.log("launcher", (T0, "INFO", "Starting inference, 1 environment server, orchestrator, trainer"))
        self.log("inference", (T0 + 1, "INFO", "Serving"))
        self.log("envs/train/reverse-text", (T0 + 3, "INFO", "EnvServerPool up: address=tcp://127.0.0.1:40001"))
        self.log("trainer", (T0 + 4, "INFO", f"Starting training loop (max_steps={self.max_steps})"))
        self.log("orchestrator", (T0 + 5, "INFO", f"Starting orchestrator loop (max_steps={self.max_steps})"))
        self.broadcast(0, T0 + 5)

    def broadcast(self, version: int, at: float, markers: int = 4) -> None:
        directory = self.layout.broadcast(version)
        directory.mkdir(parents=True, exist_ok=True)
        names = (broadcasts.SENDER_READY, broadcasts.RECEIVER_READY, broadcasts.STARTED, broadcasts.FINISHED)
        for name in names[:markers]:
            (directory / name).touch()
            os.utime(directory / name, (at, at))

    def step(self, step: int, *, error_rate: float = 0.0, **trainer: float) -> float:
        """One healthy step of both sides; returns when the trainer finished it."""
        at = T0 + 6 + step * self.seconds
        prefix = "train/reverse-text"
        orchestrator = {
            "train/agg/effective/agent/reward/mean": 0.5 + step / 100,
            "train/agg/all/agent/reward/mean": 0.45 + step / 100,
            f"{prefix}/effective/agent/reward/mean": 0.5 + step / 100,
            "train/agg/effective/num_total_tokens/mean": 32.0,
            "train/agg/effective/agent/is_truncated/mean": 0.047,
            "train/agg/all/has_error/mean": error_rate,
            f"{prefix}/all/has_error/mean": error_rate,
            f"{prefix}/effective/agent/metrics/exact/mean": 0.25,
            "time/step": self.seconds,
            "time/wait_for_policy": 0.05 * self.seconds,
        }
        if error_rate:
            orchestrator[f"{prefix}/all/agent/error/TaskError"] = round(error_rate * 100)
        self.metrics_row("orch", step, at - 1, orchestrator)
        self.metrics("orch", None, at - 0.5, **{"watcher/policy_version": step - 1})
        self.metrics("orch", None, at - 0.4, **{"inference/agg/kv_cache_usage_perc/max": 0.31})
        numbers = {"loss/mean": 0.001, "entropy/all/mean": 1.5, "mismatch_kl/all/mean": 0.002, "optim/grad_norm": 0.25}
        dropped = self.metrics_row("trainer", step, at, {**numbers, **{key: trainer[key] for key in trainer}})
        if dropped:
            names = ", ".join(dropped)
            self.log(
                "trainer", (at, "WARNING", f"Dropping {len(dropped)} non-finite value(s) from metrics.jsonl: {names}")
            )
        self.metrics_row("trainer", step, at, {"time/step": self.seconds, "time/wait_for_batch": 0.25 * self.seconds})
        self.log("orchestrator", (at - 1, "SUCCESS", f"Step {step} |    2.0s | Reward 0.5000"))
        self.log("trainer", (at, "SUCCESS", f"Step {step} |    2.0s | Loss 0.0010 | Entropy 1.5000"))
        self.episode(step * 16, at - 1)
        self.broadcast(step, at)
        return at

    def episode(self, line: int, arrival: float) -> None:
        """The index row of the newest episode."""
        with (self.layout.traces / "stream.index.jsonl").open("ab") as file:
            file.write(jsonl.encode({"line": line, "arrival": arrival, "id": f"e{line}"}))

    def finish(self, at: float) -> None:
        """The end of a run that went well."""
        self.log("orchestrator", (at, "SUCCESS", "Orchestrator finished"))
        self.log("trainer", (at, "SUCCESS", "RL trainer finished"))
        self.log("launcher", (at + 1, "SUCCESS", "Training finished!"))
        for name, code in (
            ("orchestrator", 0),
            ("trainer", 0),
            ("inference", -15),
            ("train env server reverse-text", -15),
        ):
            self.end(name, code, at + (0 if code == 0 else 1))
        self.write_status(phase=status.FINISHED, exit_code=0, ended=at + 1, updated=at + 1, step=self.max_steps)


def running(output_dir: Path, steps: int = 12, **shape: Any) -> tuple[SampleRun, float]:
    """A healthy run after ``steps`` steps, and the moment just after the last one. ``shape``: fields of the run."""
    run = SampleRun(output_dir, **shape)
    run.start_up()
    last = T0
    for step in range(1, steps + 1):
        last = run.step(step)
    run.write_status(updated=last, step=steps)
    return run, last + 1
