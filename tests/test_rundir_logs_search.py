"""Searching logs: by what a line reads as, over whole files, in bounded memory."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.rundir.logs.search import MAX_TEXT, LogHits, search_log, search_logs
from prl.rundir.search import Query
from prl.text.terminal import strip_escapes


def texts(found: LogHits) -> list[str]:
    return [hit.line.text for hit in found.hits]


def every_page(path: Path, query: Query, *, backwards: bool) -> list[int]:
    found, cursor = [], None
    for _ in range(1000):
        page = search_log(path, query, cursor=cursor, max_hits=2, backwards=backwards)
        found += [hit.offset for hit in page.hits]
        cursor = page.cursor
        if page.done:
            return found
    raise AssertionError("a search without an end")


LOG = (
    b"12:00:00    INFO starting\n"
    b"12:00:01   ERROR \x1b[31mboom\x1b[0m err \xe2\x80\x94 one\n"
    b"bar  1%|\rbar 50%| boom err\rbar 99%| boom err\n"
    b"lone \xd0 byte\n"
    b"12:00:02    INFO BOOM ERR"
)


@pytest.mark.parametrize(
    "query",
    [
        Query("boom err"),
        Query(r"boom\s+err", regex=True),
        Query(r"\w+m err", regex=True),
        Query(r"err(?!x)", regex=True),
    ],
)
@pytest.mark.parametrize("backwards", [False, True])
def test_lines_match_as_they_read(tmp_path: Path, query: Query, backwards: bool) -> None:
    path = tmp_path / "trainer.log"
    path.write_bytes(LOG)
    found = search_log(path, query, backwards=backwards)
    expected = [
        (LOG.index(b"12:00:01"), "12:00:01   ERROR boom err — one"),
        (LOG.index(b"bar  1%"), "bar 50%| boom err"),
        (LOG.index(b"12:00:02"), "12:00:02    INFO BOOM ERR"),
    ]
    assert [(hit.offset, hit.line.text) for hit in found.hits] == (expected[::-1] if backwards else expected)
    assert (found.done, found.scanned_bytes, found.total_bytes) == (True, len(LOG), len(LOG))
    assert every_page(path, query, backwards=backwards) == [hit.offset for hit in found.hits]


def test_states_of_a_line_are_texts_by_themselves(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"one\rtwo\nthree\r\n")
    for query in (Query("one.two", regex=True), Query("onetwo"), Query(r"two\s+three", regex=True)):
        assert search_log(path, query).hits == []
    assert texts(search_log(path, Query("^two$", regex=True))) == ["two"]
    assert texts(search_log(path, Query("^three$", regex=True))) == ["three"]


def test_bytes_that_are_not_utf8_keep_offsets(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"\xd0\xd0\xff\nfound \xd0 it\n")
    for query in (Query("found"), Query(r"f\w+d", regex=True)):
        assert [(hit.offset, hit.line.text) for hit in search_log(path, query).hits] == [(4, "found \ufffd it")]


def test_a_line_of_twenty_megabytes_is_one_hit(tmp_path: Path) -> None:
    path = tmp_path / "bar.log"
    bar = b"".join(b"\x1b[Atrain: %6d/200000 |%s| it/s" % (i, b"#" * 70) + b"\r" for i in range(200_000))
    path.write_bytes(b"before\n" + bar + b"RuntimeError: the end\nafter\n")
    found = search_log(path, Query("runtimeerror"))
    assert [(hit.offset, hit.line.text) for hit in found.hits] == [(7, "RuntimeError: the end")]
    assert len(search_log(path, Query("train:")).hits) == 1
    path.write_bytes(b"x" * 5_000_000 + b" here " + b"y" * 5_000_000)
    line = search_log(path, Query("here"), backwards=True).hits[0].line
    assert len(line.text) == MAX_TEXT
    assert line.text[line.start : line.end] == "here"


def test_several_files_with_one_cursor(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.log", "absent.log", "b.log")]
    files[0].write_bytes(b"hit 1\nhit 2\n")
    files[2].write_bytes(b"hit 3\n")
    first = search_logs(files, Query("hit"), max_hits=2)
    rest = search_logs(files, Query("hit"), cursor=first.cursor)
    assert texts(first) + texts(rest) == ["hit 1", "hit 2", "hit 3"]
    assert [hit.path for hit in rest.hits] == [files[2]]
    assert rest.trouble == []
    found = search_logs([tmp_path, *files], Query("hit"))
    assert len(found.hits) == 3
    assert found.trouble == [f"{tmp_path}: Is a directory"]


def test_a_rotated_log_is_searched_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"hit 1\nhit 2\n")
    page = search_log(path, Query("hit"), max_hits=1)
    path.write_bytes(b"new\nhit 3\n")
    again = search_log(path, Query("hit"), cursor=page.cursor)
    assert (again.restarted, texts(again)) == (True, ["hit 3"])


LINES = st.lists(st.text("ab é\x1b[3m\r—", max_size=8), max_size=8)


@given(LINES, st.sampled_from(["ab", "é", "a.?b", "^b", r"b+\s", "ba|é$"]), st.booleans(), st.booleans())
def test_as_a_search_line_by_line(lines: list[str], pattern: str, regex: bool, backwards: bool) -> None:
    query = Query(pattern, regex=regex)
    expected, offset = [], 0
    for line in lines:
        if any(query.find(strip_escapes(state)) for state in line.split("\r") if state):
            expected.append(offset)
        offset += len(line.encode()) + 1
    handle = os.memfd_create("log")
    try:
        os.write(handle, "".join(line + "\n" for line in lines).encode())
        found = search_log(Path(f"/proc/self/fd/{handle}"), query, backwards=backwards)
    finally:
        os.close(handle)
    assert [hit.offset for hit in found.hits] == (expected[::-1] if backwards else expected)
