"""Reading trace updates of all producers, by the indexes or by the streams alone."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from prl.rundir import jsonl
from prl.rundir.annotations.locator import UpdateLocator, producers
from prl.rundir.annotations.update import fold_updates
from prl.rundir.annotations.writer import ANNOTATIONS
from prl.rundir.chunks import iter_objects

__all__ = ["fold_episode", "iter_updates", "producers", "read_index", "read_updates"]


def read_index(traces: Path, producer: str) -> list[dict[str, Any]]:
    """Rows ``{trace_id, chunk, offset, info}`` of a producer; made from the stream when the file is missing."""
    path = traces / ANNOTATIONS / f"{producer}.index.jsonl"
    if path.exists():
        return [line.value for line in jsonl.read_lines(path)[0]]
    return [
        {"trace_id": update.get("trace_id"), "chunk": chunk, "offset": offset, "info": update.get("info") or {}}
        for chunk, offset, update in iter_objects(traces / ANNOTATIONS / producer, jsonl.Damage())
    ]


def iter_updates(traces: Path, damage: jsonl.Damage | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """All updates as ``(producer, update)``, each producer's in the order written."""
    for producer in producers(traces):
        found = iter_objects(traces / ANNOTATIONS / producer, damage if damage is not None else jsonl.Damage())
        for _, _, update in found:
            yield producer, update


def read_updates(traces: Path, trace_ids: Collection[str]) -> dict[str, list[dict[str, Any]]]:
    """The updates of these traces in the order of folding. For many looks, keep an :class:`UpdateLocator`."""
    return UpdateLocator(traces, mapped=False).updates(trace_ids)


def fold_episode(traces: Path, record: dict[str, Any]) -> dict[str, Any]:
    """The episode with everything learned later folded onto its traces, in place. Returns ``record``."""
    found = {
        trace["id"]: trace
        for trace in record.get("traces") or []
        if isinstance(trace, dict) and isinstance(trace.get("id"), str)
    }
    for trace_id, updates in read_updates(traces, found).items():
        fold_updates(found[trace_id], updates)
    return record
