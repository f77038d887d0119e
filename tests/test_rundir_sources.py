"""Plain files in blocks, and blocks made ahead of their use."""

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from prl.rundir import sources
from prl.rundir.following import Block
from prl.rundir.sources import open_file, read_ahead


def test_a_file_in_either_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BLOCK", 4)
    path = tmp_path / "x"
    path.write_bytes(b"0123456789")
    with open_file(path) as source:
        assert list(source.blocks(1, 8)) == [Block(1, b"1234"), Block(5, b"567")]
        assert list(source.blocks(1, 8, backwards=True)) == [Block(5, b"567"), Block(1, b"1234")]
        assert list(source.blocks(8)) == [Block(8, b"89")]
        assert list(source.blocks(20)) == list(source.blocks(5, 5)) == []
        assert list(source.pieces(7)) == [Block(7, b"789")]
        os.truncate(path, 3)
        assert list(source.blocks()) == [Block(0, b"012")], "it shrank while it was read"


def test_a_stale_handle_is_opened_anew_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"x")
    real, left = os.open, [1]

    def stale(path: Path, flags: int) -> int:
        if left[0]:
            left[0] -= 1
            raise OSError(errno.ESTALE, "Stale file handle")
        return real(path, flags)

    monkeypatch.setattr(os, "open", stale)
    with open_file(path) as source:
        assert source.size == 1
    left[0] = 2
    with pytest.raises(OSError, match="Stale"):
        open_file(path)


def test_reading_ahead_keeps_the_order_and_a_bound_and_ends_with_its_reader() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for i in range(100):
            made.append(i)
            yield i

    assert list(read_ahead(items())) == list(range(100))
    made.clear()
    ahead = read_ahead(items(), depth=3)
    assert next(ahead) == 0
    ahead.close()
    assert len(made) <= 5
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("read-ahead")]


def test_what_making_them_raises_is_raised_to_the_reader() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError(errno.EIO, "bad disk")

    ahead = read_ahead(items())
    assert next(ahead) == 1
    with pytest.raises(OSError, match="bad disk"):
        next(ahead)
