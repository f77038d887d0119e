"""Pages of merged logs as answers: entries with secrets masked, around a moment or a place, older or newer.

Text comes without terminal escapes; ``styled`` is the first line with them, where a page may show its colours.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from prl.text.secrets import mask_secrets

if TYPE_CHECKING:
    from prl.rundir.logs.entries import LogEntry
    from prl.rundir.logs.merge import LogPage, RunLogs
    from prl.rundir.search import Query

MAX_LIMIT = 1000
MAX_LINE = 4000
"""Characters of one line."""
SECONDS = 0.3
"""How long one page looks before it gives what it has; a part that is begun is read to its end."""
_PART = 4 << 20
"""Bytes looked through at once."""
_BEFORE = 3
"""Of a page around a place, one part in so many stands before it."""


def page_answer(
    logs: "RunLogs",
    *,
    query: "Query | None" = None,
    components: Sequence[str] = (),
    level: str = "TRACE",
    ranks: Sequence[int] = (),
    before: str | None = None,
    after: str | None = None,
    at: float | None = None,
    place: tuple[str, int] | None = None,
    limit: int = 400,
) -> dict[str, Any]:
    """One page: the newest entries, those before or after a cursor, or those around a moment or a file's byte.

    Raises CursorError (a ValueError), and KeyError when ``place`` names no log of the attempt.
    """
    wanted: dict[str, Any] = {"level": level, "ranks": ranks, "query": query}
    names = list(components)
    anchor = None
    if at is None and place is None:
        pages = [_page(logs, limit, before, after, components=names, **wanted)]
    else:
        if place is not None:
            cursor = logs.cursor_of(*place, names, ranks)
            component = next(file.component for file in logs.files() if logs.name(file) == place[0])
            if names and not any(file.component == component for file in logs.files(names, ranks)):
                names.append(component)
        else:
            cursor = logs.cursor_at(at or 0.0, names, ranks)
        some = max(limit // _BEFORE, 1)
        earlier = _page(logs, some, cursor, None, components=names, **wanted)
        later = _page(logs, max(limit - some, 1), None, cursor, components=names, **wanted)
        pages, anchor = [earlier, later], len(earlier.entries)
    return _answer(logs, pages, anchor)


def _page(logs: "RunLogs", limit: int, before: str | None, after: str | None, **wanted: Any) -> "LogPage":
    """A page made of parts, each of which goes on where the last one ended, until it is full or the time is up."""
    deadline = time.monotonic() + SECONDS
    page = logs.page(before=before, after=after, limit=limit, max_bytes=_PART, **wanted)
    whole = replace(page)
    while not page.complete and (after is not None or page.older is not None) and time.monotonic() < deadline:
        left = limit - len(whole.entries)
        if after is None:
            page = logs.page(before=page.older, limit=left, max_bytes=_PART, **wanted)
            whole = replace(whole, entries=page.entries + whole.entries, older=page.older)
        else:
            page = logs.page(after=page.newer, limit=left, max_bytes=_PART, **wanted)
            whole = replace(whole, entries=whole.entries + page.entries, newer=page.newer)
        whole.complete, whole.scanned_bytes = page.complete, whole.scanned_bytes + page.scanned_bytes
    return whole


def _answer(logs: "RunLogs", pages: "list[LogPage]", anchor: int | None) -> dict[str, Any]:
    first, last = pages[0], pages[-1]
    return {
        "attempt": logs.attempt,
        "entries": [entry_row(entry) for page in pages for entry in page.entries],
        "anchor": anchor,
        "older": first.older,
        "newer": last.newer,
        "complete": all(page.complete for page in pages),
        "scanned_bytes": sum(page.scanned_bytes for page in pages),
        "files": list(last.files),
        "trouble": list(dict.fromkeys(text for page in pages for text in page.trouble)),
    }


def entry_row(entry: "LogEntry") -> dict[str, Any]:
    """An entry as a row of an answer. ``more`` holds the last lines of ``more_total`` that follow the first."""
    message = _line(entry.message)
    plain = message == entry.message
    return {
        "component": entry.component,
        "file": entry.file,
        "offset": entry.offset,
        "end": entry.end,
        "line": None,
        "level": entry.level,
        "time": entry.time,
        "exact": entry.exact,
        "rank": entry.rank,
        "tag": _line(entry.tag) if entry.tag else entry.tag,
        "message": message,
        "styled": entry.styled if plain and entry.styled and len(entry.styled) <= MAX_LINE else None,
        "more": _lines(entry.more),
        "more_total": len(entry.more),
        "exception": _line(entry.exception) if entry.exception else entry.exception,
        "count": entry.count,
        "last_time": entry.last_time,
        "states": entry.states,
        "complete": entry.complete,
    }


def _line(text: str) -> str:
    shown = mask_secrets(text)
    return shown if len(shown) <= MAX_LINE else f"{shown[:MAX_LINE]}…"


def _lines(lines: list[str]) -> list[str]:
    """Lines that belong together: what is secret in them may go over several."""
    if not lines:
        return []
    return [
        line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}…" for line in mask_secrets("\n".join(lines)).split("\n")
    ]
