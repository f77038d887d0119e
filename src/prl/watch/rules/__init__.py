"""The rules: each looks at a run in one way and says at most one thing.

A rule is a function of a :class:`~prl.watch.view.View` that returns a finding or None. It speaks only when the facts
establish what it says, and is silent when they do not reach. Every rule has an entry in ``docs/rules.md`` and a
positive and a negative case in the tests; both are checked.
"""

from prl.watch.rules import disk, episodes, processes, progress, training
from prl.watch.rules.base import Rule

RULES: tuple[Rule, ...] = (*processes.RULES, *disk.RULES, *progress.RULES, *training.RULES, *episodes.RULES)

__all__ = ["RULES", "Rule"]
