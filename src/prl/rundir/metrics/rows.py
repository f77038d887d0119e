"""The rows of a metrics file as columns: who wrote each, at which step and time, where it lies, and whether it stands.

A row stands until its producer repeats its step or an earlier one: then the later timeline counts, and ``until`` is the
number of the row with which that began. What the rows hold is in :mod:`prl.rundir.metrics.segments`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

NO_STEP = int(np.iinfo(np.int64).min)
"""Step of a row that has none. Lower than any step."""
STANDING = int(np.iinfo(np.int32).max)
"""``until`` of a row that stands."""

DTYPES: dict[str, Any] = {
    "steps": np.int64,
    "times": np.float64,
    "offsets": np.int64,
    "producers": np.int32,
    "plain": np.bool_,
    "until": np.int32,
}


class RowTable:
    """Columns of all rows read so far, in file order."""

    def __init__(self) -> None:
        self.count = 0
        self._columns: dict[str, NDArray[Any]] = {name: np.empty(0, dtype) for name, dtype in DTYPES.items()}

    @property
    def steps(self) -> NDArray[np.int64]:
        """:data:`NO_STEP` where a row has none."""
        return self._columns["steps"][: self.count]

    @property
    def times(self) -> NDArray[np.float64]:
        """Unix seconds, NaN where a row has none."""
        return self._columns["times"][: self.count]

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Byte offsets of the lines."""
        return self._columns["offsets"][: self.count]

    @property
    def producers(self) -> NDArray[np.int32]:
        """Numbers of the producers."""
        return self._columns["producers"][: self.count]

    @property
    def plain(self) -> NDArray[np.bool_]:
        """Whether a row has a key that is not an evaluation's."""
        return self._columns["plain"][: self.count]

    @property
    def until(self) -> NDArray[np.int32]:
        """The row with which this one's timeline was given up, :data:`STANDING` for one that stands."""
        return self._columns["until"][: self.count]

    def extend(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Append rows that stand. ``columns`` has all but ``until``."""
        added = len(columns["steps"])
        end = self.count + added
        if end > len(self._columns["steps"]):
            room = max(end, 2 * self.count, 1024)
            for name, column in self._columns.items():
                grown = np.empty(room, column.dtype)
                grown[: self.count] = column[: self.count]
                self._columns[name] = grown
        for name, values in columns.items():
            self._columns[name][self.count : end] = values
        self._columns["until"][self.count : end] = STANDING
        self.count = end

    def columns(self) -> dict[str, NDArray[Any]]:
        """All columns by name."""
        return {name: column[: self.count] for name, column in self._columns.items()}

    @classmethod
    def of(cls, columns: Mapping[str, NDArray[Any]]) -> "RowTable":
        """A table of what :meth:`columns` gave. Raises KeyError or ValueError when that is no table."""
        table = cls()
        table.count = len(columns["steps"])
        for name, dtype in DTYPES.items():
            if columns[name].dtype != dtype or columns[name].shape != (table.count,):
                raise ValueError(f"no column of rows: {name}")
            table._columns[name] = np.array(columns[name])
        return table


class Timeline:
    """The rows of one producer that stand and have a step, sorted by it. Made when the producer first repeats one."""

    def __init__(self, producer: int) -> None:
        self._producer = producer
        self._steps = np.empty(0, np.int64)
        self._rows = np.empty(0, np.int64)
        self._count = 0
        self._seen = 0

    def give_up(self, table: RowTable, row: int, step: int) -> None:
        """Let ``step`` and later ones of the rows before ``row`` stand no more."""
        self._catch_up(table, row)
        kept = int(np.searchsorted(self._steps[: self._count], step))
        table.until[self._rows[kept : self._count]] = row
        self._count = kept

    def _catch_up(self, table: RowTable, row: int) -> None:
        part = slice(self._seen, row)
        mine = (table.producers[part] == self._producer) & (table.steps[part] != NO_STEP)
        new = np.flatnonzero(mine & (table.until[part] == STANDING)) + self._seen
        self._seen = row
        if not len(new):
            return
        start, end = self._count, self._count + len(new)
        if end > len(self._steps):
            self._steps, self._rows = (np.resize(column, 2 * end) for column in (self._steps, self._rows))
        self._steps[start:end], self._rows[start:end], self._count = table.steps[new], new, end
        steps = self._steps[max(start - 1, 0) : end]
        if (steps[1:] < steps[:-1]).any():
            order = np.argsort(self._steps[:end], kind="stable")
            self._steps[:end], self._rows[:end] = self._steps[order], self._rows[order]
