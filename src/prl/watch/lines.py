"""What the console logs of an attempt say: finish and hold lines, steps, dropped values, errors.

The words are those that the run contract fixes. Of each kind of line only the newest of each component is kept. Errors
are kept as they stand; which of them are echoes is told by :mod:`prl.watch.blame`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from prl.rundir.locate import RunFiles
from prl.rundir.logs.reader import LogEntry, LogRead, read_log
from prl.watch.facts import Log, LogError, Mark, NonFinite

WINDOW = 512 * 1024
"""Bytes read of the end of each log, less when there are many."""
BUDGET = 24 * 1024**2
"""Bytes read of all logs together."""

_KINDS = (
    ("trainer_done", "trainer", re.compile(r"(?:RL|SFT) trainer finished!?")),
    ("orchestrator_done", "orchestrator", re.compile(r"Orchestrator finished\.?")),
    ("forced_exit", "orchestrator", re.compile(r"Orchestrator shutdown did not complete within .*")),
    ("drain", "orchestrator", re.compile(r".+ — draining pipeline.*")),
    ("hold", "orchestrator", re.compile(r"Holding batch \d+ until .*")),
    ("gate_closed", "orchestrator", re.compile(r"Pausing dispatcher .*")),
    ("gate_open", "orchestrator", re.compile(r"Resuming dispatcher.*")),
    ("startup_wait", "orchestrator", re.compile(r"Waiting for .*")),
    ("startup_ready", "orchestrator", re.compile(r"(?:Inference pool|Train environment\S*|Trainer) ready.*")),
    ("orchestrator_loop", "orchestrator", re.compile(r"Starting orchestrator loop .*")),
    ("trainer_loop", "trainer", re.compile(r"Starting training loop .*")),
    ("trainer_wait", "trainer", re.compile(r"Still waiting for .*")),
    ("resume", "trainer", re.compile(r"Resuming (?:training )?from (?:checkpoint )?step \d+.*")),
    ("orchestrator_step", "orchestrator", re.compile(r"Step \d+ \| .*")),
    ("teardown", "launcher", re.compile(r".*[Tt]erminating all processes.*")),
    ("trainer_step", "trainer", re.compile(r"Step \d+ \| .*")),
)
_NO_SPACE = re.compile(r"[Nn]o space left on device|\bENOSPC\b|\[Errno 28\]|[Qq]uota exceeded")
_STEP = re.compile(r"Step (\d+) ")
_DROPPED = re.compile(r"Dropping \d+ non-finite (?:metric )?value\(s\)(?: from \S+)?: (.*)")
# The others of a step line are printed as nan where they were not measured.
_NOT_A_NUMBER = re.compile(r"\| (Loss|Grad\. Norm) [-+]?(?:nan|inf)\b")
_STEP_LINE_KEYS = {"Loss": "loss/mean", "Grad. Norm": "optim/grad_norm"}
_KEPT_ERRORS = 8
_KEPT_STEPS = 50


@dataclass
class Lines:
    """What was found in all logs."""

    logs: list[Log] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    errors: list[LogError] = field(default_factory=list)
    nonfinite: list[NonFinite] = field(default_factory=list)
    steps: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    """The last step lines of the trainer and the orchestrator: (step, time)."""

    @property
    def teardown(self) -> float | None:
        """When the launcher began to end the run."""
        return next((mark.time for mark in self.marks if mark.kind == "teardown"), None)


def read_lines(files: RunFiles) -> Lines:
    """Read the end of every log of the attempt."""
    lines = Lines()
    window = min(WINDOW, BUDGET // max(len(files.logs), 1))
    for log in files.logs:
        _LogLines(lines, log.component, _relative(log.path, files.root)).take(read_log(log.path, window))
    lines.errors.sort(key=lambda error: (error.time is None, error.time or 0.0))
    return lines


class _LogLines:
    """Adds one log to the :class:`Lines`."""

    def __init__(self, lines: Lines, component: str, file: str) -> None:
        self.lines, self.component, self.file = lines, component, file
        self.marks: dict[str, Mark] = {}
        self.errors: dict[str, LogError] = {}
        self.steps: list[tuple[int, float]] = []
        self.warnings = self.count = 0

    def take(self, read: LogRead) -> None:
        for entry in read.entries:
            if entry.is_error:
                self._error(entry)
            self._line(entry)
        self.lines.logs.append(
            Log(
                component=self.component,
                file=self.file,
                size=read.size,
                modified=read.modified,
                skipped=read.skipped,
                errors=self.count,
                warnings=self.warnings,
                replaced=read.replaced,
                problem=read.problem,
            )
        )
        self.lines.marks += self.marks.values()
        kept = list(self.errors.values())
        self.lines.errors += kept if len(kept) <= _KEPT_ERRORS else kept[:2] + kept[2 - _KEPT_ERRORS :]
        if self.steps:
            self.lines.steps[self.component] = self.steps[-_KEPT_STEPS:]

    def _line(self, entry: LogEntry) -> None:
        self.warnings += entry.level == "WARNING"
        if entry.is_error or entry.level == "WARNING":
            self._no_space(entry)
        dropped = _DROPPED.fullmatch(entry.message)
        if dropped:
            self._nonfinite(entry, (key.strip() for key in dropped[1].split(", ")), None)
        for kind, component, pattern in _KINDS:
            if component == self.component and pattern.fullmatch(entry.message):
                self.marks[kind] = Mark(kind, component, self.file, entry.offset, entry.time, entry.message)
                if kind.endswith("_step"):
                    self._step(entry)

    def _no_space(self, entry: LogEntry) -> None:
        text = next((text for text in (entry.message, entry.exception or "") if _NO_SPACE.search(text)), None)
        if text is not None:
            self.marks["no_space"] = Mark("no_space", self.component, self.file, entry.offset, entry.time, text)

    def _step(self, entry: LogEntry) -> None:
        match = _STEP.match(entry.message)
        if match is None:
            return
        if entry.time is not None:
            self.steps.append((int(match[1]), entry.time))
        bad = [_STEP_LINE_KEYS[name] for name in _NOT_A_NUMBER.findall(entry.message)]
        self._nonfinite(entry, bad, int(match[1]))

    def _nonfinite(self, entry: LogEntry, keys: Iterable[str], step: int | None) -> None:
        found = [NonFinite(key, self.component, step, entry.time, self.file, entry.offset) for key in keys]
        self.lines.nonfinite = [*self.lines.nonfinite, *found][-_KEPT_STEPS:]

    def _error(self, entry: LogEntry) -> None:
        self.count += 1
        # torchrun's exception says nothing; the line above it names the rank and its exit code.
        wrapped = entry.exception is not None and "ChildFailedError" in entry.exception
        summary = entry.message if wrapped else entry.summary
        known = self.errors.pop(summary, None)  # popped and set again: the order is that of the newest
        self.errors[summary] = LogError(
            component=self.component,
            file=self.file,
            offset=known.offset if known else entry.offset,
            time=known.time if known else entry.time,
            last_time=entry.time,
            exact=entry.exact,
            header=entry.message,
            summary=summary,
            fatal=entry.message.startswith(("Fatal error in ", "Env server failed")) or entry.level == "CRITICAL",
            count=known.count + 1 if known else 1,
        )


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
