"""One sample run from beginning to end: its steps in order, each told by episodes, metrics and logs alike."""

import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from prl.rundir.annotations.writer import ANNOTATIONS
from prl.rundir.chunks import chunk_numbers
from prl.rundir.episodes.writer import STREAM
from prl.rundir.layout import RunLayout
from prl.synth.annotations import AnnotationStreams, group_advantages
from prl.synth.course import Attempt, Course, Step
from prl.synth.documents import write_attempt, write_status
from prl.synth.episodes import Cohort, Episode, EpisodeDrafts, EpisodeStream, eval_cohorts, train_cohorts
from prl.synth.flight import write_flight
from prl.synth.logs import AttemptLogs
from prl.synth.marks import write_broadcasts, write_checkpoints, write_report, write_status_md, write_trainer_step
from prl.synth.metrics import MetricsFile
from prl.synth.old_layouts import write_rollouts
from prl.synth.shape import RunShape
from prl.synth.signals import token_signals
from prl.synth.streams import seal_chunks
from prl.synth.text import language
from prl.synth.values import Metrics, evaluation_values, orchestrator_values, pipeline_values, sft_rows, trainer_rows

Progress = Callable[[str, int, int], None]
"""Called with what is being written, how much of it is, and how much there will be."""
Pace = Callable[[float], None]
"""Called with the time (Unix seconds) of what is to be written next, everything earlier having reached its file."""

PIPELINE_SECONDS = 10.0
"""Between two rows keyed by time."""
_EVAL_SAMPLE = 4000
"""Episodes of an evaluation whose values are kept for its row. Memory must not grow with the evaluation."""


def write_run(root: Path, shape: RunShape, progress: Progress | None = None) -> Path:
    """Write the run to ``root``, which must be absent or empty, and return it. The same shape gives the same run.

    Raises FileExistsError when there is something, OSError when it cannot be written.
    """
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise FileExistsError(f"{root}: exists and is not an empty directory")
    began = time.time()
    root.mkdir(parents=True, exist_ok=True)
    run = RunWriter(root, shape, progress or _no_progress)
    for attempt in run.course.attempts:
        run.attempt(attempt)
    run.end()
    _date_files(root, began, run.course.end)
    return root


class RunWriter:
    """The open files of a run and what goes from one step to the next."""

    def __init__(self, root: Path, shape: RunShape, progress: Progress, pace: Pace | None = None) -> None:
        self.root = root
        self.shape = shape
        self.progress = progress
        self.pace = pace
        self.course = Course(shape)
        paths = self.paths = RunLayout(root)
        signals = token_signals()
        records = shape.episodes and shape.kind != "sft" and shape.layout != "A"
        self.traces = paths.traces if records else None
        self.drafts = EpisodeDrafts(shape, self.course)
        self.stream = EpisodeStream(shape, signals, self.traces)
        annotated = records and shape.annotations and shape.kind == "rl"
        self.annotations = AnnotationStreams(shape, signals, paths.traces) if annotated else None
        self.metrics = MetricsFile(root / "metrics.jsonl" if shape.layout == "A" else paths.metrics, shape)
        self.plan: dict[str, dict[str, int]] = {}
        self.done = 0

    def attempt(self, attempt: Attempt) -> None:
        """One attempt, all of its steps."""
        write_attempt(self.root, self.shape, attempt)
        self.logs = AttemptLogs(self.shape, attempt, self.root)
        self.logs.start_up()
        make = {"rl": self._train, "sft": self._fine_tune, "eval": self._epoch}[self.shape.kind]
        for step in attempt.steps():
            make(step)
            self.done += 1
            self.after(step)
            self.progress("steps", self.done, self.course.total_steps)
        self._last_words(attempt)
        self.logs.close()
        if self.shape.kind != "eval":
            write_checkpoints(self.root, self.shape, attempt)

    def after(self, step: Step) -> None:
        """What a step leaves behind at once. Nothing, unless the run is to be seen while it grows."""

    def flush(self) -> None:
        """Let everything written so far reach its file: records before the rows that point to them."""
        for stream in (self.stream, self.annotations, self.metrics, self.logs):
            if stream is not None:
                stream.flush()

    def end(self) -> None:
        """What is there once, and what is done last."""
        shape, last = self.shape, self.course.last
        if not shape.ended and self.traces is not None and shape.kind == "rl":
            self.flight(last.number, last.last + 1, self.course.end, self.course)
        for stream in (self.stream, self.annotations, self.metrics):
            if stream is not None:
                stream.close()
        if self.plan and shape.layout != "A":
            (self.paths.file_monitor / "plan.json").write_text(json.dumps(self.plan))
        if shape.kind == "rl":
            write_broadcasts(self.root, shape, last)
        if shape.kind != "eval":
            write_trainer_step(self.root, last.last)
        if shape.writer == "prl":
            language().tokenizer.write(self.root)
            write_status(self.root, shape, self.course)
            write_status_md(self.root, shape, self.course)
        if self.traces is not None and shape.seal:
            self._seal(self.traces)

    # ---- the kinds of step

    def _train(self, step: Step) -> None:
        shape = self.shape
        episodes = self._write(train_cohorts(shape, step.attempt, step.number, step.begin, step.shipped))
        shipped = [episode for episode in episodes if episode.trains]
        if self.annotations is not None:
            self.annotations.ship(step, shipped, group_advantages(shipped))
        if shape.layout == "A":
            write_rollouts(self.root, step, episodes, shipped)
        self._pipeline_rows(step)
        values = orchestrator_values(shape, step, episodes, shipped)
        self._until(step.shipped)
        self.metrics.add(values, step=step.number, time=step.shipped, producer="orch")
        self.logs.orchestrate(step, episodes, shipped)
        self._until(step.trained)
        self._trainer_rows(step, trainer_rows(shape, self.course, step))
        if step.evaluates:
            self._evaluate(step, step.trained, step.done)
        if step.number == 1 and self.traces is not None:
            write_report(self.root, shape, episodes[0].id, language().words[0])

    def _fine_tune(self, step: Step) -> None:
        self._trainer_rows(step, sft_rows(self.shape, self.course, step))

    def _epoch(self, step: Step) -> None:
        self._evaluate(step, step.begin, step.shipped)

    # ---- their parts

    def _write(self, cohorts: Iterable[Cohort]) -> list[Episode]:
        """Draw cohorts of one time and write their episodes as they arrive."""
        episodes = [episode for cohort in cohorts for episode in self.drafts.draw(cohort)]
        episodes.sort(key=lambda episode: episode.arrival)
        for episode in episodes:
            self._until(episode.arrival)
            self.stream.write(episode)
        return episodes

    def _until(self, time: float) -> None:
        if self.pace is not None:
            self.flush()
            self.pace(time)

    def _evaluate(self, step: Step, begin: float, end: float) -> None:
        shape, sample = self.shape, list[Episode]()
        for cohort in eval_cohorts(shape, step.attempt, step.number, begin, end):
            episodes = self._write([cohort])
            for episode in episodes:
                episode.traces = []
            sample += episodes[: max(_EVAL_SAMPLE - len(sample), 0)]
            expected = self.plan.setdefault(shape.environments[cohort.environment].name, {})
            expected[str(step.number)] = expected.get(str(step.number), 0) + cohort.count
        values = evaluation_values(shape, step.number, sample)
        self.metrics.add(values, step=step.number, time=end, producer=shape.producer)
        self.logs.evaluate(end, step.number, values)

    def _trainer_rows(self, step: Step, rows: Sequence[Metrics]) -> None:
        together: Metrics = {}
        dropped: list[str] = []
        for number, values in enumerate(rows):
            dropped += self.metrics.add(
                values, step=step.number, time=step.trained - 0.05 + 0.01 * number, producer="trainer"
            )
            together |= values
        self.logs.train_step(step, together, dropped)

    def _pipeline_rows(self, step: Step) -> None:
        at = step.begin + PIPELINE_SECONDS / 2
        while at < step.shipped:
            for values in pipeline_values(self.shape, step, at):
                # Older prime-rl kept these off the file.
                if self.shape.layout != "A":
                    self.metrics.add(values, step=None, time=at, producer="orch")
            at += PIPELINE_SECONDS

    def _last_words(self, attempt: Attempt) -> None:
        """How the attempt ended. One that another follows had failed."""
        state = self.shape.state if attempt.is_last else "failed"
        if state == "finished":
            self.logs.finish(attempt.end)
        elif state == "failed":
            self.logs.crash(attempt.end + 0.5)
        elif state == "stopped":
            self.logs.stop(attempt.end + 0.5)
        elif state == "hung":
            self.logs.stall(attempt.end, self.shape.stall_seconds, attempt.last)

    def flight(self, attempt: int, step: int, begin: float, course: Course) -> None:
        """Rollouts of ``step`` in flight at ``begin``, when ``course`` ends."""
        if self.traces is None:
            return
        cohorts = train_cohorts(self.shape, attempt, step, begin, begin + self.shape.step_seconds)
        drawn = [episode for cohort in cohorts for episode in self.drafts.draw(cohort)]
        write_flight(self.traces, self.shape, course, self.stream, drawn)

    def _seal(self, traces: Path) -> None:
        ended = self.shape.state == "finished"
        directories = [traces / STREAM, *(path for path in (traces / ANNOTATIONS).glob("*") if path.is_dir())]
        counts = [len(chunk_numbers(directory)) - (not ended) for directory in directories]
        done = 0
        for directory in directories:
            for _ in seal_chunks(directory, last=ended):
                done += 1
                self.progress("chunks sealed", done, sum(counts))


def _date_files(root: Path, since: float, end: float) -> None:
    """Let what has no date of its own (it was written ``since``) be as old as its last step."""
    for directory, _, files in os.walk(root, topdown=False):
        for path in (*(Path(directory) / name for name in files), Path(directory)):
            if path.lstat().st_mtime >= since - 1.0:
                os.utime(path, (end, end), follow_symlinks=False)


def _no_progress(what: str, done: int, total: int) -> None:
    del what, done, total
