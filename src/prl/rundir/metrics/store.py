"""The metrics of a run as columns: any length, read once, then what is new.

Meaning of rows, merging and supersession are those of :class:`prl.rundir.metrics.reader.MetricsHistory`. Points cost 12
bytes and become mapped pages of a cache file when there are many. One thread at a time may use a store.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from prl.rundir.following import READ_BLOCK, Block, Follower
from prl.rundir.jsonl import Damage
from prl.rundir.layout import run_of
from prl.rundir.metrics import queries, stored
from prl.rundir.metrics.intake import Columns
from prl.rundir.metrics.queries import Extent, SeriesData, Window
from prl.rundir.metrics.reader import Point
from prl.rundir.metrics.summaries import Summary, summarise
from prl.rundir.metrics.tail import MetricsTail, place_before_last, read_tail
from prl.rundir.regular import is_file, is_inside

_SAVE_BYTES = 32 * 1024**2
"""Bytes of new lines that are worth keeping: fewer are sooner read again than written."""
_SAVE_SHARE = 8
"""Nor are those that are a smaller part than this of what is kept already, all of which is written anew."""
_SPILL_POINTS = 12 * 1024**2
"""Points in memory beyond which they go to the cache though the file is not read to its end."""


class MetricsStore:
    """The metrics of one run as far as its file has been read. :meth:`refresh` reads what is new.

    ``path`` is the run's ``metrics.jsonl``. It may be absent or no file at all: then there are no metrics yet, and
    ``trouble`` has the reason where there is one. ``cached``: what took long to read is kept in the user's cache.
    """

    def __init__(self, path: Path, *, cached: bool = True) -> None:
        self.path = path
        self.complete = False
        """Whether the end of the file was reached at the last :meth:`refresh`."""
        self.version = 0
        """Goes up whenever an answer may have changed."""
        self.whole = True
        """Whether the rows begin with the first of the file."""
        self._cached = cached
        self._root = run_of(path)
        self._columns = Columns()
        self._follower = Follower(path, root=self._root)
        self._restarts = 0
        self._kept_bytes = self._kept_points = 0
        """How far the cache reaches."""

    @property
    def rows(self) -> int:
        """Rows read."""
        return self._columns.rows.count

    @property
    def damage(self) -> Damage:
        """Lines that could not be read."""
        return self._columns.damage

    @property
    def drift(self) -> dict[str, int]:
        """Values that were neither numbers nor null, counted by key."""
        return self._columns.drift

    @property
    def schema_version(self) -> int | None:
        """The newest form that a row says it has; None: none says."""
        return self._columns.schema_version

    @property
    def trouble(self) -> str | None:
        """Why the file cannot be read, in the words of the operating system. An absent file is no trouble."""
        return self._follower.trouble

    @property
    def absent(self) -> bool:
        """Whether there was no file at the last :meth:`refresh`."""
        return self._follower.absent

    @property
    def pending_bytes(self) -> int:
        """Length of a last line that is not complete yet."""
        return self._follower.pending_bytes

    @property
    def last_time(self) -> float | None:
        """Unix seconds of the newest row."""
        newest = float(np.fmax.reduce(self._columns.rows.times, initial=np.nan))
        return None if np.isnan(newest) else newest

    def refresh(self, max_bytes: int | None = None) -> bool:
        """Read on, at most ``max_bytes`` (None: to the end). True when the end of the file was reached.

        A file that was replaced begins a new history.
        """
        if self._follower.mark is None and self._cached:
            self._take_up()
        left = max_bytes
        while left is None or left > 0:
            size = READ_BLOCK if left is None else min(READ_BLOCK, left)
            left = None if left is None else left - size
            self._poll(size)
            if self.complete:
                break
            if self._columns.segments.points - self._kept_points >= _SPILL_POINTS:
                self._keep()
        if self.complete and self._read_to() - self._kept_bytes >= max(_SAVE_BYTES, self._kept_bytes // _SAVE_SHARE):
            self._keep()
        return self.complete

    def finish(self) -> None:
        """Take a last line without a newline as it is, its writer being gone: a row if it is one, else damage."""
        if self._follower.pending_bytes:
            self._cached = False  # a place within a line is none to go on from
            self._add(self._follower.finish())

    def newest(self, rows: int = 2000) -> "MetricsStore":
        """A store of the last ``rows`` rows alone, read from the end of the file: for a first look at a large one."""
        store = MetricsStore(self.path, cached=False)
        place = place_before_last(self.path, rows)
        if place is not None:
            store._follower, store.whole = Follower(self.path, place, self._root), False
        store.refresh()
        return store

    def names(self) -> list[tuple[str, str]]:
        """All (producer, key), sorted."""
        return sorted(self._columns.catalogue.names)

    def series(
        self,
        producer: str,
        key: str,
        *,
        axis: Literal["step", "time"] = "step",
        start: float | None = None,
        end: float | None = None,
        points: int | None = None,
    ) -> SeriesData:
        """The points of a series that stand, with ``start <= x <= end``; none of a series that does not exist.

        On the step axis: those with a step; a series that has none is given on the time axis. On the time axis
        (Unix seconds): all that have a time. ``points``: keep about so many, with the extremes, the first, the last
        and every value that is not finite (of more than ``points`` of those, evenly spread ones).
        """
        number = self._columns.catalogue.find(producer, key)
        return queries.select(self._columns, -1 if number is None else number, Window(axis, start, end, points))

    def many(
        self,
        names: Iterable[tuple[str, str]],
        *,
        axis: Literal["step", "time"] = "step",
        start: float | None = None,
        end: float | None = None,
        points: int | None = None,
    ) -> dict[tuple[str, str], SeriesData]:
        """:meth:`series` of several."""
        return {name: self.series(*name, axis=axis, start=start, end=end, points=points) for name in names}

    def superseded(self, producer: str, key: str) -> SeriesData:
        """The points that a later timeline or a later row of the same step replaced, as they were given up."""
        number = self._columns.catalogue.find(producer, key)
        return queries.superseded(self._columns, -1 if number is None else number)

    def extent(self, producer: str, key: str) -> Extent:
        """How many points a series has."""
        number = self._columns.catalogue.find(producer, key)
        return queries.extent(self._columns, -1 if number is None else number)

    def step_row(self, producer: str, step: int) -> dict[str, float]:
        """All values that a producer wrote for a step and that stand."""
        number = self._columns.catalogue.find_producer(producer)
        return {} if number is None else queries.step_row(self._columns, number, step)

    def last_step(self, producer: str) -> int | None:
        """The newest step of a producer's timeline, evaluations aside (they carry the step of an older policy)."""
        number = self._columns.catalogue.find_producer(producer)
        return None if number is None else queries.last_step(self._columns, number)

    def last_values(self, producer: str | None = None) -> dict[tuple[str, str], Point]:
        """The newest point of each series (of one producer)."""
        number = None if producer is None else self._columns.catalogue.find_producer(producer)
        if producer is not None and number is None:
            return {}
        return queries.last_values(self._columns, number)

    def clock(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Each step that stands, ascending, and when its last row was written (Unix seconds, never falling)."""
        return queries.clock(self._columns)

    def first_step(self, since: float, until: float) -> int | None:
        """The lowest step of the rows written from ``since`` on and before ``until``, evaluations aside."""
        return queries.first_step(self._columns, since, until)

    @property
    def first_time(self) -> float | None:
        """Unix seconds of the oldest row."""
        oldest = float(np.fmin.reduce(self._columns.rows.times, initial=np.nan))
        return None if np.isnan(oldest) else oldest

    def summaries(self) -> list[Summary]:
        """What a list of all series says of each, sorted by (producer, key)."""
        return summarise(self._columns)

    def tail(self, cursor: str | None = None, limit: int = 100, *, since: float | None = None) -> MetricsTail:
        """The rows since ``cursor`` (without one the newest), at most ``limit``, as far as the store was refreshed.

        ``since`` (Unix seconds) stands for a cursor: from the first row on that was written then or later. A cursor
        also holds for another process. Raises ValueError when it is none.
        """
        return read_tail(self._columns, self.path, self._follower.mark, cursor, limit, since=since)

    def _take_up(self) -> None:
        kept = stored.load(self.path) if is_file(self.path) and is_inside(self.path, self._root) else None
        if kept is not None:
            self._columns, mark = kept
            self._follower = Follower(self.path, mark, self._root)
            self._kept_bytes, self._kept_points = mark.offset, self._columns.segments.points
            self._restarts = 0
            self.version += 1

    def _poll(self, size: int) -> None:
        before = self._follower.trouble, self._follower.absent
        block = self._follower.poll(size)
        self.complete = self._follower.at_end
        if self._follower.restarts != self._restarts:
            self._restarts = self._follower.restarts
            self._columns, self.whole = Columns(), True
            self._kept_bytes = self._kept_points = 0
            self.version += 1
        if block:
            self._add(block)
        if before != (self._follower.trouble, self._follower.absent):
            self.version += 1

    def _add(self, block: Block) -> None:
        self._columns.add(block)
        self.version += 1

    def _read_to(self) -> int:
        return self._follower.mark.offset if self._follower.mark else 0

    def _keep(self) -> None:
        """Put what was read in the cache, and take the points from there: mapped pages are given back at need."""
        mark = self._follower.mark
        if not self._cached or mark is None:
            return
        if not stored.save(self.path, self._columns, mark):
            self._cached = False  # a cache that cannot be written is not tried again at every block
            return
        kept = stored.load(self.path)
        if kept is not None and kept[1] == mark:
            self._columns = kept[0]
        self._kept_bytes, self._kept_points = mark.offset, self._columns.segments.points
