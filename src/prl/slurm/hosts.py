"""Host lists: ``n[01-03,7],x1`` is ``n01 n02 n03 n7 x1``.

Expanded here, since asking ``scontrol show hostnames`` costs a process for each and needs SLURM where the run is looked
at. Several brackets multiply (``r[1-2]n[1-2]``). A part that is not well formed stays as it stands. Left out: the other
direction.
"""

import itertools
import re
from collections.abc import Iterator

MAX_HOSTS = 65_536
"""Hosts of one list at most, as SLURM has it; the rest is not expanded."""

_PIECE = re.compile(r"([^\[\]]*)(?:\[([0-9,-]+)\])?")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")


def expand(text: str, limit: int = MAX_HOSTS) -> tuple[str, ...]:
    """The hosts of a host list in its order, ``limit`` at most. Empty for ``(null)`` and the like."""
    if text.strip().lower() in ("", "(null)", "n/a", "none", "none assigned", "unknown"):
        return ()
    hosts = itertools.chain.from_iterable(_part(part, limit) for part in _parts(text))
    return tuple(itertools.islice(hosts, limit))


def _parts(text: str) -> Iterator[str]:
    """What stands between commas outside brackets."""
    start = depth = 0
    for index, character in enumerate(text):
        if character == "[":
            depth += 1
        elif character == "]":
            depth = max(depth - 1, 0)
        elif character == "," and depth == 0:
            yield text[start:index].strip()
            start = index + 1
    yield text[start:].strip()


def _part(part: str, limit: int) -> Iterator[str]:
    if not part:
        return iter(())
    if "[" not in part:
        return iter((part,))
    factors: list[list[str]] = []
    size = 1
    position = 0
    while position < len(part):
        match = _PIECE.match(part, position)
        if match is None or match.end() == position:
            return iter((part,))
        numbers = _numbers(match[2], limit // size) if match[2] is not None else [""]
        if not numbers:
            return iter((part,))
        factors.append([match[1] + number for number in numbers])
        size *= len(numbers)
        position = match.end()
    return ("".join(pieces) for pieces in itertools.product(*factors))


def _numbers(text: str, limit: int) -> list[str]:
    """The numbers of what stands in brackets, each as wide as its range's lower end. Empty when it is malformed."""
    numbers: list[str] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            return []
        low, high = match[1], match[2] or match[1]
        if not 0 <= int(high) - int(low) < limit - len(numbers):
            return []
        numbers += [str(number).zfill(len(low)) for number in range(int(low), int(high) + 1)]
    return numbers
