"""Reading the episode stream: all of it in order, one episode by its place, and the rows beside it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prl.rundir import jsonl
from prl.rundir.chunks import iter_objects, read_line
from prl.rundir.episodes.record import index_row, values_row
from prl.rundir.episodes.writer import INDEX, STREAM, VALUES


@dataclass(frozen=True)
class StoredEpisode:
    """A record and where it lies: the byte offset of its line in the uncompressed chunk."""

    chunk: int
    offset: int
    record: dict[str, Any]


def iter_episodes(traces: Path, damage: jsonl.Damage | None = None) -> Iterator[StoredEpisode]:
    """All episodes in order of arrival, from plain and sealed chunks. What cannot be read is counted in ``damage``."""
    found = iter_objects(traces / STREAM, damage if damage is not None else jsonl.Damage())
    return (StoredEpisode(chunk, offset, record) for chunk, offset, record in found)


def read_episode(traces: Path, chunk: int, offset: int) -> dict[str, Any]:
    """The record at a place that an index row names. Raises OSError, or ValueError when no record begins there."""
    return jsonl.decode(read_line(traces / STREAM, chunk, offset))[0]


def read_index(traces: Path) -> list[dict[str, Any]]:
    """The rows of the index; made from the stream when the file is missing."""
    if (traces / INDEX).exists():
        return [line.value for line in jsonl.read_lines(traces / INDEX)[0]]
    return [
        index_row(episode.record, line=line, chunk=episode.chunk, offset=episode.offset)
        for line, episode in enumerate(iter_episodes(traces), start=1)
    ]


def read_values(traces: Path) -> list[dict[str, Any]]:
    """The rows of values; made from the stream when the file is missing (runs of other writers have none)."""
    if (traces / VALUES).exists():
        return [line.value for line in jsonl.read_lines(traces / VALUES)[0]]
    return [values_row(episode.record, line=line) for line, episode in enumerate(iter_episodes(traces), start=1)]
