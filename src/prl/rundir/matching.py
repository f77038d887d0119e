"""Lines of a file that hold given bytes: the fast way to a few rows of a large index.

A search of bytes needs nothing made beforehand and passes 20 MB in about 10 ms. What a line means, and whether the
bytes stand where they should, is for the caller to see. Left out: patterns and letter case, which text search has.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from prl.rundir.following import Block, Follower, Mark

BLOCK = 1024 * 1024
"""Bytes looked at together: few enough to stay in the processor's cache."""


def matching_lines(path: Path, needle: bytes, mark: Mark | None = None) -> Iterator[tuple[int, bytes]]:
    """``(byte offset, line without newline)`` of each complete line that holds ``needle``, after ``mark`` if given.

    A file that is absent or cannot be read has none.
    """
    for block in whole_lines(path, mark):
        yield from matches(block, needle)


def whole_lines(path: Path, mark: Mark | None = None) -> Iterator[Block]:
    """A file's complete lines in blocks, after ``mark`` if given."""
    lines = Follower(path, mark)
    while True:
        block = lines.poll(BLOCK)
        if block is not None:
            yield block
        if lines.at_end:
            return


def matches(block: Block, needle: bytes) -> Iterator[tuple[int, bytes]]:
    """``(byte offset, line without newline)`` of each line of a block that holds ``needle``."""
    data = block.data
    position = data.find(needle)
    while position >= 0:
        start = data.rfind(b"\n", 0, position) + 1
        end = data.find(b"\n", position)
        yield block.offset + start, data[start:end]
        position = data.find(needle, end)


def text_needles(text: str) -> list[bytes]:
    """The forms in which a JSON string that begins with ``text`` may begin in a file, opening quote included."""
    plain = json.dumps(text, ensure_ascii=False)[:-1]
    escaped = json.dumps(text)[:-1]
    return [form.encode(errors="surrogatepass") for form in dict.fromkeys((plain, escaped))]
