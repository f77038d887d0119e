"""The trace ids of many lines at once: index rows and update records both say ``trace_id`` near their beginning.

Lines as every known writer makes them are taken apart by numpy, 4 MB in about 10 ms; any other line by the JSON
decoder. What is taken from a line is its id alone, without a look at the rest: who uses a line decodes it.
"""

import re
from typing import TYPE_CHECKING, Any

from prl.rundir import jsonl
from prl.rundir.annotations.positions import hash_ids, hash_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BEGINNING = re.compile(rb'\{(?:"version": ?\d+, ?)?"trace_id": ?"')


class LineIds:
    """Of a block of whole lines: hash of the trace id and byte offset of each line that has one."""

    def __init__(self, data: bytes, offset: int) -> None:
        import numpy as np

        self.strangers = 0
        """Lines with something on them that is no object with a trace id."""
        starts, ends = _bounds(data)
        fits, id_starts, id_ends = _plain_ids(data, starts, ends)
        hashes = np.zeros(len(starts), np.uint64)
        raw = np.frombuffer(data, np.uint8)
        lengths = id_ends - id_starts
        for length in np.unique(lengths[fits]):
            rows = np.flatnonzero(fits & (lengths == length))
            hashes[rows] = hash_rows(raw[id_starts[rows, None] + np.arange(length)])
        others = [(line, self._decoded(data[starts[line] : ends[line]])) for line in np.flatnonzero(~fits).tolist()]
        found = [(line, trace_id) for line, trace_id in others if trace_id is not None]
        places = [line for line, _ in found]
        hashes[places] = hash_ids([trace_id for _, trace_id in found])
        fits[places] = True
        self.hashes: NDArray[Any] = hashes[fits]
        self.offsets: NDArray[Any] = starts[fits] + offset

    def _decoded(self, line: bytes) -> str | None:
        if not line or line.isspace():
            return None
        try:
            trace_id = jsonl.decode(line)[0].get("trace_id")
        except ValueError:
            trace_id = None
        if isinstance(trace_id, str):
            return trace_id
        self.strangers += 1
        return None


def _bounds(data: bytes) -> "tuple[NDArray[Any], NDArray[Any]]":
    """First byte of each line, and the byte after its last (its newline)."""
    import numpy as np

    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    starts = np.zeros_like(ends)
    starts[1:] = ends[:-1] + 1
    return starts, ends


def _plain_ids(
    data: bytes, starts: "NDArray[Any]", ends: "NDArray[Any]"
) -> "tuple[NDArray[Any], NDArray[Any], NDArray[Any]]":
    """Which lines begin as the first one does and hold an id without escapes; where the ids begin and end."""
    import numpy as np

    raw = np.frombuffer(data, np.uint8)
    nothing = np.zeros(len(starts), bool), starts, starts
    match = _BEGINNING.match(data)
    if match is None or not len(starts):
        return nothing
    beginning = np.frombuffer(match[0], np.uint8)
    fits = ends - starts > len(beginning)
    within = np.minimum(starts, len(raw) - len(beginning))
    for place, byte in enumerate(beginning.tolist()):
        fits &= raw[within + place] == byte
    quotes = np.flatnonzero(raw == ord('"'))
    id_starts = starts + len(beginning)
    closing = np.searchsorted(quotes, id_starts)
    fits &= closing < len(quotes)
    id_ends = quotes[np.minimum(closing, len(quotes) - 1)]
    fits &= (id_ends < ends) & (raw[ends - 1] == ord("}"))
    if b"\\" in data:
        escapes = np.flatnonzero(raw == ord("\\"))
        fits &= np.searchsorted(escapes, id_starts) == np.searchsorted(escapes, id_ends)
    return fits, id_starts, id_ends


def record_id(line: bytes) -> str | None:
    """The trace id of one line, which is decoded only when its beginning is not as known writers make it.

    None when there is none. A line that is torn behind its id counts as having none.
    """
    match = _BEGINNING.match(line)
    if match is not None and line.endswith(b"}"):
        raw = line[match.end() : line.find(b'"', match.end())]
        if raw.isascii() and b"\\" not in raw:
            return raw.decode()
    try:
        trace_id = jsonl.decode(line)[0].get("trace_id")
    except ValueError:
        return None
    return trace_id if isinstance(trace_id, str) else None
