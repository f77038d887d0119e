"""Made-up runs for a first look: one that grows while it is looked at, and a few that ended, each in another way."""

import contextlib
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from prl.synth.directory import write_run
from prl.synth.growing import grow_run
from prl.synth.shape import ENVIRONMENTS, RunShape

RECORDED = 60
_LIVE = RunShape(
    name="live",
    state="running",
    steps=5000,
    max_steps=400,
    environments=ENVIRONMENTS,
    rollouts=48,
    step_seconds=8.0,
    error_rate=0.03,
    eval_interval=10,
    nonfinite_steps=(41,),
    chunk_bytes=8 << 20,
)
_DAY = 86400.0


def _ended(now: float) -> tuple[RunShape, ...]:
    return (
        RunShape(name="reverse-text-r2", steps=80, attempts=2, rollouts=32, start=now - 2 * _DAY, seed=2),
        RunShape(name="word-sort-r1", state="failed", steps=47, rollouts=32, start=now - 3 * _DAY, seed=3),
        RunShape(name="warm-up", kind="sft", steps=120, start=now - 4 * _DAY, seed=4),
        RunShape(name="baseline-eval", kind="eval", steps=1, rollouts=128, start=now - 5 * _DAY, seed=5),
    )


@contextlib.contextmanager
def growing_run() -> Iterator[Path]:
    """An output directory with the runs, which are written in the background. It is removed in the end."""
    output_dir = Path(tempfile.mkdtemp(prefix="prl-demo-"))
    stopping = threading.Event()
    writer = threading.Thread(target=_write, args=(output_dir, stopping), name="demo", daemon=True)
    writer.start()
    try:
        yield output_dir
    finally:
        stopping.set()
        writer.join(timeout=10)
        shutil.rmtree(output_dir, ignore_errors=True)


def _write(output_dir: Path, stopping: threading.Event) -> None:
    ended = iter(_ended(time.time()))

    def wait(seconds: float) -> bool:
        # The live run is there first; the others come while it waits for its next step.
        if seconds > 0.0 and (shape := next(ended, None)) is not None:
            write_run(output_dir / shape.run_name, shape)
            return not stopping.is_set()
        return not stopping.wait(seconds) if seconds > 0.0 else not stopping.is_set()

    grow_run(output_dir / _LIVE.run_name, _LIVE, recorded=RECORDED, wait=wait)
