"""Rollouts in flight at the end of a run that goes on: some have no trace yet, the others are at their messages."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prl.rundir import jsonl
from prl.rundir.live.writer import LIVE, LiveWriter
from prl.synth.course import Course
from prl.synth.episodes import Episode, EpisodeStream
from prl.synth.shape import RunShape

_SHOWN = 12
"""Episodes in flight."""


def write_flight(
    traces: Path, shape: RunShape, course: Course, stream: EpisodeStream, drawn: Sequence[Episode]
) -> None:
    """``drawn``: episodes of the step after the last one, none of them written."""
    live = LiveWriter(traces / LIVE)
    for number, episode in enumerate(drawn[:_SHOWN]):
        environment = shape.environments[episode.environment]
        dispatch = {
            "id": f"d-{episode.id[:12]}",
            "kind": episode.kind,
            "env": environment.name,
            "group": episode.group,
            "task": f"{environment.name}-{episode.task}",
            "policy_version": episode.policy[0],
            "step": episode.step,
            "started": round(course.end - number, 3),
        }
        if number % 4 == 0:
            live.pending(dispatch)
            continue
        for trace in stream.write_traces(episode):
            live.deltas(dispatch, _deltas(jsonl.decode(trace.line)[0], number))


def _deltas(trace: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """The deltas of a trace up to some message, of which the first has no answer yet."""
    name, nodes = trace["id"], trace["nodes"]
    seen = 1 + number % max(len(nodes) - 1, 1)
    opening = {"version": trace["version"], "id": name, "verifiers": trace["verifiers"], "task": trace["task"]}
    timing = trace["timing"] | {stage: {"start": 0.0, "end": 0.0} for stage in ("finalize", "scoring")}
    timing["agent"] = timing["agent"] | {"end": 0.0}
    first = {"trace": name, "open": opening, "set": {"agent": trace["agent"], "info": trace["info"], "timing": timing}}
    if number % 4 == 1:
        return [first, {"trace": name, "pending": [nodes[0]["message"]]}]
    return [first, {"trace": name, "nodes": nodes[:seen], "calls": trace["calls"][: seen // 2]}]
