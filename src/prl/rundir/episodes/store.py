"""The columns of an episode table: what index rows, rows of values and trace updates say, one row an episode.

Where a value is absent or of the wrong type it is unknown, never zero. A row that lies at the place of an earlier one
is that row again (a writer that was started anew repeats itself) and is left out. Ids are not columns: a row keeps
where its index row lies, and the few that a page shows are read from there.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from prl.rundir.cache import Cached
from prl.rundir.episodes.columns import UNKNOWN, Array, Column, KeyIndex, Stored, TextPool, text_key
from prl.rundir.episodes.stream import make_place
from prl.rundir.untyped import as_list, as_object, objects

FLOATS = ("reward", "advantage", "cost", "dispatch", "arrival", "duration")
"""Columns of the index row: rewards, costs, Unix seconds and seconds."""
COUNTS = ("num_errors", "input_tokens", "output_tokens", "turns", "branches")
FLAGS = ("ok", "truncated", "timeout")
TEXTS = ("kind", "env", "group", "stop_condition")
STEPS = ("dispatch_step", "arrival_step", "policy_start", "policy_end")
"""Columns of the row of values; unknown until that was read."""
VALUE_TEXTS = ("task", "agents")
"""``task``: its key. ``agents``: the names of all agents, joined by :data:`AGENT_SEPARATOR`."""
SHIPPED = ("ship_step", "effective", "advantage")
"""Columns of the trace updates. An index row may have an advantage too, for which an update's is put."""
AGENT_SEPARATOR = "\n"

DTYPES: dict[str, Any] = {
    "at": np.int64,  # where the index row lies: its offset in the index file, or -1 - its offset among the rows made
    "place": np.int64,
    "key": np.int64,
    "line": np.int32,
    **dict.fromkeys(FLOATS, np.float64),
    "recorded_advantage": np.float64,  # that of the index row
    **dict.fromkeys((*COUNTS, *STEPS, "ship_step"), np.int32),
    **dict.fromkeys((*TEXTS, *VALUE_TEXTS), np.int32),
    **dict.fromkeys((*FLAGS, "effective"), np.int8),
    "has_values": np.int8,  # 1: read; 0: not yet; -1: its record cannot be read
}
_LATER = (*STEPS, *VALUE_TEXTS, "ship_step", "effective")
TRACE_DTYPES: dict[str, Any] = {"row": np.int32, "advantage": np.float64}
"""Columns of traces in the order of their episodes: the episode's row, and the advantage that an update told."""
_MAX_COUNT = 2**31 - 1


class EpisodeColumns:
    """All columns of a table, and the pools of their texts."""

    def __init__(self) -> None:
        self.columns = {name: Column(dtype) for name, dtype in DTYPES.items()}
        self.pools = {name: TextPool() for name in (*TEXTS, *VALUE_TEXTS)}
        self.names = KeyIndex()
        """From the key of a trace id to its number in ``traces``."""
        self.traces = {name: Column(dtype) for name, dtype in TRACE_DTYPES.items()}
        self.made = Column(np.uint8)
        """Index rows made from the stream, as lines."""
        self.points = Points()
        self.extra: Mapping[str, Array] = {}
        """What a cache kept beside the columns."""
        self.repeated = 0
        """Rows left out because they were there already."""
        self.high = -1
        """The last place of all rows."""

    def __len__(self) -> int:
        return len(self.columns["line"])

    def __getitem__(self, name: str) -> Array:
        return self.columns[name].view()

    @property
    def own_bytes(self) -> int:
        """Bytes held in memory, what is mapped aside."""
        held = sum(column.own_bytes for column in (*self.columns.values(), *self.traces.values(), self.made))
        return held + sum(pool.own_bytes for pool in self.pools.values()) + self.points.own_bytes

    def append(self, rows: Sequence[Mapping[str, Any]], at: Sequence[int]) -> Array:
        """Take in index rows and where they lie. Returns which of them are new (bool)."""
        places = np.fromiter((make_place(row.get("chunk", 0), row.get("offset")) for row in rows), np.int64, len(rows))
        fresh = self._fresh(places)
        self.repeated += int((~fresh).sum())
        if not fresh.all():
            chosen = np.flatnonzero(fresh).tolist()
            rows, at, places = [rows[i] for i in chosen], [at[i] for i in chosen], places[fresh]
        if rows:
            self.high = max(self.high, int(places.max()))
            self._append(rows, at, places)
        return fresh

    def set_values(self, rows: Array, values: Sequence[Mapping[str, Any]]) -> None:
        """Take in rows of values of the episodes in ``rows`` (int32, each once)."""
        columns = self.columns
        tasks = [as_object(row.get("task")) for row in values]
        columns["task"].put(rows, self.pools["task"].codes([task.get("key") or task.get("hash") for task in tasks]))
        policies = [as_object(row.get("policy")) for row in values]
        columns["policy_start"].put(rows, _counts([policy.get("start") for policy in policies]))
        columns["policy_end"].put(rows, _counts([policy.get("end") for policy in policies]))
        for name in ("dispatch_step", "arrival_step"):
            columns[name].put(rows, _counts([row.get(name) for row in values]))
        traces = [objects(row.get("traces")) for row in values]
        columns["agents"].put(rows, self.pools["agents"].codes([_agents(found) for found in traces]))
        columns["has_values"].put(rows, 1)
        self.points.extend(rows.tolist(), traces)

    def forget_values(self) -> None:
        """Make unknown what rows of values said."""
        rows = np.arange(len(self))
        for name in (*STEPS, *VALUE_TEXTS):
            self.columns[name].put(rows, UNKNOWN)
        self.columns["has_values"].put(rows, 0)
        self.points = Points()

    def rows_of_trace(self, trace_id: str) -> Array:
        """The rows of the episodes that have a trace of this id, ascending."""
        return np.unique(self.traces["row"].take(self.names.find_all(text_key(trace_id))))

    def set_advantages(self, traces: Array, advantages: Array) -> None:
        """Take in advantages of traces, the last where one is named twice. An episode has the mean of its traces."""
        if not len(traces):
            return
        self.traces["advantage"].put(traces, advantages)
        owners, told = self.traces["row"].view(), self.traces["advantage"].view()
        rows = np.unique(owners[traces])
        first, end = np.searchsorted(owners, rows, "left"), np.searchsorted(owners, rows, "right")
        sizes = end - first
        starts = np.cumsum(sizes) - sizes
        values = told[np.repeat(first - starts, sizes) + np.arange(sizes.sum())]
        known_values = ~np.isnan(values)
        sums = np.add.reduceat(np.where(known_values, values, 0.0), starts)
        self.columns["advantage"].put(rows, sums / np.add.reduceat(known_values, starts, dtype=np.int64))

    def forget_shipping(self) -> None:
        """Make unknown what trace updates said."""
        rows = np.arange(len(self))
        for name in ("ship_step", "effective"):
            self.columns[name].put(rows, UNKNOWN)
        self.columns["advantage"].put(rows, self["recorded_advantage"])
        self.traces["advantage"].put(np.arange(len(self.traces["advantage"])), np.nan)

    def to_columns(self) -> dict[str, Stored]:
        """What a cache keeps."""
        kept: dict[str, Stored] = {f"column.{name}": column.parts() for name, column in self.columns.items()}
        for name, pool in self.pools.items():
            kept.update(pool.to_columns(f"pool.{name}"))
        kept["names.keys"], kept["names.rows"] = self.names.columns()
        kept.update({f"trace.{name}": column.parts() for name, column in self.traces.items()})
        kept["made"] = self.made.parts()
        kept.update(self.points.to_columns())
        return kept

    @classmethod
    def of(cls, cached: Cached) -> "EpisodeColumns":
        """What :meth:`to_columns` gave. Raises KeyError or ValueError when it is something else."""
        store = cls()
        found = cached.columns
        store.columns = {name: Column(dtype, found[f"column.{name}"]) for name, dtype in DTYPES.items()}
        if len({len(column) for column in store.columns.values()}) != 1:
            raise ValueError("columns of different length")
        store.pools = {name: TextPool.of(f"pool.{name}", found) for name in store.pools}
        store.names = KeyIndex(found["names.keys"], found["names.rows"])
        store.traces = {name: Column(dtype, found[f"trace.{name}"]) for name, dtype in TRACE_DTYPES.items()}
        store.made = Column(np.uint8, found["made"])
        store.points = Points.of(found)
        store.extra = found
        store.repeated, store.high = int(cached.meta["repeated"]), int(cached.meta["high"])
        return store

    def _fresh(self, places: Array) -> Array:
        """Which places are not those of earlier rows; unknown places are."""
        before = np.maximum.accumulate(np.concatenate([[self.high], places[:-1]])) if len(places) else places
        fresh: Array = (places > before) | (places < 0)
        doubtful = np.flatnonzero(~fresh)
        if len(doubtful):
            kept = np.concatenate([self["place"], places[fresh]])
            new = ~np.isin(places[doubtful], kept)
            new[new] = _first_of_each(places[doubtful][new])
            fresh[doubtful] = new
        return fresh

    def _append(self, rows: Sequence[Mapping[str, Any]], at: Sequence[int], places: Array) -> None:
        start, count = len(self), len(rows)
        columns = self.columns
        columns["at"].extend(at)
        columns["place"].extend(places)
        columns["key"].extend(np.fromiter(map(id_key, rows), np.int64, count))
        lines = _counts([row.get("line") for row in rows])
        columns["line"].extend(np.where(lines > 0, lines, np.arange(start + 1, start + count + 1)))
        for name in FLOATS:
            columns[name].extend(floats([row.get(name) for row in rows]))
        columns["recorded_advantage"].extend(columns["advantage"].part(start, start + count))
        for name in COUNTS:
            columns[name].extend(_counts([row.get(name) for row in rows]))
        for name in FLAGS:
            columns[name].extend(_flags([row.get(name) for row in rows]))
        for name in TEXTS:
            columns[name].extend(self.pools[name].codes([row.get(name) for row in rows]))
        for name in _LATER:
            columns[name].extend(np.full(count, UNKNOWN))
        columns["has_values"].extend(np.zeros(count))
        self._name_traces(rows, start)

    def _name_traces(self, rows: Sequence[Mapping[str, Any]], start: int) -> None:
        keys, owners = [], []
        for row, entry in enumerate(rows, start):
            for trace_id in as_list(entry.get("trace_ids")):
                if isinstance(trace_id, str):
                    keys.append(text_key(trace_id))
                    owners.append(row)
        first = len(self.traces["row"])
        self.names.add(np.array(keys, np.int64), np.arange(first, first + len(keys), dtype=np.int32))
        self.traces["row"].extend(owners)
        self.traces["advantage"].extend(np.full(len(keys), np.nan))


@dataclass
class Points:
    """Values by name, as far as there are any: one point a trace and name. Memory follows points."""

    names: TextPool = field(default_factory=TextPool)
    agents: TextPool = field(default_factory=TextPool)
    left_out: int = 0
    """Points of names beyond :data:`MAX_NAMES`."""
    columns: dict[str, Column] = field(
        default_factory=lambda: {name: Column(dtype) for name, dtype in POINT_DTYPES.items()}
    )

    @property
    def own_bytes(self) -> int:
        return sum(column.own_bytes for column in self.columns.values())

    def extend(self, rows: list[int], traces: Sequence[Sequence[Mapping[str, Any]]]) -> None:
        """Take in the traces of rows of values. What is no number (scoring did not reach it) is left out."""
        owners: list[int] = []
        sizes: list[int] = []
        agents: list[Any] = []
        codes: list[Array] = []
        values: list[Any] = []
        shapes: dict[tuple[tuple[str, ...], ...], Array] = {}
        for row, found in zip(rows, traces, strict=True):
            for trace in found:
                rewards, metrics, timing = (as_object(trace.get(kind)) for kind in _KINDS)
                shape = (tuple(rewards), tuple(metrics), tuple(timing))
                if shape not in shapes:
                    shapes[shape] = self._shape(shape)
                codes.append(shapes[shape])
                owners.append(row)
                sizes.append(1 + len(rewards) + len(metrics) + len(timing))
                agents.append(trace.get("agent"))
                values.append(trace.get("reward"))
                values += [entry.get("score") if isinstance(entry, dict) else entry for entry in rewards.values()]
                values += metrics.values()
                values += timing.values()
        if owners:
            self._append(np.array(owners, np.int32), np.array(sizes), self._agents(agents), codes, values)

    def _shape(self, shape: tuple[tuple[str, ...], ...]) -> Array:
        names = [f"{kind}/{name}" for kind, part in zip(_KINDS, shape, strict=True) for name in part]
        return self.names.codes(["reward", *names])

    def _agents(self, agents: list[Any]) -> Array:
        codes = self.agents.codes(agents)
        codes[(codes < 0) | (codes > NO_AGENT)] = NO_AGENT
        return codes

    def _append(self, owners: Array, sizes: Array, agents: Array, codes: list[Array], values: list[Any]) -> None:
        names, numbers = np.concatenate(codes), floats(values)
        there = ~np.isnan(numbers)
        self.left_out += int((there & (names >= MAX_NAMES)).sum())
        there &= names < MAX_NAMES
        self.columns["row"].extend(np.repeat(owners, sizes)[there])
        self.columns["name"].extend(names[there])
        self.columns["agent"].extend(np.repeat(agents, sizes)[there])
        self.columns["value"].extend(numbers[there])

    def to_columns(self) -> dict[str, Stored]:
        kept: dict[str, Stored] = {f"points.{name}": column.parts() for name, column in self.columns.items()}
        return {**kept, **self.names.to_columns("points.names"), **self.agents.to_columns("points.agents")}

    @classmethod
    def of(cls, found: Mapping[str, Array]) -> "Points":
        columns = {name: Column(dtype, found[f"points.{name}"]) for name, dtype in POINT_DTYPES.items()}
        return cls(TextPool.of("points.names", found), TextPool.of("points.agents", found), columns=columns)


MAX_NAMES = 2**16 - 1
"""Different names of values that a table holds."""
NO_AGENT = 2**16 - 1
_KINDS = ("rewards", "metrics", "timing")
POINT_DTYPES: dict[str, Any] = {"row": np.int32, "name": np.uint16, "agent": np.uint16, "value": np.float64}


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def id_key(row: Mapping[str, Any]) -> int:
    """What the column ``key`` holds of a row's id."""
    identity = row.get("id")
    return text_key(identity) if isinstance(identity, str) else UNKNOWN


def floats(values: list[Any]) -> Array:
    """Numbers as they are, NaN for all else."""
    if not set(map(type, values)) <= {float, type(None)}:
        values = [_as_float(value) if type(value) in (float, int) else None for value in values]
    return np.array(values, np.float64)


def _counts(values: list[Any]) -> Array:
    """Whole numbers from 0 on, :data:`UNKNOWN` for all else."""
    counted = (value if type(value) is int and 0 <= value <= _MAX_COUNT else UNKNOWN for value in values)
    return np.fromiter(counted, np.int32, len(values))


def _flags(values: list[Any]) -> Array:
    flags = (1 if value is True else 0 if value is False else UNKNOWN for value in values)
    return np.fromiter(flags, np.int8, len(values))


def _agents(traces: Iterable[Mapping[str, Any]]) -> str | None:
    names = sorted({name for trace in traces if isinstance(name := trace.get("agent"), str)})
    return AGENT_SEPARATOR.join(names) if names else None


def _first_of_each(values: Array) -> Array:
    first = np.zeros(len(values), bool)
    first[np.unique(values, return_index=True)[1]] = True
    return first
