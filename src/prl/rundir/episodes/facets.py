"""Summaries of the episodes that filters choose: histograms, counts by value, groups, one task over the steps.

Each is one pass over a few columns. Means are over what is known, and None where nothing is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from prl.rundir.episodes.columns import UNKNOWN, Array, known
from prl.rundir.episodes.filters import OUTCOMES, Filters, select
from prl.rundir.episodes.store import AGENT_SEPARATOR, COUNTS, FLOATS, STEPS, EpisodeColumns

MAX_BINS = 500
MAX_VALUES = 100
"""Values of one facet; the most frequent are kept."""
NUMERIC = (*FLOATS, *COUNTS, *STEPS, "ship_step")
"""Columns that a histogram can be made of."""
_LARGEST, _SMALLEST = 1e300, 1e-300
"""Beyond the one, values are in no bin; below the other, they differ by nothing."""
_MAX_LABEL = 2**62
_TIMES = ("arrival", "dispatch")
_TIME_WIDTHS = (
    1.0,
    2.0,
    5.0,
    10.0,
    15.0,
    30.0,
    60.0,
    120.0,
    300.0,
    600.0,
    900.0,
    1800.0,
    3600.0,
    7200.0,
    10800.0,
    21600.0,
    43200.0,
)
_TEXT_FACETS = {"env": "env", "kind": "kind", "stop_condition": "stop_condition"}
_FLAG_FACETS = ("truncated", "effective")


@dataclass(frozen=True)
class Histogram:
    """Episodes by the value of a column, in bins of one round width. A bin includes its lower end."""

    by: str
    start: float
    """Lower end of the first bin."""
    width: float
    counts: list[int]
    errors: list[int]
    """Of each bin, episodes that are not ok."""
    total: int
    """All episodes chosen; those in no bin have no such value."""


@dataclass(frozen=True)
class Group:
    """Episodes that belong together: of one group, one task, or one task at one step."""

    env: str | None
    name: str | None
    """Group id, or task key."""
    step: int | None
    count: int
    ok: int
    reward_mean: float | None
    reward_min: float | None
    reward_max: float | None
    reward_std: float | None
    """Over the rewards of the group, with n in the denominator."""
    first_row: int
    """The table's row of its first episode."""
    last_arrival: float | None
    """Unix seconds."""


def histogram(store: EpisodeColumns, filters: Filters, *, by: str, bins: int, upto: int | None) -> Histogram:
    """At most ``bins`` bins. Raises ValueError: no such column, or a number of bins outside 1 to :data:`MAX_BINS`."""
    if by not in NUMERIC:
        raise ValueError(f"no histogram of {by!r}: there are {', '.join(NUMERIC)}")
    if not 1 <= bins <= MAX_BINS:
        raise ValueError(f"{bins} bins: between 1 and {MAX_BINS}")
    chosen = select(store, filters, upto)
    values = store[by][: len(chosen)]
    rows = np.flatnonzero(chosen & known(values) & (np.abs(values) < _LARGEST))
    total = int(chosen.sum())
    if not len(rows):
        return Histogram(by, 0.0, 1.0, [], [], total)
    numbers = values[rows].astype(np.float64)
    low, high = float(numbers.min()), float(numbers.max())
    start, width = _bins(low, high, bins, times=by in _TIMES, whole=values.dtype.kind == "i")
    places = np.clip(np.floor((numbers - start) / width).astype(np.int64), 0, bins - 1)
    size = int(places.max()) + 1
    failed = store["ok"][rows] == 0
    return Histogram(
        by,
        start,
        width,
        np.bincount(places, minlength=size).tolist(),
        np.bincount(places[failed], minlength=size).tolist(),
        total,
    )


def facets(store: EpisodeColumns, filters: Filters, upto: int | None) -> dict[str, dict[str, int]]:
    """Episodes by the values of columns. A column's own condition is left aside, so that other choices show.

    Outcomes overlap; an episode counts for each of its agents.
    """
    counted = {}
    for name, column in _TEXT_FACETS.items():
        chosen = select(store, replace(filters, **{name: None}), upto)
        counted[name] = _by_code(store, column, chosen)
    chosen = select(store, replace(filters, outcome=None), upto)
    counted["outcome"] = {
        name: int((chosen & (store[column][: len(chosen)] == value)).sum())
        for name, (column, value) in OUTCOMES.items()
    }
    for name in _FLAG_FACETS:
        chosen = select(store, replace(filters, **{name: None}), upto)
        flags = np.bincount(store[name][: len(chosen)][chosen] + 1, minlength=3)
        counted[name] = {"true": int(flags[2]), "false": int(flags[1]), "unknown": int(flags[0])}
    chosen = select(store, replace(filters, agent=None), upto)
    agents: dict[str, int] = {}
    for names, count in _by_code(store, "agents", chosen).items():
        for name in names.split(AGENT_SEPARATOR):
            agents[name] = agents.get(name, 0) + count
    counted["agent"] = agents
    return counted


def groups(
    store: EpisodeColumns,
    filters: Filters,
    *,
    by: Sequence[str],
    newest_first: bool,
    limit: int,
    offset: int = 0,
    upto: int | None,
) -> tuple[list[Group], int]:
    """Groups of the chosen episodes with equal ``by`` (``group``, ``task``, ``env``, steps), by their last arrival.

    Returns at most ``limit`` after the first ``offset``, and how many there are. Episodes without the first of ``by``
    are in none.
    """
    chosen = select(store, filters, upto)
    rows = np.flatnonzero(chosen & (store[by[0]][: len(chosen)] != UNKNOWN)).astype(np.int32)
    if not len(rows):
        return [], 0
    labels = _labels([store[name][rows] for name in by])
    count = int(labels.max()) + 1
    arrivals = np.full(count, -np.inf)
    np.fmax.at(arrivals, labels, store["arrival"][rows])
    order = np.argsort(arrivals, kind="stable")
    wanted = (order[::-1] if newest_first else order)[offset : offset + limit]
    if not len(wanted):
        return [], count
    kept = np.isin(labels, wanted)
    labels, rows = labels[kept], rows[kept]
    places = np.argsort(labels, kind="stable")
    labels, rows = labels[places], rows[places]
    starts = np.searchsorted(labels, wanted, "left")
    ends = np.searchsorted(labels, wanted, "right")
    step = next((name for name in by if name.endswith("_step")), None)
    name = "task" if "task" in by else by[0]
    return _groups(store, [rows[start:end] for start, end in zip(starts, ends, strict=True)], name, step), count


def equal_groups(store: EpisodeColumns, rows: Array) -> Array:
    """Of each of some rows, whether its group has several rewards and all are the same (bool): it teaches nothing."""
    groups, envs = store["group"], store["env"]
    wanted = groups[rows]
    members = np.flatnonzero(np.isin(groups, wanted[wanted != UNKNOWN]) & np.isfinite(store["reward"]))
    if not len(members):
        return np.zeros(len(rows), bool)
    keys = (groups[members].astype(np.int64) << 32) + envs[members]
    different, place = np.unique(keys, return_inverse=True)
    rewards = store["reward"][members]
    low, high = np.full(len(different), np.inf), np.full(len(different), -np.inf)
    np.minimum.at(low, place, rewards)
    np.maximum.at(high, place, rewards)
    equal = (np.bincount(place) > 1) & (low == high)
    own = (wanted.astype(np.int64) << 32) + envs[rows]
    at = np.minimum(np.searchsorted(different, own), len(different) - 1)
    return np.asarray((different[at] == own) & equal[at] & (wanted != UNKNOWN))


def _groups(store: EpisodeColumns, members: list[Array], name: str, step: str | None) -> list[Group]:
    """Groups of which each has some rows."""
    first = np.array([rows[0] for rows in members])
    envs = store.pools["env"].texts_of(store["env"][first])
    names = store.pools[name].texts_of(store[name][first])
    steps = store[step][first].tolist() if step else [UNKNOWN] * len(first)
    rewards, arrivals, ok = store["reward"], store["arrival"], store["ok"]
    found = []
    for at, rows in enumerate(members):
        scored = rewards[rows]
        scored = scored[np.isfinite(scored)]
        arrived = arrivals[rows]
        arrived = arrived[np.isfinite(arrived)]
        found.append(
            Group(
                env=envs[at],
                name=names[at],
                step=steps[at] if steps[at] != UNKNOWN else None,
                count=len(rows),
                ok=int(np.count_nonzero(ok[rows] == 1)),
                reward_mean=float(scored.mean()) if len(scored) else None,
                reward_min=float(scored.min()) if len(scored) else None,
                reward_max=float(scored.max()) if len(scored) else None,
                reward_std=float(scored.std()) if len(scored) else None,
                first_row=int(first[at]),
                last_arrival=float(arrived.max()) if len(arrived) else None,
            )
        )
    return found


def _labels(columns: list[Array]) -> Array:
    """One number from 0 on for each different combination."""
    combined = columns[0].astype(np.int64)
    for column in columns[1:]:
        low, span = int(column.min()), int(column.max()) - int(column.min()) + 1
        if int(np.abs(combined).max()) >= _MAX_LABEL // span:
            combined = np.unique(combined, return_inverse=True)[1]
        combined = combined * span + (column.astype(np.int64) - low)
    labels: Array = np.unique(combined, return_inverse=True)[1]
    return labels


def _by_code(store: EpisodeColumns, column: str, chosen: Array) -> dict[str, int]:
    counts = np.bincount(store[column][: len(chosen)][chosen] + 1)[1:]
    most = np.argsort(-counts, kind="stable")[:MAX_VALUES]
    pool = store.pools[column]
    return {pool.text(code) or "": int(counts[code]) for code in most.tolist() if counts[code]}


def _bins(low: float, high: float, bins: int, *, times: bool, whole: bool) -> tuple[float, float]:
    """Start and width of bins that hold low to high: the smallest round width of which ``bins`` do from a multiple of
    it. Round is 1, 2 or 5 times a power of ten; of times what clocks have.
    """
    least = (high - low) / bins
    if times:
        candidates = [*_TIME_WIDTHS, *(86400.0 * 2.0**power for power in range(40))]
    else:
        power = math.floor(math.log10(least)) if least > 0 else 0
        candidates = [float(f"{m}e{power + more}") for more in range(3) for m in (1, 2, 5)]
        if whole:
            candidates = [max(candidate, 1.0) for candidate in candidates]
    for width in candidates:
        start = math.floor(low / width) * width if width else 0.0
        if width >= least and high - start < bins * width:
            return start, width
    return low, math.nextafter(max(least, _SMALLEST), math.inf)  # one bin on both sides of zero
