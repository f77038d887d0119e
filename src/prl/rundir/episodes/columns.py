"""Columns that grow: numbers, interned text, and the way from an id to its row.

A column is what was mapped from a cache plus what came since, so that opening a million rows costs no memory until a
column is looked at as a whole. Text is kept once, as bytes, and rows hold its code; ids are not kept at all but for a
key of 61 bits, under which a million of them collide with a chance of one in four million. Left out: removal of rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Stored = Array | tuple[Array, ...]
"""A column as :func:`prl.rundir.cache.save` takes it."""

UNKNOWN = -1
"""What a column of whole numbers, codes or flags holds where nothing is known. Floats hold NaN."""

_MIN_CAPACITY = 1024


class Column:
    """One column. ``base`` is never written to: it may be mapped."""

    def __init__(self, dtype: Any, base: Array | None = None) -> None:
        self.dtype = np.dtype(dtype)
        self._base: Array = np.empty(0, self.dtype) if base is None else base
        self._tail: Array = np.empty(0, self.dtype)
        self._tail_size = 0

    def __len__(self) -> int:
        return len(self._base) + self._tail_size

    @property
    def own_bytes(self) -> int:
        """Bytes held in memory, what is mapped aside."""
        return self._tail.nbytes

    def extend(self, values: Any) -> None:
        """Append rows."""
        new = np.asarray(values, self.dtype)
        size = self._tail_size + len(new)
        if size > len(self._tail):
            grown = np.empty(max(size, len(self._tail) * 5 // 4, _MIN_CAPACITY), self.dtype)
            grown[: self._tail_size] = self._tail[: self._tail_size]
            self._tail = grown
        self._tail[self._tail_size : size] = new
        self._tail_size = size

    def view(self) -> Array:
        """All rows as one read-only array. Costs a copy of the column when rows came since the last look."""
        if not self._tail_size:
            seen = self._base.view()
        else:
            self._own()
            seen = self._tail[: self._tail_size]
        seen.flags.writeable = False
        return seen

    def parts(self) -> tuple[Array, Array]:
        """All rows as two arrays, one behind the other: no copy, so only good until the column changes."""
        return self._base, self._tail[: self._tail_size]

    def take(self, rows: Array) -> Array:
        """The values of a few rows."""
        if not self._tail_size:
            return np.asarray(self._base[rows])
        found = np.empty(len(rows), self.dtype)
        mapped = rows < len(self._base)
        found[mapped] = self._base[rows[mapped]]
        found[~mapped] = self._tail[rows[~mapped] - len(self._base)]
        return found

    def part(self, start: int, end: int) -> Array:
        """Rows ``start`` to ``end``."""
        mapped = len(self._base)
        if end <= mapped:
            return self._base[start:end]
        tail = self._tail[max(start - mapped, 0) : min(end - mapped, self._tail_size)]
        return tail if start >= mapped else np.concatenate([self._base[start:], tail])

    def put(self, rows: Array, values: Any) -> None:
        """Change rows."""
        if len(rows):
            self._own()
            self._tail[rows] = values

    def lower(self, rows: Array, values: Array) -> None:
        """Change rows to the smaller of what they hold and what is given; unknown counts as larger than all."""
        if len(rows):
            self._own()
            order = np.argsort(rows, kind="stable")
            different, starts = np.unique(rows[order], return_index=True)
            least = np.minimum.reduceat(values[order], starts)
            present = self._tail[different]
            self._tail[different] = np.where(present == UNKNOWN, least, np.minimum(present, least))

    def _own(self) -> None:
        """Bring all rows into memory that can be written and grow."""
        if len(self._base):
            base, tail, size = self._base, self._tail, self._tail_size
            self._base, self._tail, self._tail_size = base[:0], np.empty(0, self.dtype), 0
            self._tail = np.empty(len(base) + max(size, _MIN_CAPACITY), self.dtype)
            self._tail[: len(base)] = base
            self._tail[len(base) : len(base) + size] = tail[:size]
            self._tail_size = len(base) + size


def text_key(text: str) -> int:
    """A key of 61 bits for a text, the same in every process: its bytes as a number, modulo the prime 2^61 - 1.

    >>> text_key("a") == ord("a")
    True
    """
    return hash(int.from_bytes(text.encode("utf-8", "surrogatepass"), "little"))


class KeyIndex:
    """From keys to rows: sorted arrays, and what was added since they were last searched."""

    def __init__(self, keys: Array | None = None, rows: Array | None = None) -> None:
        self._keys: Array = np.empty(0, np.int64) if keys is None else keys
        self._rows: Array = np.empty(0, np.int32) if rows is None else rows
        self._new: list[tuple[Array, Array]] = []

    def add(self, keys: Array, rows: Array) -> None:
        """Remember ``rows`` (int32) under ``keys`` (int64)."""
        if len(keys):
            self._new.append((keys, rows))

    def find(self, keys: Array) -> Array:
        """For each key its first row, -1 where there is none."""
        self._merge()
        if not len(self._keys):
            return np.full(len(keys), -1, np.int32)
        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[places] == keys, self._rows[places], np.int32(-1))

    def find_all(self, key: int) -> Array:
        """All rows of one key, ascending."""
        self._merge()
        first, last = np.searchsorted(self._keys, [key, key + 1])
        return np.sort(self._rows[first:last])

    def columns(self) -> tuple[Array, Array]:
        """Sorted keys and their rows."""
        self._merge()
        return self._keys, self._rows

    def _merge(self) -> None:
        if not self._new:
            return
        keys = np.concatenate([part[0] for part in self._new])
        rows = np.concatenate([part[1] for part in self._new])
        self._new.clear()
        order = np.argsort(keys, kind="stable")
        keys, rows = keys[order], rows[order]
        places = np.searchsorted(self._keys, keys, side="right")
        self._keys, self._rows = np.insert(self._keys, places, keys), np.insert(self._rows, places, rows)


class TextPool:
    """Different texts, each kept once. Its code is its number in the order of arrival."""

    def __init__(self) -> None:
        self._bytes = Column(np.uint8)
        self._ends = Column(np.int64)
        self._index = KeyIndex()

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def own_bytes(self) -> int:
        return self._bytes.own_bytes + self._ends.own_bytes

    def codes(self, texts: Sequence[Any]) -> Array:
        """Codes (int32) of texts, new ones taken in. :data:`UNKNOWN` for what is no text."""
        texts = [text if isinstance(text, str) else None for text in texts]
        different = [text for text in dict.fromkeys(texts) if text is not None]
        keys = np.fromiter(map(text_key, different), np.int64, len(different))
        found = self._index.find(keys)
        fresh = np.flatnonzero(found < 0)
        if len(fresh):
            codes = np.arange(len(self), len(self) + len(fresh), dtype=np.int32)
            self._append([different[place] for place in fresh.tolist()])
            self._index.add(keys[fresh], codes)
            found[fresh] = codes
        code_of: dict[str | None, int] = {None: UNKNOWN, **dict(zip(different, found.tolist(), strict=True))}
        return np.array([code_of[text] for text in texts], np.int32)

    def find(self, text: str) -> int | None:
        """The code of a text, None when it never came."""
        code = int(self._index.find(np.array([text_key(text)], np.int64))[0])
        return code if code >= 0 and self.text(code) == text else None

    def text(self, code: int) -> str | None:
        """The text of a code; None of :data:`UNKNOWN`."""
        if not 0 <= code < len(self):
            return None
        start, end = [0, *self._ends.part(max(code - 1, 0), code + 1).tolist()][-2:]
        return self._bytes.part(start, end).tobytes().decode("utf-8", "surrogatepass")

    def texts_of(self, codes: Array) -> list[str | None]:
        """The texts of some codes."""
        different = np.unique(codes).tolist()
        known_texts = {code: self.text(code) for code in different}
        return [known_texts[code] for code in codes.tolist()]

    def texts(self) -> list[str]:
        """All texts in the order of their codes."""
        raw, ends = self._bytes.view().tobytes(), self._ends.view().tolist()
        starts = [0, *ends][: len(ends)]
        return [raw[start:end].decode("utf-8", "surrogatepass") for start, end in zip(starts, ends, strict=True)]

    def to_columns(self, name: str) -> dict[str, Stored]:
        """What a cache keeps of it."""
        keys, codes = self._index.columns()
        parts: dict[str, Stored] = {
            "bytes": self._bytes.parts(),
            "ends": self._ends.parts(),
            "keys": keys,
            "codes": codes,
        }
        return {f"{name}.{part}": column for part, column in parts.items()}

    @classmethod
    def of(cls, name: str, columns: Mapping[str, Array]) -> "TextPool":
        """The pool that :meth:`to_columns` gave. Raises KeyError."""
        pool = cls()
        pool._bytes = Column(np.uint8, columns[f"{name}.bytes"])
        pool._ends = Column(np.int64, columns[f"{name}.ends"])
        pool._index = KeyIndex(columns[f"{name}.keys"], columns[f"{name}.codes"])
        return pool

    def _append(self, texts: Iterable[str]) -> None:
        raw = [text.encode("utf-8", "surrogatepass") for text in texts]
        start = len(self._bytes)
        self._ends.extend(start + np.cumsum([len(text) for text in raw]))
        self._bytes.extend(np.frombuffer(b"".join(raw), np.uint8))


def known(values: Array) -> Array:
    """Which values of a column are known (bool)."""
    return ~np.isnan(values) if values.dtype.kind == "f" else values != UNKNOWN
