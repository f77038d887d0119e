"""Files of a run written through buffers: numbered chunks with the places of their lines, and plain files of rows.

The project's writers flush every line, as observers of a live run need; a generator of millions of lines does not.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from prl.rundir.chunks import chunk_numbers, plain_path, seal

_BUFFER = 1 << 20


def open_rows(path: Path) -> BinaryIO:
    """A new file to append lines to; its directory is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("wb", buffering=_BUFFER)


class ChunkStream:
    """Numbered chunks of lines, as :class:`prl.rundir.chunks.ChunkWriter` divides them."""

    def __init__(self, directory: Path, chunk_bytes: int) -> None:
        self.directory = directory
        self.chunk_bytes = chunk_bytes
        self.number = 0
        self.offset = 0
        self._file = open_rows(plain_path(directory, 0))

    def append(self, line: bytes) -> tuple[int, int]:
        """Write a line (with its newline); its chunk and byte offset."""
        if self.offset and self.offset + len(line) > self.chunk_bytes:
            self._file.close()
            self.number += 1
            self.offset = 0
            self._file = open_rows(plain_path(self.directory, self.number))
        offset = self.offset
        self._file.write(line)
        self.offset += len(line)
        return self.number, offset

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def seal_chunks(directory: Path, *, last: bool) -> Iterator[int]:
    """Compress the chunks of a closed stream, one an iteration; ``last``: the last one too, as at a clean end."""
    numbers = chunk_numbers(directory)
    for number in numbers if last else numbers[:-1]:
        if plain_path(directory, number).stat().st_size:
            seal(directory, number, directory.parent / ".sealing")
        yield number
