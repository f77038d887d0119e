"""Decoding token ids by a ``tokenizer.json``: the text of a sequence, and which token brought which part of it.

The file (Hugging Face ``tokenizers``) has a vocabulary and a list of decoding steps. Here are those that language
models use, each step working on one string a token, so that the parts of a text are known besides the whole: a
character whose bytes are spread over several tokens belongs to the token that completes it. Left out: everything about
encoding, and the forms that are rare (regular expressions in ``Replace``, ``CTC``, steps after bytes were joined that
look beyond one character): :class:`UnknownFormError` says so, and the library itself can be asked.
"""

import codecs
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

Step = Callable[[list[str], bool], list[str]]
"""One string a token, and whether the first begins the text → the same number of strings."""

_BYTE_FALLBACK_LENGTH = len("<0x0A>")


class UnknownFormError(ValueError):
    """The file is no tokenizer, or has a form that is not decoded here."""


class TokenDecoder:
    """The vocabulary and decoding steps of one ``tokenizer.json``. Never changes."""

    def __init__(self, tokenizer: Any) -> None:
        """``tokenizer``: the parsed file. Raises UnknownFormError."""
        if not isinstance(tokenizer, Mapping):
            raise UnknownFormError("not a JSON object")
        self._pieces = _vocabulary(tokenizer.get("model"))
        self.special: frozenset[int] = frozenset(self._add(tokenizer.get("added_tokens")))
        """Ids that stand for no text of a message: ends of turns, padding, …"""
        self._steps = _steps(tokenizer.get("decoder"))

    def __len__(self) -> int:
        return len(self._pieces)

    def piece(self, token_id: int) -> str | None:
        """The vocabulary's own form of a token, undecoded. None: no such token."""
        return self._pieces.get(token_id)

    def parts(self, ids: Sequence[int], *, begins: bool = True) -> list[str]:
        """The part of the text that each token brings; joined they are :meth:`text`.

        ``begins`` False: the ids go on from others, so nothing special happens at their beginning. An id that is not
        in the vocabulary brings nothing, as the library has it.
        """
        known = [place for place, token_id in enumerate(ids) if token_id in self._pieces]
        pieces = [self._pieces[ids[place]] for place in known]
        for step in self._steps:
            pieces = step(pieces, begins)
        parts = [""] * len(ids)
        for place, piece in zip(known, pieces, strict=True):
            parts[place] = piece
        return parts

    def text(self, ids: Sequence[int]) -> str:
        """The text of a whole sequence, special tokens included."""
        return "".join(self.parts(ids))

    def _add(self, added: Any) -> list[int]:
        special = []
        for token in added if isinstance(added, list) else []:
            if not isinstance(token, Mapping):
                continue
            token_id, content = token.get("id"), token.get("content")
            if type(token_id) is int and isinstance(content, str):
                self._pieces[token_id] = content
                if token.get("special") is True:
                    special.append(token_id)
        return special


def _vocabulary(model: Any) -> dict[int, str]:
    """Pieces by id. ``BPE``, ``WordPiece`` and ``WordLevel`` map pieces to ids, ``Unigram`` lists them with scores."""
    vocabulary = model.get("vocab") if isinstance(model, Mapping) else None
    if isinstance(vocabulary, Mapping):
        return {token_id: piece for piece, token_id in vocabulary.items() if type(token_id) is int}
    if isinstance(vocabulary, list):
        entries = enumerate(vocabulary)
        return {i: entry[0] for i, entry in entries if isinstance(entry, list) and entry and isinstance(entry[0], str)}
    raise UnknownFormError("has no model.vocab")


def _steps(decoder: Any) -> list[Step]:
    if decoder is None:
        return [_spaced]
    flat = _flattened(decoder)
    steps = []
    joined = False
    for config in flat:
        kind = str(config.get("type"))
        make = _STEPS.get(kind)
        if make is None or (joined and kind not in _AFTER_JOINING):
            raise UnknownFormError(f"decoder {kind!r} is not one of those known here{' at this place' * joined}")
        steps.append(make(config, joined))
        joined = joined or kind in ("ByteFallback", "Fuse", "ByteLevel")
    return steps


def _flattened(decoder: Any) -> list[Mapping[str, Any]]:
    if not isinstance(decoder, Mapping):
        raise UnknownFormError("decoder is not an object")
    if decoder.get("type") != "Sequence":
        return [decoder]
    inner = decoder.get("decoders")
    if not isinstance(inner, list):
        raise UnknownFormError("decoder Sequence without decoders")
    return [config for entry in inner for config in _flattened(entry)]


def _spaced(pieces: list[str], begins: bool) -> list[str]:
    """No decoder: tokens are words, with a space between them."""
    return [piece if begins and not place else f" {piece}" for place, piece in enumerate(pieces)]


def _byte_alphabet() -> dict[str, int]:
    """The printable character that stands for each byte in byte-level vocabularies.

    Bytes that are printable in Latin-1 stand for themselves, the others, in order, for the characters from U+0100 on.
    """
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in own]
    return {chr(byte): byte for byte in own} | {chr(0x100 + place): byte for place, byte in enumerate(others)}


_BYTES = _byte_alphabet()


def _byte_level(config: Mapping[str, Any], joined: bool) -> Step:
    return lambda pieces, _: _characters([_bytes_of(piece) for piece in pieces])


def _bytes_of(piece: str) -> bytes:
    try:
        return bytes([_BYTES[character] for character in piece])
    except KeyError:  # an added token outside the alphabet is plain text
        return piece.encode(errors="replace")


def _characters(parts: list[bytes]) -> list[str]:
    """UTF-8 of which characters may be cut between the parts. What is no UTF-8 becomes U+FFFD."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    texts = [decoder.decode(part) for part in parts]
    if texts:
        texts[-1] += decoder.decode(b"", final=True)
    return texts


def _byte_fallback(config: Mapping[str, Any], joined: bool) -> Step:
    """Pieces ``<0x0A>`` are bytes. A run of them is a text if all of it is UTF-8, else U+FFFD for each."""

    def step(pieces: list[str], begins: bool) -> list[str]:
        texts: list[str] = []
        run: list[bytes] = []
        for piece in pieces:
            byte = _fallback_byte(piece)
            if byte is not None:
                run.append(byte)
                continue
            texts += _run(run)
            run.clear()
            texts.append(piece)
        return texts + _run(run)

    return step


def _fallback_byte(piece: str) -> bytes | None:
    if len(piece) == _BYTE_FALLBACK_LENGTH and piece.startswith("<0x") and piece.endswith(">"):
        try:
            return bytes.fromhex(piece[3:5])
        except ValueError:
            return None
    return None


def _run(run: list[bytes]) -> list[str]:
    try:
        b"".join(run).decode()
    except UnicodeDecodeError:
        return ["\N{REPLACEMENT CHARACTER}"] * len(run)
    return _characters(run)


def _metaspace(config: Mapping[str, Any], joined: bool) -> Step:
    mark = config.get("replacement", "▁")
    if not isinstance(mark, str) or len(mark) != 1:
        raise UnknownFormError("decoder Metaspace without a replacement of one character")
    scheme = config.get("prepend_scheme", "always" if config.get("add_prefix_space", True) else "never")

    def step(pieces: list[str], begins: bool) -> list[str]:
        return [
            piece.replace(mark, "" if begins and not place and scheme != "never" else " ")
            for place, piece in enumerate(pieces)
        ]

    return step


def _replace(config: Mapping[str, Any], joined: bool) -> Step:
    pattern = config.get("pattern")
    old = pattern.get("String") if isinstance(pattern, Mapping) else None
    new = config.get("content")
    if not isinstance(old, str) or not old or not isinstance(new, str) or (joined and len(old) > 1):
        raise UnknownFormError("decoder Replace with a pattern that is not known here")
    return lambda pieces, _: [piece.replace(old, new) for piece in pieces]


def _strip(config: Mapping[str, Any], joined: bool) -> Step:
    """Takes up to ``start`` and ``stop`` characters ``content`` from the ends: of each token, or of the joined text."""
    content, start, stop = config.get("content"), config.get("start"), config.get("stop")
    if not isinstance(content, str) or len(content) != 1 or type(start) is not int or type(stop) is not int:
        raise UnknownFormError("decoder Strip without content, start and stop")
    if not joined:
        return lambda pieces, _: [
            _stripped_end(_stripped_start(piece, content, start), content, stop) for piece in pieces
        ]
    if stop:
        raise UnknownFormError("decoder Strip at the end of a text")
    return lambda pieces, begins: _stripped_text(pieces, content, start) if begins else pieces


def _stripped_start(text: str, content: str, most: int) -> str:
    return text[min(len(text) - len(text.lstrip(content)), most) :]


def _stripped_end(text: str, content: str, most: int) -> str:
    return text[: len(text) - min(len(text) - len(text.rstrip(content)), most)]


def _stripped_text(pieces: list[str], content: str, most: int) -> list[str]:
    stripped = list(pieces)
    for place, piece in enumerate(pieces):
        stripped[place] = _stripped_start(piece, content, most)
        most -= len(piece) - len(stripped[place])
        if stripped[place] or not most:
            break
    return stripped


_CLEANED = {
    " .": ".",
    " ?": "?",
    " !": "!",
    " ,": ",",
    " ' ": "'",
    " n't": "n't",
    " 'm": "'m",
    " do not": " don't",
    " 's": "'s",
    " 've": "'ve",
    " 're": "'re",
}
"""What a WordPiece decoder puts in place of what, within each token and in this order."""


def _word_piece(config: Mapping[str, Any], joined: bool) -> Step:
    prefix = config.get("prefix", "##")
    if not isinstance(prefix, str):
        raise UnknownFormError("decoder WordPiece with a prefix that is no text")
    cleans = config.get("cleanup", True) is True

    def step(pieces: list[str], begins: bool) -> list[str]:
        texts = []
        for place, piece in enumerate(pieces):
            text = piece
            if place or not begins:
                text = piece.removeprefix(prefix) if piece.startswith(prefix) else f" {piece}"
            for old, new in _CLEANED.items() if cleans else ():
                text = text.replace(old, new)
            texts.append(text)
        return texts

    return step


def _bpe(config: Mapping[str, Any], joined: bool) -> Step:
    suffix = config.get("suffix", "</w>")
    if not isinstance(suffix, str) or not suffix:
        raise UnknownFormError("decoder BPEDecoder without a suffix")
    return partial(_word_ends, suffix)


def _word_ends(suffix: str, pieces: list[str], begins: bool) -> list[str]:
    last = len(pieces) - 1
    return [piece.replace(suffix, "" if place == last else " ") for place, piece in enumerate(pieces)]


def _fuse(config: Mapping[str, Any], joined: bool) -> Step:
    """Joining is left to :meth:`TokenDecoder.text`; the steps behind it know that they work on parts of one text."""
    return lambda pieces, _: pieces


_STEPS: dict[str, Callable[[Mapping[str, Any], bool], Step]] = {
    "ByteLevel": _byte_level,
    "ByteFallback": _byte_fallback,
    "Metaspace": _metaspace,
    "Replace": _replace,
    "Strip": _strip,
    "Fuse": _fuse,
    "WordPiece": _word_piece,
    "BPEDecoder": _bpe,
}
_AFTER_JOINING = frozenset({"Fuse", "Replace", "Strip"})
