"""Whole records of many episodes with what was learned later folded onto their traces, read along the stream.

Looked at one by one, each record would search the indexes of updates anew and decompress from the beginning of its
frame. Here files are read on, and updates are looked up for some records at once; as many are in memory as fit a bound,
one at least. Left out: what is made of a record, which is :mod:`prl.rundir.episodes.detail`.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from prl.rundir import jsonl
from prl.rundir.annotations.locator import UpdateLocator
from prl.rundir.annotations.update import fold_updates
from prl.rundir.episodes.lookup import place_of
from prl.rundir.episodes.stream import as_episode, find_stream
from prl.rundir.untyped import objects

TOGETHER = 32
"""Records whose updates are looked up at once: nobody else is answered by the locator meanwhile."""
TOGETHER_BYTES = 4 * 1024 * 1024
"""Of their lines. Decoded, and with updates, they take some ten times that."""


class Folded(NamedTuple):
    """The record of a row, or why there is none."""

    row: Mapping[str, Any]
    record: dict[str, Any] | None
    problem: str


def folded_records(traces: Path, rows: Sequence[Mapping[str, Any]], locator: UpdateLocator) -> Iterator[Folded]:
    """The records of these index rows below ``traces``. Fast for rows in the order of the stream."""
    stream = find_stream(traces)
    batch: list[Folded] = []
    held = 0
    for row, line in zip(rows, stream.lines_at([place_of(stream, row) for row in rows]), strict=True):
        try:
            batch.append(Folded(row, record_of(traces, row, line)[0], ""))
        except OSError as error:
            batch.append(Folded(row, None, str(error)))
        held += len(line or b"")
        if len(batch) == TOGETHER or held > TOGETHER_BYTES:
            yield from _fold(batch, locator)
            batch, held = [], 0
    yield from _fold(batch, locator)


def record_of(traces: Path, row: Mapping[str, Any], line: bytes | None) -> tuple[dict[str, Any], bool]:
    """The record in the line that a row leads to (None: no line was found there), as an episode, and whether bytes of
    it were no UTF-8 and are replaced. Raises OSError."""
    file = row.get("file") or f"chunk {row.get('chunk')}"
    where = f"{traces}: the record at offset {row.get('offset')} of {file}"
    if line is None:
        raise OSError(f"{where} cannot be read")
    try:
        record, replaced = jsonl.decode(line)
    except ValueError as error:
        raise OSError(f"{where} is damaged: {error}") from error
    return as_episode(record), bool(replaced)


def traces_by_id(record: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The traces of a record that have an id. More than one may have the same."""
    by_id: dict[str, list[dict[str, Any]]] = {}
    for trace in objects(record.get("traces")):
        if isinstance(trace.get("id"), str):
            by_id.setdefault(trace["id"], []).append(trace)
    return by_id


def _fold(batch: list[Folded], locator: UpdateLocator) -> list[Folded]:
    """The same, folded in place."""
    found = [traces_by_id(one.record) for one in batch if one.record is not None]
    updates = locator.updates([name for by_id in found for name in by_id])
    for by_id in found:
        for name, traces in by_id.items():
            for trace in traces:
                fold_updates(trace, updates.get(name, ()))
    return batch
