"""Numbers that belong to tokens, drawn once and cut out wherever a record needs a stretch of them.

A ring holds, for each of its places, what one sampled token was given: the engine's log-probability, the trainer's, the
entropy, their mismatch KL and whether the loss left it out. All stand as JSON of a fixed width, so that a stretch of
tokens is one slice of bytes; and they agree: ``kl = exp(d) - d - 1`` with ``d = trainer - engine``, masked where the
probabilities differ by more than :data:`EPSILON`.
"""

from functools import cache

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

RING = 1 << 18
"""Places: so many that a stretch seldom comes again within the window of a compressor."""
EPSILON = 0.3
"""Of the loss of type ``ipo``, as ``trainer.json`` has it."""

_OUTLIERS = 0.004
"""Share of tokens of which the two log-probabilities differ much."""
_WIDTH, _KL_WIDTH = 8, 9
FALSE, TRUE, NULL, ZERO = b"false,", b"true,", b"null,", b"0.0,"


class TokenSignals:
    """A ring. All runs use the same one."""

    def __init__(self) -> None:
        rng = np.random.default_rng(2)
        engine = _ten_thousandths(rng.exponential(0.35, RING))
        drift = rng.normal(0.0, 0.05, RING)
        drift[rng.random(RING) < _OUTLIERS] -= 1.2
        trainer = _ten_thousandths(engine / 1e4 - drift)
        entropy = _ten_thousandths(rng.gamma(1.5, 0.25, RING))
        difference = (engine - trainer) / 1e4
        kl = np.expm1(difference) - difference
        self._engine = _fixed(engine, 4, negative=True)
        self._trainer = _fixed(trainer, 4, negative=True)
        self._entropy = _fixed(entropy, 4, negative=False)
        self._kl = _fixed(np.minimum(np.rint(kl * 1e6), 9_999_999).astype(np.int64), 6, negative=False)
        self._masked = np.abs(np.exp(-trainer / 1e4) - np.exp(-engine / 1e4)) > EPSILON

    def logprobs(self, place: int, count: int) -> bytes:
        """``count`` numbers from ``place`` on, each with a comma after it, as all of these."""
        return self._engine[place * _WIDTH : (place + count) * _WIDTH]

    def trainer_logprobs(self, place: int, count: int) -> bytes:
        return self._trainer[place * _WIDTH : (place + count) * _WIDTH]

    def entropies(self, place: int, count: int) -> bytes:
        return self._entropy[place * (_WIDTH - 1) : (place + count) * (_WIDTH - 1)]

    def mismatch_kl(self, place: int, count: int) -> bytes:
        return self._kl[place * _KL_WIDTH : (place + count) * _KL_WIDTH]

    def is_masked(self, place: int, count: int) -> bytes:
        masked = self._masked[place : place + count]
        if not masked.any():
            return FALSE * count
        return b"".join([TRUE if value else FALSE for value in masked.tolist()])


@cache
def token_signals() -> TokenSignals:
    """The one ring of all samples."""
    return TokenSignals()


def listed(*parts: bytes) -> bytes:
    """A JSON array of parts whose every value has a comma after it."""
    return b"[" + b"".join(parts)[:-1] + b"]"


def _ten_thousandths(values: npt.NDArray[np.float64]) -> Integers:
    """Whole numbers of 1e-4 from 1 to 99,999, none of which ends in 0: so all have the same number of digits."""
    whole: Integers = np.clip(np.rint(values * 1e4), 1, 99_999).astype(np.int64)
    whole[whole % 10 == 0] += 1
    return whole


def _fixed(values: Integers, decimals: int, *, negative: bool) -> bytes:
    """``values`` x 10^-decimals, of one digit before the point, as text with commas after them."""
    digits = values[:, None] // 10 ** np.arange(decimals, -1, -1) % 10 + ord("0")
    columns = [np.full((len(values), 1), ord(sign)) for sign in ("-" if negative else "")]
    columns += [digits[:, :1], np.full((len(values), 1), ord(".")), digits[:, 1:]]
    columns.append(np.full((len(values), 1), ord(",")))
    text: bytes = np.concatenate(columns, axis=1).astype(np.uint8).tobytes()
    return text
