"""What the weights of a run leave behind: checkpoints and broadcasts with their markers, but no tensors.

And what is there for people: STATUS.md, a report.
"""

import datetime as dt
import os
from pathlib import Path

from prl.rundir import broadcasts
from prl.rundir.layout import RunLayout
from prl.synth.course import Attempt, Course
from prl.synth.shape import RunShape

_KEPT = 2


def write_checkpoints(root: Path, shape: RunShape, attempt: Attempt) -> None:
    """The newest checkpoints of an attempt; of a failed run also one that was being written."""
    paths, interval = RunLayout(root), shape.checkpoint_interval
    halves = {"trainer": (".metadata", "__0_0.distcp"), "orchestrator": ("progress.pt",)}
    if shape.kind == "sft":
        del halves["orchestrator"]
    steps = [step for step in range(attempt.first, attempt.last + 1) if step % interval == 0]
    if shape.state == "finished" and attempt.is_last and attempt.last not in steps:
        steps.append(attempt.last)
    for step in steps[-_KEPT:]:
        for half, names in halves.items():
            for name in names:
                _touch(paths.checkpoint(step) / half / name, float(attempt.trained[step - attempt.first]), b"made up\n")
    if shape.state == "failed" and attempt.is_last:
        _touch(
            paths.checkpoints / f"step_{attempt.last}.tmp" / "trainer.tmp" / "__0_0.distcp", attempt.end, b"made up\n"
        )


def write_broadcasts(root: Path, shape: RunShape, attempt: Attempt) -> None:
    """The last two policy versions. The newest of a hung run never got past the sender's offer."""
    paths = RunLayout(root)
    names = (broadcasts.SENDER_READY, broadcasts.RECEIVER_READY, broadcasts.STARTED, broadcasts.FINISHED)
    for version in range(max(attempt.last - 1, 0), attempt.last + 1):
        at = float(attempt.trained[max(version - attempt.first, 0)])
        stuck = shape.state == "hung" and version == attempt.last
        for seconds, name in enumerate(names[: 1 if stuck else 4]):
            _touch(paths.broadcast(version) / name, at - 0.3 + 0.1 * seconds)


def write_trainer_step(root: Path, step: int) -> None:
    """The number of the last finished step, for watchdogs."""
    RunLayout(root).trainer_step.write_text(f"{step}\n")


def write_status_md(root: Path, shape: RunShape, course: Course) -> None:
    """One check-in at the run's end."""
    when = dt.datetime.fromtimestamp(course.end, dt.UTC)
    health = {"finished": "Healthy", "running": "Healthy"}.get(shape.state, "Down")
    RunLayout(root).status_md.write_text(
        f"## {when:%Y-%m-%d %H:%M} UTC\n\n"
        f"**Step**: {course.last.last} / {shape.limit}\n**Health**: {health}\n\n"
        f"**Progress**: reward rising\n**Stability**: entropy falling, mismatch KL steady\n"
        f"**Performance**: {shape.step_seconds:g} s a step\n"
    )


def write_report(root: Path, shape: RunShape, episode_id: str, quote: str) -> None:
    """A report that cites an episode, as the contract has citations."""
    directory = root / "reports"
    directory.mkdir(exist_ok=True)
    note = f'{{"step": 1, "kind": "train", "episode": "{episode_id}", "quote": "{quote}", "note": "made up"}}'
    (directory / "first-look.md").write_text(
        f"---\ntitle: First look at {shape.run_name}\n---\n\nAnswers are made-up words[^1].\n\n[^1]: {note}\n"
    )


def _touch(path: Path, at: float, content: bytes = b"") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (at, at))
