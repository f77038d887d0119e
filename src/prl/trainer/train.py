"""The RL loop of one rank: batch in, weights out, until ``max_steps``.

Step T trains the batch of step T on version T-1 and publishes version T. Before the first step the version it starts
from is published once, so that a broken path fails early and engines hold what the trainer holds. Rank 0 alone writes:
metrics, annotations, broadcasts, ``trainer_step`` and the result.
"""

import logging
import time
from collections.abc import Sequence

import numpy as np

from prl.config.common import checkpoint_root
from prl.config.trainer import TrainerConfig
from prl.monitors.base import Monitor
from prl.rundir.checkpoints import HALVES
from prl.rundir.layout import RunLayout
from prl.rundir.logs.console import success
from prl.trainer import report
from prl.trainer.broadcast import Broadcaster
from prl.trainer.checkpoint import Checkpoints, start_or_resume
from prl.trainer.learner import Learner, Progress
from prl.trainer.parallel import World
from prl.trainer.policy import MicroTerms, accumulate, denominator, load_micro_batch
from prl.trainer.report import StepClock
from prl.trainer.statistics import annotations, step_statistics, trained_sequences
from prl.trainer.throughput import Meter, count_flops, peak_flops, peak_memory, reset_peak_memory
from prl.trainer.weights import publish_result, tokenizer_directory
from prl.transport.batches import BatchReceiver, RankBatch

logger = logging.getLogger(__name__)

WAIT_NOTICE = 60.0
"""Seconds between two lines that say which batch is awaited."""


class BatchError(RuntimeError):
    """A batch that must not be trained on."""


class RLTrainer:
    """One rank of the RL trainer. ``run`` trains to the end; nothing is started before it."""

    def __init__(self, config: TrainerConfig, world: World, monitor: Monitor) -> None:
        self.config = config
        self.world = world
        self.monitor = monitor
        self.layout = RunLayout(config.output_dir)
        self.learner = Learner(config.model.name, config.optim, config.scheduler, config.max_steps, world)
        self.saved = Checkpoints(checkpoint_root(config.ckpt, self.layout.root), config.ckpt, HALVES, self.learner)
        self.broadcaster = Broadcaster(self.layout.broadcasts, config.weight_broadcast, world)
        self.meter = Meter(count_flops(self.learner.model), peak_flops(config.peak_flops, world.device), world)
        self.progress = Progress()

    def run(self) -> None:
        """Train until ``max_steps``. Raises what stops it: a timeout, a wrong batch, a checkpoint that does not fit."""
        max_steps = self.config.max_steps
        self.progress = start_or_resume(self.saved, self.config.resume, max_steps)
        receiver = BatchReceiver(self.config.rollout_transport, self.world.rank)
        try:
            receiver.announce()
            logger.info("Starting training loop (max_steps=%s)", "infinite" if max_steps is None else max_steps)
            start = self.progress.step
            logger.info("Broadcasting startup policy weights (v%d) to %s", start, self.broadcaster.directory)
            self.broadcaster.publish(start, self.learner.model)
            while max_steps is None or self.progress.step < max_steps:
                self._step(receiver, first=self.progress.step == start)
        finally:
            receiver.close()
        self._finish()

    def _step(self, receiver: BatchReceiver, *, first: bool) -> None:
        clock = StepClock()
        reset_peak_memory(self.world.device)
        step = self.progress.step + 1
        with clock.phase("wait_for_batch"):
            batch = self._next_batch(receiver, step)
        with clock.phase("load_data"):
            loaded = [load_micro_batch(micro, self.world.device) for micro in batch.micro_batches]
        with clock.phase("forward_backward"):
            total = denominator(self.learner, loaded)
            terms = []
            for micro, tensors in zip(batch.micro_batches, loaded, strict=True):
                terms.append(accumulate(self.learner, micro, tensors, self.config.loss, total))
                _log_micro(terms[-1], len(terms), len(loaded))
            grad_norm = self.learner.update()
        with clock.phase("broadcast_weights"):
            self.broadcaster.publish(step, self.learner.model)
        gathered = self.world.gather(terms)
        self._advance(step, terms)
        if self.saved.due(step, self.config.max_steps):
            with clock.phase("save_ckpt"):
                self.saved.save(self.progress)
        if gathered is not None:
            self._record(clock, [term for rank in gathered for term in rank], grad_norm, warn=not first)

    def _next_batch(self, receiver: BatchReceiver, step: int) -> RankBatch:
        transport = self.config.rollout_transport
        awaited = f"the batch of step {step} from the orchestrator ({transport.host}:{transport.port})"
        start = time.monotonic()
        while True:
            waited = time.monotonic() - start
            left = self.config.batch_timeout - waited
            if left <= 0:
                raise TimeoutError(f"{awaited} did not arrive within {self.config.batch_timeout:.0f}s")
            batch = receiver.receive(min(WAIT_NOTICE, left))
            if batch is not None:
                self._check(batch, step)
                return batch
            logger.info("Still waiting for %s after %.0fs", awaited, time.monotonic() - start)

    def _check(self, batch: RankBatch, step: int) -> None:
        if batch.step != step or batch.policy_version != step - 1:
            raise BatchError(
                f"received the batch of step {batch.step} for policy v{batch.policy_version}, expected step {step} for "
                f"v{step - 1}: trainer and orchestrator did not resume from the same checkpoint"
            )
        longest = max((len(micro.token_ids) for micro in batch.micro_batches), default=0)
        if longest == 0 or longest > self.config.model.seq_len:
            raise BatchError(
                f"the batch of step {step} holds micro batches of up to {longest} tokens; "
                f"model.seq_len = {self.config.model.seq_len}"
            )

    def _advance(self, step: int, terms: Sequence[MicroTerms]) -> None:
        tokens, samples = self.world.sum([sum(int(t.lengths.sum()) for t in terms), trained_sequences(terms)])
        self.progress = Progress(
            step=step,
            total_tokens=self.progress.total_tokens + int(tokens),
            total_samples=self.progress.total_samples + int(samples),
        )

    def _record(self, clock: StepClock, terms: Sequence[MicroTerms], grad_norm: float | None, *, warn: bool) -> None:
        step = self.progress.step
        self.monitor.annotate(annotations(terms))
        lengths = np.concatenate([term.lengths for term in terms])
        perf = self.meter.measure(lengths, clock["forward_backward"])
        optim = report.optim_metrics(grad_norm, self.learner.schedule.lr)
        statistics = step_statistics(terms)
        timing = clock.metrics()
        report.log_rows(self.monitor, step, perf, optim, statistics, timing, report.disk_metrics(self.saved.root))
        report.log_step(step, perf | optim | statistics | timing)
        if warn:
            report.warn_of_waiting(timing["time/wait_for_batch"], timing["time/step"])
        report.write_step(self.layout.trainer_step, step)

    def _finish(self) -> None:
        if self.config.ckpt is not None:
            self.saved.save(self.progress, final=True)
        directory = self.layout.weights / f"step_{self.progress.step}"
        publish_result(
            directory,
            self.learner.model,
            self.world,
            tokenizer_directory(self.layout.tokenizer, self.config.model.name),
        )
        logger.info("Peak memory: %.1f GiB", peak_memory(self.world.device))
        success(logger, "RL trainer finished")


def _log_micro(terms: MicroTerms, index: int, count: int) -> None:
    if logger.isEnabledFor(logging.DEBUG) and len(terms.entropy):
        logger.debug(
            "Micro Step %d/%d | Loss %.4f | Entropy %.4f | Mismatch KL %.4f",
            index,
            count,
            terms.loss,
            terms.entropy.mean(),
            terms.mismatch_kl.mean(),
        )
