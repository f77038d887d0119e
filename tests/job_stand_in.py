"""What a test's batch job runs in the place of a training run: a run directory of prime-rl's form, a step at a time.

    python job_stand_in.py OUTPUT_DIR [STEPS]

Every start makes an attempt of its own. It ends after STEPS with the lines of a run that is done, or never.
"""

import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import sample_runs

SECONDS = 0.5


def main(output_dir: Path, steps: int) -> None:
    nodes = os.environ["SLURM_JOB_NODELIST"]
    print(f"HOSTNAMES={nodes}\nTRAIN_HOSTS={nodes}\nMASTER_ADDR={os.environ['SLURMD_NODENAME']}", flush=True)
    root = output_dir / sample_runs.NAME
    attempt = 1 + sum(1 for _ in root.glob("logs/attempt_*"))
    sample_runs.T0 = time.time() - 6  # a sample run's clock begins when it is made
    run = sample_runs.SampleRun(output_dir, max_steps=steps, attempt=attempt, seconds=SECONDS)
    environment = {name: value for name, value in os.environ.items() if name.startswith("SLURM_")}
    document = {"host": {"name": os.environ["SLURMD_NODENAME"]}, "environment": environment}
    (run.configs / "environment.json").write_text(json.dumps(document))
    run.start_up()
    last = time.time()
    for step in range(1, steps + 1):
        time.sleep(max(last + SECONDS - time.time(), 0))  # the pace of a run, not a wait for anything
        last = run.step(step)
    run.log("orchestrator", (last, "SUCCESS", "Orchestrator finished"))
    run.log("trainer", (last, "SUCCESS", "RL trainer finished"))
    time.sleep(600)  # and holds its nodes


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10_000)
