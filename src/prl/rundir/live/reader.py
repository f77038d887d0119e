"""Reading rollouts in flight: the dispatches that have no trace yet, and the traces folded from their deltas."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prl.rundir import jsonl
from prl.rundir.layout import run_of
from prl.rundir.live.fold import apply_delta
from prl.rundir.live.writer import LIVE, PENDING, live_name
from prl.rundir.regular import is_inside, read_regular

MAX_PENDING = 10_000
"""Dispatches without a trace that are read."""


@dataclass(frozen=True)
class LiveTrace:
    """A trace as far as it has come, and the dispatch it belongs to (empty when the file does not say)."""

    dispatch: dict[str, Any]
    trace: dict[str, Any]


def read_pending(traces: Path) -> list[dict[str, Any]]:
    """The dispatches without a trace, oldest first. What vanishes meanwhile or cannot be read is left out."""
    found = []
    for path in _files(traces / LIVE / PENDING, ".json")[:MAX_PENDING]:
        try:
            found.append(jsonl.decode(read_regular(path))[0])
        except (OSError, ValueError):
            continue
    return sorted(found, key=lambda dispatch: str(dispatch.get("started")))


def read_live(traces: Path) -> list[LiveTrace]:
    """The traces in flight, each folded from its file as it is now. One that cannot be folded is left out."""
    return [trace for path in live_files(traces / LIVE) for trace in _folded(path)]


def read_trace(traces: Path, trace_id: str) -> LiveTrace | None:
    """One trace in flight, folded whole. None when it is not there (any more) or cannot be folded."""
    path = traces / LIVE / live_name(trace_id)
    found = _folded(path) if path in live_files(traces / LIVE) else []  # no link, and nothing beyond the run
    return next((live for live in found if live.trace.get("id", trace_id) == trace_id), None)


def live_files(live: Path) -> list[Path]:
    """The files of traces, by name. A network disk's ``.nfs`` files are none."""
    return _files(live, ".jsonl")


def _folded(path: Path) -> list[LiveTrace]:
    folded: dict[str, dict[str, Any]] = {}
    dispatch: dict[str, Any] = {}
    for line in jsonl.read_lines(path)[0]:
        apply_delta(folded, line.value)
        if isinstance(line.value.get("dispatch"), dict):
            dispatch = line.value["dispatch"]
    return [LiveTrace(dispatch, trace) for trace in folded.values()]


def _files(directory: Path, suffix: str) -> list[Path]:
    """Hidden files are being written, and links are nobody's: neither is followed."""
    if not is_inside(directory, run_of(directory)):
        return []
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in entries if not entry.is_symlink()]
    except OSError:
        return []
    return [directory / name for name in sorted(names) if name.endswith(suffix) and not name.startswith(".")]
