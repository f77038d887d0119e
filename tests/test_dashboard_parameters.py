"""Query parameters: what each kind takes, what it refuses, and that its schema says so."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.dashboard.errors import ApiError
from prl.dashboard.parameters import Parameter, validate

STEP = Parameter("step", "range", "steps")


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("3..9", (3.0, 9.0)),
        ("3..", (3.0, None)),
        ("..9", (None, 9.0)),
        ("7", (7.0, 7.0)),
        ("-1.5..2e3", (-1.5, 2000.0)),
    ],
)
def test_a_range_is_two_ends_that_both_belong_to_it(text: str, ends: tuple[float | None, float | None]) -> None:
    assert STEP.parse(text) == ends
    assert re.search(STEP.schema()["pattern"], text)


@given(st.from_regex(STEP.schema()["pattern"], fullmatch=True))
def test_a_range_of_the_schemas_form_is_one_or_is_too_large(text: str) -> None:
    try:
        STEP.parse(text)
    except ApiError as refused:
        assert refused.status == 400 and "not a number that can be used" in refused.message


@pytest.mark.parametrize("text", ["a..b", "1..x", "1-2", "3..4..5", "nan", "1..inf"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ApiError, match=r"^step: "):
        STEP.parse(text)
    assert not re.search(STEP.schema()["pattern"], text)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([("limit", "0")], "limit: is at least 1"),
        ([("limit", "1.5")], "limit: is a whole number"),
        ([("limit", "5"), ("limit", "6")], "limit: given twice"),
        ([("sort", "x")], "sort: is one of a, b"),
        ([("on", "yes")], "on: is true or false"),
        ([("other", "1")], "other: is no parameter of this route (it takes: env, limit, on, run, sort)"),
        ([], "run: is missing"),
    ],
)
def test_what_no_parameter_takes_is_named(given: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(ApiError) as refused:
        validate(PARAMETERS, given if not given or given[0][0] == "other" else [("run", "r"), *given])
    assert (refused.value.status, refused.value.kind, refused.value.message) == (400, "bad_parameter", message)


def test_every_parameter_has_a_value() -> None:
    found: dict[str, Any] = dict(validate(PARAMETERS, [("run", "r"), ("env", "x"), ("env", "y"), ("on", "1")]))
    assert found == {"run": "r", "limit": 10, "sort": "a", "on": True, "env": ("x", "y")}


PARAMETERS = (
    Parameter("run", "text", "which", required=True),
    Parameter("limit", "integer", "how many", default=10, minimum=1, maximum=100),
    Parameter("sort", "choice", "by what", default="a", choices=("a", "b")),
    Parameter("on", "flag", "whether", default=False),
    Parameter("env", "text", "environments", many=True),
)
