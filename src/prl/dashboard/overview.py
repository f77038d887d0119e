"""The overview of a run as one answer: tiles, where the time goes, the curated charts, marks.

However many environments a run has, the answer stays of one size: their lines share a number of points. Left out:
findings, which are the verdict's, and episodes.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from prl.dashboard.axes import Axes, Axis
from prl.dashboard.limits import Alarm, alarm
from prl.dashboard.lines import Lines, Window
from prl.dashboard.marks import evaluated_steps, marks
from prl.dashboard.open_runs import OpenRun
from prl.dashboard.tiles import Source, by_id, tiles
from prl.rundir.metrics.store import MetricsStore
from prl.rundir.panels import Chart, Section, charts, load_panels
from prl.rundir.runs import RunInfo
from prl.watch.thresholds import Thresholds
from prl.watch.verdict import Bottleneck

MAX_VALUES = 8000
"""Values of all lines and bands together."""
MIN_POINTS = 24
"""Points that a line has in any case."""
_DIGITS = 5


def overview(
    run: OpenRun,
    info: RunInfo,
    store: MetricsStore,
    *,
    limits: Thresholds,
    bottleneck: Bottleneck | None,
    axis: Axis,
    points: int,
    start: float | None = None,
    end: float | None = None,
) -> dict[str, Any]:
    """All that the overview shows, as plain JSON and arrays. ``info``: what is known of the run beside its metrics.

    ``start`` and ``end``: the part of the axis that lines are of; tiles, marks and the last step are of the whole run.
    """
    panels, names = load_panels(), store.names()
    sections = [(section, charts(section, names)) for section in panels.sections(info.kind)]
    drawn = [chart for _, found in sections for chart in found]
    axes = Axes(store)
    window = Window(axis, start, end, points=_share(drawn, points), digits=_DIGITS)
    drawing = _Drawing(store, axes, limits, window)
    source = Source(info, store, axes, panels, by_id(drawn), limits)
    return {
        "kind": info.kind,
        "tiles": tiles(source),
        "bottleneck": None if bottleneck is None else asdict(bottleneck),
        "sections": [
            {
                "id": section.id,
                "title": section.title,
                "note": section.note,
                "charts": [drawing.chart(chart) for chart in found],
            }
            for section, found in sections
        ],
        "marks": {**marks(run, store), "alarms": drawing.alarms},
        "axis": axis,
        "last_step": last_step(store),
        "partial": not store.whole,
        "missing": [
            {"section": section.id, "why": _why_empty(section, info, store)} for section, found in sections if not found
        ],
    }


def last_step(store: MetricsStore) -> int | None:
    """The newest step of any producer; where there are evaluations alone, theirs."""
    steps = [step for name in {name for name, _ in store.names()} if (step := store.last_step(name)) is not None]
    return max(steps or evaluated_steps(store), default=None)


class _Drawing:
    """Draws the charts of one run."""

    def __init__(self, store: MetricsStore, axes: Axes, limits: Thresholds, window: Window) -> None:
        self._store, self._axes, self._limits, self._window = store, axes, limits, window
        self._lines = Lines(store, axes)
        self.alarms: list[dict[str, Any]] = []
        """The limits of what was drawn, each once."""

    def chart(self, chart: Chart) -> dict[str, Any]:
        panel = chart.panel
        limit = self._limit(chart)
        return {
            "id": panel.id,
            "title": panel.title,
            "unit": panel.unit,
            "format": panel.format,
            "about": panel.about,
            "limit": None if limit is None else limit.to_json(),
            "from_zero": panel.from_zero,
            "left_out": chart.left_out,
            "lines": [
                {"label": line.label, **self._lines.line(line.name, self._window, (line.low, line.high))}
                for line in chart.lines
            ],
        }

    def _limit(self, chart: Chart) -> Alarm | None:
        """The limit of a chart: of several lines that have each their own usual value, there is none."""
        limit = chart.panel.limit
        if limit is None or (limit.of is not None and len(chart.lines) > 1):
            return None
        key = chart.lines[0].name[1]
        values = self._axes.points(chart.lines[0].name, "step").y
        found = alarm(limit, self._limits, values, whole=self._store.whole)
        if found is not None:
            self.alarms.append({"key": key, "limit": found.value, "above": found.above})
        return found


def _share(drawn: Sequence[Chart], points: int) -> int:
    """How many points each line gets."""
    series = sum(1 + (line.low is not None) + (line.high is not None) for chart in drawn for line in chart.lines)
    return max(min(points, MAX_VALUES // max(series, 1)), MIN_POINTS)


def _why_empty(section: Section, info: RunInfo, store: MetricsStore) -> str:
    """Why there is nothing to draw, and what would make it appear."""
    if store.trouble is not None:
        return f"The metrics cannot be read: {store.trouble}"
    if store.absent:
        return f"There are no metrics yet. They appear in {store.path.name} with the first step."
    if not store.rows:
        return "No row of metrics was written yet. The first comes with the first step."
    if not store.whole:
        return "The metrics are still being read."
    if section.id == "eval" and not info.eval_envs:
        return "No evaluation is configured."
    if section.id == "eval":
        return "No evaluation has ended yet."
    if section.id == "inference":
        return "The engines' metrics were not recorded. Older writers send them elsewhere; else no engine answered yet."
    return "The run has written no metric of this section yet."
