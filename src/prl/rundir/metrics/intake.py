"""From lines of a metrics file to columns.

Rows of one layout (producer and keys) are packed as they come and become one matrix a block, so that no object is made
for a point. What a row means is :mod:`prl.rundir.metrics.reader`'s: the same functions, and the same supersession.
"""

import struct
from functools import lru_cache
from typing import Any

import numpy as np
import orjson

from prl.rundir.following import Block
from prl.rundir.jsonl import Damage
from prl.rundir.metrics.catalogue import Catalogue
from prl.rundir.metrics.reader import MAX_STEP, infer_producer, to_number, to_step, to_time
from prl.rundir.metrics.repeats import Layout, Repeats, new_layout
from prl.rundir.metrics.rows import NO_STEP, STANDING, RowTable, Timeline
from prl.rundir.metrics.segments import Segment, SegmentStack

_MAX_LAYOUTS = 512
"""Layouts kept known. Rows of sparse keys have as many layouts as there are rows."""


class Columns:
    """All that was read of a metrics file."""

    def __init__(
        self, catalogue: Catalogue | None = None, rows: RowTable | None = None, segments: SegmentStack | None = None
    ) -> None:
        self.catalogue = catalogue or Catalogue()
        self.rows = rows or RowTable()
        self.segments = segments or SegmentStack()
        self.damage = Damage()
        self.drift: dict[str, int] = {}
        """Values that were neither numbers nor null, by key."""
        self.schema_version: int | None = None
        """The newest form that a row says it has, where one does."""
        self.turns: set[int] = set(self.rows.until[self.rows.until != STANDING].tolist())
        """Rows with which a producer went back."""
        self._repeats = Repeats(self.catalogue)
        self._timelines: dict[int, Timeline] = {}
        self._layouts: dict[tuple[str | None, ...], Layout] = {}
        self._waiting: list[Layout] = []
        """Layouts with rows that are not in a segment yet."""
        self._new: dict[str, list[Any]] = {name: [] for name in ("steps", "times", "offsets", "producers", "plain")}
        self._given_up: list[tuple[int, int, int]] = []
        """(row, producer, step): what is to be given up with the new rows."""

    def add(self, block: Block) -> None:
        """Take the lines of a block."""
        for offset, line in block.lines():
            try:
                raw = orjson.loads(line)
            except ValueError:
                raw = None
            if type(raw) is not dict:
                raw = self.damage.decode(offset, line)
            if raw is not None:
                self._add_row(offset, raw)
        self._flush()
        self._repeats.settle()

    def _add_row(self, offset: int, raw: dict[str, Any]) -> None:
        step, time, producer = raw.pop("step", None), raw.pop("time", None), raw.pop("producer", None)
        form = raw.pop("schema_version", None)
        if type(form) is int and form > (self.schema_version or 0):
            self.schema_version = form
        if type(step) is not int or not -MAX_STEP <= step <= MAX_STEP:
            step = to_step(step)
        if not isinstance(producer, str):
            producer = None
        try:
            packed = _packer(len(raw)).pack(*raw.values())
        except struct.error:
            raw = self._numbers(raw)
            packed = _packer(len(raw)).pack(*raw.values())
        layout = self._layout(producer, raw) if raw else None
        if layout is None:
            number = self.catalogue.producer(infer_producer(raw) if producer is None else producer)
        else:
            number = layout.producer
            if step is not None:
                self._place(layout, step)
            elif not layout.timed:
                layout.timed = True
                self.catalogue.column("timed")[layout.series] = True
            if not layout.rows:
                self._waiting.append(layout)
            layout.rows.append(self.rows.count + len(self._new["steps"]))
            layout.values += packed
        new = self._new
        new["steps"].append(NO_STEP if step is None else step)
        seconds = to_time(time)
        new["times"].append(np.nan if seconds is None else seconds)
        new["offsets"].append(offset)
        new["producers"].append(number)
        new["plain"].append(layout is not None and layout.plain)

    def _place(self, layout: Layout, step: int) -> None:
        """Note a row's step, and what its producer gives up with it. Evaluations give up nothing."""
        if not layout.evaluates and self._repeats.repeats(layout, step, self._newest_standing):
            self._repeats.give_up(layout.producer, step)
            self._given_up.append((self.rows.count + len(self._new["steps"]), layout.producer, step))
        self._repeats.note(layout, step)

    def _layout(self, producer: str | None, values: dict[str, float]) -> Layout:
        name = (producer, *values)
        layout = self._layouts.get(name)
        if layout is None:
            if len(self._layouts) >= _MAX_LAYOUTS:
                self._layouts.clear()
            writer = infer_producer(values) if producer is None else producer
            layout = new_layout(self.catalogue, writer, name[1:])  # type: ignore[arg-type]
            self._repeats.join(layout, self._layouts.values())
            self._layouts[name] = layout
        return layout

    def _numbers(self, raw: dict[str, Any]) -> dict[str, float]:
        numbers = {}
        for key, value in raw.items():
            number = to_number(value)
            if number is not None:
                numbers[key] = number
            elif value is not None:
                self.drift[key] = self.drift.get(key, 0) + 1
        return numbers

    def _flush(self) -> None:
        """Bring rows and segments up to date."""
        self.rows.extend(self._new)
        for values in self._new.values():
            values.clear()
        for row, producer, step in self._given_up:
            self._timelines.setdefault(producer, Timeline(producer)).give_up(self.rows, row, step)
            self.turns.add(row)
        self._given_up.clear()
        if self._waiting:
            self.segments.add(Segment.of([layout.take_panel() for layout in self._waiting]))
            self._waiting.clear()

    def _newest_standing(self, series: int) -> int:
        self._flush()
        rows, _ = self.segments.find(series)
        return int(self.rows.steps[rows[self.rows.until[rows] == STANDING]].max(initial=NO_STEP))


@lru_cache(maxsize=4096)
def _packer(count: int) -> struct.Struct:
    return struct.Struct(f"{count}d")
