"""Many light runs below one output directory, of all kinds and ends, for whoever lists or compares runs."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from prl.synth.directory import write_run
from prl.synth.shape import ENVIRONMENTS, START, Kind, Layout, RunShape, State

_DAY = 86_400.0
_STATES: tuple[State, ...] = ("finished", "finished", "failed", "stopped", "finished", "hung")
_KINDS: tuple[Kind, ...] = ("rl", "rl", "rl", "sft", "eval")


def runs_tree(
    output_dir: Path, count: int = 1000, *, seed: int = 0, progress: Callable[[str, int, int], None] | None = None
) -> list[Path]:
    """Write ``count`` runs of a few steps each below ``output_dir`` and return their directories.

    They began an hour apart, the first of them a day before :data:`prl.synth.shape.START`. A run that is there already
    (of an earlier call) is kept.
    """
    found = []
    for number in range(count):
        shape = light_shape(number, seed=seed)
        root = output_dir / shape.run_name
        if not (root / "configs").is_dir():
            write_run(root, shape)
        found.append(root)
        if progress is not None:
            progress("runs", number + 1, count)
    return found


def light_shape(number: int, *, seed: int = 0) -> RunShape:
    """The shape of the ``number``-th light run."""
    shape = RunShape(
        kind=_KINDS[number % len(_KINDS)],
        state=_STATES[number % len(_STATES)],
        steps=2 + number % 4,
        environments=(ENVIRONMENTS[number % len(ENVIRONMENTS)],),
        rollouts=4,
        group_size=2,
        prompt_tokens=16,
        answer_tokens=12,
        eval_interval=0,
        checkpoint_interval=2,
        ranks=1,
        seal=False,
        start=START - _DAY - 3600.0 * number,
        seed=seed + number,
    )
    older: dict[int, Layout] = {6: "C", 7: "B", 12: "A"}
    if number % 20 in older:
        return replace(shape, writer="prime-rl", layout=older[number % 20])
    return shape
