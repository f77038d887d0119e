"""The episodes of a run: pages of the list, counts by value, histograms."""

from dataclasses import asdict
from typing import Any

from prl.dashboard.episode_filters import (
    FILTERS,
    HISTOGRAMS,
    ORDER,
    SORT,
    SORTS,
    UPTO,
    filters_of,
    without_each,
)
from prl.dashboard.episode_rows import episode_rows
from prl.dashboard.parameters import Parameter
from prl.dashboard.routing import Call, Route, head

BASE = "/api/v1/runs/{run}/episodes"
MAX_LIMIT = 512


def version(call: Call) -> str:
    """Of everything that the table of episodes tells."""
    return call.run.episodes_version()


def page(call: Call) -> dict[str, Any]:
    query, filters = call.query, filters_of(call.query)
    with call.run.episodes() as table:
        found = table.page(
            filters,
            sort=SORTS[query["sort"]],
            descending=query["order"] == "desc",
            offset=query["offset"],
            limit=query["limit"],
            upto=query["upto"],
        )
        return head(
            version="-".join(map(str, table.version)),
            generation=found.generation,
            total=found.total,
            offset=found.offset,
            upto=found.upto,
            new=len(table.select(filters)) - found.total if found.upto < table.count else 0,
            all=table.count,
            rows=episode_rows(table, found.rows),
            values_missing=table.values_missing,
            problems=[*table.remarks, *([table.trouble] if table.trouble else [])],
            damage={name: damage.lines for name, damage in table.damage.items() if damage.lines},
        )


def facets(call: Call) -> dict[str, Any]:
    filters = filters_of(call.query)
    with call.run.episodes() as table:
        return head(
            facets=table.facets(filters),
            steps=_range(table.column("ship_step")),
            reward=_range(table.column("reward")),
            total=len(table.select(filters)),
            all=table.count,
            without=without_each(table, call.query),
        )


def histogram(call: Call) -> dict[str, Any]:
    query = call.query
    with call.run.episodes() as table:
        found = table.histogram(filters_of(query), by=HISTOGRAMS[query["by"]], bins=query["bins"], upto=query["upto"])
    return head(**{**asdict(found), "by": query["by"]})


def _range(column: Any) -> list[float] | None:
    """The least and the greatest of what is known in a column."""
    import numpy as np

    known = column[np.isfinite(column)] if column.dtype.kind == "f" else column[column >= 0]
    return [known.min().item(), known.max().item()] if len(known) else None


ROUTES = (
    Route(
        BASE,
        page,
        "Episodes, filtered, in an order",
        "`rows`: an episode each, `ref` being what opens it; `total`: those chosen; `new`: chosen ones beyond `upto`; "
        "`values_missing`: episodes whose task, agents and steps are not known yet",
        (
            *FILTERS,
            SORT,
            ORDER,
            Parameter("offset", "integer", "pass over so many", default=0, minimum=0),
            Parameter("limit", "integer", "at most so many", default=128, minimum=0, maximum=MAX_LIMIT),
            UPTO,
        ),
        version,
    ),
    Route(
        f"{BASE}/facets",
        facets,
        "How many episodes each value would leave, its own condition aside",
        "`facets`: counts by value; `steps`, `reward`: what there is in the whole run; `without`: by condition what is "
        "left when it alone is lifted",
        FILTERS,
        version,
    ),
    Route(
        f"{BASE}/histogram",
        histogram,
        "Episodes by the value of a column",
        "`counts`, `errors`: a number a bin; bin 0 begins at `start`",
        (
            *FILTERS,
            Parameter("by", "choice", "the column", default="arrival", choices=tuple(HISTOGRAMS)),
            Parameter("bins", "integer", "at most so many", default=80, minimum=1, maximum=500),
            UPTO,
        ),
        version,
    ),
)
