"""Where each trace's updates lie, at any number of traces: the producers' indexes searched, mapped and checked.

An index is searched as bytes at first; each look also takes a part of it into a map of :class:`Positions`, which is
kept in the user's cache, so that later looks read a few rows. Records behind the newest row are found in the stream
itself. An index is believed as long as it agrees with its stream: one that is absent, that holds lines which are no
rows, whose newest row has no record, or of which a row leads to another trace's record, is left aside altogether. Then
the stream is mapped once, and that is kept. Nothing is written in the run.
"""

import threading
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from prl.rundir import cache, jsonl
from prl.rundir.annotations.positions import Positions, hash_ids
from prl.rundir.annotations.rows import LineIds, record_id
from prl.rundir.annotations.writer import ANNOTATIONS
from prl.rundir.chunks import chunk_numbers, iter_lines, lines_at, open_chunk, plain_path
from prl.rundir.derived import last_object
from prl.rundir.following import Follower, Mark
from prl.rundir.layout import run_of
from prl.rundir.matching import BLOCK, complete_lines
from prl.rundir.needles import Finder, json_spellings
from prl.rundir.regular import LEAVES, is_inside, open_regular

GROWTH = 16 * BLOCK
"""Bytes of each index that one look adds to the map at most: about 40 ms."""

_KEPT_FROM = 1024
"""Records from which on a map is worth a cache file."""
_BATCH = 4096
_INDEX_END = ".index.jsonl"
_INDEX_KIND, _STREAM_KIND = "annotations-index-1", "annotations-stream-1"


@dataclass(frozen=True, order=True)
class Place:
    """Where a record begins: the byte offset of its line in the uncompressed chunk."""

    chunk: int
    offset: int


class UpdateLocator:
    """Finds the updates of traces below one ``traces`` directory. May be used by several threads.

    ``mapped`` False: a single look, after which the map would be thrown away, so none is made while the indexes agree
    with the streams.
    """

    def __init__(self, traces: Path, *, mapped: bool = True) -> None:
        self.traces = traces
        self.mapped = mapped
        self._producers: dict[str, _Producer] = {}
        self._lock = threading.Lock()

    @property
    def problems(self) -> list[str]:
        """What was found wrong with indexes, for a person."""
        return [producer.problem for producer in self._producers.values() if producer.problem is not None]

    def updates(self, trace_ids: Collection[str]) -> dict[str, list[dict[str, Any]]]:
        """The updates of these traces in the order of folding: by producer's name, each producer's as written.

        A trace without updates is not in the answer. Records that cannot be read are left out.
        """
        wanted = list(dict.fromkeys(trace_ids))
        found: dict[str, list[dict[str, Any]]] = {}
        with self._lock:
            for name in producers(self.traces):
                producer = self._producers.setdefault(name, _Producer(self.traces / ANNOTATIONS, name, self.mapped))
                for trace_id, updates in producer.updates(wanted).items():
                    found.setdefault(trace_id, []).extend(updates)
        return found

    def count(self, trace_ids: Collection[str]) -> int:
        """How many updates of these traces there are, without reading one: it grows when there is something to fold."""
        wanted = list(dict.fromkeys(trace_ids))
        with self._lock:
            for name in producers(self.traces):
                self._producers.setdefault(name, _Producer(self.traces / ANNOTATIONS, name, self.mapped))
            return sum(producer.count(wanted) for producer in self._producers.values())


def producers(traces: Path) -> list[str]:
    """Names of those who wrote updates, sorted: the order in which their updates are folded. Links out are none."""
    run = run_of(traces / ANNOTATIONS)
    try:
        found = [path for path in (traces / ANNOTATIONS).iterdir() if not path.name.endswith(_INDEX_END)]
        return sorted(path.name for path in found if path.is_dir() and is_inside(path, run))
    except OSError:
        return []


class _Producer:
    """The updates of one producer."""

    def __init__(self, annotations: Path, name: str, mapped: bool) -> None:
        self.problem: str | None = None
        self._name = f"{name}{_INDEX_END}"
        self._index = _IndexMap(annotations / self._name, mapped)
        self._stream_directory = annotations / name
        self._behind = _StreamMap(self._stream_directory)
        self._whole: _StreamMap | None = None
        self._foreign = False

    def updates(self, wanted: list[str]) -> dict[str, list[dict[str, Any]]]:
        if self._index.grow():
            self._foreign = False  # another index, which may be the right one
        found = None if self._foreign else self._by_index(wanted)
        return found if found is not None else self._by_stream(wanted)

    def count(self, wanted: list[str]) -> int:
        """How many records there are of these traces."""
        if self._index.grow():
            self._foreign = False
        places = None if self._foreign else self._places(wanted)
        if places is not None:
            return sum(map(len, places.values()))
        whole = self._mapped_whole()
        whole.grow()
        return sum(len(whole.find(trace_id)) for trace_id in wanted)

    def _places(self, wanted: list[str]) -> dict[str, list[Place]] | None:
        """Where the index says that records are, with what lies behind it. None, and ``problem``, when it cannot be
        believed."""
        rows = self._index.find(wanted)
        if rows is None or self._index.last is None:
            self.problem = f"{self._name}: {self._index.problem}; the stream was read instead"
            return None
        last, _ = self._index.last
        self._behind.start_at(*self._index.last)
        self._foreign = not self._behind.grow()
        if self._foreign:
            self.problem = f"{self._name}: is not of its stream, which was read instead"
            return None
        return {
            trace_id: sorted({*rows[trace_id], *(place for place in self._behind.find(trace_id) if place > last)})
            for trace_id in wanted
        }

    def _by_index(self, wanted: list[str]) -> dict[str, list[dict[str, Any]]] | None:
        """What the index leads to. None, and ``problem``, when it cannot be believed."""
        places = self._places(wanted)
        if places is None:
            return None
        found, self._foreign = self._read(places)
        self.problem = f"{self._name}: is not of its stream, which was read instead" if self._foreign else None
        return found if not self._foreign else None

    def _by_stream(self, wanted: list[str]) -> dict[str, list[dict[str, Any]]]:
        whole = self._mapped_whole()
        for _ in range(2):  # again from the start when the stream was replaced since it was mapped
            replaced = not whole.grow()
            found, foreign = self._read({trace_id: whole.find(trace_id) for trace_id in wanted})
            if not replaced and not foreign:
                break
            whole.forget()
        return found

    def _mapped_whole(self) -> "_StreamMap":
        if self._whole is None:
            self._whole = _StreamMap(self._stream_directory)
            self._whole.take_up()
        return self._whole

    def _read(self, places: dict[str, list[Place]]) -> tuple[dict[str, list[dict[str, Any]]], bool]:
        """The updates at the places of each trace, read in the order of the stream, and whether something else lies at
        one of them: such a trace has none."""
        ordered = sorted((place, trace_id) for trace_id, of_trace in places.items() for place in of_trace)
        lines = lines_at(partial(open_chunk, self._stream_directory), ((at.chunk, at.offset) for at, _ in ordered))
        found: dict[str, list[dict[str, Any]]] = {}
        foreign: set[str] = set()
        for (_, trace_id), line in zip(ordered, lines, strict=True):
            if line is None:  # the place outlived its record: there is nothing to fold
                continue
            try:
                update = jsonl.decode(line)[0]
            except ValueError:
                update = {}
            if update.get("trace_id") == trace_id:
                found.setdefault(trace_id, []).append(update)
            else:
                foreign.add(trace_id)
        return {trace_id: updates for trace_id, updates in found.items() if trace_id not in foreign}, bool(foreign)


class _IndexMap:
    """The rows of one index file by trace id."""

    def __init__(self, path: Path, mapped: bool) -> None:
        self.path = path
        self.problem = ""
        self.last: tuple[Place, str] | None = None
        """The record that the newest row leads to, and whose it is."""
        self._mapped = mapped
        self._lines: Follower | None = None
        self._positions = Positions()
        self._strangers = 0
        self._kept = 0

    def grow(self) -> bool:
        """Take more of the file into the map, and say whether it is another file than before."""
        if not self._mapped:
            return False
        if self._lines is None:
            self._lines = Follower(self.path, self._take_up(), run_of(self.path))
        restarts = self._lines.restarts
        self._read_on(self._lines)
        return self._lines.restarts > restarts

    def find(self, wanted: list[str]) -> dict[str, list[Place]] | None:
        """The records of these traces as the rows have them. None, and ``problem``, when the rows are not all there."""
        row = last_object(self.path) or {}
        place, owner = _place(row), row.get("trace_id")
        self.last = (place, owner) if place is not None and isinstance(owner, str) else None
        if self.last is None:
            self.problem = "no rows" if is_inside(self.path, run_of(self.path)) else LEAVES
            return None
        found: dict[str, list[Place]] = {trace_id: [] for trace_id in wanted}
        known = [self._positions.find(trace_id) for trace_id in wanted] if len(self._positions) else []
        places = sorted(place for of_trace in known for place in of_trace)
        for line in lines_at(lambda _: open_regular(self.path, run_of(self.path)), places):
            self._take(found, line or b"")
        strangers = self._strangers
        ids = Finder((b'"%b"' % form for trace_id in wanted for form in json_spellings(trace_id)), ignore_case=False)
        for block in complete_lines(self.path, self._lines.mark if self._lines is not None else None):
            strangers += _has_strangers(block.data)
            for start, end in ids.lines(block.data):
                self._take(found, block.data[start:end])
        if strangers:
            self.problem = "holds lines that are no rows"
            return None
        return found

    def _take(self, found: dict[str, list[Place]], line: bytes) -> None:
        """Note the place that a row names, when it is the row of one of the traces in ``found``."""
        try:
            row = jsonl.decode(line)[0]
        except ValueError:
            return
        place, trace_id = _place(row), row.get("trace_id")
        if isinstance(trace_id, str) and trace_id in found and place is not None:
            found[trace_id].append(place)

    def _read_on(self, lines: Follower) -> None:
        budget = GROWTH
        restarts = lines.restarts
        while budget > 0:
            block = lines.poll(BLOCK)
            if lines.restarts != restarts:
                restarts = lines.restarts
                self._positions, self._strangers, self._kept = Positions(), 0, 0
            if block is not None:
                self._add(block.data, block.offset)
            budget -= BLOCK
            if lines.at_end:
                break
        enough = max(_KEPT_FROM, self._kept + self._kept // 4 + 1)
        if lines.mark is not None and len(self._positions) >= enough:
            self._keep(lines.mark)

    def _add(self, data: bytes, offset: int) -> None:
        import numpy as np

        ids = LineIds(data, offset)
        self._positions.add(ids.hashes, np.zeros(len(ids.hashes), np.uint32), ids.offsets)
        self._strangers += ids.strangers

    def _keep(self, mark: Mark) -> None:
        meta = {"mark": cache.mark_to_json(mark), "strangers": self._strangers}
        cache.save(cache.cache_path(self.path, _INDEX_KIND), meta, self._positions.columns())
        self._kept = len(self._positions)

    def _take_up(self) -> Mark | None:
        kept = cache.load(cache.cache_path(self.path, _INDEX_KIND))
        mark = cache.mark_from_json(kept.meta.get("mark")) if kept else None
        positions = Positions.of(kept.columns) if kept else None
        strangers = kept.meta.get("strangers") if kept else None
        if positions is None or mark is None or type(strangers) is not int:
            return None
        self._positions, self._strangers, self._kept = positions, strangers, len(positions)
        return mark


class _StreamMap:
    """The records of a stream by trace id, the whole of it or from a place on.

    Growing begins at the last record known, which shows whether the stream still is the one that was mapped.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._positions = Positions()
        self._start = Place(0, 0)
        self._last: tuple[Place, str] | None = None
        self._seen: tuple[Any, ...] | None = None
        self._kept = 0

    def start_at(self, start: Place, owner: str) -> None:
        """Map what lies behind the record of ``owner`` at ``start``, unless what is known already covers it."""
        if self._last is None or not self._start <= start <= self._last[0]:
            self.forget()
            self._start, self._last = start, (start, owner)

    def forget(self) -> None:
        """Begin anew, with the whole stream."""
        self._positions, self._last, self._seen, self._kept = Positions(), None, None, 0
        self._start = Place(0, 0)

    def find(self, trace_id: str) -> list[Place]:
        return [Place(*place) for place in self._positions.find(trace_id)] if len(self._positions) else []

    def grow(self) -> bool:
        """Take in the records that were added: nothing to do while the stream is as it was.

        False when the last record known is not there any more.
        """
        end = self._end()
        if end == self._seen:
            return True
        start = self._last[0] if self._last else self._start
        lines = iter_lines(self.directory, chunk=start.chunk, offset=start.offset)
        if self._last is not None:
            chunk, offset, line, _ = next(lines, (-1, -1, b"", False))
            if (Place(chunk, offset), record_id(line)) != self._last:
                return False
        batch: list[tuple[Place, str]] = []
        for chunk, offset, line, complete in lines:
            trace_id = record_id(line) if complete else None
            if trace_id is not None:
                batch.append((Place(chunk, offset), trace_id))
                if len(batch) == _BATCH:
                    self._add(batch)
        self._add(batch)
        self._seen = end
        self._keep()
        return True

    def take_up(self) -> None:
        """Begin with what was kept of the whole stream."""
        kept = cache.load(cache.cache_path(self.directory, _STREAM_KIND))
        positions = Positions.of(kept.columns) if kept else None
        place, trace_id = (_place(kept.meta), kept.meta.get("trace_id")) if kept else (None, None)
        if positions is not None and place is not None and isinstance(trace_id, str):
            self._positions, self._last, self._kept = positions, (place, trace_id), len(positions)

    def _add(self, batch: list[tuple[Place, str]]) -> None:
        import numpy as np

        if batch:
            chunks, offsets = zip(*((place.chunk, place.offset) for place, _ in batch), strict=True)
            hashes = hash_ids([trace_id for _, trace_id in batch])
            self._positions.add(hashes, np.array(chunks, np.uint32), np.array(offsets, np.uint64))
            self._last = batch[-1]
            batch.clear()

    def _end(self) -> tuple[Any, ...]:
        """What changes when a record is added."""
        numbers = chunk_numbers(self.directory)
        try:
            return (len(numbers), plain_path(self.directory, numbers[-1]).stat().st_size)
        except (OSError, IndexError):
            return (len(numbers), None)

    def _keep(self) -> None:
        if self._start != Place(0, 0) or self._last is None or len(self._positions) < _KEPT_FROM:
            return
        if len(self._positions) >= self._kept + self._kept // 4 + 1:
            place, trace_id = self._last
            meta = {"chunk": place.chunk, "offset": place.offset, "trace_id": trace_id}
            cache.save(cache.cache_path(self.directory, _STREAM_KIND), meta, self._positions.columns())
            self._kept = len(self._positions)


def _place(row: dict[str, Any]) -> Place | None:
    chunk, offset = row.get("chunk"), row.get("offset")
    if type(chunk) is not int or type(offset) is not int or chunk < 0 or offset < 0:
        return None
    return Place(chunk, offset)


def _has_strangers(data: bytes) -> bool:
    """Whether a block of whole lines holds something other than objects with a trace's id, one a line."""
    between = data.count(b"}\n{") if data.startswith(b"{") and data.endswith(b"}\n") else -1
    lines = data.count(b"\n")
    return between != lines - 1 or b"\0" in data or data.count(b'"trace_id"') < lines
