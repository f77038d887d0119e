"""``guess-number``: find a number by asking. Several turns, each answered ``higher``, ``lower`` or ``correct``.

The environment is the model's user: it opens the game, answers every guess and ends the game when the number is found
or the turns are used up. Who finds it sooner gets more.
"""

import random
import re
from collections.abc import Iterator

import verifiers.v1 as vf

__all__ = ["GuessNumberEnv", "GuessNumberTaskset"]

_NUMBER = re.compile(r"-?\d{1,9}")


class GuessNumberConfig(vf.TasksetConfig):
    num_tasks: int = 1024
    upper: int = 20
    """Numbers are drawn from 1 to this."""
    max_guesses: int = 5
    """Halving the range finds any of ``2 ** n - 1`` numbers in n guesses."""
    seed: int = 0


class GuessNumberData(vf.TaskData):
    target: int
    upper: int
    max_guesses: int


class GuessNumberTask(vf.Task[GuessNumberData]):
    """Scored by the environment, which alone knows how the game went."""


class GuessNumberTaskset(vf.Taskset[GuessNumberTask, GuessNumberConfig]):
    def load(self) -> Iterator[GuessNumberTask]:
        config = self.config
        if config.upper < 1 or config.max_guesses < 1:
            raise ValueError(f"upper = {config.upper}, max_guesses = {config.max_guesses}: both must be at least 1")
        rng = random.Random(config.seed)
        for _ in range(config.num_tasks):
            target = rng.randint(1, config.upper)
            # No prompt: the environment speaks first.
            data = GuessNumberData(target=target, upper=config.upper, max_guesses=config.max_guesses)
            yield GuessNumberTask(data, config.task)


class GuessNumberEnvConfig(vf.EnvConfig):
    agent: vf.AgentConfig = vf.AgentConfig()


class GuessNumberEnv(vf.Env[GuessNumberEnvConfig]):
    async def run(self, task: GuessNumberTask, agents: vf.Agents) -> None:
        data = task.data
        found, guesses, unparsable = False, 0, 0
        async with agents.agent.interaction(task) as game:
            message = f"1-{data.upper}?"
            while not found and guesses < data.max_guesses:
                segment = await game.turn(message)
                if segment.terminated:
                    break
                guesses += 1
                message = answer(segment.last_reply, data.target)
                found = message == "correct"
                unparsable += message == "number?"
        game.trace.record_reward("found", score(found, guesses, data.max_guesses))
        game.trace.record_metric("guesses", guesses)
        game.trace.record_metric("unparsable", unparsable)


def answer(reply: str, target: int) -> str:
    """What the environment says to ``reply``, in which the first whole number is the guess."""
    match = _NUMBER.search(reply)
    if match is None:
        return "number?"
    guess = int(match.group())
    return "correct" if guess == target else "higher" if guess < target else "lower"


def score(found: bool, guesses: int, max_guesses: int) -> float:
    """1 for the first guess, falling evenly to 0.5 for the last that is allowed; 0 when the number was not found."""
    if not found:
        return 0.0
    return 1.0 if max_guesses == 1 else 1.0 - 0.5 * (guesses - 1) / (max_guesses - 1)
