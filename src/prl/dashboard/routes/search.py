"""Text search over the episodes of a run."""

from typing import Any

from prl.dashboard.episode_filters import FILTERS, filters_of
from prl.dashboard.episode_rows import reference
from prl.dashboard.parameters import Parameter
from prl.dashboard.routes.episodes import BASE
from prl.dashboard.routing import Call, Route, head
from prl.dashboard.searching import MAX_HITS, search_records

TEXT = Parameter("q", "text", "what to look for", required=True)
REGEX = Parameter("regex", "flag", "`q` is a regular expression of Python", default=False)
CASE = Parameter("case", "flag", "letters must agree in case", default=False)
CURSOR = Parameter("cursor", "text", "`cursor` of an earlier answer: go on behind it", longest=5000)


def search(call: Call) -> dict[str, Any]:
    query = call.query
    found = search_records(
        call.run.rollouts.traces,
        text=query["q"],
        regex=query["regex"],
        case=query["case"],
        cursor=query["cursor"],
        limit=query["limit"],
    )
    found["hits"] = _chosen(call, found["hits"])
    return head(**found)


def _chosen(call: Call, hits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The hits in episodes that the filters choose, with what opens each."""
    import numpy as np

    with call.run.episodes() as table:
        places = [(hit.pop("chunk"), hit.pop("offset")) for hit in hits]
        rows = table.rows_at(places)
        known = rows >= 0
        if any(call.query[parameter.name] not in (None, ()) for parameter in FILTERS):
            known &= np.isin(rows, table.select(filters_of(call.query)))
        lines = table.column("line")
        chosen = []
        for hit, row, there in zip(hits, rows.tolist(), known.tolist(), strict=True):
            line = int(lines[row]) if row >= 0 else None
            if there:
                ref = reference({"id": hit["episode_id"], "line": line})
                chosen.append({**hit, "line": line, "ref": ref})
        return chosen


ROUTES = (
    Route(
        f"{BASE}/search",
        search,
        "Texts of episodes that match, the newest first, a part of the records a call",
        "`hits`: `trace` is a trace's id, `start` and `end` where the match is in `excerpt`; `cursor`: where to go on, "
        "null when everything was searched",
        (
            TEXT,
            REGEX,
            CASE,
            CURSOR,
            Parameter("limit", "integer", "hits at most", default=100, minimum=1, maximum=MAX_HITS),
            *FILTERS,
        ),
    ),
)
