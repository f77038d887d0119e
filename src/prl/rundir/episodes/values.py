"""Rows of values given to their episodes as their file grows.

They have no places, so they are matched by id: both files are in the order of the stream, and a row is mostly that of
the next episode. What comes before its episode's index row waits for it. Left out: making rows that are not there,
which takes the records (:meth:`prl.rundir.episodes.rebuild.TableReader.make_values`).
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from prl.rundir.cache import mark_from_json, mark_to_json
from prl.rundir.episodes.columns import Array, KeyIndex
from prl.rundir.episodes.store import EpisodeColumns, id_key
from prl.rundir.following import Follower
from prl.rundir.jsonl import Damage

_MAX_EARLY = 10_000
"""Rows that wait for their index rows. More of them belong to another run."""
_FEW = 16

Read = Callable[[int], bool]
"""Told of bytes that were read; whether more may be."""


class ValueRows:
    """Follows the rows of values at ``path``, which need not exist."""

    def __init__(self, path: Path, store: EpisodeColumns, state: Mapping[str, Any] | None = None) -> None:
        """``state`` of an earlier one, with the ``store`` that went with it."""
        state = state or {}
        self.path = path
        self.damage = Damage()
        self.foreign = bool(state.get("foreign"))
        """Whether the rows are not those of this stream, or not to be read."""
        self.remark: str | None = None
        """Why they are foreign, for a person."""
        self.changes = 0
        """Goes up when earlier rows of the store change."""
        self._lines = Follower(path, mark_from_json(state.get("mark")))
        self._early: list[dict[str, Any]] = []
        self._next = len(store) - int((store["has_values"] == 0).sum()) if state.get("mark") else 0

    @property
    def trouble(self) -> str | None:
        """Why the file could not be read at the last look."""
        return self._lines.trouble

    def state(self) -> dict[str, Any]:
        """What a cache keeps. Rows that wait are not kept: all are read again then, and known ones passed over."""
        mark = self._lines.mark
        return {"foreign": self.foreign, "mark": mark_to_json(mark) if mark and not self._early else None}

    def read(self, store: EpisodeColumns, read: Read) -> bool:
        """Take in what is new, while ``read`` allows more. Whether the end was reached."""
        while not self.foreign:
            restarts = self._lines.restarts
            block = self._lines.poll()
            if self._lines.restarts != restarts:
                self._forget(store)
            rows = self._early
            if block is not None:
                found = (self.damage.decode(offset, line) for offset, line in block.lines())
                rows += [row for row in found if row is not None and isinstance(row.get("id"), str)]
            self._early = self._settle(store, rows) if rows else []
            if len(self._early) > _MAX_EARLY:
                self._forget(store)
                self.foreign, self.remark = True, "the rows of values are not those of this stream: not used"
            more = read(len(block.data) if block else 0)
            if self._lines.at_end:
                return True
            if not more:
                return False
        return True

    def _forget(self, store: EpisodeColumns) -> None:
        store.forget_values()
        self.changes += 1
        self._early = []
        self._next = 0
        self.damage = Damage()

    def _settle(self, store: EpisodeColumns, values: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Give rows of values to their episodes. Returns those whose episode is not there yet."""
        keys = np.fromiter(map(id_key, values), np.int64, len(values))
        known_keys = store["key"]
        guess = np.arange(self._next, self._next + len(values))
        within = guess < len(known_keys)
        rows = np.full(len(values), -1, np.int64)
        rows[within] = np.where(known_keys[guess[within]] == keys[within], guess[within], -1)
        lost = np.flatnonzero(rows < 0)
        rows[lost] = _find(known_keys, keys[lost])
        there = np.flatnonzero(rows >= 0)
        there = there[np.unique(rows[there], return_index=True)[1]]
        there = there[store["has_values"][rows[there]] == 0]
        if len(there):
            store.set_values(rows[there].astype(np.int32), [values[i] for i in there.tolist()])
            self._next = int(rows[there].max()) + 1
            self.changes += 1
        # Both files are in the order of the stream: what comes before a row that was found has lost its episode.
        first = int(np.flatnonzero(rows >= 0)[-1]) + 1 if (rows >= 0).any() else 0
        return values[first:]


def _find(column: Array, keys: Array) -> Array:
    """For each key its first row in an unsorted column, -1 where there is none."""
    if len(keys) <= _FEW:
        return np.array([next(iter(np.flatnonzero(column == key).tolist()), -1) for key in keys], np.int64)
    rows = np.arange(len(column), dtype=np.int32)
    index = KeyIndex()
    index.add(column, rows)
    return index.find(keys)
