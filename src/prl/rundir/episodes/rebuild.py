"""What is read of a run into the columns of an episode table, and what must be made again because it cannot be trusted.

The index is derived, so it is checked against the stream by content: its newest row at each look, a few others when
reading begins. Rows beyond the stream's end are left out; an index whose rows name other records is not used at all;
records behind its last row get rows made here. These live in the user's cache, never in the run directory. Rows of
values have no places: they are matched by id, and made from the records on demand only, since that reads all of them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from prl.rundir import jsonl
from prl.rundir.cache import mark_from_json, mark_to_json
from prl.rundir.episodes.columns import UNKNOWN, Array, KeyIndex, text_key
from prl.rundir.episodes.record import index_row, values_row
from prl.rundir.episodes.shipping import Shipping
from prl.rundir.episodes.store import EpisodeColumns
from prl.rundir.episodes.stream import FileStream, Stream, as_episode, find_stream, make_place, split_place
from prl.rundir.episodes.writer import INDEX, VALUES
from prl.rundir.following import Follower
from prl.rundir.regular import open_regular

SAMPLES = 4
"""Rows that are compared with their records when reading begins."""
_MAX_EARLY = 10_000
"""Rows of values that wait for their index rows. More of them belong to another run."""
_BATCH_BYTES = 16 * 1024 * 1024
_BATCH_ROWS = 2_000
_LINE_BLOCK = 4096
_FEW = 16

Read = Callable[[int], bool]
"""Told of bytes that were read; whether more may be."""


class TableReader:
    """Reads a run's episodes into ``store``. ``generation`` goes up when all of it was begun anew."""

    def __init__(self, traces: Path, state: dict[str, Any] | None = None, store: EpisodeColumns | None = None) -> None:
        self.traces = traces
        self.stream: Stream = find_stream(traces)
        self.generation = 0
        self.changes = 0
        """Goes up when earlier rows change."""
        self.remarks: list[str] = []
        """What is wrong with the derived files, for a person."""
        self.at_end = False
        self._begin(store or EpisodeColumns(), state or {})

    @property
    def trouble(self) -> str | None:
        """Why a file could not be read at the last look."""
        return self._index.trouble or self._values.trouble

    @property
    def damage(self) -> dict[str, jsonl.Damage]:
        """Lines that could not be read, by the file they stand in."""
        return {INDEX: self._damage, VALUES: self._values_damage, "stream": self._stream_damage,
                "annotations": self.shipping.damage}  # fmt: skip

    @property
    def values_missing(self) -> int:
        """Episodes of which no row of values was read. :meth:`make_values` makes them."""
        return int((self.store["has_values"] == 0).sum())

    def state(self) -> dict[str, Any]:
        """What a cache keeps beside the columns."""
        return {
            "index": mark_to_json(mark) if (mark := self._index.mark) else None,
            # Rows that wait are not kept: then all are read again, and those that are known are passed over.
            "values": mark_to_json(mark) if (mark := self._values.mark) and not self._early else None,
            "foreign": self._foreign,
            "values_foreign": self._values_foreign,
            "doubtful": self._doubtful,
            "sizes": self._sizes,
            "shipping": self.shipping.state(),
            "remarks": self.remarks,
        }

    def read(self, read: Read) -> None:
        """Take in what is new, while ``read`` allows more."""
        if type(self.stream) is Stream and not self.stream.numbers():
            self.stream = find_stream(self.traces)
        self._refuse_links()
        self._drop_outdated()
        self.at_end = self._read_index(read) and self._check(read) and self._make_rows(read)
        if self.at_end:
            self.at_end = self._read_values(read)
        self.changes += self.shipping.refresh(self.store, read)
        self.at_end &= self.shipping.at_end

    def make_values(self, read: Read) -> bool:
        """Make rows of values from the records of those episodes that lack them. Whether all are made."""
        while True:
            rows = np.flatnonzero(self.store["has_values"] == 0)[:_BATCH_ROWS].astype(np.int32)
            if not len(rows):
                return True
            places = self.store.columns["place"].take(rows).tolist()
            lines = self.stream.lines_at(places)
            for row, line in zip(rows, lines, strict=True):
                record = jsonl.Damage().decode(0, line.rstrip(b"\n")) if line else None
                at = np.array([row], np.int32)
                if (
                    record is None
                    or text_key(str(as_episode(record).get("id"))) != self.store.columns["key"].take(at)[0]
                ):
                    self.store.columns["has_values"].put(at, UNKNOWN)
                else:
                    self.store.set_values(at, [values_row(as_episode(record), line=0)])
                self.changes += 1
                if not read(len(line or b"")):
                    return False

    def index_rows(self, rows: Array) -> list[dict[str, Any] | None]:
        """The index rows of a few rows of the table, as they were written; None where one cannot be read again."""
        found: list[dict[str, Any] | None] = []
        places = self.store.columns["at"].take(rows).tolist()
        keys = self.store.columns["key"].take(rows).tolist()
        file = None
        try:
            if any(place >= 0 for place in places):
                file = open_regular(self._index.path)
        except OSError:
            pass
        try:
            for place, key in zip(places, keys, strict=True):
                line = self._made_line(-1 - place) if place < 0 else _line(file, place) if file else b""
                row = jsonl.Damage().decode(0, line)
                found.append(row if row is not None and _key(row) == key else None)
        finally:
            if file is not None:
                file.close()
        return found

    def _begin(self, store: EpisodeColumns, state: dict[str, Any]) -> None:
        self.store = store
        self.remarks = list(state.get("remarks", ()))
        self.shipping = Shipping(self.traces, state.get("shipping"), store.extra)
        self._index = Follower(self.traces / INDEX, mark_from_json(state.get("index")))
        self._values = Follower(self.traces / VALUES, mark_from_json(state.get("values")))
        self._damage, self._values_damage, self._stream_damage = jsonl.Damage(), jsonl.Damage(), jsonl.Damage()
        self._foreign = bool(state.get("foreign"))
        self._values_foreign = bool(state.get("values_foreign"))
        self._doubtful: list[int] = list(state.get("doubtful", (0, 0)))
        """Rows before this offset of the index do not count when they name a place from this one on."""
        self._sizes = {int(number): int(size) for number, size in state.get("sizes", {}).items()}
        """Of a stream of plain files: their sizes. Those before the last are read no more."""
        self._early: list[dict[str, Any]] = []
        self._next_values = len(store) - int((store["has_values"] == 0).sum()) if state.get("values") else 0
        self._checked = -1
        """Rows when the newest was last checked."""
        self._stream_bytes = -1
        """Bytes of the stream when all its records had rows."""

    def _start_over(self, remark: str | None = None, **state: Any) -> None:
        self.generation += 1
        self.changes += 1
        self._begin(EpisodeColumns(), {"remarks": [remark] if remark else [], **state})

    def _refuse_links(self) -> None:
        """Do without derived files that a link leads out of the run directory to."""
        for path, foreign in ((self._index.path, self._foreign), (self._values.path, self._values_foreign)):
            if not foreign and path.is_symlink() and not self.stream.inside(path):
                self.remarks.append(f"{path.name} is a link that leaves the run directory: not followed")
                self._foreign |= path == self._index.path
                self._values_foreign |= path == self._values.path

    def _drop_outdated(self) -> None:
        """Begin anew when files that are no longer followed have changed, or rows lost the file they lie in."""
        if isinstance(self.stream, FileStream):
            self.stream = find_stream(self.traces)
            numbers = self.stream.numbers()
            sizes = {number: self.stream.size(number) for number in numbers}
            last = max(self._sizes, default=-1)
            if any(self._sizes.get(number) != size for number, size in sizes.items() if number < last):
                self._start_over()
            self._sizes = sizes
        if (self.store.columns["at"].take(np.arange(min(len(self.store), 1))) >= 0).any() and not _exists(self._index):
            self._start_over("the index is gone: rows made from the stream")

    def _read_index(self, read: Read) -> bool:
        while not self._foreign:
            restarts = self._index.restarts
            block = self._index.poll()
            if self._index.restarts != restarts:
                self._start_over()
                continue
            if block is not None:
                rows, at = self._decoded(block.offset, block.data)
                self.store.append(rows, at)
            more = read(len(block.data) if block else 0)
            if self._index.at_end:
                return True
            if not more:
                return False
        return True

    def _decoded(self, offset: int, data: bytes) -> tuple[list[dict[str, Any]], list[int]]:
        rows, at = [], []
        limit, before = self._doubtful
        for line in data.removesuffix(b"\n").split(b"\n"):
            row = self._damage.decode(offset, line)
            if row is not None and not (
                offset < before and make_place(row.get("chunk", 0), row.get("offset")) >= limit
            ):
                rows.append(row)
                at.append(offset)
            offset += len(line) + 1
        return rows, at

    def _check(self, read: Read) -> bool:
        """Compare rows with their records. Begins anew where they are not those; whether the index is read then."""
        count = len(self.store)
        if not count or count == self._checked or not self.stream.numbers():
            return True
        chosen = {count - 1, *(np.linspace(0, count - 1, SAMPLES).astype(int).tolist() if self._checked < 0 else ())}
        rows = np.array(sorted(chosen))
        self._checked = count
        for row, place in zip(self.index_rows(rows), self.store.columns["place"].take(rows).tolist(), strict=True):
            name = row.get("id") if row else None
            if place < 0 or not isinstance(name, str) or self.stream.holds(place, name) is not False:
                continue
            end = self.stream.end()
            mark = self._index.mark
            if mark is not None and not self._doubtful[1] and end is not None and place >= end:
                self._start_over("the index has rows beyond the stream's end: left out", doubtful=[end, mark.offset])
            else:
                self._start_over("the index is not that of this stream: rows made from the stream", foreign=True)
            return self._read_index(read) and self._check(read)
        return True

    def _make_rows(self, read: Read) -> bool:
        """Make index rows for records that have none; whether all have one."""
        wanted = self._foreign or self._index.absent or self.stream.is_quiet()
        size = self.stream.total_bytes()
        if not wanted or size == self._stream_bytes:
            return True
        high = self._highest_place()
        behind = self.stream.records(max(high, 0), self._stream_damage)
        batch: list[tuple[int, dict[str, Any]]] = []
        held = 0
        for record in behind:
            if record.place <= high:
                continue
            value = self._stream_damage.decode(record.place, record.line)
            if value is not None:
                batch.append((record.place, as_episode(value)))
                held += len(record.line)
            more = read(len(record.line))
            if held > _BATCH_BYTES or len(batch) >= _BATCH_ROWS or not more:
                self._append_made(batch)
                batch, held = [], 0
            if not more:
                return False
        self._append_made(batch)
        self._stream_bytes = size
        return True

    def _append_made(self, batch: list[tuple[int, dict[str, Any]]]) -> None:
        if not batch:
            return
        start = len(self.store)
        rows, at, lines = [], [], []
        offset = len(self.store.made)
        for line, (place, record) in enumerate(batch, start + 1):
            chunk, position = split_place(place)
            row = index_row(record, line=line, chunk=chunk, offset=position)
            text = jsonl.encode({name: row[name] for name in ("id", "trace_ids")})
            rows.append(row)
            at.append(-1 - offset)
            lines.append(text)
            offset += len(text)
        self.store.made.extend(np.frombuffer(b"".join(lines), np.uint8))
        fresh = self.store.append(rows, at)
        if not _exists(self._values):
            owners = np.arange(start, len(self.store), dtype=np.int32)
            chosen = [values_row(record, line=0) for (_, record), new in zip(batch, fresh.tolist(), strict=True) if new]
            self.store.set_values(owners, chosen)

    def _highest_place(self) -> int:
        """The last place of all rows that lies in a file that exists."""
        numbers = self.stream.numbers()
        places = self.store["place"]
        within = places[places < make_place(numbers[-1] + 1, 0)] if numbers else places
        return int(within.max()) if len(within) else -1

    def _read_values(self, read: Read) -> bool:
        while not self._values_foreign:
            restarts = self._values.restarts
            block = self._values.poll()
            if self._values.restarts != restarts:
                self._forget_values()
            rows = self._early
            if block is not None:
                offset = block.offset
                for line in block.data.removesuffix(b"\n").split(b"\n"):
                    row = self._values_damage.decode(offset, line)
                    if row is not None and isinstance(row.get("id"), str):
                        rows.append(row)
                    offset += len(line) + 1
            self._early = self._settle(rows) if rows else []
            if len(self._early) > _MAX_EARLY:
                self._forget_values()
                self._values_foreign = True
                self.remarks.append("the rows of values are not those of this stream: not used")
            more = read(len(block.data) if block else 0)
            if self._values.at_end:
                return True
            if not more:
                return False
        return True

    def _forget_values(self) -> None:
        self.store.forget_values()
        self.changes += 1
        self._early = []
        self._next_values = 0
        self._values_damage = jsonl.Damage()

    def _settle(self, values: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Give rows of values to their episodes. Returns those whose episode is not there yet."""
        keys = np.fromiter((_key(row) for row in values), np.int64, len(values))
        known_keys = self.store["key"]
        guess = np.arange(self._next_values, self._next_values + len(values))
        within = guess < len(known_keys)
        rows = np.full(len(values), -1, np.int64)
        rows[within] = np.where(known_keys[guess[within]] == keys[within], guess[within], -1)
        lost = np.flatnonzero(rows < 0)
        rows[lost] = _find(known_keys, keys[lost])
        there = np.flatnonzero(rows >= 0)
        there = there[np.unique(rows[there], return_index=True)[1]]
        there = there[self.store["has_values"][rows[there]] == 0]
        if len(there):
            self.store.set_values(rows[there].astype(np.int32), [values[i] for i in there.tolist()])
            self._next_values = int(rows[there].max()) + 1
            self.changes += 1
        # Both files are in the order of the stream: what comes before a row that was found has lost its episode.
        first = int(np.flatnonzero(rows >= 0)[-1]) + 1 if (rows >= 0).any() else 0
        return values[first:]

    def _made_line(self, offset: int) -> bytes:
        size = _LINE_BLOCK
        while True:
            end = min(offset + size, len(self.store.made))
            text = self.store.made.take(np.arange(offset, end)).tobytes()
            if b"\n" in text or end == len(self.store.made):
                return text.partition(b"\n")[0]
            size *= 4


def _find(column: Array, keys: Array) -> Array:
    """For each key its first row in an unsorted column, -1 where there is none."""
    if len(keys) <= _FEW:
        return np.array([next(iter(np.flatnonzero(column == key).tolist()), -1) for key in keys], np.int64)
    rows = np.arange(len(column), dtype=np.int32)
    index = KeyIndex()
    index.add(column, rows)
    return index.find(keys)


def _line(file: Any, offset: int) -> bytes:
    """The line at an offset; empty where it cannot be read."""
    try:
        file.seek(offset)
        line: bytes = file.readline()
    except OSError:
        return b""
    return line.rstrip(b"\n")


def _key(row: dict[str, Any]) -> int:
    identity = row.get("id")
    return text_key(identity) if isinstance(identity, str) else UNKNOWN


def _exists(follower: Follower) -> bool:
    try:
        follower.path.stat()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True
