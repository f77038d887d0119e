"""A word on a terminal about how far a long reading is."""

import sys
import time

import click

_QUIET_SECONDS = 0.5


class Ticker:
    """Called with bytes done and bytes in all; says so when it takes long, and wipes that away at the end."""

    def __init__(self, doing: str) -> None:
        self.doing = doing
        self._next = time.monotonic() + _QUIET_SECONDS
        self._width = 0

    def __enter__(self) -> "Ticker":
        return self

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now >= self._next and sys.stderr.isatty():
            self._next = now + 0.1
            text = f"{self.doing}: {done / max(total, 1):.0%} of {total / 1e6:.0f} MB"
            self._width = max(self._width, len(text))
            click.echo(f"\r{text}", nl=False, err=True)

    def __exit__(self, *_: object) -> None:
        if self._width:
            click.echo("\r" + " " * self._width + "\r", nl=False, err=True)
