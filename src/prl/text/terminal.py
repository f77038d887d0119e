"""Text from models, logs and other people's programs, made safe for a terminal and plain for searching.

An escape sequence in a completion can retitle a window, clear the screen or hide text behind a link. Left out: turning
colours into markup for the web page, which is the page's own work.
"""

import re

_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, clearing
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]{0,65536}(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]"  # two-character sequences, and the start of one that never ends
)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_HALF = re.compile("[\ud800-\udfff]")
_DIRECTION = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def strip_escapes(text: str) -> str:
    """``text`` without terminal escape sequences (colours, titles, links, clearing). Other characters stay."""
    return _ESCAPE.sub("", text) if "\x1b" in text or not text.isascii() else text


def for_terminal(text: str) -> str:
    """``text`` that can be printed to a terminal whoever wrote it.

    Without escape sequences and without control characters (newline and tab stay), and without the invisible
    characters that mark or reverse a direction of writing. Half a surrogate pair (a byte of a file's name that is not
    UTF-8), which cannot be printed, becomes U+FFFD.
    """
    return _HALF.sub("\ufffd", _DIRECTION.sub("", _CONTROL.sub("", strip_escapes(text))))


def one_line(text: str, width: int) -> str:
    """``text`` as one line for a terminal: white space runs become one space, cut to ``width`` characters."""
    plain = " ".join(for_terminal(text).split())
    return plain if len(plain) <= width else plain[: max(width - 1, 0)] + "…"
