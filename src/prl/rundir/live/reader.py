"""Reading rollouts in flight: the dispatches that have no trace yet, and the traces folded from their deltas."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prl.rundir import jsonl
from prl.rundir.live.fold import apply_delta
from prl.rundir.live.writer import LIVE, PENDING
from prl.rundir.regular import read_regular


@dataclass(frozen=True)
class LiveTrace:
    """A trace as far as it has come, and the dispatch it belongs to (empty when the file does not say)."""

    dispatch: dict[str, Any]
    trace: dict[str, Any]


def read_pending(traces: Path) -> list[dict[str, Any]]:
    """The dispatches without a trace, oldest first. What vanishes meanwhile or cannot be read is left out."""
    found = []
    for path in _files(traces / LIVE / PENDING, ".json"):
        try:
            found.append(jsonl.decode(read_regular(path))[0])
        except (OSError, ValueError):
            continue
    return sorted(found, key=lambda dispatch: str(dispatch.get("started")))


def read_live(traces: Path) -> list[LiveTrace]:
    """The traces in flight, each folded from its file as it is now. One that cannot be folded is left out."""
    found = []
    for path in _files(traces / LIVE, ".jsonl"):
        folded: dict[str, dict[str, Any]] = {}
        dispatch: dict[str, Any] = {}
        for line in jsonl.read_lines(path)[0]:
            apply_delta(folded, line.value)
            if isinstance(line.value.get("dispatch"), dict):
                dispatch = line.value["dispatch"]
        found += [LiveTrace(dispatch, trace) for trace in folded.values()]
    return found


def _files(directory: Path, suffix: str) -> list[Path]:
    try:
        return sorted(p for p in directory.iterdir() if p.suffix == suffix and not p.name.startswith("."))
    except OSError:
        return []
