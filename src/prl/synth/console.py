"""Console logs as components write them: dated, with levels and continuation lines, coloured in prime-rl's files."""

import datetime as dt
import os
from collections.abc import Iterable
from pathlib import Path

from prl.rundir.logs.console import DATE_LINE
from prl.synth.streams import open_rows

_COLOURS = {"DEBUG": 34, "INFO": 32, "SUCCESS": 32, "WARNING": 33, "ERROR": 31}


class Console:
    """One component's log. Lines are to come in the order of time."""

    def __init__(self, path: Path, *, coloured: bool = False, prefix: str = "") -> None:
        """``coloured``: ANSI colours and no dates, as prime-rl writes. ``prefix``: torchrun's, before every line."""
        self.path = path
        self.coloured = coloured
        self.prefix = prefix
        self.last = 0.0
        """When the last line was written, Unix seconds."""
        self._file = open_rows(path)
        self._date = ""

    def line(self, time: float, level: str, message: str, more: Iterable[str] = ()) -> None:
        """A line with its header, and the lines that belong to it."""
        self.last = time
        when = dt.datetime.fromtimestamp(time, dt.UTC)
        date = f"{when:%Y-%m-%d %z}"
        if date != self._date and not self.coloured:
            self.raw(DATE_LINE.format(date=date))
        self._date = date
        if self.coloured:
            colour = f"\x1b[{_COLOURS[level]}m\x1b[1m"
            text = f"\x1b[2m{when:%H:%M:%S}\x1b[0m {colour}{level:>7}\x1b[0m {colour}{message}\x1b[0m"
        else:
            text = f"{when:%H:%M:%S} {level:>7} {message}"
        self.raw(text, *more)

    def vllm(self, time: float, source: str, message: str) -> None:
        """A line of vLLM's, which carries the day as well."""
        self.last = time
        self.raw(
            f"(APIServer pid=11) INFO {dt.datetime.fromtimestamp(time, dt.UTC):%m-%d %H:%M:%S} [{source}] {message}"
        )

    def bar(self, label: str, total: int, states: int = 10) -> None:
        """A progress bar, redrawn over itself with carriage returns."""
        drawn = []
        for n in range(states + 1):
            blocks = "█" * (2 * n)
            drawn.append(f"\r{label}: {100 * n // states:3d}%|{blocks:20s}| {total * n // states}/{total}")
        self.raw("".join(drawn))

    def raw(self, *lines: str) -> None:
        """Lines as they stand."""
        self._file.write("".join(f"{self.prefix}{line}\n" for line in lines).encode())

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        """The file is then as old as its last line."""
        self._file.close()
        if self.last:
            os.utime(self.path, (self.last, self.last))


def clock_line(time: float, level: str, message: str) -> bytes:
    """A plain line with its newline."""
    return f"{dt.datetime.fromtimestamp(time, dt.UTC):%H:%M:%S} {level:>7} {message}\n".encode()
