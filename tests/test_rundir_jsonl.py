"""JSON lines: what is written is strict, what is read may be anything."""

import errno
import json
import math
import os
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.rundir import jsonl
from prl.rundir.jsonl import Appender, Damage, Tail, decode, encode, read_lines, split_blocks

# Integers of up to 64 bits: a longer one comes back as the nearest float, as from most readers of JSON.
INTEGERS = st.integers(min_value=-(2**63), max_value=2**64 - 1)
JSON = st.recursive(
    st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def values(path: Path) -> list[Any]:
    return [line.value for line in read_lines(path)[0]]


def test_an_integer_of_more_than_64_bits_comes_back_as_a_float() -> None:
    assert decode(b'{"x": -9223372036854775809}')[0] == {"x": -9.223372036854776e18}


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_any_object_comes_back_and_takes_one_line(value: dict[str, Any]) -> None:
    line = encode(value)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode(line[:-1]) == (value, False)


def test_what_json_cannot_hold_is_written_as_strict_json() -> None:
    value = {"nan": math.nan, "inf": [-math.inf], "half": "x\ud800y", "big": 10**30, 3: Path("/a"), "b": b"12"}
    found = json.loads(encode(value), parse_constant=lambda token: pytest.fail(f"{token} is not JSON"))
    assert found == {
        "nan": None,
        "inf": [None],
        "half": "x\ufffdy",
        "big": 10**30,
        "3": "/a",
        "b": "<2 bytes>",
    }
    assert json.loads(encode({"a": np.float32(1.5), "b": np.arange(3), "c": {1}})) == {
        "a": 1.5,
        "b": [0, 1, 2],
        "c": [1],
    }


def test_non_finite_tokens_are_read_as_such() -> None:
    value, replaced = decode(b'{"loss": NaN, "grad": Infinity, "adv": -Infinity}')
    assert math.isnan(value["loss"])
    assert (value["grad"], value["adv"], replaced) == (math.inf, -math.inf, False)


def test_bytes_that_are_not_utf8_are_replaced_and_flagged() -> None:
    assert decode(b'{"text": "caf\xe9"}') == ({"text": "caf\ufffd"}, True)


@pytest.mark.parametrize("line", [b"\0" * 64, b"[1]", b"3", b"{", b"[" * 100_000, b'{"a":1}{"b":2}'])
def test_what_holds_no_object_is_a_bad_line(line: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode(line)


def test_damage_is_counted_with_its_first_place_and_a_sample(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(b'{"a":1}\n' + b"\0" * 64 + b'\n\n  \nnonsense\n{"t":"caf\xe9"}\n{"a":2}\n')
    lines, damage = read_lines(path)
    assert [line.offset for line in lines] == [0, 86, 99]
    assert (damage.lines, damage.first_offset, damage.replaced) == (2, 8, 1)
    assert damage.sample.startswith("\\x00\\x00")


def test_only_a_newline_ends_a_line(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    text = "a\x85b\u2028c\x1cd"
    path.write_text("".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for _ in range(3)))
    assert values(path) == [{"text": text}] * 3


def test_absent_empty_and_directory(tmp_path: Path) -> None:
    assert read_lines(tmp_path / "absent") == ([], Damage())
    (tmp_path / "empty").touch()
    assert read_lines(tmp_path / "empty") == ([], Damage())
    tail = Tail(tmp_path)
    assert tail.poll() == []
    assert tail.trouble is not None
    assert tail.at_end


@pytest.mark.parametrize(("failures", "found"), [(1, 1), (2, 0)])
def test_a_stale_handle_of_a_network_disk_is_opened_anew_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int, found: int
) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(b"{}\n")
    real_open, left = os.open, [failures]

    def stale_at_first(path: Path, flags: int) -> int:
        if left[0]:
            left[0] -= 1
            raise OSError(errno.ESTALE, "Stale file handle")
        return real_open(path, flags)

    monkeypatch.setattr(os, "open", stale_at_first)
    tail = Tail(path)
    assert len(tail.poll()) == found
    assert (tail.trouble is None) == bool(found)


def test_a_last_line_is_held_back_until_it_is_complete_or_its_writer_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(b'{"a":1}\n{"a":')
    tail = Tail(path)
    assert [line.value for line in tail.poll()] == [{"a": 1}]
    assert tail.pending_bytes == 5
    assert tail.damage.lines == 0, "not yet complete is not damaged"
    with path.open("ab") as file:
        file.write(b"2}")
    assert tail.poll() == []
    assert [(line.offset, line.value) for line in tail.finish()] == [(8, {"a": 2})], "parses, and nobody adds to it"

    path.write_bytes(b'{"a":1}\n{"a":')
    tail = Tail(path)
    tail.poll()
    assert tail.finish() == []
    assert (tail.damage.lines, tail.damage.first_offset) == (1, 8)


@given(st.lists(st.binary(max_size=20), max_size=6), st.lists(st.integers(1, 30), max_size=20))
def test_a_tail_reads_the_same_whatever_the_pieces(pieces: list[bytes], reads: list[int]) -> None:
    content = b"".join(encode({"i": i, "x": piece.hex()}) for i, piece in enumerate(pieces)) + b'{"torn'
    fd = os.memfd_create("m")
    try:
        tail, found = Tail(Path(f"/proc/self/fd/{fd}")), []
        written = 0
        for size in reads:
            written += os.write(fd, content[written : written + size])
            found += tail.poll(size)
        os.write(fd, content[written:])
        found += tail.poll(7)
        while not tail.at_end:
            found += tail.poll(7)
        assert [line.value["i"] for line in found] == list(range(len(pieces)))
        assert all(content[line.offset :].startswith(encode(line.value)) for line in found)
        assert (tail.damage.lines, tail.pending_bytes, tail.restarts) == (0, 6, 0)
    finally:
        os.close(fd)


@pytest.mark.parametrize("how", ["another file", "shorter", "rewritten in place"])
def test_a_tail_starts_again_when_the_file_was_replaced(tmp_path: Path, how: str) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(b'{"a":1}\nbad\n{"a":2}\n')
    tail = Tail(path)
    assert len(tail.poll()) == 2
    if how == "another file":
        (tmp_path / "new").write_bytes(b'{"b":1}\nbad\n{"a":2}\n{"b":3}\n')
        (tmp_path / "new").replace(path)
    elif how == "shorter":
        os.truncate(path, 0)
        path.write_bytes(b'{"b":1}\n')
    else:
        path.write_bytes(b'{"b":1}\n{"b":2}\n{"b":3}\n{"b":4}\n')
    assert tail.poll()[0].value == {"b": 1}
    assert tail.restarts == 1
    assert tail.damage.lines == (how == "another file"), "the damage of the old file went with it"


def test_the_sole_writer_and_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "s" / "m.jsonl"
    file = Appender(path)
    assert file.append(b'{"a":1}\n') == 0
    with path.open("ab") as other:
        other.write(b'{"torn')
    assert file.append(b'{"a":2}\n') == 15, "one byte for the newline that closed the torn line"
    file.close()
    assert path.read_bytes() == b'{"a":1}\n{"torn\n{"a":2}\n'


@pytest.mark.parametrize("shared", [False, True])
def test_a_line_that_could_be_written_in_part_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    path = tmp_path / "m.jsonl"
    file = Appender(path, shared=shared)
    file.append(b'{"a":1}\n')
    real_write, calls = os.write, []

    def full_after_three_bytes(fd: int, data: bytes) -> int:
        calls.append(len(data))
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real_write(fd, data[:3])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full_after_three_bytes)
        with pytest.raises(OSError, match="No space"):
            file.append(b'{"a":2}\n')
    file.append(b'{"a":3}\n')
    file.close()
    torn = b'{"a\n' if shared else b""
    assert path.read_bytes() == b'{"a":1}\n' + torn + b'{"a":3}\n'


def test_end_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    file = Appender(path)
    file.end_torn_line()
    assert path.read_bytes() == b""
    path.write_bytes(b"{}\n{")
    file.end_torn_line()
    file.end_torn_line()
    file.close()
    assert path.read_bytes() == b"{}\n{\n"


@given(st.lists(st.binary(max_size=6), max_size=8), st.integers(1, 9))
def test_lines_of_blocks(lines: list[bytes], size: int) -> None:
    content = b"\n".join(lines)
    blocks = [content[i : i + size] for i in range(0, len(content), size)]
    found = list(split_blocks(blocks, 100))
    complete, last = content.split(b"\n")[:-1], content.split(b"\n")[-1]
    assert [line for _, line, whole in found if whole] == complete
    assert [line for _, line, whole in found if not whole] == ([last] if last else [])
    assert all(content[offset - 100 :].startswith(line) for offset, line, _ in found)


@given(lengths=st.lists(st.integers(0, 40), max_size=6), tail=st.integers(0, 40), size=st.integers(1, 50))
def test_line_of_a_stream_that_is_too_long_costs_no_other(lengths: list[int], tail: int, size: int) -> None:
    data = b"".join(b"%d" % number * length + b"\n" for number, length in enumerate(lengths)) + b"t" * tail
    with mock.patch.object(jsonl, "MAX_RECORD", 16):
        found = list(split_blocks(data[at : at + size] for at in range(0, len(data), size)))
    assert [offset for offset, _, _ in found] == [sum(n + 1 for n in lengths[:at]) for at in range(len(found))]
    assert len(found) == len(lengths) + bool(tail)
    for (_, line, complete), (number, length) in zip(found, enumerate(lengths), strict=False):
        assert line == b"%d" % number * len(line)
        assert len(line) == length if complete else 16 < len(line) < min(length + 1, 16 + size + 1)
