"""Where ids stand: a map from hashes of ids to places, which grows by whole batches and is searched by halving.

A place is two whole numbers (chunk and offset of a record, or 0 and the offset of an index row). Ids themselves are
not kept: 20 bytes an entry, whatever the ids look like. So what is found are candidates; the caller reads the place
and sees whether the id stands there. Entries lie in a few sorted runs, merged as they grow, so that adding stays cheap.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SEED = 0x9E3779B97F4A7C15
_PRIME = 0x100000001B3
_WORD = 8


class Positions:
    """Hash → places. ``hashes`` (uint64), ``chunks`` (uint32) and ``offsets`` (uint64) are parallel."""

    def __init__(self) -> None:
        self._runs: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []

    def __len__(self) -> int:
        return sum(len(run[0]) for run in self._runs)

    def add(self, hashes: "NDArray[Any]", chunks: "NDArray[Any]", offsets: "NDArray[Any]") -> None:
        """Add entries. Runs of like size are merged, so an entry is moved a few times at most."""
        import numpy as np

        if not len(hashes):
            return
        self._runs.append(_sorted(hashes, chunks.astype(np.uint32), offsets.astype(np.uint64)))
        while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
            self._merge(2)

    def find(self, text: str) -> list[tuple[int, int]]:
        """Places at which ``text`` may stand, ascending."""
        import numpy as np

        wanted = hash_id(text)
        found = []
        for hashes, chunks, offsets in self._runs:
            first = int(np.searchsorted(hashes, wanted, "left"))
            last = int(np.searchsorted(hashes, wanted, "right"))
            found += [(int(chunks[i]), int(offsets[i])) for i in range(first, last)]
        return sorted(found)

    def columns(self) -> "dict[str, NDArray[Any]]":
        """All entries, sorted by hash, for a cache file."""
        import numpy as np

        self._merge(len(self._runs))
        empty = (np.empty(0, np.uint64), np.empty(0, np.uint32), np.empty(0, np.uint64))
        return dict(zip(("hashes", "chunks", "offsets"), self._runs[0] if self._runs else empty, strict=True))

    @classmethod
    def of(cls, columns: "dict[str, NDArray[Any]]") -> "Positions | None":
        """The map that :meth:`columns` gave. None when these are not its columns."""
        import numpy as np

        parts = tuple(columns.get(name) for name in ("hashes", "chunks", "offsets"))
        expected = (np.uint64, np.uint32, np.uint64)
        if any(part is None or part.dtype != kind for part, kind in zip(parts, expected, strict=True)):
            return None
        hashes, chunks, offsets = parts
        if hashes is None or chunks is None or offsets is None or not len(hashes) == len(chunks) == len(offsets):
            return None
        positions = cls()
        if len(hashes):
            positions._runs.append((hashes, chunks, offsets))
        return positions

    def _merge(self, count: int) -> None:
        import numpy as np

        if count < 2:
            return
        parts = self._runs[-count:]
        self._runs[-count:] = [_sorted(*(np.concatenate(column) for column in zip(*parts, strict=True)))]


def hash_id(text: str) -> "np.uint64":
    """The hash under which an id is kept."""
    hashed: np.uint64 = hash_ids([text])[0]
    return hashed


def hash_ids(texts: Sequence[str]) -> "NDArray[Any]":
    """Hashes of several ids, in their order."""
    import numpy as np

    encoded = [text.encode(errors="surrogatepass") for text in texts]
    lengths = np.array([len(raw) for raw in encoded], np.int64)
    hashes = np.empty(len(encoded), np.uint64)
    for length in np.unique(lengths).tolist():
        places = np.flatnonzero(lengths == length)
        joined = b"".join(encoded[place] for place in places)
        hashes[places] = hash_rows(np.frombuffer(joined, np.uint8).reshape(len(places), length))
    return hashes


def hash_rows(rows: "NDArray[Any]") -> "NDArray[Any]":
    """Hashes of ``rows`` (n, length) of bytes: ids of one length in UTF-8, one a row."""
    import numpy as np

    count, length = rows.shape
    padded = np.zeros((count, max(-(-length // _WORD), 1) * _WORD), np.uint8)
    padded[:, :length] = rows
    hashes = np.full(count, (_SEED * (length + 1)) % 2**64, np.uint64)
    for word in padded.view("<u8").T:
        hashes ^= word
        hashes *= np.uint64(_PRIME)
        hashes ^= hashes >> np.uint64(29)
        hashes *= np.uint64(_SEED)
        hashes ^= hashes >> np.uint64(32)
    return hashes


def _sorted(
    hashes: "NDArray[Any]", chunks: "NDArray[Any]", offsets: "NDArray[Any]"
) -> "tuple[NDArray[Any], NDArray[Any], NDArray[Any]]":
    import numpy as np

    order = np.argsort(hashes, kind="stable")
    return hashes[order], chunks[order], offsets[order]
