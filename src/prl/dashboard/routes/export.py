"""Downloads of the chosen episodes."""

import re

from prl.dashboard.episode_export import records, table
from prl.dashboard.episode_filters import FILTERS, filters_of
from prl.dashboard.parameters import Parameter
from prl.dashboard.routes.episodes import BASE
from prl.dashboard.routing import Call, Download, Route

_MEDIA_TYPES = {"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}


def export(call: Call) -> Download:
    form = call.query["format"]
    with call.run.episodes() as episodes:
        rows = episodes.select(filters_of(call.query)).tolist()
        generation = episodes.version[0]
    pieces = (records if form == "jsonl" else table)(call.run, rows, generation)
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", call.run.run.name).strip("._") or "run"
    return Download(pieces, f"{name}-episodes.{form}", _MEDIA_TYPES[form])


ROUTES = (
    Route(
        f"{BASE}/export",
        export,
        "The chosen episodes as a file, in the order of the stream",
        "`jsonl`: records with what was learned later folded in; `csv`: a table of their values",
        (*FILTERS, Parameter("format", "choice", "of the file", default="jsonl", choices=tuple(_MEDIA_TYPES))),
        media_types=tuple(_MEDIA_TYPES.values()),
    ),
)
