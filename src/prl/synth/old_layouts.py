"""Traces as prime-rl's oldest layout has them: one file a step and subset below ``rollouts/``."""

from collections.abc import Sequence
from pathlib import Path

from prl.synth.course import Step
from prl.synth.episodes import Episode
from prl.synth.streams import open_rows


def write_rollouts(root: Path, step: Step, episodes: Sequence[Episode], shipped: Sequence[Episode]) -> None:
    """``rollouts/step_N/train/{all,effective}/traces.jsonl``."""
    for subset, members in (("all", episodes), ("effective", shipped)):
        with open_rows(root / "rollouts" / f"step_{step.number}" / "train" / subset / "traces.jsonl") as file:
            file.writelines(trace.line + b"\n" for episode in members for trace in episode.traces)
