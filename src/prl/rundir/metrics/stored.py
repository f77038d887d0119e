"""The columns of a metrics file in the user's cache, so that the next process need not read the file again.

Everything is kept: the place where reading ended, names, rows, points, damage. Points stay mapped. A form that is not
understood in any part is no cache; the file is then read from its beginning.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prl.rundir import cache
from prl.rundir.following import Mark
from prl.rundir.jsonl import Damage
from prl.rundir.metrics.catalogue import Catalogue
from prl.rundir.metrics.intake import Columns
from prl.rundir.metrics.rows import RowTable
from prl.rundir.metrics.segments import Segment, SegmentStack

KIND = "metrics-2"

_PARTS = {"series": np.int32, "starts": np.int64, "rows": np.int32, "values": np.float64}


def save(path: Path, columns: Columns, mark: Mark) -> bool:
    """Keep what was read of the metrics file ``path`` up to ``mark``. False when the cache cannot be written."""
    segments = columns.segments.segments
    meta = {
        "mark": cache.mark_to_json(mark),
        "producers": columns.catalogue.producers,
        "names": columns.catalogue.names,
        "damage": asdict(columns.damage),
        "drift": columns.drift,
        "schema_version": columns.schema_version,
        "segments": [[segment.first_row, segment.last_row] for segment in segments],
    }
    arrays: dict[str, NDArray[Any]] = {}
    for name, column in columns.rows.columns().items():
        arrays[f"row {name}"] = column
    for name, column in columns.catalogue.columns().items():
        arrays[f"series {name}"] = column
    for number, segment in enumerate(segments):
        for name in _PARTS:
            arrays[f"{number} {name}"] = getattr(segment, name)
    return cache.save(cache.cache_path(path, KIND), meta, arrays)


def load(path: Path) -> tuple[Columns, Mark] | None:
    """What :func:`save` kept of a metrics file. Whether the file still is the same, its reader sees by the mark."""
    found = cache.load(cache.cache_path(path, KIND))
    if found is None:
        return None
    try:
        columns = _columns(found)
    except (KeyError, ValueError, TypeError, IndexError, AttributeError):
        return None
    mark = cache.mark_from_json(found.meta.get("mark"))
    return None if mark is None else (columns, mark)


def _columns(found: cache.Cached) -> Columns:
    """Raises KeyError, ValueError, TypeError, IndexError or AttributeError when the cache holds something else."""
    meta, arrays = found.meta, found.columns
    rows = RowTable.of(_named(arrays, "row "))
    names = [(str(producer), str(key)) for producer, key in meta["names"]]
    catalogue = Catalogue.of([str(name) for name in meta["producers"]], names, _named(arrays, "series "))
    _require(rows.producers.min(initial=0) >= 0 and rows.producers.max(initial=-1) < len(catalogue.producers))
    family = catalogue.column("family")
    _require(family.min(initial=0) >= 0 and family.max(initial=0) <= len(names))
    segments = []
    for number, (first, last) in enumerate(meta["segments"]):
        parts = [np.asarray(arrays[f"{number} {name}"]) for name in _PARTS]  # views that cost less to slice
        _require(all(part.dtype == dtype for part, dtype in zip(parts, _PARTS.values(), strict=True)))
        segment = Segment(parts[0], parts[1], parts[2], parts[3], int(first), int(last))
        _require(_is_whole(segment, len(names), rows.count))
        segments.append(segment)
    columns = Columns(catalogue, rows, SegmentStack(segments))
    columns.damage = Damage(**meta["damage"])
    form = meta["schema_version"]
    _require(form is None or type(form) is int)
    columns.schema_version = form
    columns.drift = {str(key): int(count) for key, count in meta["drift"].items()}
    return columns


def _named(arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _is_whole(segment: Segment, series: int, rows: int) -> bool:
    """Whether every number in a segment points to something."""
    return (
        len(segment.rows) == len(segment.values) > 0
        and len(segment.starts) == len(segment.series) + 1
        and segment.starts[0] == 0
        and segment.starts[-1] == len(segment.rows)
        and bool((np.diff(segment.starts) > 0).all() and (np.diff(segment.series) > 0).all())
        and segment.series[0] >= 0
        and segment.series[-1] < series
        and 0 <= segment.first_row <= segment.rows.min()
        and segment.rows.max() <= segment.last_row < rows
    )


def _require(condition: bool | np.bool_) -> None:
    if not condition:
        raise ValueError("not a cache of metrics")
