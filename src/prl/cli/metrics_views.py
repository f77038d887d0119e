"""What ``prl metrics`` can show, each as JSON fields, as text and as CSV."""

import csv
import datetime as dt
import io
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from prl.cli.answers import MAX_ROWS
from prl.cli.tables import aligned
from prl.rundir.discovery import last_change
from prl.rundir.metrics.names import KeyNode, Name, key_tree
from prl.rundir.metrics.queries import SeriesData
from prl.rundir.metrics.reader import Point
from prl.rundir.metrics.store import MetricsStore
from prl.rundir.metrics.tail import MetricsTail, TailRow
from prl.rundir.regular import is_file
from prl.rundir.status import SCHEMA_VERSION as KNOWN_FORM
from prl.text.human import format_duration
from prl.watch.outward import WIDTH, safe

_SHOWN = 12
"""Values shown of one row, and keys of one note."""
_LINE = 4 * WIDTH


@dataclass(frozen=True)
class Source:
    """Where the metrics come from."""

    root: Path
    store: MetricsStore

    @property
    def ok(self) -> bool:
        """Whether the file could be read as far as there is one: a directory or a pipe in its place holds nothing."""
        path = self.store.path
        return self.store.trouble is None or (os.path.lexists(path) and not is_file(path))

    def fields(self) -> dict[str, Any]:
        """What every answer says of the file."""
        store = self.store
        return {
            "ok": self.ok,
            "run_dir": str(self.root),
            "file": str(store.path),
            "trouble": store.trouble,
            "file_schema_version": store.schema_version,
            "rows_read": store.rows,
            "last_time": store.last_time,
            "pending_bytes": store.pending_bytes,
            "damage": asdict(store.damage),
            "drift": dict(sorted(store.drift.items())[:MAX_ROWS]),
        }

    def notes(self) -> Iterator[str]:
        """What a reader of the text should know besides, a line each."""
        store, damage = self.store, self.store.damage
        if not store.rows:
            age = format_duration(max(time.time() - last_change(self.root), 0))
            yield safe(f"no metrics yet in {store.path}; the run last changed {age} ago")
        if store.trouble:
            yield safe(f"cannot be read: {store.trouble}")
        if store.schema_version is not None and store.schema_version > KNOWN_FORM:
            said = f"of schema version {store.schema_version}; this reader knows {KNOWN_FORM}"
            yield f"{said}: read as far as it is understood"
        if damage.lines:
            yield safe(f"{damage.lines} unreadable lines, the first at byte {damage.first_offset}: {damage.sample}")
        if damage.replaced:
            yield f"{damage.replaced} lines with bytes that are not UTF-8"
        if store.drift:
            shown = ", ".join(f"{key} ({count})" for key, count in sorted(store.drift.items())[:_SHOWN])
            yield safe(f"values that are no numbers: {shown}")


class View(Protocol):
    """One thing to show."""

    def answer(self) -> dict[str, Any]:
        """The fields of a JSON answer beyond those that every answer has."""

    def text(self) -> str:
        """For people, ending in a newline."""

    def csv(self) -> str:
        """As CSV with a header."""


class KeysView:
    """The keys of a run, each with its newest value."""

    def __init__(self, source: Source, names: Sequence[Name], limit: int, *, tree: bool) -> None:
        self._source, self._names, self._limit, self._tree = source, names, limit, tree
        self._last = source.store.last_values()

    def answer(self) -> dict[str, Any]:
        rows = [self._row(name) for name in self._names[: self._limit]]
        return {
            "cursor": self._source.store.tail(limit=1).cursor,
            "nonfinite": _nonfinite((name, self._last[name].value) for name in self._names if name in self._last),
            "counts": {"series": len(self._names), "producers": len({producer for producer, _ in self._names})},
            "rows": rows,
            "truncated": len(rows) < len(self._names),
        }

    def text(self) -> str:
        lines: list[str] = []
        if self._tree:
            lines += self._branch(key_tree(self._names))
        elif self._names:
            lines += self._table()
        elif self._source.store.rows:
            lines.append("no such key")
        return _text([*lines, *self._source.notes()])

    def csv(self) -> str:
        rows = [self._row(name) for name in self._names]
        return _csv(("producer", "key", "points", "superseded", "step", "time", "value"), rows)

    def _row(self, name: Name) -> dict[str, Any]:
        extent, last = self._source.store.extent(*name), self._last.get(name, Point(None, None, math.nan))
        return {
            "producer": name[0],
            "key": name[1],
            "points": extent.stepped + extent.timed,
            "superseded": extent.superseded,
            "step": last.step,
            "time": last.time,
            "value": last.value if name in self._last else None,
        }

    def _table(self) -> list[str]:
        rows = [self._row(name) for name in self._names[: self._limit]]
        cells = [
            (row["key"], row["producer"], _number(row["value"]), _step(row["step"]), str(row["points"])) for row in rows
        ]
        lines = aligned([("KEY", "PRODUCER", "LAST", "STEP", "POINTS"), *cells])
        if len(rows) < len(self._names):
            lines.append(f"and {len(self._names) - len(rows)} more (--limit, --match, --tree)")
        return lines

    def _branch(self, node: KeyNode, depth: int = 0) -> Iterator[str]:
        for name in sorted(node.children):
            child = node.children[name]
            values = "  ".join(
                f"{producer}: {_number(self._last[producer, child.path].value)}"
                for producer in child.producers
                if (producer, child.path) in self._last
            )
            below = f"/  ({child.series - len(child.producers)})" if child.children else ""
            yield "  " * depth + safe(f"{name or '(empty)'}{below}  {values}")
            yield from self._branch(child, depth + 1)


class ValuesView:
    """The values of some series: of each its newest, as far as ``last`` and an equal share of ``limit`` go."""

    def __init__(
        self, source: Source, series: Mapping[Name, SeriesData], last: int | None, limit: int, *, asked: bool
    ) -> None:
        """``asked``: whether ``last`` is what somebody wants. Else what lies before counts as left out."""
        self._source, self._series = source, series
        self._wanted = {name: min(len(data.x), last or len(data.x)) for name, data in series.items()}
        share = max(limit // max(len(series), 1), 1)
        self._shown = {name: min(count, share) for name, count in self._wanted.items()}
        whole = self._wanted.values() if asked else (len(data.x) for data in series.values())
        self._left_out = sum(whole) - sum(self._shown.values())

    def answer(self) -> dict[str, Any]:
        rows = list(self._rows(self._shown))
        return {
            "cursor": self._source.store.tail(limit=1).cursor,
            "nonfinite": _nonfinite(((row["producer"], row["key"]), row["value"]) for row in rows),
            "counts": {"series": len(self._series), "values": sum(self._wanted.values())},
            "series": [
                {"producer": producer, "key": key, "axis": data.axis, "points": data.total}
                for (producer, key), data in list(self._series.items())[:MAX_ROWS]
            ],
            "rows": rows,
            "truncated": self._left_out > 0 or len(self._series) > MAX_ROWS,
        }

    def text(self) -> str:
        rows = list(self._rows(self._shown))
        places = {(row["producer"], row["key"], row["step"]) for row in rows}
        by_step = len(places) == len(rows) and all(data.axis == "step" for data in self._series.values())
        lines = (self._by_step(rows) if by_step else self._one_by_one(rows)) if rows else ["no values"]
        if self._left_out:
            lines.append(f"and {self._left_out} more values (--last, --limit)")
        return _text([*lines, *self._source.notes()])

    def csv(self) -> str:
        return _csv(("producer", "key", "step", "time", "value"), self._rows(self._wanted))

    def _rows(self, counts: Mapping[Name, int]) -> Iterator[dict[str, Any]]:
        for (producer, key), data in self._series.items():
            newest = slice(len(data.x) - counts[producer, key], None)
            points = zip(data.steps[newest].tolist(), data.times[newest].tolist(), data.y[newest].tolist(), strict=True)
            for step, when, value in points:
                yield {
                    "producer": producer,
                    "key": key,
                    "step": None if math.isnan(step) else int(step),
                    "time": None if math.isnan(when) else when,
                    "value": value,
                }

    def _by_step(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """A line a step, a column a series."""
        values = {(row["producer"], row["key"], row["step"]): _number(row["value"]) for row in rows}
        several = len({producer for producer, _ in self._series}) > 1
        titles = [f"{producer}:{key}" if several else key for producer, key in self._series]
        lines = [
            [str(step), *(values.get((*name, step), "") for name in self._series)]
            for step in sorted({row["step"] for row in rows})
        ]
        return aligned([["STEP", *titles], *lines])

    def _one_by_one(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        cells = [
            (row["key"], row["producer"], _step(row["step"]), _clock(row["time"]), _number(row["value"]))
            for row in rows
        ]
        return aligned([("KEY", "PRODUCER", "STEP", "TIME (UTC)", "VALUE"), *cells])


class TailView:
    """The rows since a cursor, as far as they have values of the series that are wanted."""

    def __init__(self, source: Source, tail: MetricsTail, wanted: set[Name]) -> None:
        self._source, self._tail = source, tail
        self._rows: list[TailRow] = []
        for row in tail.rows:
            values = {key: value for key, value in row.values.items() if (row.producer, key) in wanted}
            if values:
                self._rows.append(replace(row, values=values))

    def answer(self) -> dict[str, Any]:
        values = [((row.producer, key), value) for row in self._rows for key, value in row.values.items()]
        return {
            "cursor": self._tail.cursor,
            "restarted": self._tail.restarted,
            "nonfinite": _nonfinite(values),
            "counts": {"rows": len(self._rows), "values": len(values)},
            "rows": [asdict(row) for row in self._rows],
            "truncated": self._tail.more,
        }

    def text(self) -> str:
        lines = ["not the file that the cursor was of: the newest rows"] if self._tail.restarted else []
        for row in self._rows:
            back = " (goes back)" if row.supersedes else ""
            values = [f"{key}={_number(value)}" for key, value in list(row.values.items())[:_SHOWN]]
            if len(row.values) > _SHOWN:
                values.append(f"and {len(row.values) - _SHOWN} more")
            head = f"{_clock(row.time)}  {row.producer}  step {_step(row.step)}{back}"
            lines.append(safe(f"{head}: {', '.join(values)}", _LINE))
        lines.append(f"cursor: {self._tail.cursor}" + (" (there is more)" if self._tail.more else ""))
        return _text([*lines, *self._source.notes()])

    def csv(self) -> str:
        rows = [
            {"producer": row.producer, "key": key, "step": row.step, "time": row.time, "value": value}
            for row in self._rows
            for key, value in row.values.items()
        ]
        return _csv(("producer", "key", "step", "time", "value"), rows)


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _csv(header: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """CSV for other programs: what is not finite as ``nan``, ``inf``, ``-inf``; what is absent empty."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        cells = [row[name] for name in header]
        writer.writerow([safe(cell, _LINE) if isinstance(cell, str) else cell for cell in cells])
    return file.getvalue()


def _nonfinite(values: Iterable[tuple[Name, float | None]]) -> list[str]:
    """``producer:key`` of the values that leave as null because JSON has no number for them."""
    found = {f"{producer}:{key}" for (producer, key), value in values if value is not None and not math.isfinite(value)}
    return sorted(found)[:MAX_ROWS]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def _step(step: int | None) -> str:
    return "-" if step is None else str(step)


def _clock(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    try:
        return f"{dt.datetime.fromtimestamp(seconds, dt.UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):  # no date of this calendar
        return f"{seconds:.6g}"
