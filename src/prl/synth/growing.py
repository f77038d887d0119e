"""A sample run that is live: some of its steps are recorded, the others are written as their time comes.

For a first look at the dashboard and for tests of everything that reads a run while it is written. Left out: the end
of such a run; whoever grows it stops, and it is then a run whose processes vanished.
"""

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path

from prl.synth.course import Course, Step
from prl.synth.directory import RunWriter
from prl.synth.documents import write_status
from prl.synth.marks import write_broadcasts, write_checkpoints, write_status_md, write_trainer_step
from prl.synth.shape import RunShape
from prl.synth.text import language


class _Ended(Exception):  # noqa: N818 - no error: it ends a loop from within
    """Whoever waits for the next step wants no more of them."""


def grow_run(
    root: Path,
    shape: RunShape,
    *,
    recorded: int,
    wait: Callable[[float], bool],
    now: float | None = None,
) -> Path:
    """Write a run to ``root``, absent or empty, whose step ``recorded`` ends ``now``, and go on with the later ones.

    ``shape``: of a running run; its ``steps`` are where growing ends at the latest, and its ``start`` is moved.
    ``wait`` is called with the seconds until the next thing is due, 0 while steps are recorded, and returns whether to
    go on. Raises ValueError for a shape that does not fit.
    """
    if shape.state != "running" or shape.kind != "rl" or not 1 <= recorded < shape.steps:
        raise ValueError("what grows is a running rl run with more steps than are recorded")
    end = Course(dataclasses.replace(shape, steps=recorded)).end
    moved = dataclasses.replace(shape, start=shape.start + (time.time() if now is None else now) - end)
    root.mkdir(parents=True, exist_ok=True)
    writer = _GrowingRun(root, moved, recorded, wait)
    try:
        for attempt in writer.course.attempts:
            writer.attempt(attempt)
    except _Ended:
        writer.flush()
    return root


class _GrowingRun(RunWriter):
    def __init__(self, root: Path, shape: RunShape, recorded: int, wait: Callable[[float], bool]) -> None:
        super().__init__(root, shape, lambda what, done, total: None, pace=self._wait)
        self._recorded = recorded
        self._waiting = wait
        if shape.writer == "prl":
            language().tokenizer.write(root)

    def _wait(self, due: float) -> None:
        if not self._waiting(max(0.0, due - time.time())):
            raise _Ended

    def after(self, step: Step) -> None:
        """What a launcher, a trainer and an orchestrator keep up to date besides their streams."""
        if self.done < self._recorded:
            return
        so_far = dataclasses.replace(self.shape, steps=step.number, max_steps=self.shape.limit)
        course = Course(so_far)
        write_checkpoints(self.root, so_far, course.last)
        write_broadcasts(self.root, so_far, course.last)
        write_trainer_step(self.root, step.number)
        if self.shape.writer == "prl":
            write_status(self.root, so_far, course)
            if self.done == self._recorded:
                write_status_md(self.root, so_far, course)
        self.flight(step.attempt, step.number + 1, course.end, course)
        self.flush()
