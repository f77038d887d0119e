"""An environment of your own: put the letters of a word in order.

    rl @ examples/reverse_text/rl.toml --model.name <model> \
        --orchestrator.train.source '[{"path": "examples", "env": {"taskset": {"id": "my-env"}}}]'
"""

import random
import string
from collections.abc import Iterator

import verifiers.v1 as vf

__all__ = ["SortLettersTaskset"]


class SortLettersData(vf.TaskData):
    answer: str


class SortLettersTask(vf.Task[SortLettersData]):
    @vf.reward
    async def in_place(self, task: SortLettersData, trace: vf.Trace) -> float:
        """The share of letters that stand where they belong; letters too many cost as much as wrong ones."""
        reply = trace.last_reply
        return sum(a == b for a, b in zip(reply, task.answer, strict=False)) / max(len(reply), len(task.answer))


class SortLettersTaskset(vf.Taskset[SortLettersTask, vf.TasksetConfig]):
    def load(self) -> Iterator[SortLettersTask]:
        rng = random.Random(0)
        for _ in range(2048):
            word = "".join(rng.choices(string.ascii_lowercase, k=6))
            yield SortLettersTask(SortLettersData(prompt=word, answer="".join(sorted(word))), self.config.task)
