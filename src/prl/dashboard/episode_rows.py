"""Episodes as rows of a list: what the index says, how stale each was, where its time went, what is odd about it."""

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from prl.rundir.episodes.record import STAGES

if TYPE_CHECKING:
    from prl.rundir.episodes.table import EpisodeTable

RESERVED = frozenset({"facets", "histogram", "groups", "group", "task", "search", "export", ".", ".."})
"""What means something else where an episode's id stands in an address."""
_LONGEST = 200
_ODD = re.compile(r"^@|[/\\]")
FIELDS = (
    "line",
    "id",
    "kind",
    "env",
    "group",
    "task",
    "agents",
    "ok",
    "reward",
    "advantage",
    "cost",
    "input_tokens",
    "output_tokens",
    "turns",
    "branches",
    "num_errors",
    "stop_condition",
    "truncated",
    "timeout",
    "effective",
    "dispatch",
    "arrival",
    "duration",
    "ship_step",
    "dispatch_step",
    "arrival_step",
    "policy_start",
    "policy_end",
)
"""What the index says of an episode, in the order of an answer and of a table."""


def episode_rows(table: "EpisodeTable", rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows as the table gives them, made into rows of an answer."""
    if not rows:
        return []
    numbers = [row["row"] for row in rows]
    seconds = table.values_of(numbers, [f"timing/{stage}" for stage in STAGES])
    columns = {stage: seconds[f"timing/{stage}"].tolist() for stage in STAGES if f"timing/{stage}" in seconds}
    equal = table.equal_groups(numbers).tolist()
    return [_row(row, _timing(columns, at), equal[at]) for at, row in enumerate(rows)]


def reference(row: dict[str, Any]) -> str:
    """What an address of the episode has in the place of its id: the id, or ``@`` and its line in the stream.

    An id that an address cannot hold, or that means something else there, is not used.
    """
    name = row.get("id")
    plain = isinstance(name, str) and 0 < len(name) <= _LONGEST and name.isprintable() and name not in RESERVED
    return str(name) if plain and not _ODD.search(str(name)) else f"@{row.get('line')}"


def lag(row: dict[str, Any]) -> int | None:
    """Steps between the trainer's step when it was sent out and the step that it went into, or came back at."""
    end = row.get("ship_step")
    end = row.get("arrival_step") if end is None else end
    start = row.get("dispatch_step")
    return end - start if start is not None and end is not None else None


def _row(row: dict[str, Any], timing: dict[str, float | None] | None, equal: bool) -> dict[str, Any]:
    shaped = {name: row[name] for name in FIELDS}
    shaped["ref"] = reference(row)
    shaped["lag"] = lag(row)
    shaped["timing"] = timing
    shaped["note"] = _note(row, equal)
    nonfinite = [name for name, value in shaped.items() if isinstance(value, float) and not math.isfinite(value)]
    if nonfinite:
        shaped["nonfinite"] = nonfinite
    return shaped


def _timing(columns: dict[str, list[float]], at: int) -> dict[str, float | None] | None:
    """Seconds by stage, over the traces of the episode in the mean; None where nothing is known."""
    found = {stage: column[at] for stage, column in columns.items() if math.isfinite(column[at])}
    return {stage: found.get(stage) for stage in STAGES} if found else None


def _note(row: dict[str, Any], equal: bool) -> dict[str, str | None]:
    if row["timeout"]:
        return {"kind": "timeout", "text": "timeout"}
    if row["ok"] is False:
        count = row["num_errors"] or 0
        return {"kind": "error", "text": f"{count} error{'s' * (count != 1)}" if count else "failed"}
    if row["truncated"]:
        return {"kind": "truncated", "text": "truncated"}
    if equal and row["kind"] != "eval":
        return {"kind": "equal", "text": "equal group"}
    return {"kind": None, "text": None}
