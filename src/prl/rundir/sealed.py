"""Reading zstd files: by the frame where they have a seek table, from the beginning where they have none.

The seek table of zstd's seekable format is a skippable frame at the end of the file: for each frame its compressed and
uncompressed length, then the number of frames, a byte of flags and a magic number. A table that does not add up to
the file (a truncated file, two files joined) is as good as none. Frames are decompressed in pieces, so that neither a
frame nor a file that says it is larger than it should be costs more memory than a piece. Left out: guessing where the
next frame begins after a damaged one without a table; its first bytes may stand in any compressed data.
"""

import os
import struct
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate, takewhile
from typing import BinaryIO, Self

from prl.rundir.following import Block
from prl.rundir.sources import BLOCK, PIECE, OnHole

MAX_FRAME = 64 * 1024 * 1024
"""Bytes of the largest frame, compressed or not, that is read by the table: backwards, a frame is held as a whole."""
_MAX_FRAMES = 1_000_000

_FOOTER = struct.Struct("<IBI")
_SKIPPABLE = struct.Struct("<II")
_SEEKABLE_MAGIC, _SKIPPABLE_MAGIC = 0x8F92EAB1, 0x184D2A5E
_HAS_CHECKSUMS, _RESERVED = 0x80, 0x7C
_READ = 64 * 1024


class SealedSource:
    """A zstd file as the bytes it stands for. Holds ``file`` and closes it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._places, self._starts = _seek_table(file.fileno()) or ([], [])

    @property
    def seekable(self) -> bool:
        return bool(self._starts)

    @property
    def size(self) -> int | None:
        return self._starts[-1] if self._starts else None

    @property
    def stored_size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def blocks(
        self, start: int = 0, end: int | None = None, *, backwards: bool = False, on_hole: OnHole | None = None
    ) -> Iterator[Block]:
        """See :class:`prl.rundir.sources.Source`. Without a seek table always forwards."""
        if not self._starts:
            yield from _cut(_until(end, self._sequential(BLOCK, on_hole)), start, end)
            return
        stop = self._starts[-1] if end is None else min(end, self._starts[-1])
        if start >= stop:
            return
        first, last = self._frame_at(start), self._frame_at(stop - 1)
        for number in range(last, first - 1, -1) if backwards else range(first, last + 1):
            pieces = self._frame(number, BLOCK, on_hole)
            yield from _cut(reversed(list(pieces)) if backwards else pieces, start, stop)

    def pieces(self, start: int = 0) -> Iterator[Block]:
        """See :class:`prl.rundir.sources.Source`."""
        found = self._frames_from(start) if self._starts else self._sequential(PIECE, _raise)
        return _cut(found, start, None)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _frame_at(self, offset: int) -> int:
        return bisect_right(self._starts, offset) - 1

    def _frames_from(self, start: int) -> Iterator[Block]:
        for number in range(self._frame_at(start), len(self._starts) - 1):
            yield from self._frame(number, PIECE, _raise)

    def _frame(self, number: int, piece: int, on_hole: OnHole | None) -> Iterator[Block]:
        """A frame in pieces. Behind the first that cannot be decompressed there is a hole up to the next frame."""
        from pyzstd import ZstdDecompressor, ZstdError

        offset, end = self._starts[number], self._starts[number + 1]
        try:
            data = os.pread(self._file.fileno(), self._places[number + 1] - self._places[number], self._places[number])
            decompressor = ZstdDecompressor()
            while offset < end and not decompressor.eof:
                out = decompressor.decompress(data, piece)
                data = b""
                if not out:
                    break
                yield Block(offset, out[: end - offset])
                offset += len(out)
        except (ZstdError, EOFError) as error:
            _tell(on_hole, offset, end, str(error))
            return
        if offset < end:
            _tell(on_hole, offset, end, "the frame ends before the length in the seek table")

    def _sequential(self, piece: int, on_hole: OnHole | None) -> Iterator[Block]:
        """All frames one after the other, up to the first damage."""
        from pyzstd import ZstdDecompressor, ZstdError

        decompressor, within, place, offset = ZstdDecompressor(), False, 0, 0
        data = b""
        try:
            while True:
                if not data and (not within or decompressor.needs_input):
                    data = os.pread(self._file.fileno(), _READ, place)
                    if not data:
                        break
                    place += len(data)
                out, data, within = decompressor.decompress(data, piece), b"", True
                if out:
                    yield Block(offset, out)
                    offset += len(out)
                if decompressor.eof:
                    data, decompressor, within = decompressor.unused_data, ZstdDecompressor(), False
        except (ZstdError, EOFError) as error:
            _tell(on_hole, offset, None, str(error))
            return
        if within:
            _tell(on_hole, offset, None, "the file ends within a frame")


def _until(end: int | None, blocks: Iterator[Block]) -> Iterator[Block]:
    return takewhile(lambda block: end is None or block.offset < end, blocks)


def _cut(blocks: Iterator[Block], start: int, end: int | None) -> Iterator[Block]:
    """The parts of ``blocks``, which are in either order, between two offsets."""
    for block in blocks:
        before = max(start - block.offset, 0)
        after = len(block.data) if end is None else min(end - block.offset, len(block.data))
        if before < after:
            whole = before == 0 and after == len(block.data)
            yield block if whole else Block(block.offset + before, block.data[before:after])


def _seek_table(fd: int) -> tuple[list[int], list[int]] | None:
    """Offsets of the frames in the file and in the uncompressed bytes, each with the end of the last one."""
    size = os.fstat(fd).st_size
    footer = os.pread(fd, _FOOTER.size, max(size - _FOOTER.size, 0))
    if len(footer) < _FOOTER.size:
        return None
    frames, flags, magic = _FOOTER.unpack(footer)
    entry = struct.Struct("<III" if flags & _HAS_CHECKSUMS else "<II")
    length = _SKIPPABLE.size + frames * entry.size + _FOOTER.size
    if magic != _SEEKABLE_MAGIC or flags & _RESERVED or length > size or frames > _MAX_FRAMES:
        return None
    table = os.pread(fd, length, size - length)
    if len(table) < length or _SKIPPABLE.unpack_from(table) != (_SKIPPABLE_MAGIC, length - _SKIPPABLE.size):
        return None
    entries = list(entry.iter_unpack(table[_SKIPPABLE.size : -_FOOTER.size]))
    if any(max(lengths[:2]) > MAX_FRAME for lengths in entries):
        return None
    places = list(accumulate((lengths[0] for lengths in entries), initial=0))
    starts = list(accumulate((lengths[1] for lengths in entries), initial=0))
    return (places, starts) if places[-1] + length == size else None


def _tell(on_hole: OnHole | None, start: int, end: int | None, reason: str) -> None:
    if on_hole is not None:
        on_hole(start, end, reason)


def _raise(start: int, end: int | None, reason: str) -> None:
    raise OSError(f"damaged at byte {start} of the uncompressed data ({reason})")
