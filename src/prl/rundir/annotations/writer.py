"""Writing one producer's trace updates: chunks like the episode stream's, and an index row for each."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prl.rundir import jsonl
from prl.rundir.annotations.update import stored_update
from prl.rundir.chunks import ChunkWriter, Sealer, iter_objects
from prl.rundir.derived import DerivedRows, row_number

ANNOTATIONS = "annotations"


class AnnotationWriter:
    """Appends updates below ``traces/annotations/<producer>/``, the only writer there."""

    def __init__(
        self,
        traces: Path,
        producer: str,
        *,
        chunk_bytes: int,
        float_decimals: int | None = 4,
        sealer: Sealer | None = None,
    ) -> None:
        self.directory = traces / ANNOTATIONS / producer
        self.float_decimals = float_decimals
        self._index = DerivedRows(traces / ANNOTATIONS / f"{producer}.index.jsonl")
        self._stream = ChunkWriter(self.directory, chunk_bytes=chunk_bytes, sealer=sealer)
        self._restore_rows()

    def append(self, update: Mapping[str, Any]) -> None:
        """Write one update. Raises OSError when it could not be written. A row that could not be waits."""
        if self._index.full:
            self.flush()
        stored = stored_update(update, self.float_decimals)
        chunk, offset = self._stream.append(jsonl.encode(stored))
        self._index.append(_row(stored, chunk, offset))

    @property
    def waiting(self) -> bool:
        """Whether rows could not be written yet."""
        return self._index.waiting

    def flush(self) -> None:
        """Write rows that wait. Raises OSError."""
        self._index.flush()

    def close(self, *, clean: bool) -> None:
        """``clean``: seal the last chunk as well."""
        self._stream.close(seal_last=clean)
        self._index.close()

    def _restore_rows(self) -> None:
        last = self._index.last
        place = (row_number(last, "chunk"), row_number(last, "offset")) if last else (0, -1)
        found = iter_objects(self.directory, jsonl.Damage(), chunk=place[0], offset=max(place[1], 0))
        for chunk, offset, stored in found:
            if (chunk, offset) > place:
                self._index.append(_row(stored, chunk, offset))


def _row(stored: Mapping[str, Any], chunk: int, offset: int) -> dict[str, Any]:
    return {
        "trace_id": stored.get("trace_id"),
        "chunk": chunk,
        "offset": offset,
        "info": stored.get("info") or {},
    }
