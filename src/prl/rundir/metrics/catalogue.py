"""The series of a metrics file by number, and how far each has come.

``newest`` is the highest step of a series that stands. After a producer went back it is only a bound for the series
that were not written since (``exact`` is false), because the steps below are not looked through before somebody asks.
``timed``: a row without a step had it. ``evaluation``: its key is one. ``family``: see :mod:`.repeats`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prl.rundir.metrics.reader import EVALUATION
from prl.rundir.metrics.rows import NO_STEP

DTYPES: dict[str, Any] = {
    "producer": np.int32,
    "evaluation": np.bool_,
    "family": np.int32,
    "newest": np.int64,
    "exact": np.bool_,
    "timed": np.bool_,
}
_FIRST = {"producer": 0, "evaluation": False, "family": -1, "newest": NO_STEP, "exact": True, "timed": False}


class Catalogue:
    """Names and numbers of producers and series. A number never changes."""

    def __init__(self) -> None:
        self.producers: list[str] = []
        self.names: list[tuple[str, str]] = []
        """(producer, key) of each series."""
        self._producers: dict[str, int] = {}
        self._series: dict[str, dict[str, int]] = {}
        self._columns: dict[str, NDArray[Any]] = {name: np.empty(0, dtype) for name, dtype in DTYPES.items()}

    def producer(self, name: str) -> int:
        """The number of a producer, a new one for a new producer."""
        number = self._producers.get(name)
        if number is None:
            number = self._producers[name] = len(self.producers)
            self.producers.append(name)
        return number

    def find_producer(self, name: str) -> int | None:
        return self._producers.get(name)

    def find(self, producer: str, key: str) -> int | None:
        """The number of a series, None when there is no such series."""
        return self._series.get(producer, {}).get(key)

    def series(self, producer: str, keys: Sequence[str]) -> NDArray[np.int32]:
        """The numbers of a producer's series, new ones for new keys."""
        known = self._series.setdefault(producer, {})
        try:
            return np.array([known[key] for key in keys], np.int32)
        except KeyError:
            for key in keys:
                if key not in known:
                    known[key] = self._add(producer, key)
        return np.array([known[key] for key in keys], np.int32)

    def column(self, name: str) -> NDArray[Any]:
        """A column over all series. It is writable, and stale once a series is added."""
        return self._columns[name][: len(self.names)]

    def columns(self) -> dict[str, NDArray[Any]]:
        return {name: self.column(name) for name in DTYPES}

    def _add(self, producer: str, key: str) -> int:
        number = len(self.names)
        if number == len(self._columns["newest"]):
            for column, first in _FIRST.items():
                grown = np.full(max(2 * number, 256), first, DTYPES[column])
                grown[:number] = self._columns[column]
                self._columns[column] = grown
        self.names.append((producer, key))
        self._columns["producer"][number] = self.producer(producer)
        self._columns["evaluation"][number] = key.startswith(EVALUATION)
        return number

    @classmethod
    def of(cls, producers: list[str], names: list[tuple[str, str]], columns: dict[str, NDArray[Any]]) -> "Catalogue":
        """A catalogue of what another's attributes and :meth:`columns` gave. Raises KeyError or ValueError."""
        catalogue = cls()
        for producer in producers:
            catalogue.producer(producer)
        for producer, key in names:
            catalogue.series(producer, [key])
        if len(catalogue.names) != len(names) or len(catalogue.producers) != len(producers):
            raise ValueError("a name twice")
        for name, dtype in DTYPES.items():
            if columns[name].dtype != dtype or columns[name].shape != (len(names),):
                raise ValueError(f"no column of series: {name}")
            catalogue.column(name)[:] = columns[name]
        return catalogue
