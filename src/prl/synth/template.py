"""JSON with holes: a value encoded once, of which parts are filled in many times.

Encoding an episode's tokens anew for each of millions of episodes is what makes generators slow. Here the fixed parts
are bytes and the holes take bytes.
"""

import re
from typing import Any

from prl.rundir import jsonl

_HOLE = re.compile('"⟦\\w+⟧"|⟪\\w+⟫'.encode(), re.ASCII)


def hole(name: str) -> str:
    """A place for a value, which is given as JSON."""
    return f"⟦{name}⟧"


def text_hole(name: str) -> str:
    """A place within a string, for text that is given escaped."""
    return f"⟪{name}⟫"


class Template:
    """One JSON value with holes, filled in the order in which they stand. Their names are for whoever reads it."""

    def __init__(self, value: Any) -> None:
        encoded = jsonl.encode(value).removesuffix(b"\n")
        self._parts: list[bytes] = []
        end = 0
        for match in _HOLE.finditer(encoded):
            self._parts += [encoded[end : match.start()], b""]
            end = match.end()
        self._parts.append(encoded[end:])

    def fill(self, *values: bytes) -> bytes:
        """The JSON with ``values`` in its holes. Raises ValueError when their number differs."""
        parts = self._parts.copy()
        parts[1::2] = values
        return b"".join(parts)
