"""Which episodes of a table are meant: conditions that all must hold, as one array of booleans.

An episode of which a condition's value is unknown does not meet it. Ranges include both ends.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from prl.rundir.episodes.columns import UNKNOWN, Array
from prl.rundir.episodes.store import AGENT_SEPARATOR, EpisodeColumns

OUTCOMES = {"ok": ("ok", 1), "error": ("ok", 0), "timeout": ("timeout", 1), "truncated": ("truncated", 1)}
"""Outcomes: column and value. They overlap: an episode that ran into a time limit mostly failed too."""
NEED_VALUES = frozenset({"agent", "task", "dispatch_step"})
"""Conditions on what only rows of values say."""

Texts = str | tuple[str, ...]
Steps = int | tuple[int | None, int | None]


@dataclass(frozen=True)
class Filters:
    """Conditions on episodes; None sets none. Several texts: any of them. Steps: one, or (first, last)."""

    env: Texts | None = None
    kind: Texts | None = None
    """``train``, ``eval``."""
    outcome: Texts | None = None
    """Of :data:`OUTCOMES`."""
    agent: Texts | None = None
    """An agent that took part."""
    ship_step: Steps | None = None
    """The step whose batch the episode went into."""
    dispatch_step: Steps | None = None
    """The trainer's step when the episode was sent out."""
    reward_min: float | None = None
    reward_max: float | None = None
    stop_condition: Texts | None = None
    group: Texts | None = None
    task: Texts | None = None
    """A task's key."""
    truncated: bool | None = None
    effective: bool | None = None
    """Whether training or evaluation used it."""
    since: float | None = None
    """Unix seconds of arrival, at the earliest."""
    until: float | None = None

    @property
    def need_values(self) -> bool:
        """Whether a condition is on what only rows of values say."""
        return any(getattr(self, name) is not None for name in NEED_VALUES)


def select(store: EpisodeColumns, filters: Filters, upto: int | None = None) -> Array:
    """Of each of the first ``upto`` rows, whether it meets the filters (bool). Raises ValueError: unknown outcome."""
    count = len(store) if upto is None else min(max(upto, 0), len(store))
    chosen = np.ones(count, bool)
    for condition in _conditions(store, filters):
        chosen &= condition[:count]
    return chosen


def _conditions(store: EpisodeColumns, filters: Filters) -> Iterator[Array]:
    for name in ("env", "kind", "stop_condition", "group", "task"):
        texts = getattr(filters, name)
        if texts is not None:
            yield _one_of(store[name], [store.pools[name].find(text) for text in _tuple(texts)])
    if filters.agent is not None:
        wanted = set(_tuple(filters.agent))
        sets = [set(text.split(AGENT_SEPARATOR)) for text in store.pools["agents"].texts()]
        yield _one_of(store["agents"], [code for code, names in enumerate(sets) if names & wanted])
    if filters.outcome is not None:
        yield _outcomes(store, _tuple(filters.outcome))
    for name in ("ship_step", "dispatch_step"):
        steps = getattr(filters, name)
        if steps is not None:
            first, last = steps if isinstance(steps, tuple) else (steps, steps)
            yield (store[name] != UNKNOWN) & _between(store[name], first, last)
    for name in ("truncated", "effective"):
        flag = getattr(filters, name)
        if flag is not None:
            yield store[name] == int(flag)
    if filters.reward_min is not None or filters.reward_max is not None:
        yield _between(store["reward"], filters.reward_min, filters.reward_max)
    if filters.since is not None or filters.until is not None:
        yield _between(store["arrival"], filters.since, filters.until)


def _outcomes(store: EpisodeColumns, names: tuple[str, ...]) -> Array:
    met = np.zeros(len(store), bool)
    for name in names:
        if name not in OUTCOMES:
            raise ValueError(f"no outcome {name!r}: there are {', '.join(OUTCOMES)}")
        column, value = OUTCOMES[name]
        met |= store[column] == value
    return met


def _one_of(column: Array, codes: list[int | None]) -> Array:
    found: list[Any] = [code for code in codes if code is not None]
    return column == found[0] if len(found) == 1 else np.isin(column, found)


def _between(column: Array, first: float | None, last: float | None) -> Array:
    """Both ends included; NaN is between none."""
    low = column >= (-np.inf if first is None else first)
    high = column <= (np.inf if last is None else last)
    return np.asarray(low & high)


def _tuple(texts: Texts) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else texts
