"""Lines that hold given bytes, wherever blocks end."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prl.rundir import matching
from prl.rundir.following import Follower
from prl.rundir.matching import matching_lines
from prl.rundir.needles import Finder

AB, X = Finder([b"ab"], ignore_case=False), Finder([b"x"], ignore_case=False)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.binary(max_size=12).filter(lambda line: b"\n" not in line), max_size=9), st.integers(1, 30))
def test_lines_are_those_a_plain_split_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[bytes], block: int
) -> None:
    monkeypatch.setattr(matching, "BLOCK", block)
    lines = [line.replace(b"\0", b"ab") for line in lines]
    path = tmp_path / "file"
    path.write_bytes(b"".join(line + b"\n" for line in lines) + b"abab")
    expected, offset = [], 0
    for line in lines:
        if b"ab" in line:
            expected.append((offset, line))
        offset += len(line) + 1
    assert list(matching_lines(path, AB)) == expected, "a last line without its newline is not complete"


def test_after_a_mark_and_without_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x1\nx2\n")
    lines = Follower(path)
    lines.poll()
    path.write_bytes(b"x1\nx2\nx3\n")
    assert list(matching_lines(path, X, lines.mark)) == [(6, b"x3")]
    assert list(matching_lines(tmp_path / "absent", X)) == []
    assert list(matching_lines(tmp_path, X)) == [], "a directory in its place"
