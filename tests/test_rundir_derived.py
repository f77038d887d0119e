"""Rows derived from a stream: a torn end is cut, rows that cannot be written wait."""

import json
from pathlib import Path

import pytest

from prl.rundir import derived
from prl.rundir.derived import DerivedRows, last_object


def test_a_torn_end_is_cut_and_the_last_whole_row_found(tmp_path: Path) -> None:
    path = tmp_path / "index.jsonl"
    path.write_bytes(b'{"line":1}\n{"line":2,"pad":"' + b"x" * 200_000 + b'"}\n{"line":3,"to')
    rows = DerivedRows(path)
    assert rows.last is not None
    assert rows.last["line"] == 2
    rows.append({"line": 3})
    rows.close()
    assert [json.loads(line)["line"] for line in path.read_bytes().splitlines()] == [1, 2, 3]


@pytest.mark.parametrize("content", [b"", b'{"line":1,"pad":"' + b"x" * 200_000])
def test_a_file_without_a_whole_row_begins_anew(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "index.jsonl"
    path.write_bytes(content)
    rows = DerivedRows(path)
    assert rows.last is None
    rows.append({"line": 1})
    rows.close()
    assert path.read_bytes() == b'{"line":1}\n'


def test_bad_lines_at_the_end_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "index.jsonl"
    assert last_object(path) is None
    path.write_bytes(b'{"line":1}\n\0\0\0\n\nnonsense\n')
    assert last_object(path) == {"line": 1}


def test_rows_that_cannot_be_written_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derived, "PENDING_LIMIT", 2)
    (tmp_path / "d").write_text("in the way")
    rows = DerivedRows(tmp_path / "elsewhere")
    rows.path = tmp_path / "d" / "index.jsonl"
    rows._file = derived.jsonl.Appender(rows.path)
    rows.append({"line": 1})
    assert rows.waiting
    assert not rows.full
    rows.append({"line": 2})
    assert rows.full
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        rows.flush()
    (tmp_path / "d").unlink()
    rows.append({"line": 3})
    rows.close()
    assert not rows.waiting
    assert rows.path.read_bytes() == b'{"line":1}\n{"line":2}\n{"line":3}\n'
