"""A verdict that is shown anew, every few seconds, until the run has ended."""

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from prl.cli.answers import print_text
from prl.watch.checkin import OVER
from prl.watch.outward import safe
from prl.watch.screen import render
from prl.watch.verdict import Verdict
from prl.watch.words import clock_words, step_words

SECONDS = 2.0
"""From one look to the next; more where a look itself takes long."""
_LOOKS = 5
"""A look may take one part in so many of the time."""

Show = Callable[[Verdict], None]


def follow(look: Callable[[], Verdict], shown: AbstractContextManager[Show], seconds: float = SECONDS) -> Verdict:
    """Look and show until the run has ended or somebody presses Ctrl-C; returns the last verdict."""
    with shown as show:
        verdict, took = _timed(look)
        show(verdict)
        with contextlib.suppress(KeyboardInterrupt):
            while verdict.phase not in OVER:
                time.sleep(max(seconds, _LOOKS * took))
                verdict, took = _timed(look)
                show(verdict)
    return verdict


@contextlib.contextmanager
def screen_of_its_own() -> Iterator[Show]:
    """On a terminal: one screen that is drawn over, and what was there before comes back at the end."""
    from rich.live import Live
    from rich.text import Text

    with Live(screen=True, auto_refresh=False) as live:
        yield lambda verdict: live.update(Text(render(verdict), no_wrap=True, overflow="ellipsis"), refresh=True)


@contextlib.contextmanager
def lines_of_changes() -> Iterator[Show]:
    """Elsewhere: a line whenever step, phase, health or findings change."""
    last = ""

    def show(verdict: Verdict) -> None:
        nonlocal last
        rules = ", ".join(finding.rule for finding in verdict.findings)
        step = step_words(verdict.step, verdict.max_steps, endless=verdict.endless)
        state = f"{verdict.health}: {verdict.phase}, step {step}"
        state += f" [{rules}]" if rules else ""
        if state != last:
            print_text(f"{clock_words(verdict.as_of)} {safe(state)}\n")
            last = state

    yield show


def _timed(look: Callable[[], Verdict]) -> tuple[Verdict, float]:
    begun = time.monotonic()
    verdict = look()
    return verdict, time.monotonic() - begun
