"""What is read of a run into the columns of an episode table, and what must be made again because it cannot be trusted.

The index is derived, so it is checked against the stream by content: its newest row at each look, a few others when
reading begins. Rows beyond the stream's end are left out; an index whose rows name other records is not used at all;
records behind its last row, and those whose rows were lost between others, get rows made here. These live in the user's
cache, never in the run directory. Rows of values have no places: they are matched by id, and made from the records on
demand only, since that reads all of them.
"""

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prl.rundir import jsonl
from prl.rundir.cache import mark_from_json, mark_to_json
from prl.rundir.episodes import stream as stream_module
from prl.rundir.episodes.columns import UNKNOWN, Array, text_key
from prl.rundir.episodes.gaps import Gap, Newest, bounded, find_gaps
from prl.rundir.episodes.record import index_row, values_row
from prl.rundir.episodes.shipping import Shipping
from prl.rundir.episodes.store import EpisodeColumns, id_key
from prl.rundir.episodes.stream import (
    OFFSET_BITS,
    FileStream,
    Record,
    Stream,
    as_episode,
    find_stream,
    make_place,
    split_place,
)
from prl.rundir.episodes.values import Read, ValueRows
from prl.rundir.episodes.writer import INDEX, VALUES
from prl.rundir.following import MAX_LINE, Block, Follower
from prl.rundir.layout import run_of
from prl.rundir.regular import LEAVES, is_inside, open_regular

SAMPLES = 4
"""Rows that are compared with their records when reading begins."""
_BATCH_BYTES = 16 * 1024 * 1024
_BATCH_ROWS = 2_000
_LINE_BLOCK = 4096
_MAX_CHECKS = 64
"""Rows of one block of the index that are compared with their records because they do not follow on each other."""


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
        return {INDEX: self._damage, VALUES: self._values.damage, "stream": self._stream_damage,
                "annotations": self.shipping.damage}  # fmt: skip

    @property
    def values_missing(self) -> int:
        """Episodes of which no row of values was read. :meth:`make_values` makes them."""
        return int((self.store["has_values"] == 0).sum())

    def gone(self) -> tuple[int, list[int]]:
        """Of how many episodes the file of the record is not there any more, and the numbers of these files."""
        places = self.store["place"]
        counts = np.bincount(places[places >= 0] >> OFFSET_BITS)
        there = set(self.stream.numbers()) if counts.any() else ()
        numbers = [number for number in np.flatnonzero(counts).tolist() if number not in there]
        return int(counts[numbers].sum()), numbers

    def state(self) -> dict[str, Any]:
        """What a cache keeps beside the columns."""
        return {
            "index": mark_to_json(mark) if (mark := self._index.mark) else None,
            "values": self._values.state(),
            "newest": self._newest,
            "gaps": self._gaps,
            "foreign": self._foreign,
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
        self.at_end = self._read_index(read) and self._check(read) and self._fill_gaps(read) and self._make_rows(read)
        if self.at_end:
            before = self._values.changes
            self.at_end = self._values.read(self.store, read)
            self.changes += self._values.changes - before
            if self._values.remark is not None and self._values.remark not in self.remarks:
                self.remarks.append(self._values.remark)
        self.changes += self.shipping.refresh(self.store, read)
        self.at_end &= self.shipping.at_end

    def make_values(self, read: Read, wanted: Array | None = None) -> bool:
        """Make rows of values from the records of those episodes that lack them. Whether all are made.

        ``wanted``: only of these rows of the table.
        """
        while True:
            rows = self._without_values(wanted)[:_BATCH_ROWS].astype(np.int32)
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

    def _without_values(self, wanted: Array | None) -> Array:
        if wanted is None:
            return np.flatnonzero(self.store["has_values"] == 0)
        return np.asarray(wanted[self.store.columns["has_values"].take(wanted) == 0])

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
                found.append(row if row is not None and id_key(row) == key else None)
        finally:
            if file is not None:
                file.close()
        return found

    def _begin(self, store: EpisodeColumns, state: dict[str, Any]) -> None:
        self.store = store
        self.remarks = list(state.get("remarks", ()))
        self.shipping = Shipping(self.traces, state.get("shipping"), store.extra)
        self._index = Follower(self.traces / INDEX, mark_from_json(state.get("index")))
        self._values = ValueRows(self.traces / VALUES, store, state.get("values"))
        self._damage, self._stream_damage = jsonl.Damage(), jsonl.Damage()
        self._newest = Newest(*state.get("newest", ()))
        self._gaps = [Gap(*gap) for gap in state.get("gaps", ())]
        self._foreign = bool(state.get("foreign"))
        self._doubtful: list[int] = list(state.get("doubtful", (0, 0)))
        """Rows before this offset of the index do not count when they name a place from this one on."""
        self._sizes = {int(number): int(size) for number, size in state.get("sizes", {}).items()}
        """Of a stream of plain files: their sizes. Those before the last are read no more."""
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
        for path, foreign in ((self._index.path, self._foreign), (self._values.path, self._values.foreign)):
            if not foreign and not is_inside(path, run_of(path)):
                self.remarks.append(f"{path.name}: {LEAVES}")
                self._foreign |= path == self._index.path
                self._values.foreign |= path == self._values.path

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
        if (self.store.columns["at"].take(np.arange(min(len(self.store), 1))) >= 0).any() and not _exists(
            self._index.path
        ):
            self._start_over("the index is gone: rows made from the stream")

    def _read_index(self, read: Read) -> bool:
        while not self._foreign:
            restarts = self._index.restarts
            block = self._index.poll()
            if self._index.restarts != restarts:
                self._start_over()
                continue
            if block is not None:
                start = len(self.store)
                self.store.append(*self._decoded(block))
                self._note_gaps(start)
            more = read(len(block.data) if block else 0)
            if self._index.at_end:
                return True
            if not more:
                return False
        return True

    def _decoded(self, block: Block) -> tuple[list[dict[str, Any]], list[int]]:
        """The rows of a block of the index, and where each lies."""
        rows: list[dict[str, Any]] = []
        at: list[int] = []
        limit, before = self._doubtful
        last_place, last_line = self._newest if len(self.store) else (UNKNOWN, 0)
        checks = 0
        placed = bool(self.stream.numbers())
        for offset, line in block.lines():
            row = self._damage.decode(offset, line)
            if row is None:
                continue
            place, number = make_place(row.get("chunk", 0), row.get("offset")), row.get("line")
            if offset < before and place >= limit:
                continue
            if place <= last_place or (number != last_line + 1 and number is not None):
                checks += 1
                if not self._is_row(row, place, placed, look=checks <= _MAX_CHECKS):
                    self._damage.add(offset, line)
                    continue
            last_place, last_line = place, number if type(number) is int else last_line + 1
            rows.append(row)
            at.append(offset)
        return rows, at

    def _is_row(self, row: dict[str, Any], place: int, placed: bool, *, look: bool) -> bool:
        """Whether a row that does not follow on the one before it is an episode's of this stream.

        ``placed``: there is a stream, so that a row without a place is none. ``look``: see what lies at its place.
        """
        name = row.get("id")
        if place < 0 or not isinstance(name, str):
            return isinstance(name, str) and not placed
        return not look or self.stream.holds(place, name) is not False

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

    def _note_gaps(self, start: int) -> None:
        """Look for lost rows before and between those from ``start`` on, which were just read from the index."""
        places, lines = (self.store.columns[name].part(start, len(self.store)) for name in ("place", "line"))
        if len(places):
            self._gaps = bounded(self._gaps + find_gaps(self._newest, places, lines))
            self._newest = Newest(int(places[-1]), int(lines[-1]))

    def _fill_gaps(self, read: Read) -> bool:
        """Make the rows that were lost between others; whether all are made."""
        batch = _Batch()
        while self._gaps:
            gap, *rest = self._gaps
            for line, record in enumerate(self.stream.records(gap.start, self._stream_damage), gap.line):
                if record.place >= gap.end:
                    break
                batch.add(record, self._stream_damage, line)
                more = read(len(record.line))
                if batch.full or not more:
                    self._append_made(batch.take())
                    self._gaps = [Gap(record.end, gap.end, line + 1), *rest]
                if not more:
                    return False
            self._gaps = rest
        self._append_made(batch.take())
        return True

    def _make_rows(self, read: Read) -> bool:
        """Make index rows for records behind the newest; whether all have one."""
        size = self.stream.total_bytes()
        if size == self._stream_bytes:
            return True
        quiet = self._foreign or self._index.absent or self.stream.is_quiet()
        high = self._highest_place()
        batch = _Batch()
        damage = self._stream_damage if quiet else jsonl.Damage()
        for record in self.stream.records(max(high, 0), damage):
            if record.place <= high:
                continue
            if not quiet and _is_new(record.line):
                break
            batch.add(record, damage, len(self.store) + len(batch.records) + 1)
            more = read(len(record.line))
            if batch.full or not more:
                self._append_made(batch.take())
            if not more:
                return False
        self._append_made(batch.take())
        if quiet:
            self._stream_bytes = size
        return True

    def _append_made(self, records: list["_Made"]) -> None:
        """Make rows of records, as far as they have none."""
        if not records:
            return
        there = np.isin([record.place for record in records], self.store["place"])
        records = [record for record, known in zip(records, there.tolist(), strict=True) if not known]
        if not records:
            return
        start = len(self.store)
        rows, at, lines = [], [], []
        offset = len(self.store.made)
        for place, line, record in records:
            chunk, position = split_place(place)
            row = index_row(record, line=line, chunk=chunk, offset=position)
            text = jsonl.encode({name: row[name] for name in ("id", "trace_ids")})
            rows.append(row)
            at.append(-1 - offset)
            lines.append(text)
            offset += len(text)
        self.store.made.extend(np.frombuffer(b"".join(lines), np.uint8))
        self.store.append(rows, at)
        if not _exists(self._values.path):
            owners = np.arange(start, len(self.store), dtype=np.int32)
            self.store.set_values(owners, [values_row(record.value, line=0) for record in records])

    def _highest_place(self) -> int:
        """The last place of all rows that lies in a file that exists."""
        numbers = self.stream.numbers()
        places = self.store["place"]
        within = places[places < make_place(numbers[-1] + 1, 0)] if numbers else places
        return int(within.max()) if len(within) else -1

    def _made_line(self, offset: int) -> bytes:
        size = _LINE_BLOCK
        while True:
            end = min(offset + size, len(self.store.made))
            text = self.store.made.take(np.arange(offset, end)).tobytes()
            if b"\n" in text or end == len(self.store.made):
                return text.partition(b"\n")[0]
            size *= 4


class _Made(NamedTuple):
    """A record that is to get a row."""

    place: int
    line: int
    value: dict[str, Any]


class _Batch:
    """Records that get their rows together."""

    def __init__(self) -> None:
        self.records: list[_Made] = []
        self._bytes = 0

    @property
    def full(self) -> bool:
        return self._bytes > _BATCH_BYTES or len(self.records) >= _BATCH_ROWS

    def add(self, record: Record, damage: jsonl.Damage, line: int) -> None:
        """Take a record, or count it as damage. ``line``: its number in the stream."""
        value = damage.decode(record.place, record.line)
        if value is not None:
            self.records.append(_Made(record.place, line, as_episode(value)))
            self._bytes += len(record.line)

    def take(self) -> list[_Made]:
        """All of them, leaving none."""
        taken, self.records, self._bytes = self.records, [], 0
        return taken


def _is_new(line: bytes) -> bool:
    """Whether a record may have arrived so lately that its row is on its way."""
    record = jsonl.Damage().decode(0, line)
    if record is None:
        return False
    arrival = index_row(as_episode(record), line=0, chunk=0, offset=0)["arrival"]
    return arrival is None or time.time() - arrival <= stream_module.GRACE


def _line(file: Any, offset: int) -> bytes:
    """The line at an offset; empty where it cannot be read."""
    try:
        file.seek(offset)
        line: bytes = file.readline(MAX_LINE)
    except OSError:
        return b""
    return line.rstrip(b"\n")


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True
