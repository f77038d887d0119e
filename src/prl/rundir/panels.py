"""The curated charts of a run: which metrics, under which title, in which unit, with which explanation.

``panels.json`` beside this module is their one list, for every overview there is. Its form is the one that prime-rl's
has (``common_metrics``, ``common_regexes``, ``rl``, ``sft``, each of sections with entries of ``metric``, ``metrics``
or ``regex``), so that its readers understand ours; titles, units and limits are further fields of the entries, of
``sections`` and of ``metrics``, a list of what keys mean (``example``: a key that ``regex`` fits). Keys are matched
under their newer names, so that the runs of older writers are drawn too. Left out: drawing, and what a limit's number
is (a threshold of the watch side).
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from prl.rundir.metrics.names import Name, fits, newer_name

KINDS = ("rl", "sft", "eval")
FORMATS = ("number", "percent", "seconds", "tokens", "bytes", "rate", "count")
"""How to write a value. ``percent``: it is a share of 1."""
AUTO, MAX, NONE = "auto", "max", "none"
"""Bands of a panel: p10 and p90 where a series has them, else its lowest and highest; up to the highest; none."""
MAX_LINES = 12
"""Lines of one chart. More cannot be told apart."""

_PATH = Path(__file__).parent / "panels.json"
_USUAL = ("agg", "all", "agent")
"""What stands in a key for all environments together, and what the only agent is called."""


@dataclass(frozen=True)
class Limit:
    """A value beyond which the watch side speaks."""

    threshold: str
    """``area.name`` of :class:`prl.watch.thresholds.Thresholds`."""
    above: bool
    """Whether what is above is wrong; else what is below."""
    of: str | None = None
    """The threshold is a factor of the series' recent ``median``, or of its values at the ``beginning``."""


@dataclass(frozen=True)
class Meaning:
    """What the keys of a pattern mean."""

    match: str
    """A pattern of :func:`prl.rundir.metrics.names.fits`."""
    title: str
    about: str
    format: str = "number"
    unit: str = ""
    from_zero: bool = False
    """Whether a chart's axis begins at 0."""
    limit: Limit | None = None


@dataclass(frozen=True)
class Line:
    """One series of a chart, and the two of its band where it has them."""

    label: str
    name: Name
    low: Name | None = None
    high: Name | None = None


@dataclass(frozen=True)
class Panel:
    """One curated chart."""

    id: str
    title: str
    about: str
    format: str
    unit: str
    from_zero: bool
    limit: Limit | None
    metrics: tuple[str, ...]
    """Keys, one a line. Empty where ``regex`` says which."""
    regex: str | None
    labels: tuple[str, ...]
    producers: tuple[str, ...]
    """Whose series is meant, where several write the key. The only one that there is counts in any case."""
    bands: str
    several: bool
    """Whether a single line is not worth the chart."""
    without: str | None
    """A first group of ``regex`` that is left out when there are others."""


@dataclass(frozen=True)
class Section:
    """Charts that belong together."""

    id: str
    title: str
    note: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Chart:
    """A panel with the series of a run."""

    panel: Panel
    lines: tuple[Line, ...]
    left_out: int = 0
    """Series beyond :data:`MAX_LINES`."""


@dataclass(frozen=True)
class Panels:
    """All of the file."""

    kinds: Mapping[str, tuple[Section, ...]]
    meanings: tuple[Meaning, ...]
    document: Mapping[str, Any] = field(repr=False, hash=False, compare=False)
    """As it is written."""

    def sections(self, kind: str) -> tuple[Section, ...]:
        """The sections of a run's kind. A run of an unknown kind is looked at as one of RL."""
        return self.kinds.get(kind, self.kinds["rl"])

    def meaning(self, key: str) -> Meaning | None:
        """What a key means, None where nothing is said of it."""
        return _meaning(self.meanings, newer_name(key))


@lru_cache(maxsize=1)
def load_panels() -> Panels:
    """The curated charts."""
    return parse_panels(json.loads(_PATH.read_text(encoding="utf-8")))


def parse_panels(document: Mapping[str, Any]) -> Panels:
    """The charts of a document of this form. Raises KeyError, ValueError or TypeError on another."""
    meanings = tuple(_read_meaning(entry) for entry in document.get("metrics", ()))
    titles = document.get("sections", {})
    kinds = {}
    for kind in KINDS:
        kinds[kind] = tuple(
            Section(
                id=name,
                title=titles.get(name, {}).get("title", name),
                note=titles.get(name, {}).get("note", ""),
                panels=tuple(_read_panel(entry, meanings) for entry in entries),
            )
            for name, entries in document.get(kind, {}).items()
        )
    return Panels(kinds, meanings, document)


def charts(section: Section, names: Sequence[Name]) -> list[Chart]:
    """The charts of a section that a run with these series has something to draw in."""
    catalogue = _Catalogue(names)
    found = (_chart(panel, catalogue) for panel in section.panels)
    return [chart for chart in found if chart is not None]


def band_of(name: Name, names: Iterable[Name], bands: str = AUTO) -> tuple[Name | None, Name | None]:
    """The series below and above a mean, of those that there are. ``names`` is looked up in: give a set."""
    producer, key = name
    base, _, last = key.rpartition("/")
    if last != "mean" or bands == NONE:
        return None, None
    ways = ((None, "max"),) if bands == MAX else (("p10", "p90"), ("min", "max"))
    for low, high in ways:
        lower = (producer, f"{base}/{low}") if low else None
        upper = (producer, f"{base}/{high}")
        if upper in names and (lower is None or lower in names):
            return lower, upper
    return None, None


class _Catalogue:
    """The series of a run, by what newer writers call them."""

    def __init__(self, names: Sequence[Name]) -> None:
        self.names = set(names)
        self.by_key: dict[str, list[Name]] = {}
        for name in names:
            self.by_key.setdefault(newer_name(name[1]), []).append(name)

    def find(self, key: str, producer: str | None) -> list[Name]:
        """The series of a key, of one producer where that has it."""
        found = self.by_key.get(key, [])
        return [name for name in found if name[0] == producer] or found


def _chart(panel: Panel, catalogue: _Catalogue) -> Chart | None:
    lines = _matching(panel, catalogue) if panel.regex is not None else _listed(panel, catalogue)
    if not lines or (panel.several and len(lines) < 2):
        return None
    shown = lines[:MAX_LINES]
    return Chart(panel, tuple(_with_band(panel, catalogue, line) for line in shown), len(lines) - len(shown))


def _with_band(panel: Panel, catalogue: _Catalogue, line: Line) -> Line:
    low, high = band_of(line.name, catalogue.names, panel.bands)
    return Line(line.label, line.name, low, high)


def _listed(panel: Panel, catalogue: _Catalogue) -> list[Line]:
    lines: list[Line] = []
    for index, key in enumerate(panel.metrics):
        producer = panel.producers[index] if index < len(panel.producers) else None
        found = catalogue.find(key, producer)
        for name in found:
            if any(line.name == name for line in lines):
                continue
            label = panel.labels[index] if panel.labels else (name[0] if len(found) > 1 else "")
            lines.append(Line(label, name))
    return lines


def _matching(panel: Panel, catalogue: _Catalogue) -> list[Line]:
    pattern = re.compile(panel.regex or "")
    found = [
        (match.groups(), name)
        for key, names in sorted(catalogue.by_key.items())
        if (match := pattern.fullmatch(key)) is not None
        for name in names
    ]
    others = [(groups, name) for groups, name in found if not groups or groups[0] != panel.without]
    found = others or found
    told_apart = [len({groups[index] for groups, _ in found}) > 1 for index in range(pattern.groups)]
    producers = len({name[0] for _, name in found}) > 1
    return [Line(_label(groups, told_apart, name[0] if producers else ""), name) for groups, name in found]


def _label(groups: Sequence[str | None], told_apart: Sequence[bool], producer: str) -> str:
    """What tells a line from the others of its chart; of a single one the first group, where that names something."""
    parts = [part for part, needed in zip(groups, told_apart, strict=True) if needed and part]
    if not parts and groups and groups[0] and groups[0] not in _USUAL:
        parts = [groups[0]]
    return ", ".join([*parts, producer] if producer else parts)


def _read_meaning(entry: Mapping[str, Any]) -> Meaning:
    limit = entry.get("limit")
    given = {name: entry[name] for name in ("match", "title", "about", "format", "unit", "from_zero") if name in entry}
    meaning = Meaning(**given, limit=None if limit is None else Limit(**limit))
    if meaning.format not in FORMATS:
        raise ValueError(f"{meaning.match}: no format {meaning.format!r}")
    return meaning


def _read_panel(entry: Mapping[str, Any], meanings: Sequence[Meaning]) -> Panel:
    metrics = tuple(entry.get("metrics") or ([entry["metric"]] if "metric" in entry else []))
    regex = entry.get("regex")
    if bool(metrics) == (regex is not None):
        raise ValueError(f"a panel has metrics or a regex: {entry}")
    example: str = entry.get("example") or (*metrics, regex)[0]
    known = _meaning(meanings, example) or Meaning(example, entry.get("title", example), "")
    return Panel(
        id=entry.get("id", example),
        title=entry.get("title", known.title),
        about=entry.get("about", known.about),
        format=entry.get("format", known.format),
        unit=entry.get("unit", known.unit),
        from_zero=entry.get("from_zero", known.from_zero),
        limit=known.limit,
        metrics=metrics,
        regex=regex,
        labels=tuple(entry.get("labels", ())),
        producers=tuple(entry.get("producers") or ([entry["producer"]] if "producer" in entry else [])),
        bands=entry.get("bands", AUTO),
        several=entry.get("several", False),
        without=entry.get("without"),
    )


def _meaning(meanings: Iterable[Meaning], key: str) -> Meaning | None:
    return next((meaning for meaning in meanings if fits(key, meaning.match)), None)
