"""The demo, measured: time to the first step, seconds and CPU seconds a step, reward at the start and at the end.

    python benchmarks/demo.py [--seeds 0 1 2] [--rl-steps 100]

For each seed it makes a model, warms it up by SFT and trains it by RL with the demo's configuration, in a temporary
directory, and prints one row. ``docs/benchmarks.md`` shows the last table.
"""

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from prl.rundir.layout import RunLayout
from prl.rundir.metrics.reader import read_metrics

EXAMPLE = Path(__file__).parent.parent / "examples" / "reverse_text"
COMPONENTS = {
    "PRL::Launcher": "launcher",
    "PRL::Inference": "inference",
    "PRL::EnvServer": "environments",
    "Verifiers::EnvWorker": "environments",
    "PRL::Orchestrator": "orchestrator",
    "PRL::Trainer": "trainer",
}


@dataclass
class CpuMeter(threading.Thread):
    """Samples the CPU time of a process and its descendants, by component, until it is stopped."""

    root: int
    seconds: dict[psutil.Process, tuple[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)
        self.stopped = threading.Event()

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        while not self.stopped.wait(0.5):
            self.sample()

    def sample(self) -> None:
        try:
            root = psutil.Process(self.root)
            processes = [root, *root.children(recursive=True)]
        except psutil.Error:
            return
        for process in processes:
            try:
                title = " ".join(process.cmdline())
                times = process.cpu_times()
            except psutil.Error:
                continue
            # A process that has just ended has times, but no title any more.
            before, _ = self.seconds.get(process, ("other", 0.0))
            name = next((part for prefix, part in COMPONENTS.items() if title.startswith(prefix)), before)
            self.seconds[process] = (name, times.user + times.system)

    def totals(self) -> dict[str, float]:
        totals: dict[str, float] = {}
        for name, seconds in list(self.seconds.values()):
            totals[name] = totals.get(name, 0.0) + seconds
        return totals


@dataclass
class RunResult:
    """What one seed gave. Times in seconds; ``cpu`` per component over the steps after ``cpu_from``."""

    seed: int
    sft: float
    first_step: float
    rl: float
    per_step: float
    start: float
    end: float
    to_085: float | None
    cpu: dict[str, float]


def command(module: str, *args: object) -> list[str]:
    return [sys.executable, "-m", f"prl.cli.{module}", *map(str, args)]


def warm_up(out: Path, seed: int) -> tuple[Path, float]:
    """Make a model and warm it up; returns its weights and the seconds the SFT run took."""
    subprocess.run([sys.executable, EXAMPLE / "prepare.py", out / "start", "--seed", str(seed)], check=True)
    begin = time.monotonic()
    names = ("--output-dir", out, "--run.name", "sft", "--model.name", out / "start/base")
    data = ("--data.path", out / "start/sft.jsonl", "--seed", seed)
    subprocess.run(command("sft", "@", EXAMPLE / "sft.toml", *names, *data), check=True, stdout=subprocess.DEVNULL)
    return out / "sft" / "weights" / "step_250", time.monotonic() - begin


def train(out: Path, weights: Path, seed: int, steps: int) -> RunResult:
    names = ("--output-dir", out, "--run.name", "rl", "--model.name", weights, "--max-steps", steps)
    seeds = ("--orchestrator.train.seed", seed, "--trainer.seed", seed)
    begin_wall, begin = time.time(), time.monotonic()
    process = subprocess.Popen(command("rl", "@", EXAMPLE / "rl.toml", *names, *seeds), stdout=subprocess.DEVNULL)
    meter = CpuMeter(process.pid)
    meter.start()
    layout = RunLayout(out / "rl")
    while not layout.trainer_step.exists() and process.poll() is None:
        time.sleep(0.05)
    meter.sample()
    at_start = meter.totals()
    if process.wait():
        raise SystemExit(f"seed {seed}: rl ended with exit status {process.returncode}")
    meter.stopped.set()
    seconds = time.monotonic() - begin
    history = read_metrics(layout.metrics)
    effective = history.series("orch", "train/agg/effective/agent/reward/mean")
    every = history.series("orch", "train/agg/all/agent/reward/mean")
    trainer = history.series("trainer", "time/step")
    times = [point.time or 0.0 for point in trainer]
    rewards = [point.value for point in effective]
    smooth = np.convolve([point.value for point in every], np.ones(5) / 5, mode="valid")
    above = np.flatnonzero(smooth >= 0.85)
    cpu = {name: (total - at_start.get(name, 0.0)) / (steps - 1) for name, total in meter.totals().items()}
    return RunResult(
        seed=seed,
        sft=0.0,
        first_step=times[0] - begin_wall,
        rl=seconds,
        per_step=(times[-1] - times[0]) / (len(times) - 1),
        start=float(np.mean(rewards[:3])),
        end=float(np.mean(rewards[-10:])),
        to_085=(every[int(above[0]) + 4].time or 0.0) - times[0] if len(above) else None,
        cpu=cpu,
    )


def table(results: list[RunResult]) -> Table:
    parts = sorted({name for result in results for name in result.cpu})
    columns = ("seed", "SFT s", "first step s", "RL s", "s/step", "reward first 3", "last 10", "s to 0.85 (all)")
    shown = Table(*columns, *(f"CPU s/step {name}" for name in parts), box=None)
    for result in results:
        row = [str(result.seed), *(f"{v:.1f}" for v in (result.sft, result.first_step, result.rl))]
        row += [f"{result.per_step:.2f}", f"{result.start:.3f}", f"{result.end:.3f}"]
        row += ["never" if result.to_085 is None else f"{result.to_085:.0f}"]
        shown.add_row(*row, *(f"{result.cpu.get(name, 0.0):.2f}" for name in parts))
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rl-steps", type=int, default=100)
    args = parser.parse_args()
    results = []
    for seed in args.seeds:
        with tempfile.TemporaryDirectory(prefix="prl-bench-") as directory:
            weights, sft = warm_up(Path(directory), seed)
            result = train(Path(directory), weights, seed, args.rl_steps)
            result.sft = sft
            results.append(result)
    Console(width=200).print(table(results))


if __name__ == "__main__":
    main()
