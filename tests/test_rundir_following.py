"""Following a file of lines: whatever way it grows, what comes out is its lines; a replaced file begins anew."""

from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.rundir import following
from prl.rundir.following import Block, Follower


def read_all(follower: Follower, size: int = 7) -> bytes:
    data = b""
    while True:
        block = follower.poll(size)
        data += block.data if block else b""
        if follower.at_end and block is None:
            return data


@given(
    data=st.binary(max_size=60).map(lambda d: d.replace(b"x", b"\n")), cut=st.integers(0, 60), size=st.integers(1, 9)
)
def test_growing_in_two_parts_reads_as_reading_the_whole(
    tmp_path_factory: object, data: bytes, cut: int, size: int
) -> None:
    path = tmp_path_factory.mktemp("f") / "file"  # type: ignore[attr-defined]
    path.write_bytes(data[:cut])
    follower = Follower(path)
    first = read_all(follower, size)
    with path.open("ab") as file:
        file.write(data[cut:])
    whole = first + read_all(follower, size)
    end = data.rfind(b"\n") + 1
    assert whole == data[:end]
    assert follower.pending_bytes == len(data) - end
    assert follower.restarts == 0


@given(sizes=st.lists(st.integers(0, 60), max_size=6), size=st.integers(1, 9), tail=st.integers(0, 60))
def test_line_that_is_too_long_costs_no_memory_and_no_other_line(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], size: int, tail: int
) -> None:
    path = tmp_path_factory.mktemp("f") / "file"
    path.write_bytes(b"".join(b"%d:" % number + b"." * length + b"\n" for number, length in enumerate(sizes)))
    with path.open("ab") as file:
        file.write(b"t" * tail)
    with mock.patch.multiple(following, MAX_LINE=20, _HEAD=2):
        follower = Follower(path)
        found, held = [], 0
        while True:
            block = follower.poll(size)
            found += list(block.lines()) if block else []
            held = max(held, len(follower._partial))
            if follower.at_end and block is None:
                break
    assert held <= 20 + 2 * size
    assert [line[:2] for _, line in found] == [b"%d:" % number for number in range(len(sizes))]
    assert all(len(line) == 2 + sizes[number] for number, (_, line) in enumerate(found) if sizes[number] < 18)
    assert [offset for offset, _ in found] == [sum(3 + length for length in sizes[:n]) for n in range(len(sizes))]
    assert follower.pending_bytes == tail
    assert follower.mark is None or follower.mark.offset == sum(3 + length for length in sizes)
    assert tail > 20 or follower.finish().data == b"t" * tail


def test_mark_is_taken_up_by_another_process(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one\ntwo\nthr")
    first = Follower(path)
    first.poll()
    assert first.mark is not None
    with path.open("ab") as file:
        file.write(b"ee\nfour\n")
    second = Follower(path, first.mark)
    assert second.poll() == Block(8, b"three\nfour\n"), "the line that was torn then is whole now"
    assert second.restarts == 0


def test_mark_of_a_file_that_was_written_anew_is_not(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one\ntwo\n")
    first = Follower(path)
    first.poll()
    path.write_bytes(b"one\nTWO\nthree\n")  # the same inode, and longer
    second = Follower(path, first.mark)
    assert second.poll() == Block(0, b"one\nTWO\nthree\n")
    assert second.restarts == 1


def test_absent_is_no_trouble_and_a_directory_is(tmp_path: Path) -> None:
    follower = Follower(tmp_path / "file")
    assert follower.poll() is None
    assert follower.absent and follower.trouble is None and follower.mark is None
    (tmp_path / "file").mkdir()
    assert follower.poll() is None
    assert not follower.absent and follower.trouble is not None
