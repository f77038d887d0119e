"""Bytes of a console log as lines, whatever block they arrive in, within bounded memory.

Lines end at newlines only. A progress bar redraws one line with carriage returns, 200,000 times if need be: of such a
line the last state of each bar stays, with the number of its states, and whatever text stands after the last carriage
return is a line of its own. Of one line at most :data:`MAX_LINE` bytes are kept. Left out: bars that move the cursor
up to redraw several lines; each state of those ends with a newline and is a line.
"""

import codecs
import re
from dataclasses import dataclass

from prl.text.terminal import strip_escapes

MAX_LINE = 65_536
"""Bytes kept of one line."""

_MAX_BARS = 32
_LABEL = re.compile(r"[^\d|]*")
_OWN_LINE = re.compile(r"\W*\d\d:\d\d:\d\d\b|\W*(?:Exception Group )?Traceback \(|\{")


@dataclass(slots=True)
class RawLine:
    """One line of a log, without its newline."""

    offset: int
    end: int
    """Byte offset behind the line and what ended it."""
    data: bytes
    states: int = 1
    """How often the line was drawn."""
    complete: bool = True
    """Whether a newline or carriage return ended it."""

    def text(self) -> tuple[str, bool]:
        """The line as text, and whether bytes that are not UTF-8 were replaced.

        A character that is cut where the line is not over is left out rather than replaced.
        """
        try:
            return self.data.decode(), False
        except UnicodeDecodeError:
            over = self.complete and len(self.data) < MAX_LINE
            text = codecs.getincrementaldecoder("utf-8")("replace").decode(self.data, final=over)
            return text, "\ufffd" in text


@dataclass(slots=True)
class _Bar:
    label: str | None
    line: RawLine


class LineSplitter:
    """Splits blocks of a log, handed over in order, into lines. Holds back the last one until it is complete."""

    def __init__(self, offset: int = 0) -> None:
        self._at = offset
        """Offset of the next block."""
        self._start = offset
        """Offset of what is held back."""
        self._held = b""
        self._bars: list[_Bar] = []
        """Bars of the line that is being redrawn."""

    @property
    def start(self) -> int:
        """Offset of the first line that was not given out yet."""
        return self._bars[0].line.offset if self._bars else self._start

    def feed(self, block: bytes) -> list[RawLine]:
        """The lines that ``block`` completes."""
        lines: list[RawLine] = []
        redrawn = b"\r" in block
        pieces = block.split(b"\n")
        for piece in pieces[:-1]:
            if not (redrawn or self._held or self._bars):  # nearly every line
                start = self._at
                self._at = self._start = start + len(piece) + 1
                lines.append(RawLine(start, self._at, piece[:MAX_LINE]))
                continue
            self._take(piece, redrawn)
            self._at += 1
            self._close(lines)
        self._take(pieces[-1], redrawn)
        return lines

    def finish(self) -> list[RawLine]:
        """The last line as it stands, without a newline. None when there is no text."""
        lines: list[RawLine] = []
        self._close(lines, complete=False)
        return lines

    def _take(self, piece: bytes, redrawn: bool) -> None:
        """Add bytes without a newline to the line that is held back."""
        if redrawn and b"\r" in piece:
            states = piece.split(b"\r")
            for state in states[:-1]:
                self._hold(state)
                self._at += 1
                self._redraw()
            piece = states[-1]
        self._hold(piece)

    def _hold(self, piece: bytes) -> None:
        self._at += len(piece)
        if not self._held:
            self._held = piece if len(piece) <= MAX_LINE else piece[:MAX_LINE]
        elif len(self._held) < MAX_LINE:
            self._held += piece[: MAX_LINE - len(self._held)]

    def _redraw(self) -> None:
        """A carriage return came: what is held back is one state of a line."""
        if self._held:
            self._add_state(RawLine(self._start, self._at, self._held))
        elif self._bars:
            self._bars[-1].line.end = self._at
        self._held, self._start = b"", self._at

    def _add_state(self, line: RawLine) -> None:
        label = _label(line.data)
        last = self._bars[-1] if self._bars else None
        if last is not None and label is not None and last.label == label:
            line.offset, line.states = last.line.offset, last.line.states + 1
            last.line = line
            return
        self._bars.append(_Bar(label, line))
        if len(self._bars) > _MAX_BARS:
            del self._bars[0]

    def _close(self, lines: list[RawLine], *, complete: bool = True) -> None:
        if not self._bars:
            if complete or self._held:
                lines.append(RawLine(self._start, self._at, self._held, complete=complete))
        else:
            if self._held:
                self._add_state(RawLine(self._start, self._at, self._held, complete=complete))
            self._bars[-1].line.end = self._at
            lines += [bar.line for bar in self._bars]
            self._bars.clear()
        self._held, self._start = b"", self._at


def _label(data: bytes) -> str | None:
    """What tells one bar from another: the text before its first number. None for what is a line in its own right."""
    text = data[:256].decode(errors="replace")
    text = strip_escapes(text) if "\x1b" in text else text
    if _OWN_LINE.match(text):
        return None
    match = _LABEL.match(text)
    return match[0].strip() if match else text
