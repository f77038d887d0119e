"""Bytes of logs as lines."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from prl.rundir.logs.entries import EntryBuilder, LogEntry
from prl.rundir.logs.lines import MAX_LINE, LineSplitter, RawLine


def split(*blocks: bytes) -> list[RawLine]:
    splitter = LineSplitter()
    lines = [line for block in blocks for line in splitter.feed(block)]
    return lines + splitter.finish()


PIECES = (
    b"\n",
    b"\r",
    b"10:00:00   ERROR x",
    b"bar 1%",
    b"bar 2%",
    b"Traceback (most recent call last):",
    b"\xe2\x80",
    b"\xa6",
    b"[t0]:",
)


@given(st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join), st.lists(st.integers(0, 200), max_size=4))
def test_blocks_of_any_size_give_the_same_lines(data: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    blocks = [data[start:end] for start, end in itertools.pairwise(places)]
    assert split(*blocks) == split(data)


@given(st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join))
def test_lines_cover_the_data_in_order(data: bytes) -> None:
    lines = split(data)
    assert [line.offset for line in lines] == sorted({line.offset for line in lines})
    assert all(line.offset < line.end <= len(data) for line in lines if line.data)


@given(st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join), st.integers(0, 300))
def test_entries_taken_as_they_become_whole_are_those_of_the_whole(data: bytes, cut: int) -> None:
    splitter, builder = LineSplitter(), EntryBuilder()
    taken: list[LogEntry] = []
    for block in (data[:cut], data[cut:]):
        for line in splitter.feed(block):
            builder.add(line)
        taken += builder.take(all_entries=False)
    for line in splitter.finish():
        builder.add(line)
    taken += builder.take()
    whole = EntryBuilder()
    for line in split(data):
        whole.add(line)
    assert taken == whole.take()


def test_a_long_line_is_cut_and_its_end_known() -> None:
    (line, after) = split(b"x" * (MAX_LINE - 1) + "…".encode() * 9 + b"\nnext\n")
    assert (len(line.data), line.end, after.data) == (MAX_LINE, MAX_LINE + 27, b"next")
    assert line.text() == ("x" * (MAX_LINE - 1), False)  # a character at the cut is left out, not replaced


def test_many_bars_in_a_line_are_bounded() -> None:
    lines = split(b"\r".join(b"worker %s: 1%%" % (b"abcdefghij"[index % 10 : index % 10 + 1]) for index in range(500)))
    assert len(lines) <= 33
