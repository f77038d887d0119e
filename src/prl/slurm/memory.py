"""What is known of jobs between questions: the last state with its age, and how often SLURM may be asked.

A controller that is away says nothing about a job, so its last known state stands, marked stale. A job that left the
queue is looked up in accounting; without accounting it has ended and how is not known. Several commands of one user
share what they learnt through a file in the user's state directory, so that looking often asks SLURM no oftener.
Left out: locks. Each write replaces the file, and what one of two writers lost is asked again.
"""

import contextlib
import dataclasses
import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prl.slurm.accounting import Accounting, accounting
from prl.slurm.commands import Kind, Runner, Trouble, run
from prl.slurm.details import show_job
from prl.slurm.jobs import Job, JobsAnswer, query_jobs
from prl.slurm.standing import Standing, standing

QUEUE_SECONDS = 30.0
"""The controller is asked no oftener than this for the same job."""
ACCOUNTING_SECONDS = 60.0

_VERSION = 1
_KEPT = 500
_MAX_BYTES = 16 * 1024**2


@dataclass
class _Record:
    """What is known of one job. Times are seconds since 1970, 0 for never."""

    job: Job | None = None
    seen: float = 0.0
    asked: float = 0.0
    absent: float | None = None
    detailed: float = 0.0
    trouble: Trouble | None = None
    """Of the last question about it, where that failed."""
    ended: Accounting | None = None
    accounted: float = 0.0
    accounting_trouble: Trouble | None = None


class SlurmMemory:
    """The last known state of jobs. ``path`` is a file to share it through, absent or damaged is no error.

    Not for several threads at once.
    """

    def __init__(self, path: Path | None = None, runner: Runner = run, clock: Callable[[], float] = time.time) -> None:
        self._path, self._runner, self._clock = path, runner, clock
        self._records: dict[str, _Record] = {}
        self._mine: list[str] = []
        self._mine_asked = 0.0
        self._mine_trouble: Trouble | None = None
        self._load()

    def standings(self, ids: Iterable[str], *, force: bool = False) -> dict[str, Standing]:
        """How each of these jobs stands, by one ``squeue`` for all and one ``sacct`` for those that left the queue.

        Where one of them was not asked for in the last 30 s (or with ``force``) all are asked for, else none is.
        Raises ValueError for what is no job id.
        """
        wanted = list(dict.fromkeys(ids))
        records = {job_id: self._records.setdefault(job_id, _Record()) for job_id in wanted}
        if wanted and (force or any(self._due(record.asked, QUEUE_SECONDS) for record in records.values())):
            try:
                self._ask_queue(wanted, query_jobs(wanted, self._runner))
            except ValueError:
                for job_id in wanted:
                    self._records.pop(job_id)
                raise
        absent = [job_id for job_id, record in records.items() if record.absent is not None]
        if absent and (force or any(self._due(records[job_id].accounted, ACCOUNTING_SECONDS) for job_id in absent)):
            self._ask_accounting(absent)
        self._save()
        return {job_id: self._standing(job_id, record) for job_id, record in records.items()}

    def details(self, job_id: str, *, force: bool = False) -> Standing:
        """How a job stands, with its restarts, exit code and output path (one ``scontrol`` more while it is queued)."""
        now = self.standings([job_id], force=force)[job_id]
        record = self._records[job_id]
        if record.job is not None and record.absent is None and (force or self._due(record.detailed, QUEUE_SECONDS)):
            record.detailed = self._clock()
            answer = show_job(job_id, self._runner)
            found = _one(answer, job_id)
            if found is not None:
                record.job = record.job.with_details(found)
                # Restarts only ever grow, and a requeued job keeps its id.
                record.job = dataclasses.replace(record.job, restarts=found.restarts, exit=found.exit)
            self._save()
            return self._standing(job_id, record)
        return now

    def mine(self, *, force: bool = False) -> JobsAnswer:
        """This user's jobs, asked for no oftener than every 30 s; with ``trouble`` set they are those known before."""
        if force or self._due(self._mine_asked, QUEUE_SECONDS):
            answer = query_jobs(None, self._runner)
            self._mine_trouble, self._mine_asked = answer.trouble, answer.at
            if answer.trouble is None:
                self._mine = [job.id for job in answer.jobs]
                for job in answer.jobs:
                    self._seen(self._records.setdefault(job.id, _Record()), job, answer.at)
            self._save()
        records = [self._records[job_id] for job_id in self._mine if job_id in self._records]
        jobs = tuple(record.job for record in records if record.job is not None)
        return JobsAnswer(jobs, min((record.seen for record in records), default=self._mine_asked), self._mine_trouble)

    def _due(self, asked: float, seconds: float) -> bool:
        return not 0 <= self._clock() - asked < seconds

    def _ask_queue(self, wanted: list[str], answer: JobsAnswer) -> None:
        for job_id in wanted:
            record = self._records[job_id]
            record.asked, record.trouble = self._clock(), answer.trouble
            found = _one(answer, job_id)
            if found is not None:
                self._seen(record, found, answer.at)
            elif answer.trouble is None and not answer.damaged and record.absent is None:
                record.absent = answer.at

    def _ask_accounting(self, absent: list[str]) -> None:
        answer = accounting(absent, self._runner)
        for job_id in absent:
            record = self._records[job_id]
            record.accounted, record.accounting_trouble = self._clock(), answer.trouble
            record.ended = answer.of(job_id) or record.ended

    def _seen(self, record: _Record, job: Job, at: float) -> None:
        old = record.job
        if old is not None and (old.state, old.start) == (job.state, job.start):
            job = job.with_details(old)
        elif old is not None:
            job = dataclasses.replace(job, restarts=old.restarts, requeue=old.requeue, stdout=old.stdout)
        record.job, record.seen, record.asked, record.trouble = job, at, self._clock(), None
        record.absent = record.ended = record.accounting_trouble = None

    def _standing(self, job_id: str, record: _Record) -> Standing:
        return standing(
            job_id,
            now=self._clock(),
            job=record.job,
            seen=record.seen or None,
            absent_since=record.absent,
            accounting=record.ended,
            trouble=record.trouble,
            accounting_trouble=record.accounting_trouble,
        )

    def _load(self) -> None:
        if self._path is None:
            return
        try:
            with self._path.open("rb") as file:
                tree = json.loads(file.read(_MAX_BYTES))
            if tree["version"] != _VERSION:
                return
            records = {str(job_id): _record(entry) for job_id, entry in tree["jobs"].items()}
            mine, asked = [str(job_id) for job_id in tree["mine"]], _time(tree["mine_asked"])
            trouble = _trouble(tree["mine_trouble"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            return
        self._records, self._mine, self._mine_asked, self._mine_trouble = records, mine, asked, trouble

    def _save(self) -> None:
        """Replace the file; where that cannot be done (a full disk) the next command asks SLURM itself."""
        newest = sorted(self._records.items(), key=lambda item: item[1].asked)[-_KEPT:]
        self._records = dict(newest)
        if self._path is None:
            return
        tree = {
            "version": _VERSION,
            "jobs": {job_id: _plain(record) for job_id, record in newest},
            "mine": self._mine,
            "mine_asked": self._mine_asked,
            "mine_trouble": self._mine_trouble and dataclasses.asdict(self._mine_trouble),
        }
        temporary: str | None = None
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, temporary = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.")
            with os.fdopen(handle, "w") as file:
                json.dump(tree, file, separators=(",", ":"))
            Path(temporary).replace(self._path)
        except OSError:
            if temporary is not None:
                with contextlib.suppress(OSError):
                    Path(temporary).unlink()


def _one(answer: JobsAnswer, job_id: str) -> Job | None:
    """The job of this id; of an array's id the task that is most alive, else the one whose own number it is."""
    found = answer.of(job_id)
    exact = [job for job in found if job.id == job_id]
    alive = [job for job in found if job.state.holds_nodes] or [job for job in found if not job.state.terminal]
    own = [job for job in found if job.raw_id == job_id]
    return next(iter([*exact, *alive, *own, *found]), None)


def _plain(record: _Record) -> dict[str, Any]:
    tree = {name: value for name, value in vars(record).items() if value not in (None, 0.0)}
    if record.job is not None:
        tree["job"] = record.job.to_json()
    if record.ended is not None:
        tree["ended"] = record.ended.to_json()
    for name in ("trouble", "accounting_trouble"):
        if name in tree:
            tree[name] = dataclasses.asdict(tree[name])
    return tree


def _record(tree: dict[str, Any]) -> _Record:
    times = {name: _time(tree[name]) for name in ("seen", "asked", "absent", "detailed", "accounted") if name in tree}
    return _Record(
        job=Job.from_json(tree["job"]) if "job" in tree else None,
        ended=Accounting.from_json(tree["ended"]) if "ended" in tree else None,
        trouble=_trouble(tree.get("trouble")),
        accounting_trouble=_trouble(tree.get("accounting_trouble")),
        **times,
    )


def _time(value: Any) -> float:
    moment = float(value)
    if not math.isfinite(moment):
        raise ValueError(f"not a time: {value!r}")
    return moment


def _trouble(tree: dict[str, Any] | None) -> Trouble | None:
    return None if tree is None else Trouble(Kind(tree["kind"]), str(tree["message"]), str(tree["program"]))
