"""What ``rl`` and ``sft`` share: the screen of a launch, and what is said when it is over.

On a terminal one line at the bottom shows how far the run is, what the last step brought and what is awaited; the
lines of launcher and trainer scroll above it. Elsewhere there are only lines.
"""

import contextlib
import logging
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.progress_bar import ProgressBar
from rich.text import Text

from prl.config.run import LaunchConfig
from prl.launch.events import ComponentUp, Event, Failed, Finished, LogLine, Outcome, Started, Step, Waiting
from prl.rundir.logs.console import setup_logging
from prl.rundir.titles import LAUNCHER, set_process_title
from prl.text.human import format_duration
from prl.text.terminal import strip_escapes

_REFRESH_SECONDS = 0.2
_SAY_AGAIN_SECONDS = 10.0
"""Without a terminal, how often a wait that goes on is told."""
_BAR_CELLS = 24
_LEAST_BAR_CELLS = 6
_WAITED = " WARNING Trainer waited "
_WAITED_STEPS = 10
"""On a terminal, the steps from one such warning to the next. ``trainer.log`` has them all."""
_DATE_LINE = re.compile(r"--- \d{4}-\d{2}-\d{2}(?: [+-]\d{4})? ---(?:\n|$)")

logger = logging.getLogger("prl.launch")


class _Bar(ProgressColumn):
    """A bar of the room that the words beside it leave; none where that is too little."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = _BAR_CELLS
        self._draw = BarColumn()

    def render(self, task: Task) -> ProgressBar | Text:
        self._draw.bar_width = self.cells
        return self._draw.render(task) if self.cells >= _LEAST_BAR_CELLS else Text()


class Screen:
    """Draws the events of a launch. Use as a context manager; the ``prl`` logger writes through it."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False, markup=False, soft_wrap=True)
        self._live = self.console.is_terminal
        self._bar = _Bar()
        # No refresh thread: the launcher forks, and does so best without other threads.
        self._progress = Progress(
            TextColumn("{task.fields[step]}", markup=False),
            self._bar,
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
        self._date = ""
        self._waited_step: int | None = None

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
        shown = self._without_date(text).rstrip("\n")
        if shown.strip():
            self.console.print(Text(shown))
        return len(text)

    def flush(self) -> None:
        """Lines are drawn as they come."""

    def __call__(self, event: Event) -> None:
        match event:
            case Started():
                self._progress.update(self._task, total=event.max_steps, completed=event.resume_step or 0)
            case LogLine():
                self._show_line(strip_escapes(event.text))
            case Step():
                self._last = event
                self._progress.update(self._task, completed=event.step)
            case Waiting():
                self._wait(event)
            case Finished():
                self._draw("", force=True)
            case ComponentUp() | Failed():
                pass  # the launcher's own lines say so

    def _show_line(self, text: str) -> None:
        """A line of the trainer. Numbers beyond the terminal's width are cut, words go on in the next line."""
        if not self._live:
            self.write(text)
            return
        shown = self._without_date(text)
        if not shown.strip() or (_WAITED in shown and self._waited_lately()):
            return
        numbers = " | " in shown
        self.console.print(
            Text(shown), soft_wrap=False, no_wrap=numbers, overflow="ellipsis" if numbers else "fold", crop=True
        )

    def _without_date(self, text: str) -> str:
        """``text`` without the date line in front of it when that date was shown: launcher and trainer both say it."""
        found = _DATE_LINE.match(text)
        date = found[0].strip() if found else ""
        if found and date == self._date:
            return text[found.end() :]
        self._date = date or self._date
        return text

    def _waited_lately(self) -> bool:
        step = self._last.step if self._last else 0
        if self._waited_step is not None and step - self._waited_step < _WAITED_STEPS:
            return True
        self._waited_step = step
        return False

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
        step = f"step {task.completed:.0f}{of}"
        # The table of a progress display would take from all its columns alike.
        room = self.console.width - cell_len(step) - 2
        said = Text(text)
        said.truncate(max(room, 0), overflow="ellipsis")
        self._bar.cells = min(_BAR_CELLS, room - said.cell_len)
        self._progress.update(self._task, description=said.plain, step=step)
        self._progress.refresh()


@contextlib.contextmanager
def screen(level: str, *, json_logging: bool) -> Iterator[Screen]:
    """The screen of a launcher process: its title, its lines, its progress."""
    set_process_title(LAUNCHER)
    with Screen() as shown:
        setup_logging(level, json_logging=json_logging, stream=shown)
        yield shown


class Introducing:
    """Passes events on, and introduces the run in its STATUS.md once it has finished a step.

    A run that comes to none is introduced at its end.
    """

    def __init__(self, shown: Callable[[Event], None], introduce: Callable[[Path], None]) -> None:
        self._shown = shown
        self._introduce = introduce
        self._run_dir: Path | None = None
        self._done = False

    def __call__(self, event: Event) -> None:
        self._shown(event)
        if isinstance(event, Started):
            self._run_dir = event.run_dir
        elif isinstance(event, Step | Finished) and self._run_dir is not None and not self._done:
            self._done = True
            try:
                self._introduce(self._run_dir)
            except Exception as error:  # the run goes on, whoever watches it
                logger.warning("No entry in STATUS.md: %s: %s", type(error).__name__, error)


class Showing:
    """Passes events on, and has the dashboard show the run once its directory exists.

    ``ensure`` gives the address of the dashboard for an output directory. Only for a terminal: who starts runs by
    script or in a batch job has not asked for a server.
    """

    def __init__(self, shown: Callable[[Event], None], ensure: Callable[[Path], str] | None) -> None:
        self._shown = shown
        self._ensure = ensure
        self.page: str | None = None
        """The run's address, once it is known."""

    def __call__(self, event: Event) -> None:
        self._shown(event)
        if isinstance(event, Started) and self._ensure is not None:
            ensure, self._ensure = self._ensure, None
            try:
                self.page = ensure(event.run_dir)
                logger.info("Dashboard: %s", self.page)
            except Exception as error:  # the run goes on, whoever looks at it
                logger.warning("No dashboard: %s", error)


def dashboard_of(run_dir: Path) -> str:
    """The address of a run on this host's dashboard, which is started if there is none. Raises DashboardError."""
    from urllib.parse import quote

    from prl.dashboard.daemon import ensure
    from prl.rundir.recognition import run_id

    found = ensure(run_dir.parent)
    for note in found.notes:
        logger.info("%s", note)
    return f"{found.url}/?run={quote(run_id(str(run_dir.resolve())), safe='~')}"


def introduce(run_dir: Path) -> None:
    """Append the first check-in of this attempt to STATUS.md."""
    from prl.watch.checkin import introduce as append

    problem = append(run_dir).problem
    if problem is not None:
        logger.warning("No entry in STATUS.md: %s", problem)


def page_of(config: LaunchConfig) -> Callable[[Path], str] | None:
    """What gives a run's page; None where nobody asked for one: ``--no-dashboard``, no terminal, a dry run."""
    return dashboard_of if config.dashboard and not config.dry_run and sys.stdout.isatty() else None


def conclude(outcome: Outcome, verdict: Callable[[Path], str], page: str | None = None) -> int:
    """Say where the run is, how it is doing and, last, where its page is; returns the exit status."""
    if outcome.run_dir is not None and outcome.phase != "dry run":
        print(f"Run directory: {outcome.run_dir}")
        try:
            print(verdict(outcome.run_dir).rstrip("\n"))
        except Exception as error:  # what the run did stands, whatever is thought of it
            print(f"No verdict: {type(error).__name__}: {error}", file=sys.stderr)
    if page is not None:
        print(f"Dashboard: {page}")
    return outcome.exit_code


def show_verdict(run_dir: Path) -> str:
    """The watch side's verdict on a run, as ``prl status`` prints it."""
    from prl.watch import render, status_of

    return render(status_of(run_dir))
