"""A taskset whose task says how its reward goes wrong."""

import asyncio
import time
from collections.abc import Iterator

import verifiers.v1 as vf

__all__ = ["FaultyTaskset"]


class FaultyData(vf.TaskData):
    fault: str = ""


class FaultyTask(vf.Task[FaultyData]):
    @vf.reward
    async def outcome(self, task: FaultyData, trace: vf.Trace) -> float:
        if task.fault == "raises":
            raise KeyError("no such answer")
        if task.fault == "hangs":
            await asyncio.sleep(3600)
        if task.fault == "blocks":
            time.sleep(3600)  # noqa: ASYNC251 - the fault is exactly this: the event loop stands still
        if task.fault == "assigns":
            trace.rewards["assigned"] = vf.Reward(score=float("inf"))
        return {"nan": float("nan"), "inf": float("-inf")}.get(task.fault, 0.5)

    @vf.metric
    async def ratio(self, task: FaultyData) -> float:
        return float("nan") if task.fault == "metric" else 0.25


class FaultyTaskset(vf.Taskset[FaultyTask, vf.TasksetConfig]):
    def load(self) -> Iterator[FaultyTask]:
        for fault in ("", "raises", "nan", "inf", "hangs"):
            yield FaultyTask(FaultyData(prompt="say hi", system_prompt="be short", fault=fault), self.config.task)
