"""One episode by what a person types: its id, the id of one of its traces, its line number, a beginning of an id.

The index is searched as bytes, which costs one pass over it and nothing that must be made or kept first: for a single
look that is faster than opening the table of all episodes. Where the index does not lead to the episode (it is absent,
short, or another stream's) the table is asked, which then reads the stream itself.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from prl.rundir import jsonl
from prl.rundir.episodes.stream import Stream, find_stream, make_place
from prl.rundir.episodes.writer import INDEX
from prl.rundir.layout import numbered
from prl.rundir.matching import matching_lines
from prl.rundir.needles import Finder, json_spellings
from prl.rundir.untyped import as_list

MIN_PREFIX = 4
"""Characters of an id's beginning that are worth a search."""
MAX_CANDIDATES = 10
"""Episodes named when a beginning fits several."""


class EpisodeNotFoundError(LookupError):
    """No episode, or several, are what was asked for. The message says which there are."""


def find_episode(traces: Path, wanted: str) -> dict[str, Any]:
    """The index row of one episode. Raises EpisodeNotFoundError.

    In this order: an id, a trace's id, the number of a line in the stream, a beginning of either id that fits one
    episode only. Of two episodes with one id the later counts.
    """
    row = _exact(traces, wanted) or _by_line(traces, wanted)
    if row is not None:
        return row
    found = [row for row in _named(_rows(traces, _beginnings(wanted)), wanted) if _leads_to(traces, row)]
    if not found:
        found = _without_index(traces, wanted)
    if len(found) == 1:
        return found[0]
    if found:
        named = ", ".join(str(row.get("id")) for row in found[:MAX_CANDIDATES])
        more = ", ..." if len(found) > MAX_CANDIDATES else ""
        raise EpisodeNotFoundError(f"{wanted!r} is the beginning of several episodes' ids: {named}{more}")
    short = f" (a beginning of an id needs {MIN_PREFIX} characters)" if len(wanted) < MIN_PREFIX else ""
    raise EpisodeNotFoundError(f"no episode {wanted!r} in {traces}{short}: `prl episodes` lists those there are")


def _without_index(traces: Path, wanted: str) -> list[dict[str, Any]]:
    from prl.rundir.episodes.table import EpisodeTable

    table = EpisodeTable(traces)
    table.refresh()
    line = numbered(wanted, "")
    row = table.row(wanted) or table.row(trace_id=wanted) or (table.row(line=line) if line is not None else None)
    return [row] if row is not None else _named(table.made_rows(_beginnings(wanted)), wanted)


def _exact(traces: Path, wanted: str) -> dict[str, Any] | None:
    rows = _rows(traces, [beginning + b'"' for beginning in _beginnings(wanted)])
    fitting = [row for row in rows if wanted in _ids(row)]
    fitting.sort(key=lambda row: row.get("id") == wanted)  # a trace with another episode's id counts less
    return next((row for row in reversed(fitting) if _leads_to(traces, row)), None)


def _by_line(traces: Path, wanted: str) -> dict[str, Any] | None:
    line = numbered(wanted, "")
    if line is None:
        return None
    rows = _rows(traces, [f'"line":{space}{line}{end}'.encode() for space in ("", " ") for end in (",", "}")])
    return next((row for row in rows if row.get("line") == line and _leads_to(traces, row)), None)


def _named(rows: Iterable[dict[str, Any]], wanted: str) -> list[dict[str, Any]]:
    """The episodes whose id, or a trace's id, is ``wanted``, else those of which one begins so."""
    found: dict[Any, dict[str, Any]] = {}
    for row in rows:
        names = _ids(row)
        if wanted in names:
            return [row]
        if len(wanted) >= MIN_PREFIX and any(name.startswith(wanted) for name in names):
            found[row.get("id")] = row
            if len(found) > MAX_CANDIDATES:
                break
    return list(found.values())


def _rows(traces: Path, forms: list[bytes]) -> Iterator[dict[str, Any]]:
    """The rows of the index in which one of these stands."""
    for _, line in matching_lines(traces / INDEX, Finder(forms, ignore_case=False)):
        try:
            yield jsonl.decode(line)[0]
        except ValueError:
            continue


def _beginnings(text: str) -> list[bytes]:
    """How a JSON string that begins with ``text`` may begin in a file."""
    return [b'"' + form for form in json_spellings(text)]


def place_of(stream: Stream, row: Mapping[str, Any]) -> int:
    """The place of the record that a row names, by chunk or by file; -1 when it names none.

    Rows of writers that had no chunks yet name neither: their stream is one file.
    """
    chunk = row.get("chunk")
    if chunk is None:
        name = row.get("file")
        chunk = next((number for number in stream.numbers() if stream.file_name(number) == name), None) if name else 0
    return make_place(chunk, row.get("offset"))


def _leads_to(traces: Path, row: dict[str, Any]) -> bool:
    """Whether the record that a row names is there and has its id."""
    stream, name = find_stream(traces), row.get("id")
    place = place_of(stream, row)
    return place >= 0 and isinstance(name, str) and stream.holds(place, name) is True


def _ids(row: dict[str, Any]) -> list[str]:
    names = [row.get("id"), *as_list(row.get("trace_ids"))]
    return [name for name in names if isinstance(name, str)]
