"""Searches of records and logs as answers, each call within bounds and resumed by a cursor.

Python cannot stop a regular expression that backtracks without end, and nothing else runs meanwhile. So a regular
expression is looked for in a process of its own (``python -m prl.dashboard.searching``), which is ended after
:data:`SECONDS`. Left out: a process kept for the next search; one starts in a fifth of a second.
"""

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from prl.dashboard.errors import ApiError, bad_parameter

SECONDS = 15.0
"""How long one call may look for a regular expression."""
MAX_BYTES = {"records": 128 << 20, "lines": 1 << 30}
"""Bytes that one call looks through."""
MAX_BYTES_REGEX = {"records": 32 << 20, "lines": 256 << 20}
"""As :data:`MAX_BYTES`, for a regular expression."""
MAX_HITS = 500


def search_records(traces: Path, **options: Any) -> dict[str, Any]:
    """Texts of episodes, the newest first. ``options`` of :func:`_records`. Raises ApiError."""
    return _run("records", {"traces": str(traces), **options})


def search_log_files(files: Sequence[Path], **options: Any) -> dict[str, Any]:
    """Lines of logs. ``options`` of :func:`_lines`. Raises ApiError."""
    return _run("lines", {"files": [str(path) for path in files], **options})


def log_page(root: Path, **options: Any) -> dict[str, Any]:
    """A page of merged logs whose lines match a regular expression. ``options`` of :func:`_page`. Raises ApiError."""
    return _run("page", {"root": str(root), "regex": True, **options})


def query_of(text: str, *, regex: bool, case: bool) -> Any:
    """What is looked for. Raises ApiError (400)."""
    from prl.rundir.search import Query

    try:
        return Query(text, regex=regex, ignore_case=not case)
    except ValueError as error:
        raise bad_parameter("q", str(error)) from None


def _run(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    query_of(options["text"], regex=options["regex"], case=options["case"])
    if options["regex"]:
        answer = _in_process_of_its_own(kind, options | _bound(MAX_BYTES_REGEX, kind))
    else:
        answer = _perform(kind, options | _bound(MAX_BYTES, kind))
    if "bad" in answer:
        raise bad_parameter("cursor", answer["bad"])
    return answer


def _bound(bounds: Mapping[str, int], kind: str) -> dict[str, int]:
    """A page of entries is bounded by its time."""
    return {"max_bytes": bounds[kind]} if kind in bounds else {}


def _in_process_of_its_own(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    command = [sys.executable, "-m", __name__]
    try:
        done = subprocess.run(
            command, input=orjson.dumps([kind, options]), capture_output=True, timeout=SECONDS, check=True
        )
        answer: dict[str, Any] = orjson.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise bad_parameter("q", f"the expression took more than {SECONDS:g} s: make it simpler") from None
    except (subprocess.CalledProcessError, OSError, ValueError) as error:
        raise ApiError(503, "unreadable", f"the search did not end well: {str(error)[:300]}") from None
    return answer


def _perform(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    performers: dict[str, Callable[..., dict[str, Any]]] = {"records": _records, "lines": _lines, "page": _page}
    try:
        return performers[kind](**options)
    except ValueError as error:  # a cursor that is none of this search
        return {"bad": str(error)}


def _records(
    *, traces: str, text: str, regex: bool, case: bool, cursor: str | None, limit: int, max_bytes: int
) -> dict[str, Any]:
    from prl.rundir.episodes.search import search_episodes

    query = query_of(text, regex=regex, case=case)
    page = search_episodes(Path(traces), query, cursor=cursor, max_bytes=max_bytes, max_hits=limit)
    return {
        "hits": [
            {
                "chunk": hit.chunk,
                "offset": hit.offset,
                "episode_id": hit.episode_id,
                "field": hit.field,
                "trace": hit.trace_id,
                "node": hit.node,
                "role": hit.role,
                "excerpt": hit.excerpt.text,
                "start": hit.excerpt.start,
                "end": hit.excerpt.end,
                "cut_before": hit.excerpt.cut_before,
                "cut_behind": hit.excerpt.cut_behind,
                "texts": hit.texts,
            }
            for hit in page.hits
        ],
        "damaged": page.damage.lines,
        **_progress(page),
    }


def _lines(
    *,
    files: Sequence[str],
    text: str,
    regex: bool,
    case: bool,
    cursor: str | None,
    limit: int,
    backwards: bool,
    max_bytes: int,
) -> dict[str, Any]:
    from prl.rundir.logs.search import search_logs
    from prl.text.secrets import mask_secrets

    query = query_of(text, regex=regex, case=case)
    page = search_logs(
        [Path(name) for name in files],
        query,
        cursor=cursor,
        max_bytes=max_bytes,
        max_hits=limit,
        backwards=backwards,
    )
    hits = []
    for hit in page.hits:
        shown, span = mask_secrets(hit.line.text), (hit.line.start, hit.line.end)
        if shown != hit.line.text:
            span = query.find(shown) or (0, 0)
        hits.append({"path": str(hit.path), "offset": hit.offset, "text": shown, "start": span[0], "end": span[1]})
    return {"hits": hits, "trouble": page.trouble, **_progress(page)}


def _page(*, root: str, attempt: int | None, text: str, regex: bool, case: bool, **options: Any) -> dict[str, Any]:
    from prl.dashboard.log_view import page_answer
    from prl.rundir.logs.merge import RunLogs

    logs = RunLogs(Path(root), attempt)
    return page_answer(logs, query=query_of(text, regex=regex, case=case), **options)


def _progress(page: Any) -> dict[str, Any]:
    return {
        "cursor": page.cursor,
        "done": page.done,
        "restarted": page.restarted,
        "scanned_bytes": page.scanned_bytes,
        "total_bytes": page.total_bytes,
    }


def main() -> None:
    """One search: what is wanted comes in as JSON, the answer goes out as JSON."""
    from prl.rundir import jsonl

    kind, options = orjson.loads(sys.stdin.buffer.read())
    sys.stdout.buffer.write(jsonl.encode(_perform(kind, options)))


if __name__ == "__main__":
    main()
