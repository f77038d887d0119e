import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.text.human import format_duration, format_percent

# The DUR sub-pattern of the contract's line catalogue.
DURATION = r"\d+ms|\d+(?:\.\d+)?s|\d+m(?: \d+s)?|\d+h(?: \d+m)?|\d+d(?: \d+h)?"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0ms"),
        (0.98, "980ms"),
        (0.9999, "1.0s"),  # never "1000ms"
        (3.14, "3.1s"),
        (59.96, "1m 0s"),  # never "60.0s"
        (72, "1m 12s"),
        (3599.6, "1h 0m"),
        (7500, "2h 5m"),
        (97200, "1d 3h"),
    ],
)
def test_durations_have_the_form_of_the_contract(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.floats(min_value=0, max_value=1e7))
def test_every_duration_matches_the_contract_pattern(seconds: float) -> None:
    assert re.fullmatch(DURATION, format_duration(seconds))


def test_percent_has_one_decimal() -> None:
    assert format_percent(0.0468) == "4.7%"
