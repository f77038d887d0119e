"""Writing the episode stream with its index and its values.

Order for each episode: record, values row, index row. Whoever finds an index row therefore finds the record, and a
record without rows (the process died between) gets them when the stream is next opened.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prl.rundir import jsonl
from prl.rundir.chunks import ChunkWriter, Sealer, iter_objects
from prl.rundir.derived import DerivedRows, row_number
from prl.rundir.episodes.record import index_row, stored_record, values_row

STREAM = "stream"
INDEX = "stream.index.jsonl"
VALUES = "stream.values.jsonl"


class EpisodeWriter:
    """Appends episodes below ``traces``, the only writer there. Takes up what an earlier process left."""

    def __init__(
        self, traces: Path, *, chunk_bytes: int, float_decimals: int | None = 4, sealer: Sealer | None = None
    ) -> None:
        self.traces = traces
        self.float_decimals = float_decimals
        self._index = DerivedRows(traces / INDEX)
        self._values = DerivedRows(traces / VALUES)
        self._stream = ChunkWriter(traces / STREAM, chunk_bytes=chunk_bytes, sealer=sealer)
        self._restore_rows()

    def append(self, record: dict[str, Any], *, arrival: float | None = None) -> None:
        """Write one episode. ``arrival``: Unix seconds, for a record without a trace to be stamped on.

        Raises OSError when the record could not be written; then nothing of it is there. Rows that could not be
        written wait: :meth:`flush` tells why.
        """
        if self._index.full or self._values.full:
            self.flush()
        stored = stored_record(record, self.float_decimals)
        chunk, offset = self._stream.append(jsonl.encode(stored))
        self._write_rows(stored, self._lines() + 1, chunk, offset, arrival)

    @property
    def waiting(self) -> bool:
        """Whether rows could not be written yet."""
        return self._index.waiting or self._values.waiting

    def flush(self) -> None:
        """Write rows that wait. Raises OSError."""
        self._values.flush()
        self._index.flush()

    def close(self, *, clean: bool) -> None:
        """``clean``: seal the last chunk as well."""
        self._stream.close(seal_last=clean)
        self._values.close()
        self._index.close()

    def _lines(self) -> int:
        return row_number(self._index.last, "line")

    def _write_rows(
        self, stored: Mapping[str, Any], line: int, chunk: int, offset: int, arrival: float | None = None
    ) -> None:
        if line > row_number(self._values.last, "line"):
            self._values.append(values_row(stored, line=line))
        if line > self._lines():
            self._index.append(index_row(stored, line=line, chunk=chunk, offset=offset, arrival=arrival))

    def _restore_rows(self) -> None:
        last = self._index.last
        line, chunk, offset = row_number(last, "line"), 0, 0
        behind = row_number(self._values.last, "line") < line  # values were lost: they say nothing of where records lie
        if last is not None and not behind:
            chunk, offset = row_number(last, "chunk"), row_number(last, "offset")
            line -= 1  # the indexed record itself is seen again
        else:
            line = 0
        for number, position, stored in iter_objects(self.traces / STREAM, jsonl.Damage(), chunk=chunk, offset=offset):
            line += 1
            self._write_rows(stored, line, number, position)
