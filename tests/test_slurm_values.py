"""Durations, moments, memory, exit codes and output paths as SLURM prints them."""

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.slurm import values
from prl.slurm.values import ExitCode


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0:00", 0),
        ("4:59", 299),
        ("01:02:03", 3723),
        ("1-02:03:04", 93784),
        ("2-12", 216000),
        ("00:01:00.500", 60),
        ("UNLIMITED", math.inf),
        *((text, None) for text in ("INVALID", "NOT_SET", "N/A", "Partition_Limit", "", "-1:00")),
    ],
)
def test_duration(text: str, seconds: float | None) -> None:
    assert values.duration(text) == seconds


def test_moment() -> None:
    # Seconds as asked for, else local time without a zone.
    assert values.moment("1790000000") == 1_790_000_000
    assert values.moment("2026-01-01T10:05:00", UTC) == datetime(2026, 1, 1, 10, 5, tzinfo=UTC).timestamp()
    east = timezone(timedelta(hours=9))
    assert values.moment("2026-01-01T10:05:00", east) == datetime(2026, 1, 1, 1, 5, tzinfo=UTC).timestamp()
    assert [values.moment(text) for text in ("Unknown", "N/A", "NONE", "", "0")] == [None] * 5


@pytest.mark.parametrize(
    ("text", "size"),
    [("2792K", 2792 * 1024), ("1.5G", 3 * 512 * 1024**2), ("4000Mn", 4000 * 1024**2), ("4Gc", 4 * 1024**3), ("0", 0)],
)
def test_memory(text: str, size: int) -> None:
    assert values.memory(text) == size


def test_exit_code_in_words() -> None:
    # a:b is status and signal; 125 is what SLURM writes where a step ran out of memory, no signal of the system.
    words = {
        text: code.plain for text in ("0:0", "1:0", "0:9", "0:15", "0:125", "0:99") if (code := values.exit_code(text))
    }
    assert words == {
        "0:0": "exit code 0",
        "1:0": "exit code 1",
        "0:9": "signal 9 (SIGKILL)",
        "0:15": "signal 15 (SIGTERM)",
        "0:125": "out of memory",
        "0:99": "signal 99",
    }
    assert str(ExitCode(1, 0)) == "1:0"
    assert values.exit_code("") is None


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (2, 2),
        ("2-2", 2),
        ("7", 7),
        ({"set": True, "infinite": False, "number": 2}, 2),
        ({"set": False, "infinite": False, "number": 0}, None),
        ({"set": True, "infinite": True, "number": 0}, None),
        (True, None),
        (-1, None),
        ("1.5", None),
        ("9" * 30, None),
        (None, None),
    ],
)
def test_count(value: object, number: int | None) -> None:
    assert values.count(value) == number


def test_output_path() -> None:
    letters = {"A": "42", "a": "7", "j": "49", "N": "n1", "x": "my run", "u": "me"}
    assert values.expand_path("/o/%x_%A_%a_%j_%N_%u.log", letters) == "/o/my run_42_7_49_n1_me.log"
    # Numbers are padded to the width; a letter without a value and a percent sign stay.
    assert values.expand_path("%4a %3x %J %% %", letters) == "0007 my run %J % %"
    assert values.expand_path(r"plain_\%j", letters) == "plain_%j"


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    for read in (values.duration, values.moment, values.memory, values.exit_code, values.count, values.text_or_none):
        read(text)
    values.expand_path(text, {"j": "1"})


@given(st.integers(0, 10**7))
def test_duration_is_the_inverse_of_how_slurm_prints(seconds: int) -> None:
    # _print_time of SLURM: days only where there are some, hours then always of two digits.
    days, rest = divmod(seconds, 86400)
    hours, minutes, left = rest // 3600, rest % 3600 // 60, rest % 60
    text = f"{days}-{hours:02d}:{minutes:02d}:{left:02d}" if days else f"{hours}:{minutes:02d}:{left:02d}"
    assert values.duration(text) == seconds
