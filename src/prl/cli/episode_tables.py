"""Episodes and groups of them as lines for a person: a table with a row each, and how its cells are written."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from prl.cli.tables import aligned
from prl.rundir.episodes.facets import Group
from prl.text.human import format_duration, format_percent

_ID_SHOWN = 12


def episode_table(rows: Sequence[dict[str, Any]]) -> list[str]:
    header = (
        *("LINE", "ID", "ARRIVED", "KIND", "ENV", "STEP", "REWARD", "TURNS", "IN", "OUT", "TOOK", "STOP", "OUTCOME"),
    )
    return aligned([header, *map(_cells, rows)])


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        number(row["line"]),
        short(row["id"]),
        clock(row["arrival"]),
        text_or_dash(row["kind"]),
        text_or_dash(row["env"]),
        number(row["ship_step"]),
        number(row["reward"]),
        number(row["turns"]),
        number(row["input_tokens"]),
        number(row["output_tokens"]),
        format_duration(row["duration"]) if row["duration"] is not None and math.isfinite(row["duration"]) else "-",
        text_or_dash(row["stop_condition"]),
        _outcome(row),
    )


def group_table(found: Sequence[Group], by: str) -> list[str]:
    name = "STEP" if by == "step" else by.upper()
    header = (name, "ENV", "EPISODES", "OK", "REWARD", "MIN", "MAX", "STD", "LAST ARRIVAL")
    cells = [
        (
            number(group.step) if by == "step" else text_or_dash(group.name),
            text_or_dash(group.env),
            str(group.count),
            format_percent(group.ok / group.count),
            *map(number, (group.reward_mean, group.reward_min, group.reward_max, group.reward_std)),
            clock(group.last_arrival),
        )
        for group in found
    ]
    return aligned([header, *cells])


def _outcome(row: dict[str, Any]) -> str:
    marks = ["error"] if row["ok"] is False else []
    marks += [name for name in ("timeout", "truncated") if row[name]]
    if not marks and row["num_errors"]:
        marks.append(f"recovered from {row['num_errors']}")
    return ", ".join(marks) or ("ok" if row["ok"] else "-")


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def text_or_dash(value: str | None) -> str:
    return value if value else "-"


def short(name: str | None) -> str:
    return "-" if name is None else name if len(name) <= _ID_SHOWN else name[:_ID_SHOWN] + "…"


def clock(seconds: float | None) -> str:
    """A time in UTC."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S") if seconds is not None else "-"
    except (ValueError, OverflowError, OSError):
        return "-"
