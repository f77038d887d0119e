"""Kinds of values that options take and click does not have: steps, times and intervals."""

import re
import time
from datetime import UTC, datetime, timedelta
from datetime import time as clock_time
from typing import Any

import click

from prl.rundir.layout import numbered

_CLOCK = re.compile(r"\d{1,2}:\d\d(:\d\d)?")
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
    """A time: so long ago (``10m``), when a clock last showed it (``14:30``), a date with or without a time of day, or
    Unix seconds. In UTC unless it says otherwise; ``local``: in this host's zone, as the clocks in logs are."""

    name = "TIME"

    def __init__(self, *, local: bool = False) -> None:
        self.local = local

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value)
        try:
            return float(text)
        except ValueError:
            pass
        if re.fullmatch(r"(\d+(?:\.\d+)?[smhd]\s*)+", text):
            return time.time() - Interval().convert(text, param, ctx)
        try:
            return self._of_clock(text) or self._of_date(text)
        except (ValueError, OverflowError):
            self.fail(f"{text!r} is no time: 10m (ago), 14:30, 2026-11-29T17:00 or Unix seconds", param, ctx)

    def _of_clock(self, text: str) -> float | None:
        if not _CLOCK.fullmatch(text):
            return None
        now = datetime.now().astimezone() if self.local else datetime.now(UTC)
        shown = clock_time.fromisoformat(text if text[2] == ":" else f"0{text}")
        moment = datetime.combine(now.date(), shown, tzinfo=now.tzinfo)
        return (moment if moment <= now else moment - timedelta(days=1)).timestamp()

    def _of_date(self, text: str) -> float:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo or self.local else moment.replace(tzinfo=UTC)).timestamp()


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
