"""Escape sequences go from bytes as they go from text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.rundir.logs.escapes import without_escapes
from prl.text.terminal import strip_escapes

COLOURS = ["\x1b[31m", "\x1b[1;36m", "\x1b[0m", "\x1b[2K"]
OTHERS = ["\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\", "\x1b(B", "\x9b1m", "\x9d8;\x9c"]
BROKEN = ["\x1b", "\x1b[", "\x1b[ 3m", "\x1b[12", "\x07"]
PIECES = st.sampled_from([*COLOURS, *OTHERS, *BROKEN, *"a1m; é\n\r·?"])


@given(st.lists(PIECES, max_size=12) | st.lists(st.sampled_from([*COLOURS, *"am1\n"]), max_size=9))
def test_as_from_the_text_of_each_line(pieces: list[str]) -> None:
    data = "".join(pieces).encode()
    lines = [strip_escapes(line) for line in "".join(pieces).split("\n")]
    if "\r" not in pieces:
        assert without_escapes(data).decode() == "\n".join(lines)
    assert without_escapes(data).count(b"\n") == data.count(b"\n")


@given(st.binary(max_size=40))
def test_any_bytes(data: bytes) -> None:
    assert without_escapes(data).count(b"\n") == data.count(b"\n")


@pytest.mark.parametrize("data", [b"", b"plain\n", "naïve\n".encode()])
def test_what_has_none_is_not_copied(data: bytes) -> None:
    assert without_escapes(data) is data
