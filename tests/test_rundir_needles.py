"""Bytes that every matching line must hold: none may be missed, few may be found in vain."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.rundir.needles import Finder, case_variants, crosses_lines, json_spellings, plain_spelling, required_literals
from prl.rundir.search import Query

TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        ("needle", ["needle"]),
        (r"needle\s+\d+", ["needle"]),
        (r"\d+ steps? of (?:ten|twelve)", [" of ten", " of twelve"]),
        (r"a steps? of \d", ["a step"]),
        (r"(?:out of memory|oom-kill)\b", ["out of memory", "oom-kill"]),
        ("spam|sparrow|spider", ["spam", "sparrow", "spider"]),
        ("(abc){2,}x", ["abc"]),
        ("(?>atomic)x", ["atomicx"]),
        ("^(?=x)head$", ["head"]),
        ("(abc)?de", None),
        ("(abc)*", None),
        ("abc|de", None),
        (r"\w+", None),
        ("[a-z]bc", None),
    ],
)
def test_literals_that_a_regular_expression_requires(pattern: str, literals: list[str] | None) -> None:
    assert required_literals(pattern) == (literals and (literals, False))


def test_letter_case_of_a_part_counts_for_the_whole() -> None:
    assert required_literals("(?i:abc)d") == (["abcd"], True)
    assert required_literals("(?i)abc") == (["abc"], True)


@pytest.mark.parametrize("pattern", [r"a\Z", r"\Aa", "a(?!b)", "(?<=a)b", "(?:x(a(?=b)))+"])
def test_patterns_that_look_outside_what_they_match(pattern: str) -> None:
    assert crosses_lines(pattern)
    assert not crosses_lines(r"^a.*[^b]$|\bc(d|e)+?")


def test_case_variants() -> None:
    assert case_variants("k") == {"k", "K"}, "not the Kelvin sign"
    assert case_variants("1") == {"1"}
    assert case_variants("é") == {"é", "É"}
    assert case_variants("ß") >= {"ß"}
    assert case_variants("ς") == {"ς", "Σ", "σ"}


def test_a_line_is_found_once_and_only_with_a_form() -> None:
    finder = Finder([b"aX", b"b"], ignore_case=False)
    data = b"aX b aX\nnothing ax\n\nb"
    assert [data[start:end] for start, end in finder.lines(data)] == [b"aX b aX", b"b"]
    assert [data[start:end] for start, end in Finder([b"aX"], ignore_case=True).lines(data)] == [
        b"aX b aX",
        b"nothing ax",
    ]


@given(TEXTS, TEXTS, TEXTS, st.booleans(), st.booleans())
def test_no_spelling_of_json_hides_a_text(before: str, text: str, after: str, ascii_only: bool, swap: bool) -> None:
    held = text.swapcase() if swap else text
    line = json.dumps({"x": before + held + after}, ensure_ascii=ascii_only).encode()
    query = Query(text, ignore_case=swap)
    if query.find(before + held + after) is not None:
        finder = query.finder(json_spellings)
        assert finder is not None
        assert list(finder.lines(line)) == [(0, len(line))]


@given(
    st.text("abcX.é", min_size=1, max_size=30), st.sampled_from(["abc", "(?i)ABc", "aé+bc|X.X.a", "Éab", "a(bca|cab)"])
)
def test_no_literal_of_a_regular_expression_hides_a_match(text: str, pattern: str) -> None:
    query = Query(pattern, regex=True)
    finder = query.finder(lambda literal: (plain_spelling(literal),))
    if finder is not None and query.find(text):
        assert list(finder.lines(text.encode())) == [(0, len(text.encode()))]


@given(TEXTS, TEXTS)
def test_case_is_compared_as_by_a_regular_expression(text: str, held: str) -> None:
    if text.isascii() and held.isascii():
        assert bool(Query(text).find(held)) == bool(re.search(re.escape(text), held, re.IGNORECASE))
