"""Supervised fine-tuning: one rank's loop over shuffled conversations.

Enough to warm-start a policy; the result is ``weights/step_N``. Every rank reads the whole data set and takes its share
of each step's conversations, so ranks agree on everything without talking. Left out: validation and mixing data sets.
"""

import logging
import math
from collections.abc import Sequence

import numpy as np

from prl.config.common import checkpoint_root
from prl.config.sft import SFTConfig
from prl.monitors.base import Monitor
from prl.rundir.checkpoints import TRAINER
from prl.rundir.layout import RunLayout
from prl.rundir.logs.console import success
from prl.trainer import report
from prl.trainer.checkpoint import Checkpoints, start_or_resume
from prl.trainer.conversations import Conversation, load_conversations, pack_greedily, sample_indices
from prl.trainer.learner import Learner, Progress
from prl.trainer.loss import log_probs_and_entropy
from prl.trainer.model import PackedTokens, pack_tokens
from prl.trainer.parallel import World
from prl.trainer.report import StepClock
from prl.trainer.throughput import Meter, count_flops, peak_flops, peak_memory, reset_peak_memory
from prl.trainer.weights import publish_result, tokenizer_directory

logger = logging.getLogger(__name__)

PHASES = ("load_data", "forward_backward", "save_ckpt")


class SFTTrainer:
    """One rank. ``run`` trains to the end."""

    def __init__(self, config: SFTConfig, world: World, monitor: Monitor) -> None:
        from transformers import AutoTokenizer

        self.config = config
        self.world = world
        self.monitor = monitor
        self.layout = RunLayout(config.run_dir)
        self.tokenizer = tokenizer_directory(self.layout.tokenizer, config.model.name)
        self.learner = Learner(config.model.name, config.optim, config.scheduler, config.max_steps, world)
        root = checkpoint_root(config.ckpt, self.layout.root)
        self.saved = Checkpoints(root, config.ckpt, (TRAINER,), self.learner)
        self.meter = Meter(count_flops(self.learner.model), peak_flops(config.peak_flops, world.device), world)
        self.progress = Progress()
        tokenizer = AutoTokenizer.from_pretrained(self.tokenizer or config.model.name)
        self.data, cut = load_conversations(config.data.path, tokenizer, config.data.seq_len)
        logger.info("Loaded %d conversations from %s", len(self.data), config.data.path)
        if cut:
            logger.warning("Cut %d conversations to data.seq_len = %d tokens", cut, config.data.seq_len)

    def run(self) -> None:
        """Train until ``max_steps``. Raises ResumeError when it cannot go on from where it was told to."""
        self.progress = start_or_resume(self.saved, self.config.resume, self.config.max_steps)
        logger.info("Starting training loop (max_steps=%d)", self.config.max_steps)
        while self.progress.step < self.config.max_steps:
            self._step()
        self._finish()

    def _step(self) -> None:
        clock = StepClock()
        reset_peak_memory(self.world.device)
        with clock.phase("load_data"):
            chosen = self._chosen()
            micro_batches = self._micro_batches(chosen)
        with clock.phase("forward_backward"):
            loss, entropy = self._accumulate(micro_batches)
            grad_norm = self.learner.update()
        lengths = np.array([len(conversation.token_ids) for conversation in chosen])
        self.progress = Progress(
            step=self.progress.step + 1,
            total_tokens=self.progress.total_tokens + int(lengths.sum()),
            total_samples=self.progress.total_samples + len(chosen),
        )
        if self.saved.due(self.progress.step, self.config.max_steps):
            with clock.phase("save_ckpt"):
                self.saved.save(self.progress)
        if self.world.is_main:
            learned = {
                "loss/mean": loss,
                "loss/perplexity": math.exp(min(loss, 700.0)),
                "entropy/all/mean": entropy,
            }
            self._record(clock, lengths, learned, grad_norm)

    def _chosen(self) -> list[Conversation]:
        """The step's conversations, over all ranks."""
        first, number = self.progress.total_samples, self.config.data.batch_size
        return [self.data[i] for i in sample_indices(first, number, len(self.data), self.config.data.seed)]

    def _micro_batches(self, chosen: Sequence[Conversation]) -> list[PackedTokens]:
        """This rank's share, packed. All ranks get the same number: the ranks of a sharded model work in step."""
        shares = [chosen[rank :: self.world.size] for rank in range(self.world.size)]
        packed = [pack_greedily([len(c.token_ids) for c in share], self.config.data.seq_len) for share in shares]
        mine = [[shares[self.world.rank][i] for i in group] for group in packed[self.world.rank]]
        missing = max(map(len, packed)) - len(mine)
        padding = Conversation(chosen[0].token_ids[:1], np.zeros(1, dtype=bool))
        return [self._packed(group) for group in [*mine, *[[padding]] * missing]]

    def _packed(self, group: Sequence[Conversation]) -> PackedTokens:
        return pack_tokens(
            np.concatenate([conversation.token_ids for conversation in group]),
            np.concatenate([conversation.loss_mask for conversation in group]),
            [len(conversation.token_ids) for conversation in group],
            self.world.device,
        )

    def _accumulate(self, micro_batches: Sequence[PackedTokens]) -> tuple[float, float]:
        """Gradients of the mean loss over the step's learned tokens; returns that mean and the mean entropy."""
        (count,) = self.world.sum([float(sum(len(tokens.loss_positions) for tokens in micro_batches))])
        denominator = max(count, 1.0)
        sums = np.zeros(2)
        for index, tokens in enumerate(micro_batches, 1):
            logits = self.learner.predict(tokens)
            if not len(tokens.loss_positions):
                self.learner.backward(logits.sum() * 0)
                continue
            ones = logits.new_ones(len(tokens.targets))
            logprobs, entropies = log_probs_and_entropy(logits, tokens.targets, ones)
            loss = -logprobs.sum() / denominator
            self.learner.backward(loss)
            sums += float(loss.detach()), float(entropies.sum()) / denominator
            logger.debug(
                "Micro Step %d/%d | Loss %.4f | Entropy %.4f",
                index,
                len(micro_batches),
                float(loss.detach()),
                float(entropies.mean()),
            )
        loss_mean, entropy_mean = self.world.sum(sums.tolist())
        return loss_mean, entropy_mean

    def _record(
        self, clock: StepClock, lengths: np.ndarray, learned: dict[str, float], grad_norm: float | None
    ) -> None:
        step = self.progress.step
        perf = self.meter.measure(lengths, clock["forward_backward"])
        optim = report.optim_metrics(grad_norm, self.learner.schedule.lr)
        timing = clock.metrics(PHASES)
        seen = {
            "progress/epoch": self.progress.total_samples / len(self.data),
            "progress/num_samples": float(self.progress.total_samples),
            "progress/num_tokens": float(self.progress.total_tokens),
        }
        disk = report.disk_metrics(self.saved.root)
        report.log_rows(self.monitor, step, perf, optim, learned | seen, timing, disk)
        report.log_step(step, perf | optim | learned | timing)
        report.write_step(self.layout.trainer_step, step)

    def _finish(self) -> None:
        if self.config.ckpt is not None:
            self.saved.save(self.progress, final=True)
        directory = self.layout.weights / f"step_{self.progress.step}"
        publish_result(directory, self.learner.model, self.world, self.tokenizer)
        logger.info("Peak memory: %.1f GiB", peak_memory(self.world.device))
        success(logger, "SFT trainer finished")
