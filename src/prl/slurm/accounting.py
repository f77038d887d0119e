"""What SLURM's accounting knows of jobs: how they ended, long after the queue forgot them. Many clusters have none.

``sacct`` prints a row for the job and one for each step (``.batch``, ``.extern``, ``.0``); steps are folded into their
job, since the memory used and the real end are theirs. With ``--duplicates`` a requeued job has its rows once for each
start. Whoever asks for ``4244`` gets the rows of ``4244_1``, or of ``4244+0``: what the number names is found by
:meth:`AccountingAnswer.of`. Columns are taken by the header's names, and where an older ``sacct`` lacks a column it is
asked again for those that all have.
"""

import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from prl.slurm import values
from prl.slurm.commands import SECONDS, Kind, Query, Runner, Trouble, not_understood, run
from prl.slurm.hosts import expand
from prl.slurm.jobs import checked_id
from prl.slurm.states import ENDED, JobState, explain, parse_state
from prl.slurm.values import ExitCode

_EVERYWHERE = "JobID,State,ExitCode,Start,End,Elapsed,NodeList,MaxRSS"
_WANTED = f"{_EVERYWHERE},JobIDRaw,DerivedExitCode,Submit,ReqMem,Reason"


@dataclass(frozen=True)
class Step:
    """A step of a job: ``batch``, ``extern``, ``0``. Memory in bytes, the largest of its tasks."""

    name: str
    state: JobState
    exit: ExitCode | None
    max_rss: int | None


@dataclass(frozen=True)
class Accounting:
    """One start of a job as accounting has it. Times are seconds since 1970, durations seconds."""

    id: str
    state: JobState
    raw_id: str | None = None
    """The number that SLURM gave this job alone: tasks of an array and parts of a heterogeneous job have one each."""
    exit: ExitCode | None = None
    derived_exit: ExitCode | None = None
    """The worst exit code of its steps."""
    submitted: float | None = None
    start: float | None = None
    end: float | None = None
    elapsed: float | None = None
    node_list: str = ""
    requested_memory: str | None = None
    reason: str = ""
    steps: tuple[Step, ...] = ()
    earlier: tuple["Accounting", ...] = ()
    """The starts before a requeue, oldest first."""

    @property
    def nodes(self) -> tuple[str, ...]:
        return expand(self.node_list)

    @property
    def max_rss(self) -> int | None:
        """The most memory that one task of one step used, in bytes."""
        return max((step.max_rss for step in self.steps if step.max_rss is not None), default=None)

    @property
    def host_oom(self) -> bool:
        """A node's memory limit ended it or one of its steps. Signal 9 alone does not say that: anybody may send it."""
        return "OUT_OF_MEMORY" in (self.state.base, *(step.state.base for step in self.steps))

    @property
    def outcome(self) -> str:
        """How it ended, in plain words: ``failed: exit code 1``."""
        if self.state.base == "COMPLETED":
            return f"completed, but {self.step_failure}" if self.step_failure else "completed"
        return outcome(self.state, self.exit, self.reason, self.host_oom and self.state.base == "FAILED")

    @property
    def step_failure(self) -> str | None:
        """How the last step that did not end well did so; the job's own state need not show it.

        A job's state is that of its script, which may go on after a step has failed and end with success. Left out: the
        script itself (``batch``), and steps that were cancelled, as they are when the script ends first.
        """
        failed = [
            step
            for step in self.steps
            if step.name != "batch" and step.state.base in ENDED - {"COMPLETED", "CANCELLED"}
        ]
        if not failed:
            return None
        step = next((one for one in failed if one.state.base == "OUT_OF_MEMORY"), failed[-1])
        return f"step {step.name} ended: {outcome(step.state, step.exit)}"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON of the last start, in the words of ``sacct``."""
        cells = {
            "JobIDRaw": self.raw_id,
            "State": self.state.raw,
            "ExitCode": _cell(self.exit),
            "DerivedExitCode": _cell(self.derived_exit),
            "Submit": _cell(self.submitted),
            "Start": _cell(self.start),
            "End": _cell(self.end),
            "NodeList": self.node_list,
            "ReqMem": _cell(self.requested_memory),
            "Reason": self.reason,
        }
        steps = [[step.name, step.state.raw, _cell(step.exit), _cell(step.max_rss)] for step in self.steps]
        return {"id": self.id, "cells": {key: cell for key, cell in cells.items() if cell}, "steps": steps}

    @staticmethod
    def from_json(tree: Mapping[str, Any]) -> "Accounting":
        """What :meth:`to_json` made. Raises ValueError, KeyError or TypeError for anything else."""
        start = _Start({str(key): str(cell) for key, cell in dict(tree["cells"]).items()})
        for name, state, code, rss in tree["steps"]:
            start.steps.append(
                Step(str(name), parse_state(state), values.accounted_exit_code(code), values.memory(rss))
            )
        return _accounting(str(tree["id"]), start)


def outcome(state: JobState, code: ExitCode | None = None, reason: str = "", host_oom: bool = False) -> str:
    """How a job ended, in plain words."""
    if host_oom or state.base == "OUT_OF_MEMORY":
        return "out of memory on a node"
    if state.base == "COMPLETED":
        return "completed"
    words = {
        "CANCELLED": "cancelled",
        "FAILED": "failed",
        "TIMEOUT": "reached its time limit",
        "NODE_FAIL": "a node failed",
        "PREEMPTED": "preempted by another job",
        "BOOT_FAIL": "a node did not boot",
        "DEADLINE": "reached its deadline",
    }.get(state.base)
    if words is None:
        return f"state {state}"
    if state.base == "FAILED" and code is not None and (code.status or code.signal):
        # SLURM calls a script that a signal ended a failed launch too: its reason adds nothing then.
        return f"{words}: {code.plain}"
    explained = explain(reason)
    if state.base == "FAILED" and explained is not None:
        return f"{words}: {explained.plain}"
    return words


@dataclass(frozen=True)
class AccountingAnswer:
    """Accounting of the jobs asked for that it knows, by job id. With ``trouble`` set, absence proves nothing."""

    jobs: dict[str, Accounting]
    at: float
    trouble: Trouble | None = None

    def of(self, job_id: str) -> Accounting | None:
        """The job that ``job_id`` names: by its name, by its own number, or the first part or task of what it heads."""
        if job_id in self.jobs:
            return self.jobs[job_id]
        own = [job for job in self.jobs.values() if job.raw_id == job_id]
        of_array = [job for name, job in self.jobs.items() if name.startswith(f"{job_id}_")]
        return next(iter([*own, *filter(None, [self.jobs.get(f"{job_id}+0")]), *of_array]), None)


def accounting(ids: Iterable[str], runner: Runner = run, seconds: float = SECONDS) -> AccountingAnswer:
    """These jobs by one call of ``sacct``, by a second one where it does not know a column or an option.

    Raises ValueError for what is no job id.
    """
    jobs = f"--jobs={','.join(dict.fromkeys(map(checked_id, ids)))}"
    mark = f"<{secrets.token_hex(6)}>"
    base = ("sacct", "--parsable2", "--duplicates", jobs)
    answer = runner(Query((*base, f"--format={_WANTED}", f"--delimiter={mark}"), seconds))
    if answer.trouble is not None and answer.trouble.kind is Kind.UNKNOWN_OPTION:
        mark = "|"
        answer = runner(Query((*base, f"--format={_EVERYWHERE}"), seconds))
    found = read_sacct(answer.text, mark)
    if answer.trouble is None and not found and answer.text.strip() and not answer.text.startswith("JobID"):
        return AccountingAnswer({}, answer.at, not_understood(answer, "sacct"))
    return AccountingAnswer(found, answer.at, answer.trouble)


def memory_used(job_id: str, runner: Runner = run, seconds: float = SECONDS) -> tuple[dict[str, int], Trouble | None]:
    """The most memory a task of each step of a running job used so far, in bytes, by ``sstat`` (own jobs only)."""
    argv = ("sstat", "--parsable2", "--allsteps", f"--jobs={checked_id(job_id)}", "--format=JobID,MaxRSS")
    answer = runner(Query(argv, seconds))
    used = {}
    for row in _rows(answer.text, "|"):
        size = values.memory(row.get("MaxRSS", ""))
        if size is not None:
            used[row["JobID"].partition(".")[2]] = size
    return used, answer.trouble


@dataclass
class _Start:
    """The rows of one start of a job."""

    row: dict[str, str]
    steps: list[Step] = field(default_factory=list)


def read_sacct(text: str, delimiter: str = "|") -> dict[str, Accounting]:
    """``sacct --parsable2`` with its header, steps folded into their job. Never raises; other text is no job."""
    starts: dict[str, list[_Start]] = {}
    for row in _rows(text, delimiter):
        job_id, _, step = row["JobID"].partition(".")
        of_job = starts.setdefault(job_id, [])
        if not step:
            of_job.append(_Start(row))
            continue
        if not of_job:
            of_job.append(_Start({"JobID": job_id}))
        of_job[-1].steps.append(
            Step(
                step,
                parse_state(row.get("State", "")),
                values.accounted_exit_code(row.get("ExitCode", "")),
                values.memory(row.get("MaxRSS", "")),
            )
        )
    return {job_id: _folded(job_id, of_job) for job_id, of_job in starts.items()}


def _folded(job_id: str, starts: list[_Start]) -> Accounting:
    jobs = [_accounting(job_id, start) for start in starts]
    # sacct's order is that of the starts; a start that did not happen (cancelled while waiting) has no time.
    *earlier, last = jobs
    return Accounting(**{**vars(last), "earlier": tuple(earlier)})


def _accounting(job_id: str, start: _Start) -> Accounting:
    row = start.row
    return Accounting(
        id=job_id,
        state=parse_state(row.get("State", "")),
        raw_id=values.text_or_none(row.get("JobIDRaw", "")),
        exit=values.accounted_exit_code(row.get("ExitCode", "")),
        derived_exit=values.exit_code(row.get("DerivedExitCode", "")),
        submitted=values.moment(row.get("Submit", "")),
        start=values.moment(row.get("Start", "")),
        end=values.moment(row.get("End", "")),
        elapsed=values.duration(row.get("Elapsed", "")),
        node_list=values.text_or_none(row.get("NodeList", "")) or "",
        requested_memory=values.text_or_none(row.get("ReqMem", "")),
        reason=values.text_or_none(row.get("Reason", "")) or "",
        steps=tuple(start.steps),
    )


def _cell(value: object) -> str:
    return "" if value is None else str(int(value)) if isinstance(value, float) else str(value)


def _rows(text: str, delimiter: str) -> Iterator[dict[str, str]]:
    """The rows that have a job's id, by the names of the header. A row with another number of fields is none."""
    header: list[str] | None = None
    for line in text.split("\n"):
        cells = line.split(delimiter)
        if cells[0] == "JobID":
            header = cells
        elif header is not None and len(cells) == len(header) and cells[0][:1].isdigit():
            yield dict(zip(header, cells, strict=True))
