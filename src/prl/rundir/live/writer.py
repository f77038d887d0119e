"""Writing rollouts in flight: ``live/<trace_id>.jsonl``, and ``live/pending/<dispatch_id>.json`` before a first trace.

The first line of a trace carries the dispatch it belongs to; each line is a delta. The files go when the dispatch ends:
the episode stream then has the whole. A trace of which a delta was lost is given up, since its file would tell a
wrong story from there on.
"""

import contextlib
import shutil
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from prl.rundir import jsonl
from prl.rundir.episodes.record import stored_node

LIVE = "live"
PENDING = "pending"

_ENDED_REMEMBERED = 4096


class LiveWriter:
    """Keeps ``live/`` in step with the dispatches of one process. Making it wipes what an earlier one left."""

    def __init__(self, live: Path, *, float_decimals: int | None = 4) -> None:
        self.live = live
        self.float_decimals = float_decimals
        shutil.rmtree(live, ignore_errors=True)
        (live / PENDING).mkdir(parents=True, exist_ok=True)
        self._pending: set[str] = set()
        """Dispatches that have a file below ``pending/``."""
        self._traces: dict[str, set[str]] = {}
        """Trace files by dispatch."""
        self._lost: dict[str, set[str]] = {}
        """Traces given up, by dispatch."""
        self._ended: OrderedDict[str, None] = OrderedDict()

    def pending(self, dispatch: Mapping[str, Any]) -> None:
        """A dispatch without a trace. Raises OSError."""
        dispatch_id = str(dispatch.get("id"))
        if dispatch_id not in self._ended and dispatch_id not in self._traces:
            path = self._pending_path(dispatch_id)
            self._pending.add(dispatch_id)
            hidden = path.with_name(f".{path.name}")
            hidden.write_bytes(jsonl.encode(dict(dispatch)))
            hidden.replace(path)

    def deltas(self, dispatch: Mapping[str, Any], deltas: Iterable[Mapping[str, Any]]) -> None:
        """Append deltas of one dispatch, one write a trace. Raises OSError; then the trace is given up."""
        dispatch_id = str(dispatch.get("id"))
        if dispatch_id in self._ended:
            return
        lines: dict[str, bytes] = {}
        for delta in deltas:
            trace_id = delta.get("trace")
            if not isinstance(trace_id, str) or trace_id in self._lost.get(dispatch_id, ()):
                continue
            if delta.get("discard"):
                lines.pop(trace_id, None)
                self._remove_trace(dispatch_id, trace_id)
                continue
            known = trace_id in self._traces.get(dispatch_id, ())
            if not known and not isinstance(delta.get("open"), Mapping):
                self.give_up(dispatch_id, trace_id)
                continue
            if not known:
                self._traces.setdefault(dispatch_id, set()).add(trace_id)
            line = _stored_delta(delta, None if known else dispatch, self.float_decimals)
            lines[trace_id] = lines.get(trace_id, b"") + jsonl.encode(line)
        failure: OSError | None = None
        for trace_id, block in lines.items():
            try:
                self._append(trace_id, block)
            except OSError as error:
                self.give_up(dispatch_id, trace_id)
                failure = error
        if dispatch_id in self._traces:
            self._remove_pending(dispatch_id)
        if failure is not None:
            raise failure

    def give_up(self, dispatch_id: str, trace_id: str) -> None:
        """Stop following a trace whose deltas are not whole any more."""
        if dispatch_id in self._ended:
            return
        self._lost.setdefault(dispatch_id, set()).add(trace_id)
        self._remove_trace(dispatch_id, trace_id)

    def done(self, dispatch_id: str) -> None:
        """The dispatch ended: its files go, and what still arrives for it is ignored."""
        for trace_id in self._traces.pop(dispatch_id, set()):
            self._trace_path(trace_id).unlink(missing_ok=True)
        self._lost.pop(dispatch_id, None)
        self._remove_pending(dispatch_id)
        self._ended[dispatch_id] = None
        if len(self._ended) > _ENDED_REMEMBERED:
            self._ended.popitem(last=False)

    def close(self) -> None:
        """Nothing is in flight any more: leave the directory empty."""
        for dispatch_id in list(self._traces):
            self.done(dispatch_id)
        with contextlib.suppress(OSError):
            for path in list((self.live / PENDING).iterdir()):
                path.unlink()

    def _append(self, trace_id: str, block: bytes) -> None:
        file = jsonl.Appender(self._trace_path(trace_id))
        try:
            file.append(block)
        finally:
            file.close()

    def _remove_trace(self, dispatch_id: str, trace_id: str) -> None:
        self._traces.get(dispatch_id, set()).discard(trace_id)
        self._trace_path(trace_id).unlink(missing_ok=True)

    def _remove_pending(self, dispatch_id: str) -> None:
        if dispatch_id in self._pending:
            self._pending_path(dispatch_id).unlink(missing_ok=True)
            self._pending.discard(dispatch_id)

    def _trace_path(self, trace_id: str) -> Path:
        return self.live / live_name(trace_id)

    def _pending_path(self, dispatch_id: str) -> Path:
        return self.live / PENDING / f"{_file_name(dispatch_id)}.json"


def live_name(trace_id: str) -> str:
    """The name of a trace's file."""
    return f"{_file_name(trace_id)}.jsonl"


def _stored_delta(
    delta: Mapping[str, Any], dispatch: Mapping[str, Any] | None, float_decimals: int | None
) -> dict[str, Any]:
    stored = {key: value for key, value in delta.items() if key != "routing_repairs"}
    if isinstance(stored.get("nodes"), list):
        stored["nodes"] = [stored_node(node, float_decimals)[0] for node in stored["nodes"]]
    if dispatch is not None:
        stored["dispatch"] = dict(dispatch)
    return stored


def _file_name(identifier: str) -> str:
    """An id as a file name: ids are made elsewhere and must not lead out of the directory."""
    return quote(identifier, safe="").replace(".", "%2E")[:200]
