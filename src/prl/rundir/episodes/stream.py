"""Where the records of a run lie, in any of the forms that writers have used, as one stream of numbered files.

Chunks (``stream/NNNNN.jsonl[.zst]``), the single ``stream.jsonl`` before them, and before that
``rollouts/step_N/{train,eval}/{all,effective}/traces.jsonl`` or a bare ``traces.jsonl``. A *place* is a chunk's number
and a byte offset in its uncompressed form, packed into one whole number that grows along the stream. Files that a link
would lead out of the run directory are not followed.
"""

import contextlib
import errno
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from prl.rundir import jsonl
from prl.rundir.chunks import chunk_numbers, iter_lines, lines_at, open_chunk, plain_path, sealed_path
from prl.rundir.episodes.writer import STREAM
from prl.rundir.layout import step_number
from prl.rundir.regular import is_file, open_regular
from prl.rundir.tree import RunTree

GRACE = 5.0
"""Seconds after which a record without a row was left without one: else its writer is just about to write it."""

OFFSET_BITS = 44
"""Of a place: the lower bits, which hold the offset."""
_MAX_CHUNK = 2 ** (62 - OFFSET_BITS)
_BLOCK = 1024 * 1024
_HEAD = 4096
_FIRST_ID = re.compile(rb'\s*\{\s*"(?:id|trace_id)"\s*:\s*"([^"\\]*)"')
_KINDS = ("train", "eval")
_OF_EPISODES = ("id", "env", "group", "run", "task", "ok", "is_timeout")


class Record(NamedTuple):
    """One complete line of a stream."""

    place: int
    end: int
    """The place behind it."""
    line: bytes


def make_place(chunk: Any, offset: Any) -> int:
    """A place, -1 when chunk and offset are not whole numbers that could name one."""
    if type(chunk) is not int or type(offset) is not int:
        return -1
    return chunk << OFFSET_BITS | offset if 0 <= chunk < _MAX_CHUNK and 0 <= offset < 1 << OFFSET_BITS else -1


def split_place(place: int) -> tuple[int, int]:
    """Chunk and offset of a place."""
    return place >> OFFSET_BITS, place & ((1 << OFFSET_BITS) - 1)


def run_root(traces: Path) -> Path:
    """The run directory of a directory of traces, links not followed."""
    return traces.parents[2] if traces.parts[-3:] == ("monitors", "file", "traces") else traces


class Stream:
    """A stream in chunks. Nothing raises but :meth:`open`."""

    chunked = True
    """Whether rows name a chunk."""

    def __init__(self, directory: Path, root: Path | None = None) -> None:
        self.directory = directory
        self._tree = RunTree(root if root is not None else directory)

    def numbers(self) -> list[int]:
        """Numbers of the files that exist, ascending."""
        return chunk_numbers(self.directory) if self.inside(self.directory) else []

    def open(self, number: int) -> BinaryIO:
        """A file's uncompressed bytes. Raises OSError."""
        if not self.inside(self.directory):
            raise FileNotFoundError(errno.ENOENT, "no stream in this run", str(self.directory))
        return open_chunk(self.directory, number)

    def last_write(self, number: int) -> float | None:
        """When a file that may still grow was last written to, Unix seconds; None of one that cannot grow."""
        try:
            return plain_path(self.directory, number).stat().st_mtime
        except OSError:
            return None

    def is_quiet(self) -> bool:
        """Whether nobody wrote for so long that a row which is not there is not on its way either."""
        numbers = self.numbers()
        written = self.last_write(numbers[-1]) if numbers else None
        return written is None or time.time() - written > GRACE

    def total_bytes(self) -> int:
        """Bytes of all files as they lie on the disk."""
        return sum(self.size(number) for number in self.numbers())

    def records(self, place: int = 0, damage: jsonl.Damage | None = None) -> Iterator[Record]:
        """Complete lines from a place on, which must be the beginning of one. What cannot be read is passed over."""
        chunk, offset = split_place(place)
        unfinished: tuple[int, bytes] | None = None
        for number, position, line, complete in self._lines(chunk, offset, damage):
            if unfinished is not None and damage is not None:
                damage.add(*unfinished)
            unfinished = None if complete else (position, line)
            if complete:
                at = make_place(number, position)
                yield Record(at, at + len(line) + 1, line)

    def lines_at(self, places: list[int]) -> Iterator[bytes | None]:
        """The line at each place, None where none can be read. Fast for places that ascend."""
        return lines_at(self.open, map(split_place, places))

    def holds(self, place: int, name: str) -> bool | None:
        """Whether the record with the id (or trace id) ``name`` lies at a place. None when that cannot be told."""
        chunk, offset = split_place(place)
        try:
            with self.open(chunk) as file:
                file.seek(max(offset - 1, 0))
                if offset and file.read(1) != b"\n":
                    return False
                head = file.read(_HEAD)
                first = _FIRST_ID.match(head)
                if first is None:
                    file.seek(offset)
                    head = file.readline(jsonl.MAX_RECORD)
        except OSError:
            return None
        if first is not None:
            return first[1] == name.encode("utf-8", "surrogatepass")
        try:
            record = jsonl.decode(head)[0]
        except ValueError:
            return False
        return name in (record.get("id"), record.get("trace_id"))

    def file_name(self, number: int) -> str | None:
        """The name of a file of records relative to the run directory, None when there is none."""
        path = next(iter(self._paths(number)), None)
        return path.relative_to(self._tree.root).as_posix() if path is not None else None

    def end(self) -> int | None:
        """The place behind the last byte of the last file. None when it cannot be told."""
        numbers = self.numbers()
        if not numbers:
            return None
        try:
            with self.open(numbers[-1]) as file:
                return make_place(numbers[-1], file.seek(0, os.SEEK_END))
        except OSError:
            return None

    def size(self, number: int) -> int:
        """Bytes of a file as it lies on the disk, 0 when there is none."""
        return sum(_size(path) for path in self._paths(number))

    def _lines(self, chunk: int, offset: int, damage: jsonl.Damage | None) -> Iterator[tuple[int, int, bytes, bool]]:
        if not self.inside(self.directory):
            return iter(())
        return iter_lines(self.directory, chunk=chunk, offset=offset, damage=damage)

    def _paths(self, number: int) -> list[Path]:
        plain = plain_path(self.directory, number)
        return [plain if is_file(plain) else sealed_path(self.directory, number)]

    def inside(self, path: Path) -> bool:
        """Whether a path exists and leads to a place inside the run directory."""
        try:
            return self._tree.stat(path.relative_to(self._tree.root).as_posix()) is not None
        except ValueError:
            return False


class FileStream(Stream):
    """Plain files by number: one file, or those of rollouts by step."""

    chunked = False

    def __init__(self, root: Path, files: dict[int, Path]) -> None:
        super().__init__(root)
        self.files = files

    def numbers(self) -> list[int]:
        return sorted(number for number, path in self.files.items() if self.inside(path))

    def open(self, number: int) -> BinaryIO:
        path = self.files.get(number)
        if path is None or not self.inside(path):
            raise FileNotFoundError(errno.ENOENT, "no such file of records in this run", str(path or self.directory))
        return open_regular(path)

    def last_write(self, number: int) -> float | None:
        try:
            return self.files[number].stat().st_mtime
        except (OSError, KeyError):
            return None

    def _lines(self, chunk: int, offset: int, damage: jsonl.Damage | None) -> Iterator[tuple[int, int, bytes, bool]]:
        for number in self.numbers():
            start = offset if number == chunk else 0
            if number >= chunk:
                with contextlib.suppress(OSError), self.open(number) as file:
                    file.seek(start)
                    for line in jsonl.split_blocks(iter(lambda: file.read(_BLOCK), b""), start):
                        yield number, *line

    def _paths(self, number: int) -> list[Path]:
        return [self.files[number]] if number in self.files else []


def find_stream(traces: Path) -> Stream:
    """The stream below a directory of traces, or below a run directory of an older layout."""
    root = run_root(traces)
    chunks = traces / STREAM
    if not os.path.isdir(chunks):  # noqa: PTH112 (a Path raises where it may not look)
        for name in ("stream.jsonl", "traces.jsonl"):
            if is_file(traces / name):
                return FileStream(root, {0: traces / name})
        rollouts = rollout_files(traces)
        if rollouts:
            return FileStream(root, rollouts)
    return Stream(chunks, root)


def rollout_files(root: Path, subset: str | None = None) -> dict[int, Path]:
    """Files of ``rollouts/step_N/<kind>/<subset>/traces.jsonl`` by ``2 N`` (train) or ``2 N + 1`` (eval).

    Without a subset: that of all records, and of the effective ones where there is no other.
    """
    subsets = (subset,) if subset else ("all", "effective")
    found: dict[int, Path] = {}
    try:
        directories = list((root / "rollouts").iterdir())
    except OSError:
        return {}
    for directory in directories:
        step = step_number(directory)
        if step is None or step >= _MAX_CHUNK // 2:
            continue
        for place, kind in enumerate(_KINDS):
            candidates = (directory / kind / name / "traces.jsonl" for name in subsets)
            path = next((candidate for candidate in candidates if is_file(candidate)), None)
            if path is not None:
                found[2 * step + place] = path
    return found


def as_episode(record: dict[str, Any]) -> dict[str, Any]:
    """A record as an episode. Before episodes there were single traces: each becomes an episode of its own."""
    if "traces" in record or not isinstance(record.get("nodes"), list):
        return record
    kept: dict[str, Any] = {name: record[name] for name in _OF_EPISODES if name in record}
    return {"ok": not record.get("errors"), **kept, "traces": [record]}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
