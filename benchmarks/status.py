"""How fast a run is judged: ``prl status`` with the interpreter's start, on a run of the demo's size and on a long one.

    python benchmarks/status.py [--dir DIR] [--steps 100] [--episodes 50000] [--repeat 7] [--other SRC]

Prints one JSON object: for each run its size, and of ``repeat`` calls the least and median wall time (s) and CPU time
(s) and the peak resident memory (MB) of the process; beside them the time of ``import prl.rundir, prl.watch`` (s). With
``--other`` also the CPU time beside that of another version, whose ``src`` directory is named, called in turns. The
long run has the episodes asked for, about 10 kB of metrics for each (50,001 rows of 200 keys: 524 MB) and 200 MB of
logs; it is generated below ``--dir`` (1 GB; kept, and used again). ``cold`` asks the system to forget the run's files
before each call and begins with an empty cache directory; ``warm`` does not. Whether the system really forgot them
shows in the time between the two: a virtual disk may have a memory of its own.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from prl.rundir import jsonl
from prl.rundir.layout import RunLayout
from prl.rundir.metrics.writer import metrics_row

T0 = 1_795_946_400.0
SECONDS = 0.6
"""Duration of a step."""


def write_run(root: Path, steps: int, keys: int) -> None:
    """A run of ``steps`` steps without a launcher's word: its end is judged by the finish lines."""
    paths = RunLayout(root)
    logs, resolved = paths.attempt_logs(1), paths.attempt_configs(1) / "resolved"
    for directory in (logs / "envs/train", resolved, paths.traces):
        directory.mkdir(parents=True)
    (resolved / "orchestrator.json").write_text(json.dumps({"max_steps": steps, "model": {"name": "models/tiny"}}))
    (resolved / "trainer.json").write_text(json.dumps({"max_steps": steps}))
    with paths.metrics.open("wb") as metrics, (paths.traces / "stream.index.jsonl").open("wb") as index:
        for step in range(1, steps + 1):
            at = T0 + step * SECONDS
            for producer, values in _rows(step, keys):
                metrics.write(jsonl.encode(metrics_row(values, step=step, time=at, producer=producer)[0]))
            index.write(b"".join(jsonl.encode({"line": step * 128 + n, "arrival": at, "id": "e"}) for n in range(128)))
    _write_log(logs / "trainer.log", steps, "Step {step} |   600ms | Loss 0.0010 | Entropy 1.5", "RL trainer finished")
    _write_log(logs / "orchestrator.log", steps, "Step {step} |   600ms | Reward 0.8", "Orchestrator finished")
    _write_log(logs / "inference.log", steps * 20, "127.0.0.1 POST /inference/v1/generate 200", "Stopping on SIGTERM")
    _write_log(logs / "envs/train/reverse-text.log", steps, "Event loop lag: mean 1ms, p99 3ms", "EnvServerPool down")


def _rows(step: int, keys: int) -> list[tuple[str, dict[str, float]]]:
    reward = {"train/agg/effective/agent/reward/mean": 0.8, "train/agg/all/has_error/mean": 0.0, "time/step": SECONDS}
    many = {f"train/agg/all/agent/metrics/value_{n}/mean": step / (n + 1) for n in range(keys)}
    loss = {"loss/mean": 0.001, "entropy/all/mean": 1.5, "mismatch_kl/all/mean": 0.002, "optim/grad_norm": 0.2}
    return [("orch", reward | many), ("trainer", loss), ("trainer", {"time/step": SECONDS})]


def _write_log(path: Path, lines: int, text: str, last: str) -> None:
    with path.open("w") as file:
        file.write("--- 2026-11-29 +0000 ---\n")
        for number in range(1, lines + 1):
            clock = time.strftime("%H:%M:%S", time.gmtime(T0 + number * SECONDS))
            file.write(f"{clock}    INFO {text.format(step=number)}\n")
        file.write(f"{clock} SUCCESS {last}\n")


def write_long_run(root: Path, episodes: int) -> None:
    """A run of ``episodes`` episodes with metrics and logs of a long one."""
    from prl.synth import RunShape, log_file, metrics_file
    from prl.synth import write_run as write_sample
    from prl.synth.shape import ENVIRONMENTS

    steps = max(episodes // 128, 1)
    shape = RunShape(
        state="running",
        environments=ENVIRONMENTS[:1],
        rollouts=128,
        steps=steps,
        prompt_tokens=8,
        answer_tokens=8,
        eval_interval=0,
        annotations=False,
    )
    write_sample(root, shape)
    paths = RunLayout(root)
    steps_of_the_run = paths.metrics.read_bytes()
    metrics_file(paths.metrics, episodes + 1, 200)
    with paths.metrics.open("ab") as file:  # the last steps are those of the run, with rows of both sides
        file.write(steps_of_the_run)
    log = paths.attempt_logs(1) / "inference.log"
    log.unlink()
    log_file(log, 4000 * episodes)


def forget(root: Path) -> None:
    """Ask the system to drop the run's files from its memory."""
    os.sync()
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(
    command: list[str], repeat: int, before_each: Callable[[], object] | None = None, source: Path | None = None
) -> dict[str, float]:
    """Wall and CPU time and the peak memory of a command. Its exit status is a verdict, or 0.

    ``source``: the directory that the package is imported from instead of its own.
    """
    walls, processors, peak = [], [], 0
    other = {"PYTHONPATH": str(source)} if source is not None else {}
    with tempfile.TemporaryDirectory() as home:
        for number in range(repeat):
            cache = home if before_each is None else f"{home}/{number}"
            environment = {**os.environ, "PRL_CACHE_DIR": f"{cache}/cache", "PRL_STATE_DIR": f"{cache}/state", **other}
            if before_each is not None:
                before_each()
            start = time.perf_counter()
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
            _, status, used = os.wait4(process.pid, 0)
            walls.append(time.perf_counter() - start)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode not in range(4):
                raise SystemExit(f"{' '.join(command)}: exit status {process.returncode}")
            processors.append(used.ru_utime + used.ru_stime)
            peak = max(peak, used.ru_maxrss)
    return {
        "wall_least_s": round(min(walls), 3),
        "wall_median_s": round(median(walls), 3),
        "cpu_least_s": round(min(processors), 3),
        "cpu_median_s": round(median(processors), 3),
        "peak_mb": round(peak / 1024, 1),
    }


def in_turns(command: list[str], repeat: int, other: Path) -> dict[str, object]:
    """The same command of two sources, call by call, so that both have the same neighbours; and their ratios."""
    both: dict[str, list[float]] = {"this": [], "other": []}
    for _ in range(repeat):
        for name, source in (("this", None), ("other", other)):
            both[name].append(measure(command, 1, source=source)["cpu_least_s"])
    least, middle = ({name: fold(times) for name, times in both.items()} for fold in (min, median))
    return {
        "cpu_least_s": least,
        "cpu_median_s": middle,
        "ratios": [round(found["this"] / found["other"], 2) for found in (least, middle)],
    }


def size(root: Path) -> float:
    """Megabytes of a directory."""
    return round(sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) / 1e6, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()) / "prl-benchmark-status")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--episodes", type=int, default=50_000)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--other", type=Path)
    options = parser.parse_args()
    prl = str(Path(sys.executable).with_name("prl"))
    report: dict[str, object] = {
        "import": measure([sys.executable, "-c", "import prl.rundir, prl.watch"], options.repeat)
    }
    with tempfile.TemporaryDirectory() as directory:
        short = Path(directory) / "short"
        write_run(short, options.steps, 60)
        command = [prl, "status", str(short)]
        report["short"] = {"steps": options.steps, "mb": size(short)} | measure(command, options.repeat)
    long = options.dir / f"long-{options.episodes}"
    if not (options.dir / f"{long.name}.whole").exists():
        shutil.rmtree(long, ignore_errors=True)
        # In a process of its own: a child begins with its parent's peak memory.
        making = multiprocessing.get_context("spawn").Process(target=write_long_run, args=[long, options.episodes])
        making.start()
        making.join()
        if making.exitcode:
            raise SystemExit(f"making {long} ended with {making.exitcode}")
        (options.dir / f"{long.name}.whole").touch()
    command = [prl, "status", str(long)]
    report["long"] = {
        "episodes": options.episodes,
        "mb": size(long),
        "cold": measure(command, options.repeat, lambda: forget(long)),
        "warm": measure(command, options.repeat),
    }
    if options.other is not None:
        command = [sys.executable, "-m", "prl.cli.main", "status", str(long)]
        report["beside"] = in_turns(command, options.repeat, options.other.resolve())
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
