"""Telling that a producer went back: a row repeats a step when one of its keys already has that step or a later one.

Asked of every row, so the usual answer must cost a comparison. Keys that occur together in a row, directly or through
others, are a family, which knows the highest step that any of its rows had: a row above that repeats nothing. Only
when a row is not above are its series looked at, and their points only when a bound does not decide.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from prl.rundir.metrics.catalogue import Catalogue
from prl.rundir.metrics.rows import NO_STEP
from prl.rundir.metrics.segments import Panel


@dataclass
class Family:
    """Keys of one producer that occur together, and the highest step of their rows that stand (or a bound of it)."""

    producer: int
    top: int = NO_STEP


@dataclass
class Layout:
    """The keys of a row, as the numbers of their series, and the rows of such keys that are not in a segment yet."""

    producer: int
    series: NDArray[np.int32]
    """Ascending."""
    order: NDArray[np.intp] | None
    """From the order of the keys in a row to that of ``series``; None when it is the same."""
    evaluates: bool
    """Whether a key is an evaluation's."""
    plain: bool
    """Whether a key is none."""
    family: Family = field(default_factory=lambda: Family(0))
    top: int = NO_STEP
    """Highest step since the catalogue was last brought up to date."""
    timed: bool = False
    """Whether a row of it had no step."""
    rows: list[int] = field(default_factory=list)
    values: bytearray = field(default_factory=bytearray)
    """Values of ``rows`` as doubles, row by row, in the order of the keys."""

    def take_panel(self) -> Panel:
        """The waiting rows, which then wait no more."""
        values = np.frombuffer(self.values, np.float64).reshape(len(self.rows), -1)
        panel = Panel(
            self.series,
            np.array(self.rows, np.int32),
            values if self.order is None else values[:, self.order],
        )
        self.rows, self.values = [], bytearray()
        return panel


class Repeats:
    """Which steps each series has reached."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._families = _families_of(catalogue)
        self._ahead: list[Layout] = []
        """Layouts with a ``top`` that the catalogue does not know."""

    def join(self, layout: Layout, others: Iterable[Layout]) -> None:
        """Give a new layout its family. Families that it connects become one, also for ``others``."""
        family_of = self._catalogue.column("family")
        known = [number for number in set(family_of[layout.series].tolist()) if number >= 0]
        if not known:
            known = [len(self._families)]
            self._families.append(Family(layout.producer))
        target = self._families[known[0]]
        if len(known) > 1:
            gone = [self._families[number] for number in known[1:]]
            target.top = max(target.top, *(family.top for family in gone))
            family_of[np.isin(family_of, known)] = known[0]
            for other in others:
                if any(other.family is family for family in gone):
                    other.family = target
            for number in known[1:]:
                self._families[number] = target
        family_of[layout.series] = known[0]
        layout.family = target

    def repeats(self, layout: Layout, step: int, newest_standing: Callable[[int], int]) -> bool:
        """Whether a series of the layout has a standing point at ``step`` or later.

        ``newest_standing`` looks up the highest step of a series that stands, :data:`NO_STEP` if there is none.
        """
        if step > layout.family.top:
            return False
        self.settle()
        newest, exact = self._catalogue.column("newest"), self._catalogue.column("exact")
        reached = layout.series[newest[layout.series] >= step]
        if exact[reached].any():
            return True
        for series in reached.tolist():
            newest[series], exact[series] = newest_standing(series), True
        return bool((newest[reached] >= step).any())

    def note(self, layout: Layout, step: int) -> None:
        """A row of the layout has this step."""
        family = layout.family
        family.top = max(family.top, step)
        if layout.top == NO_STEP:
            self._ahead.append(layout)
        layout.top = max(layout.top, step)

    def give_up(self, producer: int, step: int) -> None:
        """Nothing of the producer stands at ``step`` or later any more."""
        self.settle()
        newest = self._catalogue.column("newest")
        gone = (self._catalogue.column("producer") == producer) & (newest >= step)
        newest[gone] = step - 1
        self._catalogue.column("exact")[gone] = False
        for family in self._families:
            if family.producer == producer:
                family.top = min(family.top, step - 1)

    def settle(self) -> None:
        """Bring the catalogue up to date."""
        newest, exact = self._catalogue.column("newest"), self._catalogue.column("exact")
        for layout in self._ahead:
            before = newest[layout.series]
            exact[layout.series] |= layout.top >= before
            newest[layout.series] = np.maximum(before, layout.top)
            layout.top = NO_STEP
        self._ahead.clear()


def new_layout(catalogue: Catalogue, producer: str, keys: Sequence[str]) -> Layout:
    """The layout of rows of these keys, one at least, without a family."""
    series = catalogue.series(producer, keys)
    order = np.argsort(series)
    ascending = series[order]
    evaluation = catalogue.column("evaluation")[series]
    return Layout(
        producer=catalogue.producer(producer),
        series=ascending,
        order=None if np.array_equal(series, ascending) else order,
        evaluates=bool(evaluation.any()),
        plain=not evaluation.all(),
    )


def _families_of(catalogue: Catalogue) -> list[Family]:
    """The families of a catalogue that was kept, their tops from its series."""
    family_of, newest, producer = (catalogue.column(name) for name in ("family", "newest", "producer"))
    families = [Family(0) for _ in range(int(family_of.max(initial=-1)) + 1)]
    for series, number in enumerate(family_of.tolist()):
        families[number].producer = int(producer[series])
        families[number].top = max(families[number].top, int(newest[series]))
    return families
