"""Which places of a block of bytes may hold one of many literals, at hundreds of megabytes a second.

Looking for a hundred literals one after the other reads the block a hundred times. Instead each literal is represented
by the four of its bytes that are rarest in logs; two tables of 65,536 entries say for each pair of bytes whether it
begins or ends such a four, and the whole block is looked up at once, at even and at odd places. What passes is compared
exactly.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SIZE = 4
_COMMON = b" eatonisrlpcdmu0gh1f2.:|yv5b436789wk,=()-_/"
"""Bytes of logs, the most frequent first; all others are rare."""


class LiteralFilter:
    """Finds literals of at least four bytes. ``common`` is text like what is searched: what is rare in it is chosen."""

    def __init__(self, literals: Sequence[bytes], common: bytes = b"") -> None:
        self._by_gram: dict[bytes, list[tuple[int, bytes, int]]] = {}
        counts = [Counter(common[at : at + size] for at in range(len(common) - size + 1)) for size in (2, _SIZE)]
        for number, literal in enumerate(literals):
            grams = [literal[at : at + _SIZE] for at in range(len(literal) - _SIZE + 1)]
            start = min(range(len(grams)), key=lambda at: _frequency(grams[at], *counts))
            self._by_gram.setdefault(literal[start : start + _SIZE], []).append((start, literal, number))

    @cached_property
    def _tables(self) -> "tuple[NDArray[np.bool_], NDArray[np.bool_]]":
        import numpy as np

        first, second = np.zeros(65536, dtype=bool), np.zeros(65536, dtype=bool)
        for gram in self._by_gram:
            pair = np.frombuffer(gram, dtype=np.uint16)
            first[pair[0]] = second[pair[1]] = True
        return first, second

    def occur_in(self, data: bytes) -> bool:
        """Whether any of the literals stands in ``data``."""
        return next(self.find(data), None) is not None

    def find(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Places in ``data`` where a literal stands, ascending: (offset of the literal, its number)."""
        import numpy as np

        if len(data) <= _SIZE:
            data = data.ljust(_SIZE + 1, b"\n")
        first, second = self._tables
        places = []
        for parity in range(2):
            pairs = np.frombuffer(data, dtype=np.uint16, count=(len(data) - parity) // 2, offset=parity)
            begins = np.flatnonzero(np.take(first, pairs[:-1], mode="clip"))  # clip: no copy to check the bounds
            begins = begins[second[pairs[begins + 1]]]
            places.append(begins * 2 + parity)
        for place in np.sort(np.concatenate(places)).tolist():
            for start, literal, number in self._by_gram.get(data[place : place + _SIZE], ()):
                if place >= start and data.startswith(literal, place - start):
                    yield place - start, number


def _frequency(gram: bytes, pairs: Counter[bytes], fours: Counter[bytes]) -> tuple[int, float]:
    """The smaller, the rarer: above all the first two bytes, which decide what is looked at further."""
    ranks = [_COMMON.find(byte) for byte in gram]
    weights = [1.0 / (rank + 2) if rank >= 0 else 0.004 for rank in ranks]
    pair = weights[0] * weights[1] * (1 + pairs[gram[:2]])
    return fours[gram], float(pair * (weights[2] * weights[3]) ** 0.25)
