"""Chosen episodes as a download, made piece by piece: whole records as JSONL, or a table of their values as CSV.

A record comes as recorded with what was learned later folded in. Some small records are in memory at a time, or some
thousand rows. An episode whose record cannot be read leaves a line that says so.
"""

import csv
import io
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from prl.dashboard.episode_rows import FIELDS
from prl.rundir import jsonl
from prl.rundir.episodes.folded import folded_records

if TYPE_CHECKING:
    from prl.dashboard.open_runs import OpenRun

MAX_NAMES = 1000
"""Values by name that a table has columns of."""
_BATCH = 128
_TABLE_BATCH = 4096
_PIECE = 128 * 1024
"""Bytes of records from which on they are sent: a piece for each would cost more than it holds."""
_RISKY = ("=", "+", "-", "@", "\t", "\r")
"""With one of these at its beginning a text is a formula to a spreadsheet."""


def records(run: "OpenRun", rows: Sequence[int], generation: int) -> Iterator[bytes]:
    """The records of these rows of the table, a line each, some lines together."""
    lines = bytearray()
    for start in range(0, len(rows), _BATCH):
        batch = _some(run, rows[start : start + _BATCH], generation)
        for row, record, problem in folded_records(run.rollouts.traces, batch, run.rollouts.locator):
            told = {"id": row["id"], "line": row["line"], "unreadable": problem} if record is None else record
            lines += jsonl.encode(told)
            if len(lines) >= _PIECE:
                yield bytes(lines)
                lines.clear()
    yield bytes(lines)


def table(run: "OpenRun", rows: Sequence[int], generation: int) -> Iterator[bytes]:
    """A table of these rows: what the index says, then the values by name that any of the run's episodes has."""
    with run.episodes() as episodes:
        names = [name for name in episodes.value_names() if "/" in name][:MAX_NAMES]
    yield _lines([[*FIELDS, *(safe_cell(name) for name in names)]])
    for start in range(0, len(rows), _TABLE_BATCH):
        batch = rows[start : start + _TABLE_BATCH]
        with run.episodes() as episodes:
            if episodes.version[0] != generation:
                return
            values = episodes.values_of(batch, names)
            found = episodes.rows(batch)
        columns = [values[name].tolist() if name in values else [math.nan] * len(batch) for name in names]
        yield _lines(
            [
                [*(_cell(row[name]) for name in FIELDS), *(_cell(column[at]) for column in columns)]
                for at, row in enumerate(found)
            ]
        )


def safe_cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula.

    >>> safe_cell("=1+1"), safe_cell("plain")
    ("'=1+1", 'plain')
    """
    return f"'{text}" if text.startswith(_RISKY) else text


def _some(run: "OpenRun", rows: Sequence[int], generation: int) -> list[dict[str, Any]]:
    """Rows of the table; none when the run's files were replaced meanwhile: then these numbers mean others."""
    with run.episodes() as episodes:
        return episodes.rows(rows) if episodes.version[0] == generation else []


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return safe_cell(value)
    if isinstance(value, list):
        return safe_cell(";".join(map(str, value)))
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return value


def _lines(rows: list[list[Any]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode("utf-8", "replace")
