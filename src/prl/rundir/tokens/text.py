"""The text of token ids of a run: its tokenizer found, read once and kept while its file stays as it is.

A ``tokenizer.json`` of a form that :mod:`prl.rundir.tokens.decoder` does not know is given to the library
``tokenizers``, where it is installed (the extra ``tokens``). Without any tokenizer there are ids, and a reason.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from prl.rundir.regular import open_regular
from prl.rundir.tokens.decoder import TokenDecoder, UnknownFormError
from prl.rundir.tokens.origin import TokenizerFile, absence, tokenizer_files

MAX_FILE = 256 * 1024 * 1024
"""Bytes of a ``tokenizer.json``. A larger one is none."""

_KEPT = 4
_loaded: "OrderedDict[tuple[str, int, int], Decodes]" = OrderedDict()
_lock = threading.Lock()


class Decodes(Protocol):
    """What gives the text of ids."""

    special: frozenset[int]

    def parts(self, ids: Sequence[int], *, begins: bool = True) -> list[str]: ...

    def text(self, ids: Sequence[int]) -> str: ...


@dataclass(frozen=True)
class TokenText:
    """The tokenizer of a run, or why there is none."""

    decoder: Decodes | None
    origin: str | None
    """Where it was found, for a person."""
    reason: str | None
    """Why there is none."""

    def parts(self, ids: Sequence[int], *, begins: bool = True) -> list[str] | None:
        """The part of the text that each token brings (see :meth:`TokenDecoder.parts`). None without a tokenizer."""
        return self.decoder.parts(ids, begins=begins) if self.decoder is not None else None

    def text(self, ids: Sequence[int]) -> str | None:
        """The text of a sequence as the model saw it, special tokens included. None without a tokenizer."""
        return self.decoder.text(ids) if self.decoder is not None else None


def token_text(run: Path | None, directory: Path | None = None) -> TokenText:
    """The tokenizer of a run. ``directory``: one with a ``tokenizer.json`` to take instead.

    A file that cannot be read or understood is passed over for the next.
    """
    failures = []
    for file in tokenizer_files(run, directory):
        try:
            return TokenText(load(file), file.origin, None)
        except (OSError, UnknownFormError) as error:
            failures.append(f"{file.path}: {error}")
    return TokenText(None, None, "; ".join(failures) or absence(run, directory))


def load(file: TokenizerFile) -> Decodes:
    """The decoder of a file, the same as last time while the file is. Raises OSError or UnknownFormError."""
    with open_regular(file.path) as opened:
        stat = os.fstat(opened.fileno())
        key = (str(file.path), stat.st_mtime_ns, stat.st_size)
        with _lock:
            decoder = _loaded.get(key)
            if decoder is None:
                decoder = _made(file.path, opened.read(MAX_FILE + 1))
                _loaded[key] = decoder
            _loaded.move_to_end(key)
            if len(_loaded) > _KEPT:
                _loaded.popitem(last=False)
    return decoder


def _made(path: Path, data: bytes) -> Decodes:
    import orjson

    if len(data) > MAX_FILE:
        raise UnknownFormError(f"larger than {MAX_FILE} bytes")
    try:
        return TokenDecoder(orjson.loads(data))
    except ValueError as error:
        return _from_library(data, error)


def _from_library(data: bytes, problem: ValueError) -> Decodes:
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise UnknownFormError(f"{problem} (the extra 'tokens' may know it)") from None
    try:
        return _Library(Tokenizer.from_str(data.decode()))
    except Exception as error:  # the library raises bare Exception
        raise UnknownFormError(f"{problem}; the library tokenizers: {str(error)[:200]}") from None


class _Library:
    """The same answers from the library ``tokenizers``."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        added = tokenizer.get_added_tokens_decoder()
        self.special = frozenset(token_id for token_id, token in added.items() if token.special)

    def parts(self, ids: Sequence[int], *, begins: bool = True) -> list[str]:
        """As the library streams a text; what it holds back at the end goes to the last token."""
        from tokenizers.decoders import DecodeStream

        stream = DecodeStream(skip_special_tokens=False)
        parts = [stream.step(self._tokenizer, token_id) or "" for token_id in map(int, ids)]
        text = self.text(ids)
        joined = "".join(parts)
        if text.startswith(joined):
            if parts:
                parts[-1] += text[len(joined) :]
            return parts
        return [text, *[""] * (len(parts) - 1)]

    def text(self, ids: Sequence[int]) -> str:
        decoded: str = self._tokenizer.decode(list(map(int, ids)), skip_special_tokens=False)
        return decoded
