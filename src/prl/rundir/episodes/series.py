"""Values of each episode by name, as parallel arrays: what an evaluation's distributions are drawn from.

Rewards, metrics and timing are kept as points, one a trace and name; an episode's value is the mean over its traces.
"""

from collections.abc import Collection

import numpy as np

from prl.rundir.episodes.columns import UNKNOWN, Array
from prl.rundir.episodes.store import COUNTS, FLAGS, FLOATS, NO_AGENT, EpisodeColumns, Points

OWN = (*FLOATS, *COUNTS, *FLAGS)
"""Series that columns of the index are."""


def series(
    store: EpisodeColumns, rows: Array, *, names: Collection[str] | None = None, agent: str | None = None
) -> dict[str, Array]:
    """For the episodes in ``rows`` (ascending), arrays parallel to them; NaN where an episode has no such value.

    ``line`` (int64) is always there. The others are float64: columns of the index (flags as 0 and 1), and
    ``rewards/<name>`` (scores before weighting), ``metrics/<name>``, ``timing/<stage>`` as far as any of the episodes
    has them. ``names`` chooses; ``agent`` takes only its traces, and their mean reward as ``reward``.
    """
    found: dict[str, Array] = {"line": store["line"][rows].astype(np.int64)}
    for name in OWN:
        if (names is None or name in names) and not (agent is not None and name == "reward"):
            found[name] = _own(store[name][rows])
    found.update(_points(store.points, rows, len(store), names, agent))
    return found


def value_names(store: EpisodeColumns) -> list[str]:
    """All names that any episode has values of, sorted."""
    return sorted({*OWN, *store.points.names.texts()})


def _own(values: Array) -> Array:
    return np.where(values == UNKNOWN, np.nan, values) if values.dtype.kind == "i" else values


def _points(
    points: Points, rows: Array, count: int, names: Collection[str] | None, agent: str | None
) -> dict[str, Array]:
    position = np.full(count, -1, np.int32)
    position[rows] = np.arange(len(rows), dtype=np.int32)
    at = position[points.columns["row"].view()]
    chosen = at >= 0
    if agent is not None:
        code = points.agents.find(agent)
        chosen &= points.columns["agent"].view() == (NO_AGENT if code is None else code)
        if code is None:
            return {}
    codes = points.columns["name"].view()[chosen]
    order = np.argsort(codes, kind="stable")  # of 16 bits: one pass a byte
    codes, at = codes[order], at[chosen][order]
    values = points.columns["value"].view()[chosen][order]
    found = {}
    for code in np.unique(codes).tolist():
        start, end = np.searchsorted(codes, [code, code + 1]).tolist()
        name = points.names.text(code) or ""
        if (name == "reward" and agent is None) or (names is not None and name not in names):
            continue
        found[name] = _means(at[start:end], values[start:end], len(rows))
    return found


def _means(at: Array, values: Array, count: int) -> Array:
    if len(at) and (np.diff(at) > 0).all():  # one point an episode, in order: nothing to average
        dense = np.full(count, np.nan)
        dense[at] = values
        return dense
    numbers = np.bincount(at, minlength=count)
    with np.errstate(invalid="ignore", divide="ignore"):
        means: Array = np.bincount(at, weights=values, minlength=count) / numbers
    means[numbers == 0] = np.nan
    return means
