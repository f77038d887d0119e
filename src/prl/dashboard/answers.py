"""Answers as bytes: made once for all clients that ask the same, compressed, with an ETag.

An answer is known by its key (path and query) and its version. Whoever asks for a key that is being made waits for
it rather than making it again. Left out: freshness; a route's version says when its answer changed.
"""

import gzip
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import orjson

from prl.rundir import jsonl

MAX_BYTES = 32 << 20
"""Bytes of answers that are kept."""
COMPRESS_FROM = 1000
"""Bytes from which compressing is worth its time."""
_LEVEL = 1
"""Of gzip. Higher levels cost several times the time for a tenth fewer bytes."""


@dataclass(frozen=True)
class Answer:
    """``body`` is compressed with gzip where ``packed`` says so."""

    body: bytes
    packed: bool
    etag: str
    media_type: str = "application/json"

    def unpacked(self) -> bytes:
        """The body for a client that takes no compression."""
        return gzip.decompress(self.body) if self.packed else self.body


def encode(content: Any, version: str | None = None) -> Answer:
    """An answer of plain JSON values and numpy arrays. Non-finite numbers become null: their names are the route's.

    ``version``: what its ETag is made of; default: what it says, whenever it was made (``as_of`` aside).
    """
    body = _written(content)
    if version is not None:
        named = version.encode()
    else:
        named = _written({**content, "as_of": None}) if isinstance(content, dict) and "as_of" in content else body
    return pack(body, named=named)


def _written(content: Any) -> bytes:
    try:
        return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
    except (TypeError, RecursionError):  # what files may hold and strict JSON has no form for: half surrogates, …
        return jsonl.encode(content)


def pack(body: bytes, *, media_type: str = "application/json", named: bytes | None = None) -> Answer:
    """An answer of these bytes. ``named``: what its ETag is made of; default: the bytes."""
    tag = etag_of(body if named is None else named)
    if len(body) < COMPRESS_FROM:
        return Answer(body, False, tag, media_type)
    return Answer(gzip.compress(body, _LEVEL, mtime=0), True, tag, media_type)


def etag_of(version: bytes) -> str:
    """A weak ETag, the same for the packed and the unpacked form."""
    return f'W/"{blake2b(version, digest_size=9).hexdigest()}"'


class AnswerCache:
    """The newest answers, each made by one thread. Safe to use from several."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._answers: OrderedDict[str, Answer] = OrderedDict()
        self._bytes = 0
        self._making: dict[tuple[str, str], threading.Event] = {}

    def get(self, key: str, version: str, make: Callable[[], Answer]) -> Answer:
        """The answer for a key at a version. Raises what ``make`` raises."""
        tag = etag_of(version.encode())
        work = (key, tag)
        while True:
            with self._lock:
                found = self._answers.get(key)
                if found is not None and found.etag == tag:
                    self._answers.move_to_end(key)
                    return found
                others = self._making.get(work)
                if others is None:
                    done = self._making[work] = threading.Event()
                    break
            others.wait()
        try:
            answer = make()
            self._keep(key, answer)
            return answer
        finally:
            with self._lock:
                del self._making[work]
            done.set()

    def _keep(self, key: str, answer: Answer) -> None:
        if len(answer.body) > self._max_bytes // 4:
            return
        with self._lock:
            old = self._answers.pop(key, None)
            self._bytes += len(answer.body) - (len(old.body) if old else 0)
            self._answers[key] = answer
            while self._bytes > self._max_bytes:
                _, gone = self._answers.popitem(last=False)
                self._bytes -= len(gone.body)
