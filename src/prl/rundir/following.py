"""Following a growing file of lines, as bytes: what is new since the last look, in whole lines.

What the lines mean is the reader's affair (:class:`prl.rundir.jsonl.Tail` takes JSON objects from them). The place that
was reached can be kept as a :class:`Mark`, beside what was made of the lines, and taken up by a later process.
"""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from prl.rundir.regular import open_regular

READ_BLOCK = 4 * 1024 * 1024
"""Bytes that one poll of a file reads at most."""

MAX_LINE = 64 * 1024 * 1024
"""Bytes of the longest line that is held as a whole. Of a longer one the beginning stands for all of it."""

CHECKPOINT = 64
"""Bytes before a place in a file that must be the same for the place still to mean something."""

_HEAD = 4096
"""Bytes that are kept of a line that is too long."""


@dataclass(frozen=True)
class Mark:
    """A place at the beginning of a line, up to which a file was read, and what tells that it still is that file."""

    inode: int
    offset: int
    before: bytes
    """The last :data:`CHECKPOINT` bytes before ``offset`` (all of them where there are fewer)."""


@dataclass(frozen=True)
class Block:
    """Whole lines of a file, each with its newline, and the byte offset of the first."""

    offset: int
    data: bytes

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """``(byte offset, line without newline)`` of each line."""
        offset = self.offset
        for line in self.data.removesuffix(b"\n").split(b"\n"):
            yield offset, line
            offset += len(line) + 1


class Follower:
    """Follows a growing file. Holds no handle between polls, so that the file's owner may delete it.

    A last line without a newline is not complete yet: it is held back until it is, or until :meth:`finish`. A line of
    more than :data:`MAX_LINE` bytes and a poll (a hole that a crash left) comes as its first bytes alone. When the
    file was replaced (another inode, shorter, or other bytes before the place already read), reading starts again at
    its beginning and ``restarts`` goes up: what was read before, also before ``mark``, no longer stands.
    """

    def __init__(self, path: Path, mark: Mark | None = None, root: Path | None = None) -> None:
        """``root``: the run directory. A link that leads out of it is trouble."""
        self.path = path
        self.root = root
        self.restarts = 0
        self.at_end = True
        """Whether the last poll reached the end of the file."""
        self.absent = False
        """Whether there was no such file at the last poll."""
        self.trouble: str | None = None
        """Why the file could not be read at the last poll. An absent file is no trouble."""
        self._inode = mark.inode if mark else None
        self._read_to = self._line_start = mark.offset if mark else 0
        self._before_read = self._before_line = mark.before if mark else b""
        self._partial = bytearray()

    @property
    def mark(self) -> Mark | None:
        """The beginning of the first line that was not complete yet. None when nothing was read so far."""
        return None if self._inode is None else Mark(self._inode, self._line_start, self._before_line)

    @property
    def pending_bytes(self) -> int:
        """Length of the last line, which is not complete yet."""
        return self._read_to - self._line_start

    def poll(self, max_bytes: int = READ_BLOCK) -> Block | None:
        """The lines completed since the last poll, from at most ``max_bytes`` of new data. None: no new line.

        Nothing new does not mean the end: of a line longer than ``max_bytes`` each poll reads a part (``at_end``).
        """
        block = self._read(max_bytes)
        if not block:
            return None
        if self.pending_bytes > MAX_LINE:
            return self._pass_over(block)
        self._advance(block)
        end = block.rfind(b"\n") + 1
        if not end:
            self._partial += block
            if self.pending_bytes > MAX_LINE:
                del self._partial[_HEAD:]
            return None
        data = b"".join((self._partial, memoryview(block)[:end]))
        self._partial = bytearray(block[end:])
        offset = self._line_start
        self._line_start = offset + len(data)
        self._before_line = (self._before_line + data[-CHECKPOINT:])[-CHECKPOINT:]
        return Block(offset, data)

    def finish(self) -> Block:
        """Take the last line as it is, its writer being gone. It has no newline and may be empty."""
        block = Block(self._line_start, bytes(self._partial))
        self._partial.clear()
        self._line_start, self._before_line = self._read_to, self._before_read
        return block

    def _advance(self, block: bytes) -> None:
        self._before_read = (self._before_read + block[-CHECKPOINT:])[-CHECKPOINT:]
        self._read_to += len(block)

    def _pass_over(self, block: bytes) -> Block | None:
        """Read on in a line that is too long, and no further than to its end, where its beginning is given."""
        end = block.find(b"\n") + 1
        self.at_end = self.at_end and end in (0, len(block))
        self._advance(block[: end or None])
        if not end:
            return None
        line = Block(self._line_start, bytes(self._partial) + b"\n")
        self._partial.clear()
        self._line_start, self._before_line = self._read_to, self._before_read
        return line

    def _restart(self) -> None:
        self.restarts += 1
        self._read_to = self._line_start = 0
        self._before_read = self._before_line = b""
        self._partial.clear()

    def _read(self, max_bytes: int) -> bytes:
        self.at_end, self.trouble, self.absent = True, None, False
        for attempt in range(2):
            try:
                return self._read_block(max_bytes)
            except FileNotFoundError:
                self.absent = True
                break
            except OSError as error:
                self.trouble = str(error)
                if error.errno != errno.ESTALE or attempt:  # a network disk's stale handle: opening anew helps
                    break
                self.trouble = None
        return b""

    def _read_block(self, max_bytes: int) -> bytes:
        with open_regular(self.path, self.root) as file:
            stat = os.fstat(file.fileno())
            if self._was_replaced(file.fileno(), stat):
                self._restart()
            self._inode = stat.st_ino
            block = os.pread(file.fileno(), max_bytes, self._read_to)
            self.at_end = self._read_to + len(block) >= stat.st_size
            return block

    def _was_replaced(self, fd: int, stat: os.stat_result) -> bool:
        if self._inode is None:
            return False
        if stat.st_ino != self._inode or stat.st_size < self._read_to:
            return True
        before = self._read_to - len(self._before_read)
        return bool(os.pread(fd, len(self._before_read), before) != self._before_read)
