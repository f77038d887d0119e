"""What goes out with a batch: micro batches for the trainer, annotations for readers, counters for the row."""

import asyncio
import logging
from functools import partial
from typing import Any

import numpy as np

from prl.config.orchestrator import OrchestratorConfig
from prl.orchestrator.batcher import Batch
from prl.orchestrator.metrics import batch_metrics
from prl.orchestrator.packing import PackedBatch, TrainItem, pack
from prl.orchestrator.progress import Progress

logger = logging.getLogger(__name__)


_PACKED_AT_ONCE = 65_536
"""Tokens of a batch that is packed within the event loop: that takes less than a thread waits for its turn."""


async def pack_batch(batch: Batch, config: OrchestratorConfig) -> PackedBatch:
    """Pack a batch for the ranks, a large one beside the event loop.

    Raises ValueError when nothing that trains is left of it.
    """
    items = [TrainItem(sample, item.trace.advantage) for item in batch.traces for sample in item.trace.samples]
    packing = partial(pack, items, step=batch.step, seq_len=config.seq_len, num_ranks=config.num_train_ranks)
    small = sum(len(item.sample) for item in items) <= _PACKED_AT_ONCE
    packed = packing() if small else await asyncio.to_thread(packing)
    if packed.cut:
        logger.warning(
            "Step %d: cut %d/%d samples to seq_len=%d, of which %d had no sampled token left and were dropped",
            batch.step,
            packed.cut,
            len(items),
            config.seq_len,
            packed.lost,
        )
    if not packed.loss_tokens:
        raise ValueError(
            f"step {batch.step}: no sampled token of {len(items)} samples lies within seq_len = {config.seq_len}; "
            "raise seq_len above the length of the prompts"
        )
    return packed


def annotations(batch: Batch, now: float) -> list[dict[str, Any]]:
    """One update per shipped trace: that it is effective, when it was shipped, and its advantage per token."""
    ship = {"step": batch.step, "time": now}
    return [
        {
            "version": 1,
            "trace_id": item.trace.id,
            "info": {"effective": True, "ship": ship, "advantage": item.trace.advantage},
            "branches": [
                {
                    "index": sample.branch_index,
                    "advantages": np.where(sample.sampled, item.trace.advantage, 0.0).tolist(),
                }
                for sample in item.trace.samples
            ],
        }
        for item in batch.traces
    ]


def progress_metrics(batch: Batch, progress: Progress) -> dict[str, float]:
    """The row of a shipped step but for its times. Adds the window to the running totals."""
    traces = [trace for episode in batch.window.episodes for trace in episode.traces]
    tokens = sum(trace.total_tokens for trace in traces)
    metrics = batch_metrics(batch) | {
        "progress/tokens": tokens,
        "progress/input_tokens": sum(item.trace.input_tokens for item in batch.traces),
        "progress/output_tokens": sum(item.trace.output_tokens for item in batch.traces),
        "progress/rollouts": len(traces),
        "progress/tasks": len(batch.window.groups),
        "progress/total_tokens": progress.total_tokens,
        "progress/total_rollouts": progress.total_samples,
        "progress/total_tasks": progress.total_problems,
    }
    progress.total_tokens += tokens
    progress.total_samples += len(traces)
    progress.total_problems += len(batch.window.groups)
    return metrics
