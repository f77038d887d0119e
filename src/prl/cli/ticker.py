"""A word on a terminal about how far a long reading is."""

import sys
import time
from collections.abc import Callable

import click

_QUIET_SECONDS = 0.5


def _bytes(done: int, total: int) -> str:
    return f"{done / max(total, 1):.0%} of {total / 1e6:.0f} MB"


class Ticker:
    """Called with how much is done and how much there is; says so when it takes long, and wipes that away at the end.

    ``words`` puts the two into words, which they do as bytes unless told otherwise.
    """

    def __init__(self, doing: str, words: Callable[[int, int], str] = _bytes) -> None:
        self.doing = doing
        self.words = words
        self._next = time.monotonic() + _QUIET_SECONDS
        self._width = 0

    def __enter__(self) -> "Ticker":
        return self

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now >= self._next and sys.stderr.isatty():
            self._next = now + 0.1
            text = f"{self.doing}: {self.words(done, total)}"
            self._width = max(self._width, len(text))
            click.echo(f"\r{text}", nl=False, err=True)

    def __exit__(self, *_: object) -> None:
        if self._width:
            click.echo("\r" + " " * self._width + "\r", nl=False, err=True)
