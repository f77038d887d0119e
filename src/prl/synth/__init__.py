"""Sample runs for demos, tests and benchmarks: whole run directories, streamed, of any size, the same for one seed.

What is written reads like a real run: through the formats of :mod:`prl.rundir`, with the contract's names, words that a
tokenizer beside them decodes, and a course of events (steps, evaluations, resumes, an end) that the logs, the metrics
and the episodes tell alike. Values are made up. Left out: weights (checkpoints and broadcasts have their markers only).
"""

from prl.synth.directory import write_run
from prl.synth.logs import log_file
from prl.synth.metrics import metrics_file
from prl.synth.shape import Environment, RunShape
from prl.synth.tree import runs_tree

__all__ = ["Environment", "RunShape", "log_file", "metrics_file", "runs_tree", "write_run"]
