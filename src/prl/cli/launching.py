"""What ``rl`` and ``sft`` share: the screen of a launch, and what is said when it is over.

On a terminal one line at the bottom shows how far the run is, what the last step brought and what is awaited; the
lines of launcher and trainer scroll above it. Elsewhere there are only lines.
"""

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from prl.launch.events import ComponentUp, Event, Failed, Finished, LogLine, Outcome, Started, Step, Waiting
from prl.rundir.logs.console import setup_logging
from prl.rundir.titles import LAUNCHER, set_process_title
from prl.text.human import format_duration
from prl.text.terminal import strip_escapes

_REFRESH_SECONDS = 0.2
_SAY_AGAIN_SECONDS = 10.0
"""Without a terminal, how often a wait that goes on is told."""

logger = logging.getLogger("prl.launch")


class Screen:
    """Draws the events of a launch. Use as a context manager; the ``prl`` logger writes through it."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False, markup=False, soft_wrap=True)
        self._live = self.console.is_terminal
        # No refresh thread: the launcher forks, and does so best without other threads.
        self._progress = Progress(
            TextColumn("{task.fields[step]}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.description}", markup=False),
            console=self.console,
            auto_refresh=False,
            transient=True,
        )
        self._task: TaskID = self._progress.add_task("", total=None, step="")
        self._begun = time.monotonic()
        self._drawn = 0.0
        self._last: Step | None = None
        self._said = ("", 0.0)

    def __enter__(self) -> Self:
        if self._live:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._progress.stop()

    def write(self, text: str) -> int:
        """A line of the logger (the stream's side of a ``StreamHandler``)."""
        if text.strip():
            self.console.print(Text(text.rstrip("\n")))
        return len(text)

    def flush(self) -> None:
        """Lines are drawn as they come."""

    def __call__(self, event: Event) -> None:
        match event:
            case Started():
                self._progress.update(self._task, total=event.max_steps, completed=event.resume_step or 0)
            case LogLine():
                self.write(strip_escapes(event.text))
            case Step():
                self._last = event
                self._progress.update(self._task, completed=event.step)
            case Waiting():
                self._wait(event)
            case Finished():
                self._draw("", force=True)
            case ComponentUp() | Failed():
                pass  # the launcher's own lines say so

    def _wait(self, event: Waiting) -> None:
        if self._live:
            self._draw(f"{self._numbers()}waiting for {event.what} ({format_duration(event.seconds)})")
            return
        said, when = self._said
        # Steps have lines of their own; only a start, or a wait that lasts, needs telling.
        again = time.monotonic() - when >= _SAY_AGAIN_SECONDS
        if (self._last is None and event.what != said) or (again and event.seconds >= _SAY_AGAIN_SECONDS):
            self._said = event.what, time.monotonic()
            since = f", since {format_duration(event.seconds)}" if event.seconds >= 1 else ""
            logger.info("Waiting for %s%s", event.what, since)

    def _numbers(self) -> str:
        if self._last is None:
            return f"starting {format_duration(time.monotonic() - self._begun)} · "
        shown = [
            f"reward {self._last.reward:.4f}" if self._last.reward is not None else "",
            f"loss {self._last.loss:.4f}" if self._last.loss is not None and self._last.reward is None else "",
            f"{format_duration(self._last.seconds)} a step" if self._last.seconds is not None else "",
        ]
        return "".join(f"{part} · " for part in shown if part)

    def _draw(self, text: str, *, force: bool = False) -> None:
        now = time.monotonic()
        if not self._live or (now - self._drawn < _REFRESH_SECONDS and not force):
            return
        self._drawn = now
        task = self._progress.tasks[0]
        of = f"/{task.total:.0f}" if task.total else ""
        self._progress.update(self._task, description=text, step=f"step {task.completed:.0f}{of}")
        self._progress.refresh()


@contextlib.contextmanager
def screen(level: str, *, json_logging: bool) -> Iterator[Screen]:
    """The screen of a launcher process: its title, its lines, its progress."""
    set_process_title(LAUNCHER)
    with Screen() as shown:
        setup_logging(level, json_logging=json_logging, stream=shown)
        yield shown


def conclude(outcome: Outcome, verdict: Callable[[Path], str]) -> int:
    """Say where the run is and how it is doing; returns the exit status."""
    if outcome.run_dir is not None and outcome.phase != "dry run":
        print(f"Run directory: {outcome.run_dir}")
        try:
            print(verdict(outcome.run_dir).rstrip("\n"))
        except Exception as error:  # what the run did stands, whatever is thought of it
            print(f"No verdict: {type(error).__name__}: {error}", file=sys.stderr)
    return outcome.exit_code


def show_verdict(run_dir: Path) -> str:
    """The watch side's verdict on a run, as ``prl status`` prints it."""
    from prl.watch import render, status_of

    return render(status_of(run_dir))
