"""The bytes of a file in blocks, from its beginning or from its end, whatever form it is kept in.

A plain file and a sealed chunk (:mod:`prl.rundir.sealed`) answer the same questions, so that whoever scans or seeks
does not care which it has. A source holds its file open: it is made for one look and closed after it.
"""

import errno
import io
import os
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any, BinaryIO, Protocol, Self, TypeVar

from prl.rundir.following import Block
from prl.rundir.regular import open_regular

BLOCK = 1024 * 1024
"""Bytes of a block. Larger ones fall out of the processor's cache and cost fresh pages from the system each time."""

PIECE = 128 * 1024
"""Bytes of a block for whoever wants a single record."""

_T = TypeVar("_T")

OnHole = Callable[[int, int | None, str], None]
"""Told of bytes that cannot be read: the offset of the first, of the first readable one after them (None: nothing
follows), and why."""


class Source(Protocol):
    """Bytes with offsets. ``size`` is None where only reading to the end would tell it."""

    @property
    def size(self) -> int | None: ...

    @property
    def stored_size(self) -> int:
        """Bytes that the file takes."""
        ...

    @property
    def seekable(self) -> bool:
        """Whether blocks can be had backwards, and from the middle without reading what is before."""
        ...

    def blocks(
        self, start: int = 0, end: int | None = None, *, backwards: bool = False, on_hole: OnHole | None = None
    ) -> Iterator[Block]:
        """The bytes from ``start`` to ``end`` (None: all there are), backwards the last block first.

        What is damaged is left out and told to ``on_hole``. Raises OSError when the file cannot be read at all.
        """
        ...

    def pieces(self, start: int = 0) -> Iterator[Block]:
        """The bytes from ``start`` on in small blocks, for whoever wants little. Raises OSError at what is damaged."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *raised: object) -> None: ...


class FileSource:
    """A plain file, up to the size it had when it was opened."""

    seekable = True

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = os.fstat(file.fileno()).st_size

    @property
    def size(self) -> int:
        return self._size

    @property
    def stored_size(self) -> int:
        return self._size

    def blocks(
        self, start: int = 0, end: int | None = None, *, backwards: bool = False, on_hole: OnHole | None = None
    ) -> Iterator[Block]:
        """See :class:`Source`. A plain file has no holes."""
        return self._blocks(start, self._size if end is None else min(end, self._size), BLOCK, backwards)

    def pieces(self, start: int = 0) -> Iterator[Block]:
        """See :class:`Source`."""
        return self._blocks(start, self._size, PIECE, False)

    def _blocks(self, start: int, end: int, size: int, backwards: bool) -> Iterator[Block]:
        starts = range(start, end, size)
        for offset in reversed(starts) if backwards else starts:
            data = os.pread(self._file.fileno(), min(size, end - offset), offset)
            if data:
                yield Block(offset, data)

    def stat(self) -> os.stat_result:
        """Raises OSError."""
        return os.fstat(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class SourceReader(io.RawIOBase):
    """A source as a seekable file. Owns the source. Reading raises OSError at what is damaged."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._position = 0
        self._pieces: Iterator[Block] | None = None
        self._rest = b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = (0, self._position, self._end() if whence == os.SEEK_END else 0)[whence]
        if base + offset != self._position:
            self._position, self._pieces, self._rest = max(base + offset, 0), None, b""
        return self._position

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            if self._pieces is None:
                self._pieces = self._source.pieces(self._position)
            piece = next(self._pieces, None)
            self._rest = piece.data if piece else b""
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        self._position += count
        return count

    def close(self) -> None:
        self._source.close()
        super().close()

    def _end(self) -> int:
        size = self._source.size
        return sum(len(piece.data) for piece in self._source.pieces()) if size is None else size


def open_file(path: Path) -> FileSource:
    """A plain file. Raises OSError. A handle that a network disk calls stale is opened anew once."""
    try:
        return FileSource(open_regular(path))
    except OSError as error:
        if error.errno != errno.ESTALE:
            raise
        return FileSource(open_regular(path))


def read_ahead(items: Iterator[_T], depth: int = 4) -> Generator[_T, None, None]:
    """``items``, made in a thread while the consumer works: reading and decompressing leave Python's lock free.

    At most ``depth`` items wait. What making them raises is raised here.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as pool:
        waiting = [pool.submit(next, items, None) for _ in repeat(None, depth)]
        try:
            while (item := waiting.pop(0).result()) is not None:
                waiting.append(pool.submit(next, items, None))
                yield item
        finally:
            pool.shutdown(cancel_futures=True)
