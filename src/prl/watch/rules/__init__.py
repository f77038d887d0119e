"""The rules: each looks at a run in one way and says at most one thing.

A rule is a function of a :class:`~prl.watch.view.View` that returns a finding or None. It speaks only when the facts
establish what it says, and is silent when they do not reach. Its docstring is its entry in ``docs/rules.md``, and every
rule has a positive and a negative case in the tests; both are checked.
"""

from prl.watch.rules import (
    checkpoints,
    deadlock,
    disk,
    engines,
    episodes,
    incidents,
    jobs,
    loops,
    members,
    memory,
    pace,
    processes,
    progress,
    rewards,
    signal,
    stability,
    training,
)
from prl.watch.rules.base import Documentation, Rule, document

RULES: tuple[Rule, ...] = (
    *processes.RULES,
    *members.RULES,
    *jobs.RULES,
    *incidents.RULES,
    *disk.RULES,
    *memory.RULES,
    *deadlock.RULES,
    *progress.RULES,
    *training.RULES,
    *stability.RULES,
    *checkpoints.RULES,
    *engines.RULES,
    *loops.RULES,
    *episodes.RULES,
    *signal.RULES,
    *pace.RULES,
    *rewards.RULES,
)
"""In the order in which findings of one severity are shown: what explains the others comes first."""

__all__ = ["RULES", "Documentation", "Rule", "document"]
