"""The last rows of ``metrics.jsonl`` that a verdict needs, found from the end of a file of any size.

Rows of steps are few and far apart where a step takes minutes, while rows by the clock come every few seconds and are
long. So of the latter only the last ones are decoded; of the others it is only noted when the policy version changed.
Reading ends when enough steps are found, and within a bound in any case.
"""

import os
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from prl.rundir.layout import run_of
from prl.rundir.regular import open_regular

READ = 32 * 1024**2
"""Bytes looked at of the end of the file."""
DECODED = 6 * 1024**2
"""Bytes of rows of steps that are decoded."""
TIMED = 60
"""Rows by the clock that are decoded."""

_BLOCK = 512 * 1024
_MAX_LINE = 4 * 1024**2
_HEAD = 256
"""Bytes of a line in which writers have its step."""
_STEP = re.compile(rb'"step"\s*:\s*(?:(-?\d+)|null)')
_VERSION = re.compile(rb'"watcher/policy_version"\s*:\s*(-?[\d.]+(?:[eE][-+]?\d+)?|"?[-+\w]+"?)')
_TIME = re.compile(rb'"time"\s*:\s*(\d+(?:\.\d+)?)')

Line = tuple[int, bytes]
"""Offset and bytes of a line, without its newline."""


@dataclass
class End:
    """The end of a file of rows, in the order of the file."""

    lines: list[Line] = field(default_factory=list)
    """Rows to decode."""
    version_since: float | None = None
    """When the newest policy version was recorded first, among all rows that were looked at."""
    start: int = 0
    """Where looking ended: nothing before is known."""
    size: int = 0
    modified: float = 0.0


def read_end(path: Path, steps: int) -> End:
    """The rows of about the last ``steps`` steps and the last ones by the clock. Raises OSError."""
    end = End()
    timed: deque[Line] = deque()
    rows: deque[Line] = deque()
    seen: set[bytes] = set()
    version: bytes | None = None
    changed = False
    decoded = 0
    with open_regular(path, run_of(path)) as file:
        status = os.fstat(file.fileno())
        end.size, end.modified, end.start = status.st_size, status.st_mtime, status.st_size
        for offset, line in _backwards(file.fileno(), status.st_size):
            end.start = offset
            found = _STEP.search(line, 0, _HEAD)
            if found is not None and found[1] is None:
                if len(timed) < TIMED:
                    timed.appendleft((offset, line))
                told = _VERSION.search(line) if not changed else None
                if told is not None and version in (None, told[1]):
                    version = told[1]
                    moment = _TIME.search(line)
                    end.version_since = float(moment[1]) if moment else end.version_since
                elif told is not None:
                    changed = True
                continue
            if len(seen) > steps or decoded > DECODED:
                if changed or version is None or len(timed) == TIMED:
                    break
                continue
            rows.appendleft((offset, line))
            decoded += len(line)
            if found is not None:
                seen.add(found[1])
    end.lines = sorted([*rows, *timed])
    return end


def _backwards(handle: int, size: int) -> Iterator[Line]:
    """The complete lines of the last :data:`READ` bytes, the last first. A line of more than 4 MiB is given in part."""
    position, least = size, max(size - READ, 0)
    held = b""
    complete = False  # what stands behind the last newline is not a line yet
    while position > least:
        length = min(_BLOCK, position - least)
        position -= length
        block = os.pread(handle, length, position)
        if len(block) < length:  # the file was cut meanwhile
            return
        held = block + held
        cut = held.find(b"\n") + 1 if position else 0
        if position and not cut:  # one line that is longer than what was read so far
            held = held[:_MAX_LINE]
            continue
        offset = position + len(held)
        for line in reversed(held[cut:].split(b"\n")):
            offset -= len(line)
            if complete:
                yield offset, line
            complete = True
            offset -= 1
        held = held[: max(cut - 1, 0)]
