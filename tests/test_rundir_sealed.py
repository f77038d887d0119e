"""zstd files by the frame: the bytes of the whole from any place, and around what is damaged."""

import io
import os
import struct
from itertools import pairwise
from pathlib import Path

import pytest
import pyzstd
from hypothesis import given
from hypothesis import strategies as st

from prl.rundir.following import Block
from prl.rundir.regular import open_regular
from prl.rundir.sealed import SealedSource
from prl.rundir.sources import SourceReader

FRAME = 1000


def seekable(data: bytes, frame: int = FRAME) -> bytes:
    out = io.BytesIO()
    with pyzstd.SeekableZstdFile(out, "w", max_frame_content_size=frame) as file:
        file.write(data)
    return out.getvalue()


def opened(data: bytes) -> SealedSource:
    handle = os.memfd_create("sealed")
    os.write(handle, data)
    return SealedSource(os.fdopen(handle, "rb"))


def joined(blocks: list[Block]) -> bytes:
    ordered = sorted(blocks, key=lambda block: block.offset)
    assert all(a.offset + len(a.data) == b.offset for a, b in pairwise(ordered))
    return b"".join(block.data for block in ordered)


def holes_of(source: SealedSource, *, backwards: bool = False) -> tuple[list[Block], list[tuple[int, int | None]]]:
    holes: list[tuple[int, int | None]] = []
    blocks = list(source.blocks(backwards=backwards, on_hole=lambda start, end, reason: holes.append((start, end))))
    return blocks, holes


DATA = os.urandom(500) * 12 + b"the end"
SEALED = seekable(DATA)


@given(st.integers(0, 6100), st.integers(0, 6100), st.booleans())
def test_any_part_in_either_order(start: int, end: int, backwards: bool) -> None:
    with opened(SEALED) as source:
        assert (source.size, source.stored_size, source.seekable) == (len(DATA), len(SEALED), True)
        blocks = list(source.blocks(start, end, backwards=backwards))
        assert joined(blocks) == DATA[start:end]
        offsets = [block.offset for block in blocks]
        assert offsets == sorted(offsets, reverse=backwards)
        assert joined(list(source.pieces(start))) == DATA[start:]


@given(st.lists(st.tuples(st.integers(-50, 7000), st.integers(0, 1500)), max_size=6), st.booleans())
def test_a_reader_is_a_file(reads: list[tuple[int, int]], table: bool) -> None:
    source = opened(SEALED if table else pyzstd.compress(DATA))
    with io.BufferedReader(SourceReader(source), 100) as file, io.BytesIO(DATA) as expected:
        for offset, length in reads:
            assert file.seek(max(offset, 0)) == expected.seek(max(offset, 0))
            assert file.read(length) == expected.read(length)
            assert file.tell() == expected.tell()
        assert file.seek(-7, os.SEEK_END) == expected.seek(-7, os.SEEK_END)
        assert file.read() == b"the end"


@pytest.mark.parametrize("backwards", [False, True])
def test_a_damaged_frame_is_a_hole(backwards: bool) -> None:
    first = pyzstd.get_frame_size(SEALED)
    damaged = SEALED[:first] + b"\0" * 100 + SEALED[first + 100 :]
    with opened(damaged) as source:
        blocks, holes = holes_of(source, backwards=backwards)
        assert holes == [(FRAME, 2 * FRAME)]
        kept = {block.offset: block.data for block in blocks}
        assert joined([Block(at, data) for at, data in kept.items() if at >= 2 * FRAME]) == DATA[2 * FRAME :]
        assert joined([Block(at, data) for at, data in kept.items() if at < FRAME]) == DATA[:FRAME]
        assert next(iter(source.pieces(3 * FRAME))).data == DATA[3 * FRAME : 4 * FRAME]
        with pytest.raises(OSError, match="damaged at byte 1"):
            list(source.pieces(FRAME))


@given(st.integers(0, len(SEALED) - 1))
def test_a_file_cut_anywhere_gives_what_is_whole(cut: int) -> None:
    with opened(SEALED[:cut]) as source:
        assert not source.seekable
        blocks, _ = holes_of(source)
        found = joined(blocks)
        assert DATA.startswith(found)
        frame_edges = [0]
        while frame_edges[-1] < cut and (size := _frame_size(SEALED[frame_edges[-1] :])):
            frame_edges.append(frame_edges[-1] + size)
        assert len(found) >= min(FRAME * sum(edge <= cut for edge in frame_edges[1:]), len(DATA))


def _frame_size(data: bytes) -> int:
    try:
        return pyzstd.get_frame_size(data)
    except pyzstd.ZstdError:
        return 0


def test_files_without_one_table_for_all_are_read_from_the_beginning() -> None:
    for data in (SEALED + SEALED, pyzstd.compress(DATA) + pyzstd.compress(DATA), SEALED + pyzstd.compress(DATA)):
        with opened(data) as source:
            assert (source.size, source.seekable) == (None, False)
            blocks, holes = holes_of(source, backwards=True)
            assert joined(blocks) == DATA + DATA
            assert holes == []
            assert joined(list(source.blocks(10, 7000))) == (DATA + DATA)[10:7000]
    with opened(pyzstd.compress(DATA) + b"garbage") as source:
        blocks, holes = holes_of(source)
        assert (joined(blocks), holes) == (DATA, [(len(DATA), None)])


def table(*entries: tuple[int, int], flags: int = 0, magic: int = 0x8F92EAB1) -> bytes:
    rows = b"".join(struct.pack("<II", *entry) for entry in entries)
    return struct.pack("<II", 0x184D2A5E, len(rows) + 9) + rows + struct.pack("<IBI", len(entries), flags, magic)


def test_tables_that_lie() -> None:
    frame = pyzstd.compress(b"abc")
    for lie in (
        table((len(frame), 2**31)),
        table((len(frame) + 1, 3)),
        table((2**32 - 1, 3)),
        table((len(frame), 3), flags=4),
        table((len(frame), 3), magic=1),
    ):
        with opened(frame + lie) as source:
            assert not source.seekable
            assert joined(holes_of(source)[0]) == b"abc"
    for length, kept, holes in ((5, b"abc", [(3, 5)]), (2, b"ab", [])):
        with opened(frame + table((len(frame), length))) as source:
            assert source.seekable
            assert holes_of(source) == ([Block(0, kept)], holes)


@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda data: data + table((len(data), 9))))
def test_any_bytes(data: bytes) -> None:
    with opened(data) as source:
        for backwards in (False, True):
            joined(holes_of(source, backwards=backwards)[0])


def test_an_empty_chunk_and_one_that_is_open_can_be_removed(tmp_path: Path) -> None:
    path = tmp_path / "x.zst"
    path.write_bytes(seekable(b""))
    with SealedSource(open_regular(path)) as source:
        assert list(source.blocks()) == list(source.pieces()) == []
        path.unlink()
    with opened(b"") as source:
        assert holes_of(source) == ([], [])
