"""What every route over episodes is filtered and sorted by: parameters of an address, and what they mean for the table.

Left out: text, which takes a pass over the records: that is the search, a route of its own.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from prl.dashboard.parameters import Parameter

if TYPE_CHECKING:
    from prl.rundir.episodes.filters import Filters
    from prl.rundir.episodes.table import EpisodeTable

OUTCOMES = ("ok", "error", "timeout", "truncated")

FILTERS = (
    Parameter("env", "text", "environments", many=True),
    Parameter("kind", "text", "`train`, `eval`", many=True),
    Parameter("outcome", "choice", "how they ended; they overlap", choices=OUTCOMES, many=True),
    Parameter("agent", "text", "agents that took part", many=True),
    Parameter("stop", "text", "stop conditions", many=True),
    Parameter("group", "text", "group ids", many=True),
    Parameter("task", "text", "task keys", many=True),
    Parameter("step", "range", "the step whose batch they went into; `..`: any"),
    Parameter("dispatched", "range", "the trainer's step when they were sent out"),
    Parameter("reward", "range", "reward"),
    Parameter("since", "number", "arrival at the earliest, Unix seconds"),
    Parameter("until", "number", "arrival at the latest, Unix seconds"),
    Parameter("truncated", "flag", "whether a limit cut them"),
    Parameter("effective", "flag", "whether training or evaluation used them"),
)
"""Conditions that all must hold; of one that is given several times any."""

SORTS = {
    "arrival": "arrival",
    "started": "dispatch",
    "duration": "duration",
    "reward": "reward",
    "advantage": "advantage",
    "cost": "cost",
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "turns": "turns",
    "branches": "branches",
    "errors": "num_errors",
    "step": "ship_step",
    "dispatched": "dispatch_step",
    "line": "line",
    "env": "env",
    "kind": "kind",
    "stop": "stop_condition",
    "agent": "agents",
    "group": "group",
    "task": "task",
}
"""Names of an order, and the column of the table. Groups and tasks stand in the order of their first episodes."""

HISTOGRAMS = {
    name: SORTS[name]
    for name in (
        "arrival",
        "started",
        "duration",
        "reward",
        "advantage",
        "cost",
        "input_tokens",
        "output_tokens",
        "turns",
        "branches",
        "step",
        "dispatched",
    )
}

SORT = Parameter("sort", "choice", "the order", default="arrival", choices=tuple(SORTS))
ORDER = Parameter("order", "choice", "unknown values stand last either way", default="desc", choices=("asc", "desc"))
UPTO = Parameter("upto", "integer", "`upto` of an earlier answer: keep to its list", minimum=0)

_FIELDS = {
    "env": "env",
    "kind": "kind",
    "outcome": "outcome",
    "agent": "agent",
    "stop": "stop_condition",
    "group": "group",
    "task": "task",
    "step": "ship_step",
    "dispatched": "dispatch_step",
    "truncated": "truncated",
    "effective": "effective",
    "since": "since",
    "until": "until",
}


def filters_of(query: Mapping[str, Any]) -> "Filters":
    """The conditions that a request sets."""
    from prl.rundir.episodes.filters import Filters

    conditions: dict[str, Any] = {}
    for name, field in _FIELDS.items():
        value = query[name]
        conditions[field] = None if value == () else value
    low, high = query["reward"] or (None, None)
    return Filters(**conditions, reward_min=low, reward_max=high)


def without_each(table: "EpisodeTable", query: Mapping[str, Any]) -> dict[str, int]:
    """How many episodes each condition alone takes away: what is left when it is lifted, by its parameter's name."""
    found = {}
    for parameter in FILTERS:
        if query[parameter.name] not in (None, ()):
            lifted = {**query, parameter.name: () if parameter.many else None}
            found[parameter.name] = len(table.select(filters_of(lifted)))
    return found
