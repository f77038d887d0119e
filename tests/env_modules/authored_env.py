"""An environment whose author gave its seat limits of its own."""

from collections.abc import Iterator

import verifiers.v1 as vf

__all__ = ["AuthoredEnv", "AuthoredTaskset"]


class AuthoredTask(vf.Task[vf.TaskData]):
    pass


class AuthoredTaskset(vf.Taskset[AuthoredTask, vf.TasksetConfig]):
    def load(self) -> Iterator[AuthoredTask]:
        yield AuthoredTask(vf.TaskData(prompt="hello"), self.config.task)


class AuthoredConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig.model_validate({"max_turns": 4, "timeout": {"scoring": 7.0}})


class AuthoredEnv(vf.Env[AuthoredConfig]):
    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        await agents.player.run(task)
