"""Rows of a table in the order of a column, kept from one page to the next.

Rows that came since are merged into the order that is there. Ties stand in the order of the stream, rows of which the
value is unknown always last. Groups and tasks stand in the order of their first episodes: their names are too many to
be sorted at each look, and say nothing.
"""

from dataclasses import dataclass

import numpy as np

from prl.rundir.episodes.columns import Array, known
from prl.rundir.episodes.store import DTYPES, SHIPPED, STEPS, VALUE_TEXTS, EpisodeColumns

SORTABLE = tuple(name for name in DTYPES if name not in ("at", "place", "key", "recorded_advantage", "has_values"))
"""Columns that rows can be sorted by."""
_BY_TEXT = ("kind", "env", "stop_condition", "agents")
_CHANGING = frozenset((*SHIPPED, *STEPS, *VALUE_TEXTS))
"""Columns whose earlier rows change."""
_KEPT = 4


@dataclass
class _Order:
    rows: Array
    """Rows of known values, ascending."""
    unknown: Array
    count: int
    changes: int


class Orders:
    """The orders of one table's rows by the columns that were last asked for."""

    def __init__(self) -> None:
        self._kept: dict[str, _Order] = {}

    def rows(self, store: EpisodeColumns, column: str, changes: int, *, descending: bool) -> Array:
        """All rows in the order of a column. ``changes`` counts changes of earlier rows. Raises ValueError."""
        if column not in SORTABLE:
            raise ValueError(f"cannot sort by {column!r}: there are {', '.join(SORTABLE)}")
        order = self._order(store, column, changes)
        return np.concatenate([order.rows[::-1] if descending else order.rows, order.unknown])

    def _order(self, store: EpisodeColumns, column: str, changes: int) -> _Order:
        present = self._kept.pop(column, None)
        if present is None or present.count > len(store) or (column in _CHANGING and present.changes != changes):
            present = None
        if column in _BY_TEXT:
            if present is None or present.count != len(store):
                present = _sorted(_ranks(store, column), 0)
        elif present is None:
            present = _sorted(store[column], 0)
        elif present.count < len(store):
            present = _merged(store[column], present)
        present.changes = changes
        self._kept[column] = present
        while len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]
        return present


def _sorted(values: Array, start: int) -> _Order:
    there = known(values)
    rows = np.flatnonzero(there).astype(np.int32)
    order = np.argsort(values[rows], kind="stable")
    unknown = np.flatnonzero(~there).astype(np.int32)
    return _Order(rows[order] + np.int32(start), unknown + np.int32(start), start + len(values), 0)


def _merged(values: Array, first: _Order) -> _Order:
    """The order of ``values``, of which ``first`` orders the earlier ones."""
    second = _sorted(values[first.count :], first.count)
    places = np.searchsorted(values[first.rows], values[second.rows], side="right")
    rows = np.insert(first.rows, places, second.rows)
    return _Order(rows, np.concatenate([first.unknown, second.unknown]), second.count, 0)


def _ranks(store: EpisodeColumns, column: str) -> Array:
    """Codes of texts replaced by their rank in the order of the texts."""
    texts = store.pools[column].texts()
    ranks = np.empty(len(texts) + 1, np.int32)
    ranks[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts), dtype=np.int32)
    ranks[-1] = -1
    return np.asarray(ranks[store[column]])
