"""What a finished step tells: its rows of metrics and its console line."""

import contextlib
import logging
import math
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from prl.monitors.base import Monitor
from prl.rundir import atomic
from prl.rundir.logs.console import success
from prl.text.human import format_duration

logger = logging.getLogger(__name__)

GIB = 1024**3
PHASES = ("wait_for_batch", "load_data", "forward_backward", "broadcast_weights", "save_ckpt")


class StepClock:
    """Seconds of the phases of one step."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._phases: dict[str, float] = {}

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self._phases[name] = self._phases.get(name, 0.0) + time.perf_counter() - start

    def __getitem__(self, name: str) -> float:
        return self._phases.get(name, 0.0)

    def metrics(self, phases: tuple[str, ...] = PHASES) -> dict[str, float]:
        """``time/step`` until now and ``time/<phase>``, 0 for a phase that did not take place."""
        step = time.perf_counter() - self._start
        return {"time/step": step} | {f"time/{name}": self[name] for name in phases}


def log_rows(monitor: Monitor, step: int, *rows: Mapping[str, float]) -> None:
    """One row each, at ``step``."""
    for row in rows:
        if row:
            monitor.log(row, step=step)


def optim_metrics(grad_norm: float | None, lr: float) -> dict[str, float]:
    """``optim/lr`` is the next update's. Without clipping there is no ``optim/grad_norm``."""
    return {"optim/lr": lr} | ({} if grad_norm is None else {"optim/grad_norm": grad_norm})


def disk_metrics(checkpoints: Path) -> dict[str, float]:
    """The file system of ``checkpoints`` (or of its nearest parent that exists); empty when it does not say."""
    while not checkpoints.exists() and checkpoints != checkpoints.parent:
        checkpoints = checkpoints.parent
    try:
        usage = shutil.disk_usage(checkpoints)
    except OSError:
        return {}
    return {
        "system/ckpt_disk_free_gib": usage.free / GIB,
        "system/ckpt_disk_used_gib": usage.used / GIB,
        "system/ckpt_disk_total_gib": usage.total / GIB,
        "system/ckpt_disk_free_ratio": usage.free / usage.total if usage.total else 0.0,
    }


def log_step(step: int, metrics: Mapping[str, float]) -> None:
    """The step's console line. ``metrics``: all rows of the step together."""
    get = metrics.get
    entropy = get("entropy/all/mean", math.nan)
    fields = [
        f"Step {step} | {format_duration(metrics['time/step']):>7}",
        f"Loss {get('loss/mean', math.nan):.4f}",
        f"Entropy {entropy:.4f}",
        f"Mismatch KL {metrics['mismatch_kl/all/mean']:.4f}" if "mismatch_kl/all/mean" in metrics else "",
        f"Grad. Norm {metrics['optim/grad_norm']:.4f}" if "optim/grad_norm" in metrics else "",
        f"LR {metrics['optim/lr']:.2e}",
        f"Throughput {metrics['perf/throughput']:.0f} tokens/s",
        f"MFU {metrics['perf/mfu']:.1f}%",
        f"Peak Mem. {metrics['perf/peak_memory']:.1f} GiB",
    ]
    success(logger, "%s", " | ".join(field for field in fields if field))


def write_step(path: Path, step: int) -> None:
    """Leave the number of the last finished step for watchdogs. A disk that refuses it does not stop training."""
    try:
        atomic.write_text(path, f"{step}\n")
    except OSError as error:
        logger.warning("Could not write %s: %s", path, error)


def warn_of_waiting(waited: float, step_seconds: float) -> None:
    """Say that generation is the bottleneck, when the step waited at least as long as it worked."""
    active = step_seconds - waited
    if waited >= active:
        logger.warning(
            "Trainer waited %s for a batch, at least as long as its %s active: rollouts are the bottleneck. "
            "If it stays so, add inference or environment capacity.",
            format_duration(waited),
            format_duration(active),
        )
