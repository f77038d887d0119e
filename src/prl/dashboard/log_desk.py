"""The logs of one run, kept open by attempt: their clocks, their sizes, the failures that they tell of.

Pages and failures are read under locks of their own, so that a scan of whole logs keeps no page waiting. A search
takes no lock at all.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prl.dashboard.errors import not_found

if TYPE_CHECKING:
    from prl.rundir.logs.components import LogFile
    from prl.rundir.logs.incident_scan import Incidents
    from prl.rundir.logs.merge import RunLogs

KEPT = 3
"""Attempts whose logs are kept open."""
LIST_SECONDS = 2.0
"""How old the list of files may be."""
SIZE_SECONDS = 0.5
_REST = 20
"""A scan for failures rests so many times as long as it took, before logs that grow are scanned again."""
_LEAST_REST = 5.0


@dataclass
class Scanned:
    """What a scan of an attempt's logs found."""

    attempt: int | None
    state: str
    """Of the logs as they were then."""
    found: "Incidents"
    ended: float
    seconds: float


class LogDesk:
    """The logs of a run. Safe to use from several threads."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.RLock()
        self._logs: OrderedDict[int | None, RunLogs] = OrderedDict()
        self._listed: dict[int | None, float] = {}
        self._states: dict[tuple[int | None, int | None], tuple[float, str]] = {}
        self._scan_lock = threading.Lock()
        self._scanned: OrderedDict[int | None, Scanned] = OrderedDict()

    @contextmanager
    def logs(self, attempt: int | None = None) -> "Iterator[RunLogs]":
        """The logs of an attempt (default: the newest), for as long as the block lasts. Raises ApiError (404)."""
        with self._lock:
            yield self._open(attempt)

    def _open(self, wanted: int | None) -> "RunLogs":
        from prl.rundir.locate import list_attempts
        from prl.rundir.logs.merge import RunLogs

        attempts = list_attempts(self._root)
        if wanted is not None and wanted not in attempts:
            raise not_found(f"no attempt {wanted}: there are {', '.join(map(str, attempts)) or 'none'}")
        attempt = wanted if wanted is not None else (attempts[-1] if attempts else None)
        now = time.monotonic()
        found = self._logs.get(attempt)
        if found is None or found.attempts != tuple(attempts):
            found = self._logs[attempt] = RunLogs(self._root, attempt)
            self._listed[attempt] = now
        elif now - self._listed[attempt] > LIST_SECONDS:
            found.refresh()
            self._listed[attempt] = now
        self._logs.move_to_end(attempt)
        while len(self._logs) > KEPT:
            self._listed.pop(self._logs.popitem(last=False)[0], None)
        return found

    def version(self, attempt: int | None = None) -> str:
        """Changes when a log of the attempt does. Raises ApiError (404)."""
        with self.logs(attempt) as logs:
            key = (attempt, logs.attempt)
            kept = self._states.get(key)
            now = time.monotonic()
            if kept is None or now - kept[0] > SIZE_SECONDS:
                kept = self._states[key] = (now, _state(logs))
            return kept[1]

    def incidents(self, attempt: int | None = None) -> "Scanned":
        """The failures that an attempt's logs tell of. Of logs that grow they may be some seconds old."""
        from prl.rundir.logs.incident_scan import find_incidents
        from prl.rundir.logs.merge import RunLogs

        with self.logs(attempt) as logs:
            number, state = logs.attempt, self.version(attempt)
        with self._scan_lock:
            kept = self._scanned.get(number)
            rest = max(_LEAST_REST, _REST * kept.seconds) if kept else 0.0
            if kept is None or (kept.state != state and time.monotonic() - kept.ended > rest):
                began = time.monotonic()
                # Its own clocks: those of the pages are in use under another lock.
                found = find_incidents(RunLogs(self._root, number))
                ended = time.monotonic()
                kept = self._scanned[number] = Scanned(number, state, found, ended, ended - began)
                while len(self._scanned) > KEPT:
                    self._scanned.popitem(last=False)
            return kept


def _state(logs: "RunLogs") -> str:
    sizes = []
    for file in logs.files():
        try:
            about = file.path.stat()
        except OSError:
            continue
        sizes.append((logs.name(file), about.st_size, about.st_mtime_ns, about.st_ino))
    return f"{logs.attempt} {logs.attempts} {hash(tuple(sizes)):x} {logs.left_out}"


def component_rows(logs: "RunLogs") -> list[dict[str, Any]]:
    """The components of an attempt and their files. ``default``: what is read when none is asked for."""
    chosen = {file.path for file in _default(logs)}
    rows: dict[str, dict[str, Any]] = {}
    for file in logs.files():
        row = rows.setdefault(
            file.component, {"name": file.component, "group": file.group, "files": [], "default": False}
        )
        row["default"] = row["default"] or file.path in chosen
        row["files"].append({"name": logs.name(file), "bytes": _size(file), "rank": file.rank, "node": file.node})
    return list(rows.values())


def rail(logs: "RunLogs", components: Sequence[str], bins: int) -> dict[str, Any]:
    """How much was written when: bytes by bins of time over the whole of the logs."""
    spans: list[tuple[float, float, int]] = []
    for file in logs.files(components) if components else _default(logs):
        with suppress(OSError):
            spans += logs.spans(file)
    if not spans:
        return {"start": None, "end": None, "counts": [], "unit": "bytes"}
    start, end = min(span[0] for span in spans), max(span[1] for span in spans)
    width = (end - start) / bins or 1.0
    counts = [0.0] * bins
    for first, last, size in spans:
        low, high = (min(int((moment - start) / width), bins - 1) for moment in (first, last))
        for place in range(low, high + 1):
            within = min(last, start + (place + 1) * width) - max(first, start + place * width)
            counts[place] += size * within / (last - first) if last > first else size
    return {"start": start, "end": end, "counts": [round(count) for count in counts], "unit": "bytes"}


def _default(logs: "RunLogs") -> "list[LogFile]":
    from prl.rundir.logs.components import select_logs

    return select_logs(logs.files())


def _size(file: "LogFile") -> int | None:
    try:
        return file.path.stat().st_size
    except OSError:
        return None
