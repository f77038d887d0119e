"""Queries and excerpts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.rundir.search import EXCERPT, Query, excerpt


@pytest.mark.parametrize(
    ("query", "text", "found"),
    [
        (Query("Boom"), "a bOOM", (2, 6)),
        (Query("Boom", ignore_case=False), "a boom", None),
        (Query("CAFÉ"), "un café", (3, 7)),
        (Query("привет"), "ПРИВЕТ", (0, 6)),
        (Query("a.c"), "abc a.c", (4, 7)),
        (Query("a.c", regex=True), "abc a.c", (0, 3)),
        (Query("^b", regex=True), "a\nB", (2, 3)),
        (Query("^b", regex=True, ignore_case=False), "a\nB", None),
        (Query("é"), "plain", None),
    ],
)
def test_where_a_query_matches(query: Query, text: str, found: tuple[int, int] | None) -> None:
    assert query.find(text) == found


@pytest.mark.parametrize("pattern", ["(", "a{2", "[z-a]", "*", "(" * 5000, "(?P<n>a)(?P<n>b)"])
def test_what_is_no_regular_expression_is_said(pattern: str) -> None:
    try:
        Query(pattern, regex=True)
    except ValueError as error:
        assert "not a regular expression" in str(error)
    else:
        assert pattern == "a{2", "a brace that opens no repetition is a character"
    assert Query(pattern).find(f"x{pattern}") is not None
    with pytest.raises(ValueError, match="empty"):
        Query("")


@given(st.text(max_size=900), st.data())
def test_an_excerpt_is_bounded_and_holds_the_match(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    part = excerpt(text, start, end)
    assert len(part.text) <= EXCERPT
    assert part.text[part.start : part.end] == text[start:end][: part.end - part.start]
    assert part.end - part.start == min(end - start, EXCERPT - part.start)
    assert part.text in text
    assert part.cut_before == (not text.startswith(part.text) or (part.cut_before and bool(text)))
    assert part.cut_before or part.cut_behind or part.text == text
