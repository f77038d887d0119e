"""The logs of a run: files, pages merged by time, search, what was written when, known failures."""

from contextlib import suppress
from typing import Any

from prl.dashboard.errors import bad_parameter, not_found
from prl.dashboard.log_desk import Scanned, component_rows, rail
from prl.dashboard.log_view import MAX_LIMIT, page_answer
from prl.dashboard.parameters import Parameter
from prl.dashboard.routes.search import CASE, CURSOR, REGEX, TEXT
from prl.dashboard.routing import Call, Route, head
from prl.dashboard.searching import MAX_HITS, log_page, query_of, search_log_files
from prl.text.secrets import mask_secrets

BASE = "/api/v1/runs/{run}/logs"
LEVELS = ("TRACE", "DEBUG", "INFO", "SUCCESS", "WARNING", "ERROR", "CRITICAL")
ATTEMPT = Parameter("attempt", "integer", "default: the newest", minimum=0)
COMPONENT = Parameter("component", "text", "names, groups or patterns with `*`", many=True)
_MAX_CURSOR = 50_000
"""Characters of a cursor, which names every file."""


def version(call: Call) -> str:
    return call.run.log_desk.version(call.query["attempt"])


def incidents_version(call: Call) -> str:
    return call.run.log_desk.incidents(call.query["attempt"]).state


def rail_version(call: Call) -> str:
    return f"{version(call)} {incidents_version(call)}"


def files(call: Call) -> dict[str, Any]:
    with call.run.log_desk.logs(call.query["attempt"]) as logs:
        return head(
            attempt=logs.attempt,
            attempts=list(logs.attempts),
            components=component_rows(logs),
            left_out=logs.left_out,
            trouble=list(logs.trouble),
        )


def page(call: Call) -> dict[str, Any]:
    query = call.query
    if sum(query[name] is not None for name in ("before", "after", "at", "file")) > 1:
        raise bad_parameter("before", "give one of before, after, at and file")
    if (query["file"] is None) != (query["offset"] is None):
        raise bad_parameter("file", "goes with offset")
    place = (query["file"], query["offset"]) if query["file"] is not None else None
    options: dict[str, Any] = {name: query[name] for name in ("level", "before", "after", "at", "limit")}
    options |= {"components": list(query["component"]), "ranks": list(query["rank"]), "place": place}
    try:
        if query["regex"] and query["q"]:
            with call.run.log_desk.logs(query["attempt"]) as logs:
                attempt = logs.attempt
                _known(logs, place)
            found = log_page(call.run.path, attempt=attempt, text=query["q"], case=query["case"], **options)
        else:
            wanted = query_of(query["q"], regex=False, case=query["case"]) if query["q"] else None
            with call.run.log_desk.logs(query["attempt"]) as logs:
                _known(logs, place)
                found = page_answer(logs, query=wanted, **options)
    except ValueError as error:
        raise bad_parameter("before" if query["before"] is not None else "after", str(error)) from None
    return head(**found)


def search(call: Call) -> dict[str, Any]:
    query = call.query
    with call.run.log_desk.logs(query["attempt"]) as logs:
        paths = [file.path for file in logs.files(query["component"])]
    found = search_log_files(
        paths,
        text=query["q"],
        regex=query["regex"],
        case=query["case"],
        cursor=query["cursor"],
        limit=query["limit"],
        backwards=query["order"] == "desc",
    )
    with call.run.log_desk.logs(query["attempt"]) as logs:
        known = {str(file.path): file for file in logs.files()}
        hits = []
        for hit in found["hits"]:
            file = known.get(hit.pop("path"))
            if file is not None:
                place = {"file": logs.name(file), "component": file.component}
                hits.append({**place, "time": _moment(logs, file, hit), **hit})
    return head(**{**found, "hits": hits})


def incidents(call: Call) -> dict[str, Any]:
    scanned = call.run.log_desk.incidents(call.query["attempt"])
    return head(
        attempt=scanned.attempt,
        incidents=[_incident(one) | _more(one) for one in scanned.found.incidents],
        scanned_bytes=scanned.found.scanned_bytes,
        total_bytes=scanned.found.total_bytes,
        trouble=list(scanned.found.trouble),
    )


def whole(call: Call) -> dict[str, Any]:
    query = call.query
    scanned: Scanned = call.run.log_desk.incidents(query["attempt"])
    with call.run.log_desk.logs(query["attempt"]) as logs:
        counts = rail(logs, query["component"], query["bins"])
    return head(**counts, incidents=[_incident(one) for one in scanned.found.incidents])


def _moment(logs: Any, file: Any, hit: dict[str, Any]) -> float | None:
    with suppress(OSError):
        moment: float | None = logs.moment(file, hit["offset"], hit["text"])
        return moment
    return None


def _known(logs: Any, place: tuple[str, int] | None) -> None:
    """Only a log of the list is read, never a path from a client."""
    if place is not None and all(logs.name(file) != place[0] for file in logs.files()):
        raise not_found(f"no log {place[0][:200]!r} of attempt {logs.attempt}")


def _incident(incident: Any) -> dict[str, Any]:
    return {
        "id": incident.id,
        "severity": incident.severity,
        "time": incident.first,
        "file": incident.file,
        "offset": incident.offset,
        "text": mask_secrets(incident.text)[:2000],
        "component": incident.component,
    }


def _more(incident: Any) -> dict[str, Any]:
    signature, collective = incident.signature, incident.collective
    return {
        "last": incident.last,
        "exact": incident.exact,
        "count": incident.count,
        "components": incident.components,
        "files": incident.files,
        "rank": incident.rank,
        "ranks": incident.ranks,
        "role": signature.role,
        "fault": signature.fault,
        "cause": signature.cause,
        "fix": signature.fix,
        "consequence_of": incident.consequence_of,
        "collective": {
            "op": collective.op,
            "timeout": collective.timeout,
            "seen": collective.seen,
            "missing": collective.missing,
            "suspects": collective.suspects,
        }
        if collective is not None
        else None,
    }


ROUTES = (
    Route(
        f"{BASE}/files",
        files,
        "Log files of an attempt by component",
        "`components`; `default`: what is read when none is asked for",
        (ATTEMPT,),
        version,
    ),
    Route(
        f"{BASE}/search",
        search,
        "Lines of whole logs that match, file after file",
        "`hits`: `start` and `end` where the match is in `text`; `time`: about when; `cursor`: where to go on",
        (
            ATTEMPT,
            COMPONENT,
            TEXT,
            REGEX,
            CASE,
            CURSOR,
            Parameter("order", "choice", "each file from its beginning or end", default="asc", choices=("asc", "desc")),
            Parameter("limit", "integer", "hits at most", default=200, minimum=1, maximum=MAX_HITS),
        ),
    ),
    Route(
        f"{BASE}/rail",
        whole,
        "How much was written when, and known failures on that scale",
        "`counts`: bytes a bin between `start` and `end`",
        (ATTEMPT, COMPONENT, Parameter("bins", "integer", "so many", default=200, minimum=1, maximum=2000)),
        rail_version,
    ),
    Route(
        f"{BASE}/incidents",
        incidents,
        "Known failures that the logs tell of, one a kind",
        "`incidents`: what broke first comes first",
        (ATTEMPT,),
        incidents_version,
    ),
    Route(
        BASE,
        page,
        "Log entries merged by time: the newest, or around, before or after a place",
        "`entries`: oldest first; `older`, `newer`: cursors for `before` and `after`; `anchor`: how many entries stand "
        "before the place asked for; `complete`: false where reading was ended by its bound: go on with the cursor",
        (
            ATTEMPT,
            COMPONENT,
            Parameter("level", "choice", "the least level", default="TRACE", choices=LEVELS),
            Parameter("rank", "integer", "ranks", many=True, minimum=0),
            Parameter("q", "text", "only entries with a line that holds this"),
            REGEX,
            CASE,
            Parameter("before", "text", "cursor `older` of an answer", longest=_MAX_CURSOR),
            Parameter("after", "text", "cursor `newer` of an answer; empty: from the beginning", longest=_MAX_CURSOR),
            Parameter("at", "number", "around this moment, Unix seconds"),
            Parameter("file", "text", "around a byte of this file, a name of `logs/files`"),
            Parameter("offset", "integer", "that byte", minimum=0),
            Parameter("limit", "integer", "entries at most", default=400, minimum=1, maximum=MAX_LIMIT),
        ),
        version,
    ),
)
