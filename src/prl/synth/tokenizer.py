"""A small byte-level BPE tokenizer over made-up words, in the files that the ``tokenizers`` library reads.

Every byte is a token, so any text has ids and any ids have a text. Every prefix of a word with the space before it is a
token too, so that a word of the vocabulary is one token. All merges begin at a space and no token holds two: so the ids
of a text are the ids of its parts, wherever it is cut before a space. No library is needed to write or to encode.
Left out: reading the files back, which is a reader's work.
"""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from prl.rundir.layout import RunLayout

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
THINK, THINK_END = "<think>", "</think>"
CALL, CALL_END = "<tool_call>", "</tool_call>"
RESPONSE, RESPONSE_END = "<tool_response>", "</tool_response>"
SPECIAL_TOKENS = (PAD, START, END, THINK, THINK_END, CALL, CALL_END, RESPONSE, RESPONSE_END)

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message.role + '\\n' + (message.content or '') + '<|im_end|>\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)

_SPACE = "Ġ"
"""The stand-in of a space in the byte-level alphabet."""
_SPACED_WORD = re.compile(r" [a-z]+")
_SPECIAL = re.compile("|".join(map(re.escape, SPECIAL_TOKENS)))


class WordTokenizer:
    """Ids 0 to 255 are bytes; then come the prefixes of the words, then :data:`SPECIAL_TOKENS`."""

    def __init__(self, words: Iterable[str]) -> None:
        """``words``: of ASCII letters a to z."""
        self._alphabet = _byte_alphabet()
        prefixes = {word[:end] for word in words for end in range(1, len(word) + 1)}
        self._prefixes = {text: 256 + n for n, text in enumerate(sorted(prefixes, key=lambda text: (len(text), text)))}
        first = 256 + len(self._prefixes)
        self.special = {token: first + n for n, token in enumerate(SPECIAL_TOKENS)}
        self.size = first + len(SPECIAL_TOKENS)

    def encode(self, text: str) -> list[int]:
        """Token ids of ``text``; special tokens in it are recognised."""
        ids: list[int] = []
        end = 0
        for match in _SPECIAL.finditer(text):
            ids += self._encode_plain(text[end : match.start()])
            ids.append(self.special[match[0]])
            end = match.end()
        return ids + self._encode_plain(text[end:])

    def files(self) -> dict[str, bytes]:
        """Contents of the tokenizer's directory by file name."""
        return {
            "tokenizer.json": _json(self._definition()),
            "tokenizer_config.json": _json(
                {
                    "tokenizer_class": "PreTrainedTokenizerFast",
                    "eos_token": END,
                    "pad_token": PAD,
                    "clean_up_tokenization_spaces": False,
                    "chat_template": CHAT_TEMPLATE,
                }
            ),
        }

    def write(self, run_dir: Path) -> None:
        """Write the tokenizer of a run."""
        directory = RunLayout(run_dir).tokenizer
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in self.files().items():
            (directory / name).write_bytes(content)

    def _encode_plain(self, text: str) -> list[int]:
        ids: list[int] = []
        end = 0
        for match in _SPACED_WORD.finditer(text):
            ids += text[end : match.start()].encode()
            ids += self._encode_word(match[0][1:])
            end = match.end()
        return ids + list(text[end:].encode())

    def _encode_word(self, word: str) -> Sequence[int]:
        length = next((length for length in range(len(word), 0, -1) if word[:length] in self._prefixes), 0)
        if not length:
            return b" " + word.encode()
        return [self._prefixes[word[:length]], *word[length:].encode()]

    def _definition(self) -> dict[str, Any]:
        vocab = {symbol: byte for byte, symbol in enumerate(self._alphabet)}
        vocab |= {_SPACE + prefix: token for prefix, token in self._prefixes.items()}
        merges = [[_SPACE + prefix[:-1], prefix[-1]] for prefix in self._prefixes]
        flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
        return {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [{"id": token, "content": text, **flags} for text, token in self.special.items()],
            "normalizer": None,
            "pre_tokenizer": byte_level,
            "post_processor": None,
            "decoder": byte_level,
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": None,
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": False,
                "byte_fallback": False,
                "ignore_merges": False,
                "vocab": vocab,
                "merges": merges,
            },
        }


def _byte_alphabet() -> list[str]:
    """The character that stands for each byte: printable ones for themselves, the rest, in order, from U+0100 on."""
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    stand_ins = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(stand_ins)) for byte in range(256)]


def _json(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False) + "\n").encode()
