"""The ranks of a trainer: who this process is, and the few collectives it uses.

One rank on a CPU needs no process group and uses the model as it is. More ranks, and any GPU, shard the model with
FSDP2 (``fully_shard`` per layer and over the whole): one code path on CPUs (gloo) and GPUs (NCCL). DDP would be
faster for tiny models on CPUs and is left out: it is a second path that could disagree. The GPU path is written
against the same interface and not verified on a GPU.
"""

import contextlib
import ctypes
import datetime as dt
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn


@dataclass(frozen=True)
class World:
    """This rank among the others."""

    rank: int
    size: int
    device: torch.device
    host_group: Any = None
    """A gloo group for numbers and objects in host memory. None: one rank, nobody to talk to."""

    @property
    def is_main(self) -> bool:
        """Whether this is the rank that writes to the run directory."""
        return self.rank == 0

    @property
    def sharded(self) -> bool:
        return self.size > 1 or self.device.type == "cuda"

    def sum(self, values: Sequence[float]) -> list[float]:
        """Element-wise sum over all ranks. Collective."""
        if self.host_group is None:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(total, group=self.host_group)
        return list(total.tolist())

    def gather(self, value: Any) -> list[Any] | None:
        """Every rank's ``value`` in order of rank, on the main rank; None elsewhere. Collective."""
        if self.host_group is None:
            return [value]
        gathered: list[Any] | None = [None] * self.size if self.is_main else None
        dist.gather_object(value, gathered, dst=0, group=self.host_group)
        return gathered

    def barrier(self) -> None:
        """Wait for all ranks. Collective."""
        if self.host_group is not None:
            dist.barrier(group=self.host_group)

    def leave(self) -> None:
        """End the process groups."""
        if dist.is_initialized():
            dist.destroy_process_group()


def join_world(timeout_seconds: float, num_threads: int) -> World:
    """Become a rank: torchrun's environment says which one; without it this process is the only one.

    A collective that takes longer than ``timeout_seconds`` ends the process. ``num_threads``: torch threads on a CPU.
    """
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    timeout = dt.timedelta(seconds=timeout_seconds)
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
        _init_group("nccl", rank, size, timeout)
        return World(rank, size, device, dist.new_group(backend="gloo", timeout=timeout))
    torch.set_num_threads(num_threads)
    _keep_freed_memory()
    if size == 1:
        return World(0, 1, torch.device("cpu"))
    _init_group("gloo", rank, size, timeout)
    return World(rank, size, torch.device("cpu"), dist.group.WORLD)


def _keep_freed_memory() -> None:
    """Have glibc keep what large tensors free: a step on a CPU else spends 5 % of its time on faulting it in again."""
    trim_threshold, mmap_threshold = -1, -3
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(mmap_threshold, 1 << 30)
        libc.mallopt(trim_threshold, (1 << 31) - 1)


def _init_group(backend: str, rank: int, size: int, timeout: dt.timedelta) -> None:
    if "MASTER_ADDR" in os.environ:
        dist.init_process_group(backend, timeout=timeout)
    else:
        dist.init_process_group(backend, init_method="tcp://127.0.0.1:0", rank=rank, world_size=size, timeout=timeout)


def shard(model: Any, world: World) -> None:
    """Spread the parameters of a causal language model over the ranks, in place; nothing where there is one CPU rank.

    On GPUs layers compute in bfloat16 and gradients are reduced in float32. Gradients are averaged over ranks.
    """
    if not world.sharded:
        return
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh(world.device.type, (world.size,))
    policy = MixedPrecisionPolicy()
    if world.device.type == "cuda":
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)


def clip_gradients(model: nn.Module, max_norm: float) -> float:
    """Scale the gradients so that their global L2 norm is at most ``max_norm``; returns the norm before."""
    from torch.distributed.tensor import DTensor

    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    return float(norm.full_tensor() if isinstance(norm, DTensor) else norm)
