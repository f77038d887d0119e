"""What the console logs of an attempt say: finish and hold lines, steps, dropped values, errors, known failures.

The words are those that the run contract fixes. Of each kind of line only the newest of each component is kept. Errors
are kept as they stand; which of them are echoes is told by :mod:`prl.watch.blame`. Of a long log the end is read, and a
piece of its beginning for what stands nowhere else: how it started, from which step.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from prl.rundir.locate import RunFiles
from prl.rundir.logs.components import LogFile
from prl.rundir.logs.reader import LogEntry, LogRead, read_head, read_log
from prl.watch.facts import Log, LogError, Mark, NonFinite, Pipeline
from prl.watch.incidents import Sightings
from prl.watch.surroundings import Incident

if TYPE_CHECKING:
    from prl.rundir.logs.catalogue import LinePattern, Value

WINDOW = 128 * 1024
"""Bytes read of the end of a calm log, less when there are many."""
WIDER = 512 * 1024
"""Bytes read of the end of a log whose last lines hold errors."""
BUDGET = 2 * 1024**2
"""Bytes read of all calm logs together, and four times as much of all others."""
LEAST = 16 * 1024
"""Bytes read of a log in any case."""
HEAD = 24 * 1024
"""Bytes read of the beginning of a log that is longer than what is read of its end."""

_OFFERS = "offers"
"""Older orchestrators say when they are ready for new weights and then wait in silence: it counts as the last line."""

_KINDS = (
    ("trainer_done", "trainer", r"(?:RL|SFT) trainer finished!?"),
    ("orchestrator_done", "orchestrator", r"Orchestrator finished\.?"),
    ("forced_exit", "orchestrator", r"Orchestrator shutdown did not complete within .*"),
    ("drain", "orchestrator", r".+ — draining pipeline.*"),
    (_OFFERS, "orchestrator", r"Created NCCL_READY marker.*"),
    ("hold", "orchestrator", r"Holding batch \d+ until .*|Orchestrator paused: waiting for .*"),
    ("gate_closed", "orchestrator", r"Pausing dispatcher .*"),
    ("gate_open", "orchestrator", r"Resuming dispatcher.*"),
    ("startup_wait", "orchestrator", r"Waiting for .*"),
    ("startup_ready", "orchestrator", r"(?:Inference pool|Train environment\S*|Trainer) ready.*"),
    ("orchestrator_loop", "orchestrator", r"Starting orchestrator loop .*"),
    ("trainer_loop", "trainer", r"Starting training loop .*"),
    ("trainer_wait", "trainer", r"Still waiting for .*|Looking for batches.*"),
    ("resume", "trainer", r"Resuming (?:training )?from (?:checkpoint )?step \d+.*"),
    ("orchestrator_step", "orchestrator", r"Step \d+ \| .*"),
    ("eval_start", "orchestrator", r"Starting evals in .*"),
    ("eval_done", "orchestrator", r"(?:Evaluated|Partially evaluated) \S+ .*"),
    ("waited", "orchestrator", r"Orchestrator waited .* for policy updates.*"),
    ("waited", "trainer", r"Trainer waited .* for a batch.*"),
    ("checkpoint", "orchestrator", r"Saving checkpoint at step \d+.*"),
    ("checkpoint", "trainer", r"Saving checkpoint at step \d+.*"),
    ("loop_busy", "orchestrator", r"Detected busy event loop\..*"),
    ("teardown", "launcher", r".*[Tt]erminating all processes.*"),
    ("launcher_done", "launcher", r"Training finished!"),
    ("trainer_step", "trainer", r"Step \d+ \| .*"),
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
class EngineLine:
    """The newest line in which an engine says how it does."""

    time: float | None
    file: str
    values: "dict[str, Value]"


@dataclass
class Lines:
    """What was found in all logs."""

    logs: list[Log] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    errors: list[LogError] = field(default_factory=list)
    nonfinite: list[NonFinite] = field(default_factory=list)
    steps: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    """The last step lines of the trainer and the orchestrator: (step, time)."""
    pipeline: Pipeline | None = None
    engines: dict[str, EngineLine] = field(default_factory=dict)
    incidents: list[Incident] = field(default_factory=list)

    @property
    def teardown(self) -> float | None:
        """When the launcher began to end the run."""
        return next((mark.time for mark in self.marks if mark.kind == "teardown"), None)


def read_lines(files: RunFiles) -> Lines:
    """Read the end of every log of the attempt, and the beginning of the long ones."""
    lines, sightings = Lines(), Sightings()
    count = max(len(files.logs), 1)
    window, wider = (max(min(most, budget // count), LEAST) for most, budget in ((WINDOW, BUDGET), (WIDER, 4 * BUDGET)))
    for log in files.logs:
        read = read_log(log.path, window)
        if read.skipped and any(entry.is_error for entry in read.entries):
            read = read_log(log.path, wider)
        name = _relative(log.path, files.root)
        head = [entry for entry in read_head(log.path, HEAD) if entry.end <= read.skipped] if read.skipped else []
        _LogLines(lines, log, name).take(head, read)
        earliest = next((entry.time for entry in read.entries if entry.time is not None), read.modified)
        sightings.look([*head, *read.entries], log, name, earliest)
    lines.errors.sort(key=lambda error: (error.time is None, error.time or 0.0))
    lines.incidents = sightings.facts(max((log.rank + 1 for log in files.logs if log.rank is not None), default=0))
    return lines


class _LogLines:
    """Adds one log to the :class:`Lines`."""

    def __init__(self, lines: Lines, log: LogFile, file: str) -> None:
        self.lines, self.component, self.file = lines, log.component, file
        # Where a job runs the launcher, what it prints stands in the job's log.
        speaker = "launcher" if log.group == "job" else self.component
        self.kinds = _kinds_of(speaker)
        self.is_engine = log.group == "inference"
        self.marks: dict[str, Mark] = {}
        self.errors: dict[str, LogError] = {}
        self.steps: list[tuple[int, float]] = []
        self.last_pipeline: LogEntry | None = None
        self.warnings = self.count = 0

    def take(self, head: list[LogEntry], read: LogRead) -> None:
        for entry in head:
            self._mark(entry)
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
        offers = self.marks.get(_OFFERS)
        if offers is not None and offers.offset != read.entries[-1].offset:
            del self.marks[_OFFERS]
        self.lines.marks += self.marks.values()
        kept = list(self.errors.values())
        self.lines.errors += kept if len(kept) <= _KEPT_ERRORS else kept[:2] + kept[2 - _KEPT_ERRORS :]
        if self.steps:
            self.lines.steps[self.component] = self.steps[-_KEPT_STEPS:]
        if self.last_pipeline is not None:
            self.lines.pipeline = self._pipeline(self.last_pipeline)

    def _line(self, entry: LogEntry) -> None:
        self.warnings += entry.level == "WARNING"
        if entry.is_error or entry.level == "WARNING":
            self._no_space(entry)
        dropped = _DROPPED.fullmatch(entry.message) if entry.message.startswith("Dropping ") else None
        if dropped:
            self._nonfinite(entry, (key.strip() for key in dropped[1].split(", ")), None)
        if self._mark(entry).endswith("_step"):
            self._step(entry)
        if self.component == "orchestrator" and entry.message.startswith("Train batch "):
            self.last_pipeline = entry
        elif self.is_engine and "KV cache usage: " in entry.message:
            self._engine(entry)

    def _mark(self, entry: LogEntry) -> str:
        """Keep a line of fixed meaning; its kind, empty for other lines."""
        found = self.kinds.fullmatch(entry.message) if self.kinds is not None else None
        if found is None or found.lastgroup is None:
            return ""
        kind = found.lastgroup
        self.marks[kind] = Mark(kind, self.component, self.file, entry.offset, entry.time, entry.message)
        return kind

    def _pipeline(self, entry: LogEntry) -> Pipeline:
        parsed = _pattern("pipeline").parse(entry.message)
        values = {name: value for name, value in parsed.values.items() if type(value) is int} if parsed else {}
        return Pipeline(
            time=entry.time,
            queued=values.get("a"),
            wanted=values.get("b"),
            inflight_train=values.get("tr"),
            inflight_eval=values.get("ev"),
            file=self.file,
            offset=entry.offset,
            text=entry.message,
        )

    def _engine(self, entry: LogEntry) -> None:
        parsed = _pattern("vllm_stats").parse(entry.message)
        if parsed is not None:
            name = f"{self.component} {parsed.values.get('eng', '')}".strip()
            self.lines.engines[name] = EngineLine(entry.time, self.file, parsed.values)

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


@cache
def _kinds_of(speaker: str) -> re.Pattern[str] | None:
    """The lines of fixed meaning of one component, each kind a group of its name."""
    kinds = [f"(?P<{kind}>{pattern})" for kind, component, pattern in _KINDS if component == speaker]
    return re.compile("|".join(kinds)) if kinds else None


@cache
def _pattern(name: str) -> "LinePattern":
    from prl.rundir.logs.catalogue import load_catalogue

    return load_catalogue().patterns[name]


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
