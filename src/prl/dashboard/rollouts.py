"""Single episodes and rollouts in flight of one run, each kept open for those who look at it.

An episode that is open is read again when more became known of it. The list of episodes has a lock of its own
(:class:`prl.dashboard.open_runs.OpenRun`): nothing here waits for it, nor it for anything here.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prl.dashboard.errors import ApiError, not_found

if TYPE_CHECKING:
    from prl.dashboard.open_runs import OpenRun
    from prl.dashboard.transcript import Transcript
    from prl.rundir.annotations.locator import UpdateLocator
    from prl.rundir.episodes.detail import EpisodeDetail
    from prl.rundir.live.rows import LiveRow, LiveTraces

KEPT = 4
"""Episodes kept open."""
CHECK_SECONDS = 1.0
"""How long an open episode is taken to be as it is known."""
LIVE_SECONDS = 0.5


class OpenEpisode:
    """One episode as it was read, and what its traces are made into. Used by one thread at a time."""

    def __init__(self, detail: "EpisodeDetail", updates: int) -> None:
        self.detail = detail
        self.updates = updates
        """Updates of its traces when it was read."""

    @cached_property
    def transcripts(self) -> "list[Transcript]":
        from prl.dashboard.transcript import Transcript

        return [Transcript(trace) for trace in self.detail.traces]

    def transcript(self, number: int) -> "Transcript":
        """One of its traces. Raises ApiError (404)."""
        if not 0 <= number < len(self.transcripts):
            raise not_found(f"no trace {number}: the episode has {len(self.transcripts)}, numbered from 0")
        return self.transcripts[number]


class _Slot:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.opened: OpenEpisode | None = None
        self.version = ""
        self.checked = float("-inf")


class Rollouts:
    """The episodes of a run that are open, and its rollouts in flight. Safe to use from several threads."""

    def __init__(self, run: "OpenRun") -> None:
        self._run = run
        self._lock = threading.Lock()
        self._slots: OrderedDict[tuple[Any, ...], _Slot] = OrderedDict()
        self._locators: dict[Path, UpdateLocator] = {}
        self._live_lock = threading.Lock()
        self._live: LiveTraces | None = None
        self._live_rows: list[LiveRow] = []
        self._live_seen: list[tuple[Any, ...]] = []
        self._live_version = 0
        self._live_read = float("-inf")

    @property
    def traces(self) -> Path:
        """Where the episodes lie."""
        return self._run.run.traces

    @property
    def locator(self) -> "UpdateLocator":
        """Where updates of traces lie; may be used by several threads."""
        from prl.rundir.annotations.locator import UpdateLocator

        with self._lock:
            return self._locators.setdefault(self.traces, UpdateLocator(self.traces))

    def find(self, wanted: str) -> dict[str, Any]:
        """The row of an episode: by ``@`` and its line, its id, a trace's, its line, a beginning of an id.

        Raises ApiError (404).
        """
        from prl.rundir.episodes.lookup import EpisodeNotFoundError, find_episode
        from prl.rundir.layout import numbered

        line = numbered(wanted.removeprefix("@"), "")
        with self._run.episodes() as table:
            if wanted.startswith("@") and line is not None:
                row = table.row(line=line)
            else:
                row = table.row(wanted) or table.row(trace_id=wanted)
                row = table.row(line=line) if row is None and line is not None else row
        if row is not None:
            return row
        try:
            found = find_episode(self.traces, wanted)
        except EpisodeNotFoundError as error:
            raise not_found(str(error).split(": `prl", 1)[0]) from None
        with self._run.episodes() as table:
            return table.row(str(found.get("id"))) or found

    @contextmanager
    def episode(self, row: Mapping[str, Any]) -> Iterator[OpenEpisode]:
        """An episode, for as long as the block lasts. Raises ApiError (503) when its record cannot be read."""
        slot = self._slot(row)
        with slot.lock:
            yield self._up_to_date(slot, row)

    def version(self, row: Mapping[str, Any]) -> str:
        """Changes when something of an episode does. Raises as :meth:`episode`."""
        slot = self._slot(row)
        with slot.lock:
            self._up_to_date(slot, row)
            return slot.version

    def read(self, row: Mapping[str, Any]) -> "EpisodeDetail":
        """An episode that is not kept open. Raises ApiError (503)."""
        from prl.rundir.episodes.detail import open_episode

        try:
            return open_episode(self.traces, row, locator=self.locator)
        except OSError as error:
            raise ApiError(503, "unreadable", str(error)) from None

    def state(self, row: Mapping[str, Any]) -> str:
        """Changes when something of an episode does, as far as that is known without reading it."""
        return _state(row, self._count(row.get("trace_ids") or []))

    def _slot(self, row: Mapping[str, Any]) -> _Slot:
        key = (row.get("file"), row.get("chunk"), row.get("offset"), row.get("id"))
        with self._lock:
            slot = self._slots.setdefault(key, _Slot())
            self._slots.move_to_end(key)
            while len(self._slots) > KEPT:
                self._slots.popitem(last=False)
            return slot

    def _up_to_date(self, slot: _Slot, row: Mapping[str, Any]) -> OpenEpisode:
        now = time.monotonic()
        if slot.opened is not None and now - slot.checked < CHECK_SECONDS:
            return slot.opened
        names = [trace.id for trace in slot.opened.detail.traces] if slot.opened else row.get("trace_ids") or []
        updates = self._count(names)
        if slot.opened is None or updates != slot.opened.updates:
            slot.opened = OpenEpisode(self.read(row), updates)
        slot.checked = now
        slot.version = _state(row, updates)
        return slot.opened

    def _count(self, names: Sequence[Any]) -> int:
        return self.locator.count([name for name in names if isinstance(name, str)])

    # ---- in flight

    def live(self) -> "tuple[list[LiveRow], int]":
        """The rollouts in flight, and how many files of them were left out or are damaged."""
        with self._live_lock:
            traces = self._refreshed()
            return list(self._live_rows), traces.left_out + traces.damaged

    def live_version(self) -> str:
        """Changes when a rollout in flight does; not when it only grows older."""
        with self._live_lock:
            self._refreshed()
            return str(self._live_version)

    def _refreshed(self) -> "LiveTraces":
        from prl.rundir.live.rows import LiveTraces

        if self._live is None or self._live.traces != self.traces:
            self._live, self._live_read = LiveTraces(self.traces), float("-inf")
        if time.monotonic() - self._live_read >= LIVE_SECONDS:
            self._live_rows = self._live.refresh()
            self._live_read = time.monotonic()
            seen = [_seen(row) for row in self._live_rows]
            if seen != self._live_seen:
                self._live_seen, self._live_version = seen, self._live_version + 1
        return self._live


def _seen(row: "LiveRow") -> tuple[Any, ...]:
    return tuple(value for name, value in vars(row).items() if name != "elapsed")


def _state(row: Mapping[str, Any], updates: int) -> str:
    told = (row.get(name) for name in ("chunk", "offset", "line", "ship_step", "effective", "advantage", "task"))
    return f"{updates} {'|'.join(map(repr, told))}"
