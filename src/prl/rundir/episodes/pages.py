"""What a page shows of each episode: plain records, built from the columns and the index rows of that page alone."""

from dataclasses import dataclass
from typing import Any

from prl.rundir.episodes.columns import Array, known
from prl.rundir.episodes.rebuild import TableReader
from prl.rundir.episodes.store import AGENT_SEPARATOR, COUNTS, FLAGS, FLOATS, STEPS, TEXTS
from prl.rundir.episodes.stream import split_place
from prl.rundir.untyped import as_list

MAX_LIMIT = 10_000
"""Rows of one page."""

_NUMBERS = ("line", *FLOATS, *COUNTS, *STEPS, "ship_step")


@dataclass(frozen=True)
class Page:
    """Some of the chosen episodes, in order."""

    rows: list[dict[str, Any]]
    """As :func:`page_rows` makes them."""
    total: int
    """How many episodes were chosen."""
    offset: int
    upto: int
    """Episodes of the table that were looked at: with it, the next page is of the same list."""
    generation: int
    """Changes when the run's files were replaced: then ``upto`` and ``row`` mean nothing any more."""


def page_rows(reader: TableReader, rows: Array) -> list[dict[str, Any]]:
    """The episodes at these rows of a table: the fields of their index rows, None where something is unknown.

    Beside them ``row`` (of the table), ``ship_step``, ``effective``, ``task``, ``agents``, ``dispatch_step``,
    ``arrival_step``, ``policy_start`` and ``policy_end``; ``file`` where records lie in files that are no chunks.
    """
    columns = {name: _values(reader, name, rows) for name in (*_NUMBERS, *FLAGS, "effective", *TEXTS, "task", "agents")}
    places = reader.store.columns["place"].take(rows).tolist()
    found = []
    for at, (row, entry) in enumerate(zip(rows.tolist(), reader.index_rows(rows), strict=True)):
        values = {name: column[at] for name, column in columns.items()}
        agents = values.pop("agents")
        found.append(
            {
                "row": row,
                **_names(entry or {}),
                **_place(reader, places[at]),
                **values,
                "agents": agents.split(AGENT_SEPARATOR) if agents is not None else None,
            }
        )
    return found


def _values(reader: TableReader, name: str, rows: Array) -> list[Any]:
    """A column's values as plain objects."""
    store = reader.store
    values = store.columns[name].take(rows)
    if name in store.pools:
        return store.pools[name].texts_of(values)
    plain = (values == 1) if values.dtype.kind == "i" and values.dtype.itemsize == 1 else values
    return [value if there else None for value, there in zip(plain.tolist(), known(values).tolist(), strict=True)]


def _place(reader: TableReader, place: int) -> dict[str, Any]:
    chunk, offset = split_place(place) if place >= 0 else (None, None)
    if reader.stream.chunked:
        return {"chunk": chunk, "offset": offset}
    return {"chunk": None, "offset": offset, "file": reader.stream.file_name(chunk) if chunk is not None else None}


def _names(entry: dict[str, Any]) -> dict[str, Any]:
    identity = entry.get("id")
    return {
        "id": identity if isinstance(identity, str) else None,
        "trace_ids": [name for name in as_list(entry.get("trace_ids")) if isinstance(name, str)],
    }
