"""Lines of blocks in either order, and pages with cursors."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.rundir.following import Block
from prl.rundir.scanning import Page, Part, Scan, all_lines, decode_cursor, encode_cursor, whole_lines
from prl.rundir.sources import open_file


@given(
    st.lists(st.binary(max_size=6).map(lambda line: line.replace(b"\n", b"")), max_size=9),
    st.integers(1, 9),
    st.booleans(),
)
def test_blocks_become_whole_lines_in_either_order(lines: list[bytes], size: int, backwards: bool) -> None:
    content = b"\n".join(lines)
    blocks = [Block(i, content[i : i + size]) for i in range(0, len(content), size)]
    found = list(whole_lines(reversed(blocks) if backwards else blocks, backwards=backwards, longest=1000))
    in_order = found[::-1] if backwards else found
    assert b"".join(block.data for block in in_order) == content
    assert all(content[block.offset :].startswith(block.data) for block in found)
    assert all(block.offset == 0 or content[block.offset - 1 : block.offset] == b"\n" for block in found)
    every = [block.data[start:end] for block in in_order for start, end in all_lines(block.data)]
    assert every == (lines[:-1] if lines and not lines[-1] else lines)


@pytest.mark.parametrize("backwards", [False, True])
def test_what_stands_beside_a_hole_is_a_line_by_itself(backwards: bool) -> None:
    blocks = [Block(0, b"one\ntw"), Block(6, b"o\nthr"), Block(20, b"ee\nfour\nfi"), Block(30, b"ve\n")]
    found = list(whole_lines(blocks[::-1] if backwards else blocks, backwards=backwards, longest=1000))
    lines = {block.offset + start: block.data[start:end] for block in found for start, end in all_lines(block.data)}
    assert lines == {0: b"one", 4: b"two", 8: b"thr", 20: b"ee", 23: b"four", 28: b"five"}


def test_a_line_longer_than_the_longest_comes_in_parts() -> None:
    blocks = [Block(i, b"x" * 10) for i in range(0, 100, 10)]
    found = list(whole_lines(blocks, backwards=False, longest=30))
    assert [len(block.data) for block in found] == [40, 40, 20]


class Collector:
    """Takes the lines of a file, two a page."""

    longest = 1000

    def __init__(self) -> None:
        self.page = Page()
        self.lines: list[bytes] = []

    def take(self, part: Part, lines: Block, backwards: bool) -> int | None:
        found = list(all_lines(lines.data))
        for start, end in reversed(found) if backwards else found:
            self.lines.append(lines.data[start:end])
            if len(self.lines) == 2:
                return lines.offset + (start if backwards else min(end + 1, len(lines.data)))
        return None

    def hole(self, part: Part, start: int, reason: str) -> None:
        self.lines.append(reason.encode())


def read_pages(paths: list[Path], *, backwards: bool) -> list[bytes]:
    found, cursor = [], None
    while True:
        collector = Collector()
        parts = [Part(path.name, lambda path=path: open_file(path)) for path in paths]
        Scan(parts, collector, backwards=backwards, max_bytes=None, progress=None).run(cursor)
        found += collector.lines
        cursor = collector.page.cursor
        assert 0 <= collector.page.scanned_bytes <= collector.page.total_bytes
        if cursor is None:
            assert collector.page.done
            assert collector.page.scanned_bytes == collector.page.total_bytes
            return found


def test_pages_give_each_line_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1\n2\n3\n")
    (tmp_path / "b").write_bytes(b"")
    (tmp_path / "c").write_bytes(b"4\n5\n6")
    paths = [tmp_path / name for name in "abc"]
    assert b"".join(read_pages(paths, backwards=False)) == b"123456"
    assert b"".join(read_pages(paths, backwards=True)) == b"321654"
    assert read_pages([tmp_path / "absent"], backwards=False) == [b"No such file or directory"]


def test_a_cursor_into_a_file_that_was_replaced_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "a"
    parts = [Part("a", lambda: open_file(path))]

    def page(cursor: str | None, backwards: bool = False) -> Collector:
        collector = Collector()
        Scan(parts, collector, backwards=backwards, max_bytes=None, progress=None).run(cursor)
        return collector

    path.write_bytes(b"1\n2\n3\n")
    cursor = page(None).page.cursor
    assert page(cursor).lines == [b"3"]
    path.write_bytes(b"1\n2\n3\n4\n")
    assert page(cursor).lines == [b"3", b"4"], "it only grew"
    for content in (b"5\n6\n7\n", b"1\n"):
        path.write_bytes(content)
        found = page(cursor)
        assert found.page.restarted
        assert found.lines == content.split()[:2]
    with pytest.raises(ValueError, match="direction"):
        page(cursor, backwards=True)


@pytest.mark.parametrize("cursor", ["", "?", "e30x", encode_cursor({"a": 1})[:-1], "é", "W10", "x" * 10_000])
def test_what_is_no_cursor_is_said(cursor: str) -> None:
    with pytest.raises(ValueError, match="not a cursor"):
        decode_cursor(cursor)
    assert decode_cursor(encode_cursor({"a": 1})) == {"a": 1}


def test_a_bound_on_bytes_ends_a_page(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * 999 + b"\n")
    told: list[tuple[int, int]] = []
    collector = Collector()
    parts = [Part("a", lambda: open_file(path)), Part("b", lambda: open_file(path))]
    scan = Scan(parts, collector, backwards=False, max_bytes=10, progress=lambda *how_far: told.append(how_far))
    scan.run(None)
    assert collector.page.cursor is not None
    assert told == [(1000, 2000)]
