"""What an attempt says about itself: the command, the user's file, the resolved configuration, the surroundings, and
the launcher's word on its processes."""

import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

from prl.rundir import atomic, status
from prl.rundir.layout import RunLayout
from prl.rundir.status import LauncherStatus, ProcessStatus
from prl.rundir.titles import ENV_SERVER, INFERENCE, ORCHESTRATOR, SFT_TRAINER, TRAINER
from prl.synth.course import Attempt, Course
from prl.synth.logs import OUT_OF_MEMORY
from prl.synth.shape import RunShape
from prl.synth.signals import EPSILON

_PHASES = {"running": status.RUNNING, "hung": status.RUNNING, "finished": status.FINISHED, "failed": status.FAILED}
_FIRST_PID = 4_100_000
"""Beyond what a kernel hands out by default: these processes are nobody's."""


def write_attempt(root: Path, shape: RunShape, attempt: Attempt) -> None:
    """Everything below ``configs/`` for one attempt, and the links to the newest."""
    paths = RunLayout(root)
    configs = paths.attempt_configs(attempt.number) if shape.layout == "C" else paths.configs
    resolved = configs if shape.layout == "A" else configs / "resolved"
    resolved.mkdir(parents=True, exist_ok=True)
    resume = "" if attempt.resumed_from is None else f" --resume.step {attempt.resumed_from}"
    # A name with spaces has to be quoted, as a shell would want it.
    (configs / "command.txt").write_text(
        f"uv run {shape.kind} @ {shape.kind}.toml --run.name '{shape.run_name}'{resume}\n"
    )
    (configs / f"{shape.kind}.toml").write_text(_toml(shape))
    for name, document in _resolved(shape, attempt).items():
        _write_json(resolved / f"{name}.json", document)
    if shape.kind != "sft":
        _write_servers(resolved / "envs" / ("eval" if shape.kind == "eval" else "train"), shape)
    if shape.writer == "prl":
        _write_json(configs / "environment.json", _surroundings(shape, attempt))
    for path in configs.rglob("*"):
        os.utime(path, (attempt.start, attempt.start))
    if shape.layout == "C":
        for parent in (paths.configs, paths.logs):
            parent.mkdir(exist_ok=True)
            atomic.replace_symlink(parent / "latest", f"attempt_{attempt.number}")


def write_status(root: Path, shape: RunShape, course: Course) -> None:
    """``launcher/status.json`` as it stood at the run's end, or now."""
    attempt, end = course.last, course.end + 1.0
    word = LauncherStatus(
        run_id=shape.digest,
        run_name=shape.run_name,
        kind=shape.kind,
        attempt=attempt.number,
        phase=_PHASES.get(shape.state, status.STOPPED),
        host=shape.host,
        pid=_FIRST_PID,
        started=attempt.start,
        updated=course.now - 1.0 if not shape.ended else end,
        max_steps=shape.limit,
        step=attempt.last,
        ports={"inference": 8000},
        processes=[
            _process(shape, course, number, component) for number, component in enumerate(_components(shape), start=1)
        ],
    )
    if shape.ended:
        word.ended = end
        word.exit_code = {"finished": 0, "failed": 1}.get(shape.state, 143)
        word.reason = {"failed": f"trainer failed: {OUT_OF_MEMORY}", "stopped": "stopped by SIGTERM"}.get(shape.state)
    path = RunLayout(root).status_json
    path.parent.mkdir(parents=True, exist_ok=True)
    word.write(path)


def _components(shape: RunShape) -> list[tuple[str, str, str]]:
    """Name, process title and log of the run's processes, in the order of their start."""
    split = "eval" if shape.kind == "eval" else "train"
    servers = [
        (f"{split} env server {environment.name}", ENV_SERVER, f"envs/{split}/{environment.name}")
        for environment in shape.environments
    ]
    if shape.kind == "sft":
        return [("trainer", SFT_TRAINER, "trainer")]
    if shape.kind == "eval":
        return [("inference", INFERENCE, "inference"), *servers, ("eval", "PRL::Eval", "eval")]
    work = [("orchestrator", ORCHESTRATOR, "orchestrator"), ("trainer", TRAINER, "trainer")]
    return [("inference", INFERENCE, "inference"), *servers, *work]


def _process(shape: RunShape, course: Course, number: int, component: tuple[str, str, str]) -> ProcessStatus:
    attempt, (name, title, log) = course.last, component
    process = ProcessStatus(
        name=name,
        title=title,
        pid=_FIRST_PID + number,
        host=shape.host,
        started=attempt.start + number,
        log=f"logs/attempt_{attempt.number}/{log}.log",
    )
    if shape.ended:
        worker = name in ("trainer", "orchestrator", "eval")
        process.ended = course.end + (0.0 if worker and shape.state != "stopped" else 1.0)
        process.exit_code = 0 if worker and shape.state == "finished" else -15
        if shape.state == "failed" and name in ("trainer", "eval"):
            process.exit_code, process.reason = 1, OUT_OF_MEMORY
    return process


def _resolved(shape: RunShape, attempt: Attempt) -> dict[str, Any]:
    model = {"name": shape.model}
    common: dict[str, Any] = {"max_steps": shape.limit, "model": model}
    if attempt.resumed_from is not None:
        common["resume"] = {"step": attempt.resumed_from}
    ckpt = {"interval": shape.checkpoint_interval, "keep_last": 2}
    sources = [
        {"name": environment.name, "env": {"taskset": {"id": environment.name.replace(" ", "-")}}, "ratio": 1.0}
        for environment in shape.environments
    ]
    if shape.kind == "sft":
        return {
            "sft": common | {"data": {"path": "made-up/dialogues.jsonl", "batch_size": shape.rollouts}, "ckpt": ckpt}
        }
    inference = {"server": {"port": 8000}, "vllm": {"model": shape.model, "tensor_parallel_size": 1}}
    if shape.kind == "eval":
        return {"eval": {"model": model, "source": sources, "group_size": shape.group_size}, "inference": inference}
    evaluation = {"interval": shape.eval_interval, "source": sources, "num_examples": shape.eval_examples}
    client = {"base_url": "http://localhost:8000/v1", "api_key_var": "VLLM_API_KEY"}
    orchestrator = common | {
        "batch_size": shape.rollouts,
        "group_size": shape.group_size,
        "max_off_policy_steps": 8,
        "model": model | {"client": client},
        "train": {"source": sources},
        "eval": evaluation if shape.eval_interval else None,
        "ckpt": ckpt,
    }
    trainer = common | {
        "loss": {"type": "ipo", "eps": EPSILON},
        "optim": {"type": "adamw", "lr": 1e-6, "max_norm": 1.0},
        "ckpt": ckpt,
    }
    return {"orchestrator": orchestrator, "trainer": trainer, "inference": inference}


def _write_servers(directory: Path, shape: RunShape) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for number, environment in enumerate(shape.environments):
        path = directory / f"{environment.name}.json"
        address = path.with_suffix(".address")
        _write_json(path, {"env": {"taskset": {"id": environment.name}}, "address_file": str(address)})
        address.write_text(f"tcp://127.0.0.1:{40001 + number}")


def _surroundings(shape: RunShape, attempt: Attempt) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "created": dt.datetime.fromtimestamp(attempt.start, dt.UTC).isoformat(timespec="seconds"),
        "git": {"commit": (shape.digest * 2)[:40], "dirty": False},
        "host": {
            "name": shape.host,
            "platform": "Linux-6.8.0-x86_64-with-glibc2.39",
            "cpu": {"model": "Made-up CPU", "count": 64},
            "memory_bytes": 512 * 1024**3,
            "devices": [f"GPU {index}: Made-up GPU 80GB (UUID: GPU-{index:08x})" for index in range(shape.ranks + 1)],
        },
        "python": {"version": "3.11.9", "interpreter": "/opt/venv/bin/python"},
        "cwd": "/home/researcher/project",
        "seeds": {"orchestrator": shape.seed, "trainer": shape.seed},
        "environment": {"PRL_OUTPUT_DIR": "outputs", "WANDB_API_KEY": "***"},
        "packages": {"numpy": "2.3.1", "prl": "0.1.0", "torch": "2.13.0", "verifiers": "0.4.0"},
    }


def _toml(shape: RunShape) -> str:
    lines = [f"max_steps = {shape.limit}", "", "[model]", f"name = {json.dumps(shape.model)}", ""]
    for environment in shape.environments:
        lines += ["[[orchestrator.train.source]]", f"name = {json.dumps(environment.name)}"]
        lines += [f"env = {{ taskset = {{ id = {json.dumps(environment.name.replace(' ', '-'))} }} }}", ""]
    return "\n".join(lines)


def _write_json(path: Path, value: Any) -> None:
    path.write_bytes(atomic.json_bytes(value))
