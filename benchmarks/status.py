"""How fast a run is judged: ``prl status`` with the interpreter's start, on a run of the demo's size and on a long one.

    python benchmarks/status.py [--steps 100] [--long-steps 5000] [--repeat 7]

Prints one JSON object: for each run its size, and of ``repeat`` calls the median and worst wall time (s), the CPU time
(s) and the peak resident memory (MB) of the process; beside them the time of ``import prl.rundir, prl.watch`` (s). The
long run has metrics of 60 keys a row and logs beyond the window that is read, so its time is what any longer run takes.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
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


def measure(command: list[str], repeat: int) -> dict[str, float]:
    """Wall and CPU time and the peak memory of a command that must end with 0."""
    walls, before = [], resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(repeat):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        walls.append(time.perf_counter() - start)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "wall_median_s": round(median(walls), 3),
        "wall_worst_s": round(max(walls), 3),
        "cpu_s": round(cpu / repeat, 3),
        "peak_mb": round(after.ru_maxrss / 1024, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--long-steps", type=int, default=5000)
    parser.add_argument("--repeat", type=int, default=7)
    options = parser.parse_args()
    prl = str(Path(sys.executable).with_name("prl"))
    report: dict[str, object] = {
        "import": measure([sys.executable, "-c", "import prl.rundir, prl.watch"], options.repeat)
    }
    with tempfile.TemporaryDirectory() as directory:
        # The short run first: the peak memory of children only ever grows.
        for name, steps, keys in (("short", options.steps, 60), ("long", options.long_steps, 60)):
            root = Path(directory) / name
            write_run(root, steps, keys)
            size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
            report[name] = {"steps": steps, "mb": round(size / 1e6, 1)} | measure(
                [prl, "status", str(root)], options.repeat
            )
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
