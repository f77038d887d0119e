"""Lines of a growing file that hold given bytes: the fast way to a few rows of a large index.

A search of bytes needs nothing made beforehand and passes 20 MB in about 10 ms. What a line means, and whether the
bytes stand where they should, is for the caller to see. Files that are compressed or that are searched in pages are
gone through by :mod:`prl.rundir.scanning`.
"""

from collections.abc import Iterator
from pathlib import Path

from prl.rundir.following import Block, Follower, Mark
from prl.rundir.layout import run_of
from prl.rundir.needles import Finder

BLOCK = 1024 * 1024
"""Bytes looked at together: few enough to stay in the processor's cache."""


def matching_lines(path: Path, finder: Finder, mark: Mark | None = None) -> Iterator[tuple[int, bytes]]:
    """``(byte offset, line without newline)`` of each complete line that ``finder`` finds, after ``mark`` if given.

    A file that is absent, cannot be read or is reached by a link that leaves its run has none.
    """
    for block in complete_lines(path, mark):
        for start, end in finder.lines(block.data):
            yield block.offset + start, block.data[start:end]


def complete_lines(path: Path, mark: Mark | None = None) -> Iterator[Block]:
    """A file's complete lines in blocks, after ``mark`` if given."""
    lines = Follower(path, mark, run_of(path))
    while True:
        block = lines.poll(BLOCK)
        if block is not None:
            yield block
        if lines.at_end:
            return
