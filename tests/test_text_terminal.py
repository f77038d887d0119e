"""Escapes and control characters are taken out of text for terminals."""

from hypothesis import given
from hypothesis import strategies as st

from prl.text.terminal import for_terminal, one_line, strip_escapes


def test_colours_titles_links_and_clearing_go() -> None:
    assert strip_escapes("\x1b[2m12:00:00\x1b[0m\x1b[31m\x1b[1m   ERROR\x1b[0m boom") == "12:00:00   ERROR boom"
    hostile = "\x1b]0;title\x07\x1b[2J\x1b]8;;http://x.invalid\x07click\x1b]8;;\x07"
    assert strip_escapes(hostile) == "click"
    assert strip_escapes("a\x1b]0;t\x1b\\b\x1bPq#0\x1b\\c\x9b31md\x9d0;x\x9ce") == "abcde"


def test_an_escape_that_never_ends_swallows_nothing() -> None:
    assert strip_escapes("before\x1b]0;after") == "before0;after"
    assert for_terminal("tail\x1b") == "tail"


def test_other_text_stays_as_it_is() -> None:
    text = "Trace failed in group g — ProviderError: 语言 ╰─ ü\tx\n"
    assert strip_escapes(text) == text
    assert for_terminal(text) == text
    assert strip_escapes("10%\r20%") == "10%\r20%", "carriage returns are for the reader of progress bars"


def test_control_and_direction_characters_go() -> None:
    assert for_terminal("a\x00\x08b\rc\x7fd\x85e\u202ef\u2066g") == "abcdefg"
    assert for_terminal("a\u200fb\u200ec\u061cd\u2069") == "abcd", "marks show nothing and turn what follows"


def test_what_cannot_be_encoded_is_replaced() -> None:
    assert for_terminal(b"caf\xe9".decode(errors="surrogateescape")) == "caf\ufffd"


def test_one_line_folds_and_cuts() -> None:
    assert one_line("a\n  b\tc", 80) == "a b c"
    assert one_line("abcdef", 4) == "abc…"


@given(st.text(st.sampled_from("\x1b[]0;mP\\\x07\x9b\x9d\x9cab\n"), max_size=60))
def test_nothing_a_terminal_obeys_remains(text: str) -> None:
    assert not set(for_terminal(text)) & set("\x1b\x07\x9b\x9c\x9d\r\x00")
