"""A place in the merged logs of an attempt, as a short text that a page hands out and the next request brings back."""

import base64
import binascii
import json
import zlib
from dataclasses import dataclass, field

_MAX_TEXT = 200_000
_MAX_JSON = 4 * 1024**2


class CursorError(ValueError):
    """A text is no cursor of these logs."""


@dataclass
class LogCursor:
    """Up to where each file was read. A file that is not named was not read at all."""

    attempt: int | None
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Byte offset and inode by path below the run directory."""

    def encode(self) -> str:
        raw = json.dumps([self.attempt, {name: list(place) for name, place in self.places.items()}]).encode()
        # Small letters and digits alone: nothing in it can look like a secret that is to be masked.
        return base64.b32encode(zlib.compress(raw, 9)).decode().rstrip("=").lower()

    @classmethod
    def decode(cls, text: str) -> "LogCursor":
        """The cursor that :meth:`encode` made this text of. Raises :class:`CursorError`."""
        try:
            if len(text) > _MAX_TEXT:
                raise ValueError
            packed = base64.b32decode(text.upper() + "=" * (-len(text) % 8))
            attempt, places = json.loads(zlib.decompressobj().decompress(packed, _MAX_JSON))
            if not (attempt is None or isinstance(attempt, int)):
                raise ValueError
            named = {str(name): (int(offset), int(inode)) for name, (offset, inode) in places.items()}
        except (ValueError, TypeError, AttributeError, binascii.Error, zlib.error, RecursionError):
            raise CursorError("not a cursor of these logs: take it from an earlier answer, whole") from None
        return cls(attempt, named)
