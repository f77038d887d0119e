"""The course of a sample run: when each step of each attempt was shipped and trained, and how well things went then."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from prl.synth.shape import RunShape

Floats = npt.NDArray[np.float64]

STARTUP_SECONDS = 30.0
PAUSE_SECONDS = 600.0
"""Between the end of an attempt and the next one's start."""

_TRAINING, _EVALUATION = 0.8, 0.5
"""How long training on a batch and an evaluation take, in steps."""


@dataclass(frozen=True)
class Attempt:
    """One attempt: the steps that it made, first to last."""

    number: int
    first: int
    last: int
    start: float
    """Unix seconds, as all times."""
    shipped: Floats
    """One a step."""
    trained: Floats
    done: Floats
    """When the evaluation after the step ended; where there was none, when it was trained."""
    resumed_from: int | None
    is_last: bool

    @property
    def loop_start(self) -> float:
        return self.start + STARTUP_SECONDS

    @property
    def end(self) -> float:
        """When its last step was done."""
        return float(self.done[-1])

    def steps(self) -> Iterator["Step"]:
        begin = self.loop_start
        for index, step in enumerate(range(self.first, self.last + 1)):
            shipped, trained, done = (float(times[index]) for times in (self.shipped, self.trained, self.done))
            yield Step(self.number, step, round(begin, 3), round(shipped, 3), round(trained, 3), round(done, 3))
            begin = max(done, shipped) if done > trained else shipped


@dataclass(frozen=True)
class Step:
    """One step of one attempt."""

    attempt: int
    number: int
    begin: float
    shipped: float
    trained: float
    done: float

    @property
    def evaluates(self) -> bool:
        """Whether an evaluation follows, which lasts until it is done."""
        return self.done > self.trained

    @property
    def seconds(self) -> float:
        return self.shipped - self.begin


class Course:
    """The attempts of a run, and its curves."""

    def __init__(self, shape: RunShape) -> None:
        self.shape = shape

    @cached_property
    def attempts(self) -> list[Attempt]:
        shape, found = self.shape, list[Attempt]()
        start, first, resumed = shape.start, 1, None
        for number in range(1, shape.attempts + 1):
            last = max(shape.steps * number // shape.attempts, first)
            rng = np.random.default_rng([shape.seed, 1, number])
            steps = np.arange(first, last + 1)
            seconds = shape.step_seconds * np.exp(rng.normal(0.0, 0.12, len(steps)))
            evaluated = self._evaluated(steps)
            # Training episodes wait for an evaluation, which waits for the policy to be trained.
            pauses = evaluated * shape.step_seconds * (_TRAINING + _EVALUATION)
            shipped = start + STARTUP_SECONDS + np.cumsum(seconds) + np.cumsum(pauses) - pauses
            trained = shipped + _TRAINING * shape.step_seconds
            trained[:-1] = np.minimum(trained[:-1], shipped[1:] - 0.1)
            done = trained + evaluated * shape.step_seconds * _EVALUATION
            is_last = number == shape.attempts
            found.append(Attempt(number, first, last, start, shipped, trained, done, resumed, is_last))
            start = float(done[-1]) + PAUSE_SECONDS
            resumed = (last - 1) // shape.checkpoint_interval * shape.checkpoint_interval
            first = resumed + 1
        return found

    @property
    def last(self) -> Attempt:
        return self.attempts[-1]

    @property
    def end(self) -> float:
        """When the last step was done."""
        return round(self.last.end, 3)

    @property
    def now(self) -> float:
        """The moment at which the run is as written: one second after its last sign of life."""
        return self.end + (self.shape.stall_seconds if self.shape.state == "hung" else 0.0) + 1.0

    @cached_property
    def total_steps(self) -> int:
        """Steps of all attempts, repeated ones too."""
        return sum(attempt.last - attempt.first + 1 for attempt in self.attempts)

    def _evaluated(self, steps: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which steps are followed by an evaluation."""
        if self.shape.kind != "rl" or not self.shape.eval_interval:
            return np.zeros(len(steps), dtype=np.bool_)
        evaluated: npt.NDArray[np.bool_] = steps % self.shape.eval_interval == 0
        return evaluated

    def skill(self, step: int) -> float:
        """How much was learned by ``step``, 0 to 1: fast at first."""
        return 1.0 - float(np.exp(-3.0 * step / max(self.shape.limit, 1)))
