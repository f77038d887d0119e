"""Seconds a step and time to a reward of 0.85 beside TRL's GRPOTrainer: same model, task, batch and learning rate.

    python benchmarks/vs_trl.py [--steps 100] [--trl-threads 1 2]

Both start from one warmed-up model (seed 0) and run after each other in this one call: the machine's speed changes from
hour to hour, so only figures of one table compare. Batches are 16 prompts x 8 completions, learning rate 3e-4, no KL
term. TRL 1.16.0 gets an environment of its own below ``build/``. Time counts from the beginning of the first step.
``docs/benchmarks.md`` shows the last table.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from demo import train, warm_up

ROOT = Path(__file__).parent.parent
TRL = ROOT / "build" / "trl"
PACKAGES = ("torch==2.13.0", "trl==1.16.0")


def trl_python() -> Path:
    """The interpreter of TRL's environment, which is made when it is not there."""
    python = TRL / "bin" / "python"
    marker = TRL / ".installed"
    if not marker.exists():
        subprocess.run([sys.executable, "-m", "venv", TRL], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
        marker.touch()
    return python


def run_trl(weights: Path, steps: int, threads: int, out: Path) -> tuple[float, float | None, float]:
    """(seconds a step, seconds to 0.85, mean reward of the last ten steps) of TRL."""
    argv = [trl_python(), ROOT / "benchmarks" / "trl_grpo.py", weights, "--steps", steps, "--threads", threads]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [str(part) for part in (*argv, "--out", out)], env=environment, capture_output=True, text=True, check=False
    )
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"step"')]
    if done.returncode or len(rows) < steps:
        raise SystemExit(f"TRL ended with exit status {done.returncode}:\n{done.stderr[-3000:]}")
    rewards = [row["reward"] for row in rows]
    above = np.flatnonzero(np.convolve(rewards, np.ones(5) / 5, mode="valid") >= 0.85)
    reached = rows[int(above[0]) + 4]["time"] if len(above) else None
    return rows[-1]["time"] / len(rows), reached, float(np.mean(rewards[-10:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--trl-threads", type=int, nargs="+", default=[1, 2])
    args = parser.parse_args()
    shown = Table("trainer", "s/step", "s to 0.85 (all rollouts)", "reward, last 10 steps", box=None)
    with tempfile.TemporaryDirectory(prefix="prl-bench-") as directory:
        out = Path(directory)
        weights, _ = warm_up(out, 0)
        ours = train(out, weights, 0, args.steps)
        rows = [("prl, 5 processes", ours.per_step, ours.to_085, ours.end)]
        rows += [
            (f"TRL 1.16.0, {threads} threads", *run_trl(weights, args.steps, threads, out / "trl"))
            for threads in args.trl_threads
        ]
    for name, per_step, reached, reward in rows:
        shown.add_row(name, f"{per_step:.2f}", "never" if reached is None else f"{reached:.0f}", f"{reward:.3f}")
    Console().print(shown)


if __name__ == "__main__":
    main()
