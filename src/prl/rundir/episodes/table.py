"""The episodes of a run as one table that grows: filters, orders, pages, summaries, values.

Read from the index, the rows of values and the indexes of trace updates, which are followed; kept in the user's cache,
mapped, so that a million episodes open at once the next time. What a page shows of an episode is built for that page
alone. Left out: the records themselves, which are one file offset away (``chunk`` and ``offset`` of a row). Not for
several threads at once.
"""

import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from prl.rundir import cache, jsonl
from prl.rundir.annotations.reader import producers
from prl.rundir.annotations.writer import ANNOTATIONS
from prl.rundir.episodes import facets as summaries
from prl.rundir.episodes.columns import UNKNOWN, Array, text_key
from prl.rundir.episodes.facets import Group, Histogram
from prl.rundir.episodes.filters import Filters, select
from prl.rundir.episodes.orders import SORTABLE, Orders
from prl.rundir.episodes.pages import MAX_LIMIT, Page, page_rows
from prl.rundir.episodes.rebuild import TableReader
from prl.rundir.episodes.series import series, value_names
from prl.rundir.episodes.store import EpisodeColumns
from prl.rundir.episodes.stream import make_place, run_root
from prl.rundir.episodes.writer import INDEX, VALUES
from prl.rundir.locate import unread_rollouts
from prl.rundir.needles import Finder

ALL = Filters()
"""Every episode."""

_CANDIDATES = 8
_NAMED = 5
"""Lost files that a remark names."""
_CACHE = "episodes-3"
_SAVE_BYTES = 4 * 1024 * 1024
_SAVE_SHARE = 20
_SAVE_SECONDS = 20.0
_HELD_BYTES, _HELD_READ = 48 * 1024 * 1024, 64 * 1024 * 1024
"""Bytes that are held in memory, and bytes read since the cache was written, before it is written within a reading."""

Progress = Callable[[int, int], None]
"""Called with bytes read so far and bytes to be read."""


class EpisodeTable:
    """The episodes below ``traces`` (``monitors/file/traces``), or of a run directory of an older layout.

    Nothing is read before :meth:`refresh`. Nothing raises for what files hold.
    """

    def __init__(self, traces: Path, *, cached: bool = True) -> None:
        self.traces = traces
        self._cache = cache.cache_path(traces, _CACHE) if cached else None
        self._bytes_read = self._bytes_saved = 0
        self._saved_at = -_SAVE_SECONDS
        self._was_at_end = False
        self._orders = Orders()
        self._ordered_generation = 0
        self._reader = self._restored() or TableReader(traces)

    @property
    def count(self) -> int:
        """Episodes read so far."""
        return len(self._store)

    @property
    def version(self) -> tuple[int, int, int]:
        """Changes when the table does: generation, episodes, changes of earlier ones."""
        return self._reader.generation, self.count, self._reader.changes

    @property
    def at_end(self) -> bool:
        """Whether the last :meth:`refresh` read all there was."""
        return self._reader.at_end

    @property
    def damage(self) -> dict[str, jsonl.Damage]:
        """Lines that could not be read, by file, since this table was opened."""
        return self._reader.damage

    @property
    def trouble(self) -> str | None:
        """Why a file could not be read at the last look. An absent file is no trouble."""
        return self._reader.trouble

    @property
    def remarks(self) -> list[str]:
        """What is wrong with the run's derived files and was made good, and what is left out, for a person."""
        left_out = self._store.points.left_out
        more = [f"{left_out} values are left out: too many names"] if left_out else []
        lost, files = self._reader.gone()
        if lost:
            named = ", ".join(map(str, files[:_NAMED])) + ", ..." * (len(files) > _NAMED)
            what = "chunk" if self._reader.stream.chunked else "file"
            more.append(f"{lost} episodes cannot be opened or searched: their {what} is gone ({what} {named})")
        unread = unread_rollouts(run_root(self.traces))
        return [*self._reader.remarks, *more, *([unread] if unread else [])]

    @property
    def repeated(self) -> int:
        """Index rows left out because the same record had one already."""
        return self._store.repeated

    @property
    def values_missing(self) -> int:
        """Episodes whose task, agents, steps and values by name are unknown so far (:meth:`make_values`)."""
        return self._reader.values_missing

    def refresh(self, max_bytes: int | None = None, progress: Progress | None = None) -> bool:
        """Read what is new, at most about ``max_bytes`` of it (``at_end``). Whether the table changed."""
        before = self.version
        budget = _Budget(max_bytes, progress, self._unread() if progress else 0)

        def read(size: int) -> bool:
            more = budget.read(size)
            if more and budget.untaken > _HELD_READ and self._store.own_bytes > _HELD_BYTES:
                budget.paused = True  # to put into the cache what is held in memory, and go on
                return False
            return more

        while True:
            budget.paused = False
            self._reader.read(read)
            reached = self._reader.at_end and not self._was_at_end
            self._was_at_end |= reached
            self._save(budget, force=budget.paused, at_once=reached)
            if not budget.paused:
                break
        return self.version != before

    def make_values(
        self,
        max_bytes: int | None = None,
        progress: Progress | None = None,
        rows: Sequence[int] | None = None,
    ) -> bool:
        """Make the values of episodes that have no row of values, from their records. Whether none is missing then.

        ``rows``: only of these rows of the table. Runs lack rows of values when other writers made them, or when they
        were lost. It reads every such record once; the cache keeps what was made.
        """
        budget = _Budget(max_bytes, progress, self._reader.stream.total_bytes() if progress else 0)
        done = self._reader.make_values(budget.read, None if rows is None else np.array(sorted(rows), np.int64))
        self._save(budget, at_once=done)
        return done

    def page(
        self,
        filters: Filters = ALL,
        *,
        sort: str = "arrival",
        descending: bool = True,
        offset: int = 0,
        limit: int = 128,
        upto: int | None = None,
    ) -> Page:
        """Episodes ``offset`` to ``offset + limit`` of those chosen. ``upto`` of an earlier page keeps to its list.

        Raises ValueError: an unknown column or outcome, a negative offset, a limit outside 0 to :data:`MAX_LIMIT`.
        """
        if offset < 0 or not 0 <= limit <= MAX_LIMIT:
            raise ValueError(f"offset {offset}, limit {limit}: from 0 on, and 0 to {MAX_LIMIT}")
        chosen = select(self._store, filters, upto)
        total = int(np.count_nonzero(chosen))
        rows = self._ordered(chosen, total, sort, descending=descending)[offset : offset + limit]
        return Page(self.rows(rows), total, offset, len(chosen), self._reader.generation)

    def rows(self, rows: Sequence[int] | Array) -> list[dict[str, Any]]:
        """The episodes at these rows of the table, as :class:`Page` has them."""
        return page_rows(self._reader, np.asarray(rows, np.int64))

    def row(
        self, episode_id: str | None = None, *, line: int | None = None, trace_id: str | None = None
    ) -> dict[str, Any] | None:
        """One episode by its id, its line in the stream, or the id of one of its traces; None when there is none.

        Of several with one id the last.
        """
        store = self._store
        if episode_id is not None:
            found = np.flatnonzero(store["key"] == text_key(episode_id))
        elif trace_id is not None:
            found = store.rows_of_trace(trace_id)
        else:
            found = np.flatnonzero(store["line"] == (UNKNOWN if line is None else line))
        for row in self.rows(found[-_CANDIDATES:][::-1]):
            if episode_id in (None, row["id"]) and (trace_id is None or trace_id in row["trace_ids"]):
                return row
        return None

    def place_row(self, chunk: int, offset: int) -> dict[str, Any] | None:
        """The episode whose record lies at a place in the stream; None when there is none."""
        found = np.flatnonzero(self._store["place"] == make_place(chunk, offset))
        return self.rows(found[:1])[0] if len(found) else None

    def rows_at(self, places: Sequence[tuple[int, int]]) -> Array:
        """Rows of the table of the records at these places (chunk, offset), -1 where there is none (int64)."""
        wanted = np.array([make_place(chunk, offset) for chunk, offset in places], np.int64)
        column = self._store["place"]
        chosen = np.flatnonzero(np.isin(column, wanted))
        if not len(chosen):
            return np.full(len(wanted), -1, np.int64)
        chosen = chosen[np.argsort(column[chosen], kind="stable")]
        at = np.minimum(np.searchsorted(column[chosen], wanted), len(chosen) - 1)
        return np.where(column[chosen[at]] == wanted, chosen[at], -1)

    def made_rows(self, forms: Collection[bytes]) -> list[dict[str, Any]]:
        """The episodes without an index row (theirs were made here) of whose ids, as JSON, one holds such bytes."""
        made = self._store.made.view().tobytes()
        starts = [start for start, _ in Finder(forms, ignore_case=False).lines(made)]
        return self.rows(np.flatnonzero(np.isin(self._store["at"], [-1 - start for start in starts])))

    def column(self, name: str) -> Array:
        """A column as a read-only array, one value an episode in the order of the stream.

        Numbers: NaN or -1 where unknown; flags -1, 0, 1; texts are codes of :meth:`texts`. Raises ValueError.
        """
        if name not in SORTABLE:
            raise ValueError(f"no column {name!r}: there are {', '.join(SORTABLE)}")
        return self._store[name]

    def texts(self, name: str) -> list[str]:
        """The texts that the codes of a column stand for. Raises KeyError when it is no column of text."""
        return self._store.pools[name].texts()

    def select(self, filters: Filters = ALL, upto: int | None = None) -> Array:
        """Rows of the table that filters choose, ascending (int64)."""
        return np.flatnonzero(select(self._store, filters, upto))

    def histogram(
        self,
        filters: Filters = ALL,
        *,
        by: str = "arrival",
        bins: int = 80,
        upto: int | None = None,
    ) -> Histogram:
        """The chosen episodes by the value of a column, in bins of a round width. Raises ValueError."""
        return summaries.histogram(self._store, filters, by=by, bins=bins, upto=upto)

    def facets(self, filters: Filters = ALL, upto: int | None = None) -> dict[str, dict[str, int]]:
        """How many episodes each value of a column would leave, its own condition aside."""
        return summaries.facets(self._store, filters, upto)

    def groups(
        self,
        filters: Filters = ALL,
        *,
        by: str = "group",
        limit: int = 128,
        offset: int = 0,
        upto: int | None = None,
    ) -> tuple[list[Group], int]:
        """Rollouts of one group (``by="group"``) or of one task (``by="task"``), the newest first, and how many."""
        if by not in ("group", "task"):
            raise ValueError(f"no groups by {by!r}: there are group, task")
        return summaries.groups(
            self._store, filters, by=(by, "env"), newest_first=True, limit=limit, offset=offset, upto=upto
        )

    def equal_groups(self, rows: Sequence[int] | Array) -> Array:
        """Of each of these rows, whether the rewards of its group are all the same (bool)."""
        return summaries.equal_groups(self._store, np.asarray(rows, np.int64))

    def same_task(
        self, task: str, *, env: str | None = None, by: str = "ship_step", limit: int = 1000
    ) -> tuple[list[Group], int]:
        """One task at all steps (``ship_step`` or ``dispatch_step``), the earliest arrival first, and how many.

        Episodes without such a step are left out.
        """
        if by not in ("ship_step", "dispatch_step"):
            raise ValueError(f"no steps {by!r}: there are ship_step, dispatch_step")
        filters = Filters(task=task, env=env)
        return summaries.groups(
            self._store, filters, by=(by, "task", "env"), newest_first=False, limit=limit, upto=None
        )

    def values(
        self,
        filters: Filters = ALL,
        *,
        names: Collection[str] | None = None,
        agent: str | None = None,
        after: int = 0,
        upto: int | None = None,
    ) -> dict[str, Array]:
        """Values by name of each chosen episode: see :func:`prl.rundir.episodes.series.series`.

        ``after``: rows of the table to pass over, those of an earlier answer.
        """
        chosen = select(self._store, filters, upto)
        chosen[: max(after, 0)] = False
        return series(self._store, np.flatnonzero(chosen), names=names, agent=agent)

    def values_of(self, rows: Sequence[int] | Array, names: Collection[str] | None = None) -> dict[str, Array]:
        """As :meth:`values`, of these rows in their order."""
        wanted = np.asarray(rows, np.int64)
        different, place = np.unique(wanted, return_inverse=True)
        found = series(self._store, different, names=names)
        return {name: column[place] for name, column in found.items()}

    def value_names(self) -> list[str]:
        """All names that :meth:`values` can give of any episode, sorted."""
        return value_names(self._store)

    @property
    def _store(self) -> EpisodeColumns:
        return self._reader.store

    def _ordered(self, chosen: Array, total: int, sort: str, *, descending: bool) -> Array:
        """The chosen rows in order."""
        if self._ordered_generation != self._reader.generation:
            self._orders, self._ordered_generation = Orders(), self._reader.generation
        order = self._orders.rows(self._store, sort, self._reader.changes, descending=descending)
        if total == len(order):
            return order
        if len(chosen) < len(order):
            order = order[order < len(chosen)]
        return np.asarray(order[chosen[order]])

    def _restored(self) -> TableReader | None:
        cached = cache.load(self._cache) if self._cache else None
        if cached is None:
            return None
        try:
            store = EpisodeColumns.of(cached)
            reader = TableReader(self.traces, cached.meta, store)
        except (KeyError, ValueError, TypeError, AttributeError):
            return None
        self._bytes_saved = self._bytes_read = int(cached.meta.get("bytes", 0))
        return reader

    def _save(self, budget: "_Budget", *, force: bool = False, at_once: bool = False) -> None:
        """Put the columns into the cache when that saves more than it costs, and use them from there.

        ``at_once``: a long reading is over. Else a growing run is saved now and then.
        """
        self._bytes_read += budget.take()
        fresh = self._bytes_read - self._bytes_saved
        due = fresh > (_SAVE_BYTES if at_once else max(_SAVE_BYTES, self._bytes_read // _SAVE_SHARE))
        waited = at_once or time.monotonic() - self._saved_at > _SAVE_SECONDS
        if self._cache is None or not (force or (due and waited)):
            return
        reader, store = self._reader, self._store
        meta = {**reader.state(), "repeated": store.repeated, "high": store.high, "bytes": self._bytes_read}
        self._bytes_saved, self._saved_at = self._bytes_read, time.monotonic()
        if not cache.save(self._cache, meta, {**store.to_columns(), **reader.shipping.to_columns()}):
            return
        cached = cache.load(self._cache)
        if cached is not None:
            reader.store = EpisodeColumns.of(cached)

    def _unread(self) -> int:
        """Bytes of the derived files, as far as the table was not made of them before."""
        files = [
            self.traces / INDEX,
            self.traces / VALUES,
            *(self.traces / ANNOTATIONS / f"{name}.index.jsonl" for name in producers(self.traces)),
        ]
        total = 0
        for path in files:
            try:
                total += path.stat().st_size
            except OSError:
                continue
        return max(total - self._bytes_read, 0)


class _Budget:
    """Bytes that may be read, and whom to tell of those that were."""

    def __init__(self, max_bytes: int | None, progress: Progress | None, total: int) -> None:
        self.done = 0
        self.paused = False
        self._max_bytes = max_bytes
        self._progress = progress
        self._total = total
        self._taken = 0

    def read(self, size: int) -> bool:
        self.done += size
        if self._progress is not None:
            self._progress(self.done, max(self._total, self.done))
        return self._max_bytes is None or self.done < self._max_bytes

    @property
    def untaken(self) -> int:
        return self.done - self._taken

    def take(self) -> int:
        """Bytes read since this was last asked."""
        taken, self._taken = self.done - self._taken, self.done
        return taken
