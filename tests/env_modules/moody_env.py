"""A taskset whose episodes fail at random, or whose reward is always the same, as its configuration says."""

import random
from collections.abc import Iterator

import verifiers.v1 as vf

__all__ = ["MoodyTaskset"]


class MoodyConfig(vf.TasksetConfig):
    failing: float = 0.0
    """Share of the episodes whose reward raises."""
    constant: bool = False


class MoodyData(vf.TaskData):
    failing: float
    constant: bool


class MoodyTask(vf.Task[MoodyData]):
    @vf.reward
    async def mood(self, task: MoodyData, trace: vf.Trace) -> float:
        if random.random() < task.failing:
            raise RuntimeError("the judge is away")
        return 0.5 if task.constant else random.random()


class MoodyTaskset(vf.Taskset[MoodyTask, MoodyConfig]):
    def load(self) -> Iterator[MoodyTask]:
        config = self.config
        for number in range(64):
            data = MoodyData(prompt=f"say {number}", failing=config.failing, constant=config.constant)
            yield MoodyTask(data, config.task)
