"""What the metrics page asks: all keys, some series, one step, the rows since a cursor."""

from collections.abc import Iterable, Sequence
from typing import Any

from prl.dashboard.axes import Axes, Axis
from prl.dashboard.limits import alarm
from prl.dashboard.lines import Lines, Window, word_of
from prl.dashboard.marks import marks
from prl.dashboard.open_runs import OpenRun
from prl.rundir.metrics.names import Name, match, resolve
from prl.rundir.metrics.reader import Point
from prl.rundir.metrics.store import MetricsStore
from prl.rundir.metrics.tail import TailRow
from prl.rundir.panels import band_of, load_panels
from prl.watch.thresholds import Thresholds

MAX_KEYS = 10_000
"""Series that a list of keys has at most."""
MAX_VALUES = 5000
"""Values that an answer of rows has, about."""
MIN_ROWS = 10
"""Rows of it at least, where so many were asked for."""
MAX_POINTS = 100_000
"""Points of all series of an answer together."""


def keys(store: MetricsStore, pattern: str | None) -> dict[str, Any]:
    """All series, or those that a pattern fits."""
    names = store.names()
    wanted = set(match(names, pattern)) if pattern else set(names)
    known = set(names)
    found = [one for one in store.summaries() if (one.producer, one.key) in wanted]
    rows = [
        {
            "producer": one.producer,
            "key": one.key,
            "points": one.points,
            "first": one.first,
            "nonfinite": one.nonfinite,
            **_newest(one.last),
            "band": _band_word((one.producer, one.key), known),
        }
        for one in found[:MAX_KEYS]
    ]
    damage = store.damage
    return {
        "series": rows,
        "counts": {"series": len(found), "rows": store.rows},
        "truncated": len(found) > len(rows),
        "partial": not store.whole,
        "damage": {"lines": damage.lines, "first_offset": damage.first_offset, "sample": damage.sample}
        if damage.lines
        else None,
        "drift": [{"key": key, "values": count} for key, count in list(store.drift.items())[:100]],
        "trouble": store.trouble,
        "absent": store.absent,
    }


def series(
    run: OpenRun,
    store: MetricsStore,
    wanted: Sequence[str],
    *,
    limits: Thresholds,
    axis: Axis,
    start: float | None,
    end: float | None,
    points: int,
    band: bool,
) -> dict[str, Any]:
    """Some series by ``producer:key``, by key or by what they mean."""
    names, missing = find_series(store.names(), wanted)
    known = set(store.names())
    axes = Axes(store)
    lines = Lines(store, axes)
    window = Window(axis, start, end, max(min(points, MAX_POINTS // max(len(names), 1)), 2))
    return {
        "axis": axis,
        "series": [lines.line(name, window, band_of(name, known) if band else (None, None)) for name in names],
        "missing": missing,
        "marks": {**marks(run, store), "alarms": _alarms(names, axes, limits, whole=store.whole)},
        "partial": not store.whole,
    }


def step(store: MetricsStore, number: int) -> dict[str, Any]:
    """All values of a step."""
    rows = [
        _valued({"producer": producer, "key": key}, value)
        for producer in sorted({producer for producer, _ in store.names()})
        for key, value in sorted(store.step_row(producer, number).items())
    ]
    return {"step": number, "rows": rows, "partial": not store.whole}


def tail(store: MetricsStore, cursor: str | None, limit: int) -> dict[str, Any]:
    """The rows since a cursor, without one the newest; fewer where rows are long. Raises ValueError when it is no
    cursor."""
    longest = len(store.names()) or 1
    found = store.tail(cursor, min(limit, max(MAX_VALUES // longest, MIN_ROWS)))
    return {
        "rows": [_row(row) for row in found.rows],
        "cursor": found.cursor,
        "more": found.more,
        "restarted": found.restarted,
        "partial": not store.whole,
    }


def find_series(names: Sequence[Name], wanted: Iterable[str]) -> tuple[list[Name], list[str]]:
    """The series that some texts mean, each once, and the texts that mean none."""
    known = set(names)
    found: dict[Name, None] = {}
    missing = []
    for text in wanted:
        exact = next((name for name in _cuts(text) if name in known), None)
        meant = [exact] if exact is not None else resolve(text, names)
        if not meant:
            missing.append(text)
        found.update(dict.fromkeys(meant))
    return list(found), missing


def _cuts(text: str) -> Iterable[Name]:
    """All ways to read a text as ``producer:key``. Both may hold colons."""
    at = text.find(":")
    while at >= 0:
        yield text[:at], text[at + 1 :]
        at = text.find(":", at + 1)


def _newest(point: Point | None) -> dict[str, Any]:
    """The newest value of a series, with its place."""
    if point is None:
        return {"last": None, "last_step": None, "last_time": None}
    word = word_of(point.value)
    return {
        "last": point.value if word is None else None,
        "last_step": point.step,
        "last_time": point.time,
        **({"last_nonfinite": word} if word is not None else {}),
    }


def _band_word(name: Name, known: set[Name]) -> str | None:
    low, high = band_of(name, known)
    if low is None or high is None:
        return None
    return "/".join(edge[1].rpartition("/")[2] for edge in (low, high))


def _alarms(names: Sequence[Name], axes: Axes, limits: Thresholds, *, whole: bool) -> list[dict[str, Any]]:
    panels, found = load_panels(), []
    for name in names:
        meaning = panels.meaning(name[1])
        if meaning is None or meaning.limit is None:
            continue
        limit = alarm(meaning.limit, limits, axes.points(name, "step").y, whole=whole)
        if limit is not None:
            found.append({"key": name[1], "limit": limit.value, "above": limit.above})
    return found


def _row(row: TailRow) -> dict[str, Any]:
    return {
        "producer": row.producer,
        "step": row.step,
        "time": row.time,
        "supersedes": row.supersedes,
        "values": {key: value if word_of(value) is None else None for key, value in row.values.items()},
        "nonfinite": [[key, word] for key, value in row.values.items() if (word := word_of(value)) is not None],
    }


def _valued(row: dict[str, Any], value: float) -> dict[str, Any]:
    word = word_of(value)
    return {**row, "value": value} if word is None else {**row, "value": None, "nonfinite": word}
