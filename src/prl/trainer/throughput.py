"""How fast the trainer is, against what the device can do (MFU)."""

import logging
import resource
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from prl.trainer.parallel import World

logger = logging.getLogger(__name__)

GIB = 1024**3
UNKNOWN_PEAK = 312e12

GPU_PEAKS = (
    ("GB200", 2500e12),
    ("GB300", 2500e12),
    ("B200", 2250e12),
    ("B300", 2250e12),
    ("H100 NVL", 835e12),
    ("H100 PCIe", 756e12),
    ("H100", 989e12),
    ("H200", 989e12),
    ("A100", 312e12),
    ("MI300X", 1307.4e12),
    ("MI325X", 1307.4e12),
)
"""Dense bfloat16 FLOP/s by a part of the device's name, as the makers state them. The first match holds."""

MEASURE_SECONDS = 0.2


def peak_flops(configured: float | None, device: torch.device) -> float:
    """FLOP/s of one device at best: configured, else known by a GPU's name, else a CPU's measured matrix product."""
    if configured is not None:
        return configured
    if device.type == "cpu":
        return measure_cpu_peak()
    name = torch.cuda.get_device_name(device)
    for part, peak in GPU_PEAKS:
        if part in name:
            return peak
    logger.warning("Unknown peak of %r: perf/mfu assumes %.0f TFLOP/s; set peak_flops", name, UNKNOWN_PEAK / 1e12)
    return UNKNOWN_PEAK


def measure_cpu_peak() -> float:
    """Best rate of a 512 x 512 float32 product with this process's threads, within 0.2 s."""
    size = 512
    left, right = torch.rand(size, size), torch.rand(size, size)
    result = torch.empty(size, size)
    best = float("inf")
    end = time.perf_counter() + MEASURE_SECONDS
    while (start := time.perf_counter()) < end:
        torch.mm(left, right, out=result)
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best


@dataclass(frozen=True)
class FlopCount:
    """FLOPs of a forward and backward pass over one token: ``6 N + 12 L H d T``.

    N: parameters that are multiplied with (embedding look-ups are not, a tied head is); L layers, H heads of size d,
    T the mean length of the sequences, weighted by their tokens.
    """

    matmul_parameters: int
    attention_width: int
    """L · H · d."""

    def per_token(self, sequence_length: float) -> float:
        return 6 * self.matmul_parameters + 12 * self.attention_width * sequence_length


def count_flops(model: Any) -> FlopCount:
    """The :class:`FlopCount` of a causal language model."""
    config = model.config
    heads = config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    linear = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
    return FlopCount(sum(module.weight.numel() for module in linear), config.num_hidden_layers * heads * head_dim)


def mean_sequence_length(lengths: np.ndarray) -> float:
    """The length of the sequence that a random token is in."""
    return float((lengths.astype(np.float64) ** 2).sum() / max(lengths.sum(), 1))


@dataclass(frozen=True)
class Meter:
    """Turns a step's tokens and seconds into the ``perf/`` metrics."""

    flops: FlopCount
    peak: float
    """FLOP/s of one device."""
    world: World

    def measure(self, lengths: np.ndarray, seconds: float) -> dict[str, float]:
        """``lengths``: of all sequences of all ranks; ``seconds``: of forward, backward and update."""
        rate = float(lengths.sum()) / max(seconds, 1e-9)
        used = self.flops.per_token(mean_sequence_length(lengths)) * rate
        return {
            "perf/throughput": rate,
            "perf/throughput_per_gpu": rate / self.world.size,
            "perf/mfu": 100 * used / (self.peak * self.world.size),
            "perf/peak_memory": peak_memory(self.world.device),
        }


def reset_peak_memory(device: torch.device) -> None:
    """Begin a new peak, where the device can."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_memory(device: torch.device) -> float:
    """GiB: of a GPU's allocator since the last reset; on a CPU of the process since it started."""
    if device.type == "cuda":
        return float(torch.cuda.max_memory_reserved(device)) / GIB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB
