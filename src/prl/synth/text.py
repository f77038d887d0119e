"""Made-up text: words of syllables, phrases of words, in the encoded forms that a record is put together of.

A message is an opening and phrases, each of which begins with a space or a line break; so its text, its JSON and its
token ids are those of its parts, one after the other. Everything but the choice of parts is the same for every seed.
"""

import random
from functools import cache
from typing import NamedTuple

import numpy as np

from prl.rundir import jsonl
from prl.synth.tokenizer import WordTokenizer

PHRASES = 4096
OPENINGS = 256

_ONSETS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "br", "kl", "st", "tr")
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ou")
_CODAS = ("", "", "", "n", "r", "s", "l", "m")
_WORDS = 1500

_ODDITIES = (
    ' "as the {a} said"',
    " the {a}'s \\{b}\\ path",
    "\n\n",
    "\n- {a}: {b}",
    "\t{a}\t{b}",
    " naïve café, déjà {a}",
    " 语言模型 {a}",
    " 🙂 {a}",
    " 3.14 × {a} ≈ 42",
    " <b>{a}</b> & {b}",
    "\n```python\nprint('{a}')\n```\n",
    " https://{a}.invalid/{b}?x=1",
)
"""What readers must get right: quotes, backslashes, control characters, other scripts, markup."""
_ODD_SHARE = 0.08


def make_words() -> list[str]:
    """The vocabulary, short words first."""
    rng = random.Random(7)
    words: dict[str, None] = {}
    while len(words) < _WORDS:
        syllables = rng.choices((1, 2, 3), (2, 5, 3))[0]
        word = "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS) for _ in range(syllables))
        words[word] = None
    return sorted(words, key=lambda word: (len(word), word))


class Encoded(NamedTuple):
    """A stretch of text in the forms that a record holds."""

    escaped: bytes
    """As it stands inside a JSON string."""
    listed: bytes
    """Its token ids as JSON, each with a comma after it."""
    tokens: int


class Language:
    """The words, a tokenizer for them, and pools of openings and phrases."""

    def __init__(self) -> None:
        rng = random.Random(11)
        self.words = make_words()
        self.tokenizer = WordTokenizer(self.words)
        self.openings = [self.encode(rng.choice(self.words).capitalize()) for _ in range(OPENINGS)]
        phrases = [self.encode(_phrase(rng, self.words)) for _ in range(PHRASES)]
        self._escaped = [phrase.escaped for phrase in phrases]
        self._listed = [phrase.listed for phrase in phrases]
        self._tokens = np.array([phrase.tokens for phrase in phrases])
        self._mean_tokens = float(self._tokens.mean())

    def encode(self, text: str) -> Encoded:
        ids = self.tokenizer.encode(text)
        return Encoded(jsonl.encode(text)[1:-2], b"".join(b"%d," % token for token in ids), len(ids))

    def message(self, key: int, tokens: int) -> Encoded:
        """A message of about ``tokens`` tokens, the same for the same ``key``."""
        count = max(1, round(tokens / self._mean_tokens))
        stride = 2 * (key // PHRASES % 1024) + 1  # odd: every phrase comes before one comes again
        chosen = (key * 7919 + np.arange(count) * stride) % PHRASES
        opening, phrases = self.openings[key % OPENINGS], chosen.tolist()
        return Encoded(
            opening.escaped + b"".join([self._escaped[index] for index in phrases]),
            opening.listed + b"".join([self._listed[index] for index in phrases]),
            opening.tokens + int(self._tokens[chosen].sum()),
        )


@cache
def language() -> Language:
    """The one language of all samples."""
    return Language()


def _phrase(rng: random.Random, words: list[str]) -> str:
    if rng.random() < _ODD_SHARE:
        return rng.choice(_ODDITIES).format(a=rng.choice(words), b=rng.choice(words))
    text = " " + " ".join(rng.choices(words[:900], k=rng.randint(3, 8)))
    return text + rng.choices(("", ",", ".", ";", "?"), (4, 3, 3, 1, 1))[0]
