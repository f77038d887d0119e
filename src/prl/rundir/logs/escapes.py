"""Blocks of a coloured log without its escape sequences, as bytes, fast enough for searching gigabytes.

The same sequences go as :func:`prl.text.terminal.strip_escapes` removes from a line's text; none reaches over a line's
end. Colours, which are nearly all there is, are removed with numpy; a block with anything else by a regular expression.
"""

import re

_SEQUENCES = re.compile(
    rb"(?:\x1b\[|\xc2\x9b)[0-?]*[ -/]*[@-~]"
    rb"|(?:\x1b[\]PX^_]|\xc2[\x9d\x90\x98\x9e\x9f])(?:[^\x07\x1b\xc2\r\n]|\xc2(?!\x9c))*(?:\x07|\x1b\\|\xc2\x9c)"
    rb"|\x1b[ -/]*[0-~]"
)
_C1 = re.compile(rb"\xc2[\x90\x98\x9b\x9d-\x9f]")
_ESC, _OPENING = 0x1B, 0x5B
_PARAMETERS = (0x30, 0x3F)
_LAST_FINAL = 0x7E


def without_escapes(data: bytes) -> bytes:
    """``data`` without terminal escape sequences, with the same newlines; ``data`` itself where there are none."""
    if _C1.search(data):
        return _SEQUENCES.sub(b"", data)
    if b"\x1b" not in data:
        return data
    stripped = _without_colours(data)
    return _SEQUENCES.sub(b"", data) if stripped is None else stripped


def _without_colours(data: bytes) -> bytes | None:
    """``data`` without CSI sequences (escape, bracket, parameters, a final letter). None when it has others."""
    import numpy as np

    marked = np.frombuffer(bytearray(data), np.uint8)  # a copy: bytes that go become ESC
    at = np.flatnonzero(marked == _ESC) + 1
    if at[-1] >= len(marked) or not (marked[at] == _OPENING).all():
        return None
    marked[at] = _ESC
    at += 1
    while len(at):
        if at[-1] >= len(marked):
            return None
        byte = marked[at]
        if ((byte < _PARAMETERS[0]) | (byte > _LAST_FINAL)).any():
            return None
        marked[at] = _ESC
        at = at[byte <= _PARAMETERS[1]] + 1
    return marked.tobytes().translate(None, b"\x1b")
