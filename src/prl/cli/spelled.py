"""Names that somebody gives as an answer showed them: harmless, where the run's own have escapes or secrets in them."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from prl.rundir.episodes.filters import Filters
from prl.rundir.episodes.store import AGENT_SEPARATOR
from prl.rundir.episodes.table import EpisodeTable
from prl.watch.outward import safe

_COLUMNS = {"env": "env", "stop_condition": "stop_condition", "group": "group", "task": "task", "agent": "agents"}
"""Conditions on texts: the column each is about."""


def as_recorded(table: EpisodeTable, filters: Filters) -> Filters:
    """The conditions with texts as the run has them."""
    wanted = {name: getattr(filters, name) for name in _COLUMNS}
    known = {
        name: {part for text in table.texts(_COLUMNS[name]) for part in text.split(AGENT_SEPARATOR)}
        if name == "agent"
        else set(table.texts(_COLUMNS[name]))
        for name, texts in wanted.items()
        if texts is not None
    }
    changed: dict[str, Any] = {
        name: tuple(one for text in wanted[name] for one in spelled(text, names)) for name, names in known.items()
    }
    return replace(filters, **changed)


def spelled(text: str, known: Iterable[str]) -> list[str]:
    """``text`` where it is known, else those that are shown so, else ``text``."""
    names = list(known)
    return [text] if text in names else [name for name in names if safe(name) == text] or [text]
