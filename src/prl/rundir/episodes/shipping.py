"""Which step an episode was shipped with, and its advantage: followed through the indexes of trace updates.

An episode's step is the smallest ``ship.step`` over its traces' updates that call it effective; an episode is effective
when any such update says so, not effective when updates only deny it, and else unknown. Its advantage is the mean over
its traces, of each what the last update says. Where lines of an index are no rows, the updates between the rows around
them are read from their stream. What an index lacks (its end or
all of it) is read from the updates themselves: taking in an update twice changes nothing. Runs from before there were
updates name their effective records in files of their own.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from prl.rundir import jsonl
from prl.rundir.annotations.reader import producers
from prl.rundir.annotations.writer import ANNOTATIONS
from prl.rundir.cache import mark_from_json, mark_to_json
from prl.rundir.episodes.columns import UNKNOWN, Array, text_key
from prl.rundir.episodes.gaps import Gap, bounded
from prl.rundir.episodes.store import EpisodeColumns
from prl.rundir.episodes.stream import FileStream, Stream, make_place, rollout_files, run_root
from prl.rundir.following import Block, Follower
from prl.rundir.untyped import get, is_number, objects

_NOTHING = b'"info":{}}'
"""How an index row ends that says nothing of shipping: the trainer writes one for each sequence."""
_WAITING = ("keys", "steps", "effective", "advantages")
_MAX_STEP = 2**31 - 1
_LARGEST = 1e300
"""An advantage beyond is none: sums of such have no float."""


class Shipping:
    """Follows the updates of all producers below a directory of traces and keeps what a store has of them."""

    def __init__(
        self, traces: Path, state: Mapping[str, Any] | None = None, columns: Mapping[str, Array] | None = None
    ) -> None:
        self.traces = traces
        self.damage = jsonl.Damage()
        self.at_end = True
        self._root = run_root(traces)
        state = state or {}
        marks = state.get("marks", {})
        self._followers = {name: Follower(self._path(name), mark_from_json(mark)) for name, mark in marks.items()}
        self._places: dict[str, int] = dict(state.get("places", {}))
        """By producer: the place in its stream up to which its updates are known, by rows or by themselves."""
        self._gaps = {name: [Gap(*gap) for gap in gaps] for name, gaps in state.get("gaps", {}).items()}
        """By producer: parts of its stream of which rows were lost."""
        self._sizes: dict[str, int] = {}
        """By producer: bytes of its stream when it was last seen to be known to its end."""
        self._files: dict[str, int] = dict(state.get("files", {}))
        """Of older layouts: sizes of the files of effective records that were read."""
        self._waiting = _Updates()
        """Updates whose episode was not there yet."""
        if columns:
            self._waiting.keep(*(columns[f"waiting.{name}"] for name in _WAITING))

    def to_columns(self) -> dict[str, Array]:
        """Updates that wait, for a cache."""
        return {f"waiting.{name}": column for name, column in zip(_WAITING, self._waiting.arrays(), strict=True)}

    def state(self) -> dict[str, Any]:
        """What else a cache keeps."""
        marks = {name: mark_to_json(mark) for name, follower in self._followers.items() if (mark := follower.mark)}
        return {"marks": marks, "places": self._places, "gaps": self._gaps, "files": self._files}

    @property
    def waiting(self) -> int:
        """How many updates wait for their episode."""
        return len(self._waiting)

    def refresh(self, store: EpisodeColumns, read: Callable[[int], bool]) -> bool:
        """Take in what is new while ``read`` (given bytes that were read) allows more. Whether anything changed."""
        restarts = sum(follower.restarts for follower in self._followers.values())
        changed = self._settle(store, self._waiting.take())
        self.at_end = True
        for updates in self._new(read):
            changed |= self._settle(store, updates)
        if sum(follower.restarts for follower in self._followers.values()) != restarts:
            self._start_over(store)
            return self.refresh(store, read) or True
        return changed

    def _start_over(self, store: EpisodeColumns) -> None:
        store.forget_shipping()
        self._followers.clear()
        self._places.clear()
        self._gaps.clear()
        self._sizes.clear()
        self._files.clear()
        self._waiting = _Updates()
        self.damage = jsonl.Damage()

    def _new(self, read: Callable[[int], bool]) -> Iterator["_Updates"]:
        for name in producers(self.traces):
            stream = self._stream(name)
            if not stream.inside(stream.directory):
                continue
            at_end = True
            if stream.inside(self._path(name)):
                follower = self._followers.setdefault(name, Follower(self._path(name)))
                yield from self._index_rows(name, follower, read)
                at_end = follower.at_end
            if at_end:
                yield from self._lost(name, read)
                yield from self._records(name, read)
        yield from self._effective_files(read)

    def _index_rows(self, name: str, follower: Follower, read: Callable[[int], bool]) -> Iterator["_Updates"]:
        while True:
            block = follower.poll()
            if block is not None:
                yield self._rows(name, block) or self._doubtful_rows(name, block)
            more = read(len(block.data) if block else 0)
            if follower.at_end:
                return
            if not more:
                self.at_end = False
                return

    def _rows(self, name: str, block: Block) -> "_Updates | None":
        """The rows of a block; None where its lines are not all rows."""
        if b"\0" in block.data or block.data.count(b'"trace_id"') != block.data.count(b"\n"):
            return None
        updates = _Updates()
        for _, line in block.lines():
            if not line.endswith(_NOTHING):
                try:
                    row = jsonl.decode(line)[0]
                except ValueError:
                    return None
                if _place(row) < 0:
                    return None
                updates.add(row)
        self._note_place(name, line)
        return updates

    def _doubtful_rows(self, name: str, block: Block) -> "_Updates":
        """The rows of a block, each looked at. Between which others some were lost is noted."""
        updates = _Updates()
        start, last, lost = self._places.get(name, 0), b"", False
        for offset, line in block.lines():
            row = self.damage.decode(offset, line)
            place = _place(row) if row is not None else UNKNOWN
            if row is None or place < 0:
                if row is not None:
                    self.damage.add(offset, line)
                lost = True
                continue
            if lost and start < place:
                self._gaps[name] = bounded([*self._gaps.get(name, ()), Gap(start, place, 0)])
            start, last, lost = place, line, False
            updates.add(row)
        if last:
            self._note_place(name, last)
        return updates

    def _lost(self, name: str, read: Callable[[int], bool]) -> Iterator["_Updates"]:
        """Updates whose rows were lost between others."""
        while gaps := self._gaps.pop(name, None):
            (start, end, _), *rest = gaps
            updates = _Updates()
            more = True
            for record in self._stream(name).records(start, self.damage):
                if record.place >= end or not more:
                    break
                updates.add(self.damage.decode(record.place, record.line))
                start, more = record.end, read(len(record.line))
            if not more:
                rest = [Gap(start, end, 0), *rest]
            if rest:
                self._gaps[name] = rest
            yield updates
            if not more:
                self.at_end = False
                return

    def _note_place(self, name: str, line: bytes) -> None:
        """Remember where the record of a producer's newest row lies; the beginning when it is not there."""
        row = jsonl.Damage().decode(0, line) or {}
        place, trace_id = _place(row), row.get("trace_id")
        if place >= 0 and isinstance(trace_id, str):
            self._places[name] = place if self._stream(name).holds(place, trace_id) is not False else 0

    def _records(self, name: str, read: Callable[[int], bool]) -> Iterator["_Updates"]:
        """Updates behind the newest row: its producer died between the two, or the index is gone."""
        stream = self._stream(name)
        size = stream.total_bytes()
        if size == self._sizes.get(name) or not stream.is_quiet():
            return
        updates = _Updates()
        for record in stream.records(self._places.get(name, 0), self.damage):
            updates.add(self.damage.decode(record.place, record.line))
            self._places[name] = record.end
            if not read(len(record.line)):
                self.at_end = False
                break
        else:
            self._sizes[name] = size
        yield updates

    def _stream(self, name: str) -> Stream:
        return Stream(self.traces / ANNOTATIONS / name, self._root)

    def _effective_files(self, read: Callable[[int], bool]) -> Iterator["_Updates"]:
        for number, path in sorted(rollout_files(self.traces, "effective").items()):
            name = path.relative_to(self.traces).as_posix()
            stream = FileStream(self.traces, {0: path})
            size = stream.total_bytes()
            if size == self._files.get(name):
                continue
            updates = _Updates()
            for record in stream.records(0, self.damage):
                value = self.damage.decode(record.place, record.line)
                step = number // 2 if number % 2 == 0 else None
                for identity in _identities(value or {}):
                    updates.add({"trace_id": identity, "info": {"effective": True, "ship": {"step": step}}})
            self._files[name] = size
            yield updates
            if not read(size):
                self.at_end = False
                return

    def _settle(self, store: EpisodeColumns, updates: "_Updates") -> bool:
        """Write updates into the columns; those whose episode is not there wait."""
        if not len(updates):
            return False
        keys, steps, effective, advantages = updates.arrays()
        traces = store.names.find(keys)
        there = traces >= 0
        self._waiting.keep(keys[~there], steps[~there], effective[~there], advantages[~there])
        traces, steps, effective, advantages = traces[there], steps[there], effective[there], advantages[there]
        rows = store.traces["row"].take(traces)
        column = store.columns["effective"]
        denied, shipped = effective == 0, (effective == 1) & (steps >= 0)
        column.put(rows[denied], np.maximum(column.take(rows[denied]), 0))
        column.put(rows[effective == 1], 1)
        store.columns["ship_step"].lower(rows[shipped], steps[shipped])
        told = ~np.isnan(advantages)
        store.set_advantages(traces[told], advantages[told])
        return bool(len(rows))

    def _path(self, name: str) -> Path:
        return self.traces / ANNOTATIONS / f"{name}.index.jsonl"


class _Updates:
    """What some updates say of shipping: parallel lists, or arrays that wait."""

    def __init__(self) -> None:
        self._keys: list[int] = []
        self._steps: list[int] = []
        self._effective: list[int] = []
        self._advantages: list[float] = []

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, update: dict[str, Any] | None) -> None:
        """Take in an update or its index row."""
        if update is None:
            return
        trace_id, effective = update.get("trace_id"), get(update, "info", "effective")
        advantage = get(update, "info", "advantage")
        effective = int(effective) if isinstance(effective, bool) else UNKNOWN
        advantage = float(advantage) if is_number(advantage) and abs(advantage) < _LARGEST else math.nan
        if not isinstance(trace_id, str) or (effective == UNKNOWN and math.isnan(advantage)):
            return
        step = get(update, "info", "ship", "step")
        self._keys.append(text_key(trace_id))
        self._steps.append(step if type(step) is int and 0 <= step <= _MAX_STEP else UNKNOWN)
        self._effective.append(effective)
        self._advantages.append(advantage)

    def keep(self, keys: Array, steps: Array, effective: Array, advantages: Array) -> None:
        self._keys += keys.tolist()
        self._steps += steps.tolist()
        self._effective += effective.tolist()
        self._advantages += advantages.tolist()

    def take(self) -> "_Updates":
        """All of it, leaving nothing."""
        taken = _Updates()
        taken.__dict__, self.__dict__ = self.__dict__, taken.__dict__
        return taken

    def arrays(self) -> tuple[Array, Array, Array, Array]:
        return (
            np.array(self._keys, np.int64),
            np.array(self._steps, np.int32),
            np.array(self._effective, np.int8),
            np.array(self._advantages, np.float64),
        )


def _place(row: dict[str, Any]) -> int:
    """The place that an index row names, :data:`UNKNOWN` where it is no row."""
    return make_place(row.get("chunk", 0), row.get("offset")) if isinstance(row.get("trace_id"), str) else UNKNOWN


def _identities(record: dict[str, Any]) -> list[Any]:
    return [trace.get("id") for trace in objects(record.get("traces"))] or [record.get("id")]
