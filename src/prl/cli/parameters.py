"""Kinds of values that options take and click does not have: steps, times and intervals."""

import re
import time
from datetime import UTC, datetime
from typing import Any

import click

from prl.rundir.layout import numbered

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Steps(click.ParamType[Any]):
    """The first and the last of some steps: one step, or a range of which either end may be left open (None)."""

    name = "N|A..B"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        first, dots, last = str(value).partition("..")
        ends = (first, last) if dots else (first, first)
        found = tuple(numbered(end, "") for end in ends)
        if any(end and number is None for end, number in zip(ends, found, strict=True)) or not (dots or first):
            self.fail(f"{value!r} is no step: 12, 10..20, 10.. or ..20", param, ctx)
        return found


class Moment(click.ParamType[float]):
    """A time: so long ago (``10m``), Unix seconds, or a date with or without a time of day (UTC unless it says so)."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return float(value)
        except ValueError:
            pass
        if re.fullmatch(r"(\d+[smhd])+", str(value)):
            return time.time() - Interval().convert(value, param, ctx)
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is no time: 10m (ago), Unix seconds, or 2026-11-29T17:00", param, ctx)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


class Interval(click.ParamType[float]):
    """A time from one event to the next, in seconds: ``90s``, ``30m``, ``1h`` or ``1h 30m``; at least a second."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        parts = re.findall(r"(\d+(?:\.\d+)?)([smhd])", str(value))
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
        whole = "".join(number + unit for number, unit in parts) == str(value).replace(" ", "")
        if not whole or not 1 <= seconds < 1e9:
            self.fail(f"{value!r} is no interval of a second or more: 90s, 30m, 1h, 1h30m", param, ctx)
        return seconds
