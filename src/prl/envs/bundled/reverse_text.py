"""``reverse-text``: write a word backwards. Single turn, scored by similarity, so that a half-right answer counts.

The prompt is the word alone: models small enough to train on a CPU have no capacity to spend on instructions.
"""

import difflib
import random
import string
from collections.abc import Iterator

import verifiers.v1 as vf

__all__ = ["ReverseTextTaskset"]


class ReverseTextConfig(vf.TasksetConfig):
    num_tasks: int = 4096
    min_letters: int = 5
    max_letters: int = 10
    seed: int = 0
    """Another seed gives other words: train and eval use different ones."""


class ReverseTextData(vf.TaskData):
    answer: str


class ReverseTextTask(vf.Task[ReverseTextData]):
    @vf.reward
    async def similarity(self, task: ReverseTextData, trace: vf.Trace) -> float:
        """``SequenceMatcher.ratio`` of completion and answer, in [0, 1]; 1 means equal.

        Twice the matching characters over both lengths, so what is too long or too short costs as much as a wrong
        letter.
        """
        return difflib.SequenceMatcher(None, trace.last_reply, task.answer, autojunk=False).ratio()

    @vf.metric
    async def exact(self, task: ReverseTextData, trace: vf.Trace) -> float:
        """1 when the completion is the reversed word, else 0."""
        return float(trace.last_reply == task.answer)


class ReverseTextTaskset(vf.Taskset[ReverseTextTask, ReverseTextConfig]):
    def load(self) -> Iterator[ReverseTextTask]:
        config = self.config
        if not 1 <= config.min_letters <= config.max_letters:
            raise ValueError(
                f"min_letters = {config.min_letters}, max_letters = {config.max_letters}: "
                "must be 1 <= min_letters <= max_letters"
            )
        rng = random.Random(config.seed)
        for _ in range(config.num_tasks):
            letters = rng.randint(config.min_letters, config.max_letters)
            word = "".join(rng.choices(string.ascii_lowercase, k=letters))
            yield ReverseTextTask(ReverseTextData(prompt=word, answer=word[::-1]), config.task)
