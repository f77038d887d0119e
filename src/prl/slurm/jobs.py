"""Jobs in SLURM's queue: one ``squeue`` for all of them.

Asked by format, since JSON costs a hundred times the bytes and changes with each version. Fields stand between marks
drawn anew for each call, so no job name, comment or path can look like a separator, whatever it holds: newlines, pipes
and escapes come through as they are (and must be made safe before they are shown). ``--states=all`` lets SLURM answer
for a job that ended a few minutes ago too. ``squeue`` cannot tell restarts, exit code and output path: those are in
:mod:`prl.slurm.details`.
"""

import dataclasses
import math
import os
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prl.slurm import values
from prl.slurm.commands import SECONDS, Answer, Kind, Query, Runner, Trouble, not_understood, run
from prl.slurm.hosts import expand
from prl.slurm.states import JobState, Reason, explain, parse_state
from prl.slurm.values import ExitCode

JOB_ID = re.compile(r"\d+(?:_\d+|\+\d+)?")
"""A job as it can be asked for: ``4242``, task 3 of an array ``4244_3``, part 1 of a heterogeneous job ``4250+1``."""


@dataclass(frozen=True)
class Job:
    """One job as SLURM had it. None and the empty text mean that this was not said.

    Times are seconds since 1970, durations seconds (infinity: unlimited). Texts are verbatim and whoever submitted the
    job chose them.
    """

    id: str
    """As SLURM prints it: ``4242``, ``4244_3``, or ``4244_[1-8%2]`` for the tasks of an array that wait together."""
    state: JobState
    reason: str = ""
    raw_id: str | None = None
    """The number that SLURM gave this job alone: tasks of an array have one each."""
    array_id: str | None = None
    array_index: str | None = None
    name: str | None = None
    user: str | None = None
    partition: str | None = None
    node_list: str = ""
    node_count: int | None = None
    batch_host: str | None = None
    time_limit: float | None = None
    time_left: float | None = None
    submitted: float | None = None
    start: float | None = None
    """When it started; of a waiting job, when SLURM expects it to."""
    end: float | None = None
    """When it ended; of a running job, when its time limit ends it."""
    work_dir: str | None = None
    command: str | None = None
    comment: str | None = None
    restarts: int | None = None
    requeue: bool | None = None
    """Whether SLURM may start it again after a node failed or it was preempted."""
    exit: ExitCode | None = None
    stdout: str | None = None
    """The path of its output, expanded."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The hosts it has or had, in SLURM's order."""
        return expand(self.node_list)

    @property
    def explained(self) -> Reason | None:
        """The reason in plain words."""
        return explain(self.reason)

    @property
    def waiting_again(self) -> bool:
        """It ran before and waits to be started again (preempted, requeued)."""
        if self.state.base == "PREEMPTED" or self.state.requeued:
            return True
        return self.state.base == "PENDING" and (self.restarts or 0) > 0

    def with_details(self, other: "Job") -> "Job":
        """This job with what ``other``, the same job of another query, knows besides."""
        missing = {
            field.name: getattr(other, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) in (None, "") and getattr(other, field.name) is not None
        }
        return dataclasses.replace(self, **missing)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON of what is known; an unlimited duration is ``"unlimited"``."""
        tree = {name: value for name, value in dataclasses.asdict(self).items() if value not in (None, "")}
        tree["state"] = self.state.raw
        if self.exit is not None:
            tree["exit"] = str(self.exit)
        return {name: "unlimited" if value == math.inf else value for name, value in tree.items()}

    @staticmethod
    def from_json(tree: Mapping[str, Any]) -> "Job":
        """What :meth:`to_json` made. Raises ValueError for anything else."""
        fields: dict[str, Any] = {}
        for field in dataclasses.fields(Job):
            value = tree.get(field.name)
            if value is None:
                continue
            expected = _JSON_TYPES.get(field.name, str)
            if value == "unlimited" and expected is float:
                value = math.inf
            if not isinstance(value, (int, float) if expected is float else expected):
                raise ValueError(f"{field.name} of a job is {value!r}")
            fields[field.name] = value
        if "id" not in fields or "state" not in fields:
            raise ValueError("a job without id or state")
        fields["state"] = parse_state(fields["state"])
        fields["exit"] = values.exit_code(fields.get("exit", ""))
        return Job(**fields)


_JSON_TYPES = {
    "node_count": int,
    "restarts": int,
    "requeue": bool,
    **dict.fromkeys(("time_limit", "time_left", "submitted", "start", "end"), float),
}


@dataclass(frozen=True)
class JobsAnswer:
    """The jobs of one question. With ``trouble`` set, ``jobs`` are those read before it, and absence proves nothing."""

    jobs: tuple[Job, ...]
    at: float
    trouble: Trouble | None = None
    damaged: int = 0
    """Records that could not be read."""

    def of(self, job_id: str) -> tuple[Job, ...]:
        """The jobs that ``job_id`` names: one, or all tasks of an array."""
        return tuple(job for job in self.jobs if job_id in (job.id, job.raw_id, job.array_id))


_FIELDS = "iAFKjuPTrNDlLSeVZokB"
"""``squeue``'s letters, in the order asked."""


def query_jobs(ids: Iterable[str] | None, runner: Runner = run, seconds: float = SECONDS) -> JobsAnswer:
    """All these jobs, or with None this user's, by one call of ``squeue``.

    A job that SLURM does not have any more is absent from the answer. Raises ValueError for what is no job id.
    """
    mark = f"<{secrets.token_hex(6)}>"
    text = "".join(f"%{letter}{mark}" for letter in _FIELDS)
    wanted = None if ids is None else _checked(ids)
    if wanted == []:
        raise ValueError("no job to ask for")
    which = f"--user={os.getuid()}" if wanted is None else f"--jobs={','.join(wanted)}"
    argv = ("squeue", "--noheader", "--states=all", which, f"--format={text}")
    answer = runner(Query(argv, seconds))
    return read_squeue(answer, mark)


def read_squeue(answer: Answer, mark: str) -> JobsAnswer:
    """The jobs of an answer of ``squeue`` whose every field is followed by ``mark``.

    That SLURM does not know the only job asked for is an answer: it has none.
    """
    pieces = answer.text.split(mark)
    width = len(_FIELDS)
    jobs = []
    damaged = 0
    for start in range(0, len(pieces) - 1, width):
        record = pieces[start : start + width]
        job = _job(dict(zip(_FIELDS, record, strict=False))) if len(record) == width else None
        if job is None:
            damaged += 1
        else:
            jobs.append(job)
    if len(pieces) == 1 and answer.text.strip():
        damaged = 1
    trouble = answer.trouble
    if trouble is not None and trouble.kind is Kind.UNKNOWN_JOB:
        trouble = None
    elif trouble is None and damaged and not jobs:
        trouble = not_understood(answer, "squeue")
    return JobsAnswer(tuple(jobs), answer.at, trouble, damaged)


def _checked(ids: Iterable[str]) -> list[str]:
    wanted = list(dict.fromkeys(ids))
    for job_id in wanted:
        if not JOB_ID.fullmatch(job_id):
            raise ValueError(f"not a job id: {job_id!r}")
    return wanted


def _job(field: Mapping[str, str]) -> Job | None:
    """One record. None when it does not begin with a job id: then it is none."""
    job_id = field["i"].lstrip("\n").strip()
    if not job_id[:1].isdigit():
        return None
    known = {letter: values.text_or_none(text) for letter, text in field.items()}
    array = known["K"] is not None
    return Job(
        id=job_id,
        state=parse_state(field["T"]),
        reason=known["r"] or "",
        raw_id=known["A"],
        array_id=known["F"] if array else None,
        array_index=known["K"],
        # A job may be called "none": only what SLURM prints for a text that is not there means nothing.
        name=field["j"],
        user=known["u"],
        partition=known["P"],
        node_list=known["N"] or "",
        node_count=values.count(field["D"]),
        batch_host=known["B"],
        time_limit=values.duration(field["l"]),
        time_left=values.duration(field["L"]),
        submitted=values.moment(field["V"]),
        start=values.moment(field["S"]),
        end=values.moment(field["e"]),
        work_dir=known["Z"],
        command=known["o"],
        comment=None if field["k"] == "(null)" else field["k"],
    )


def checked_id(job_id: str) -> str:
    """``job_id`` where it is one. Raises ValueError else."""
    return _checked([job_id])[0]


def output_values(job: Job) -> Mapping[str, str | None]:
    """What the letters of an output path stand for (:func:`prl.slurm.values.expand_path`)."""
    number = job.raw_id or job.id
    nodes: Sequence[str] = job.nodes[:1]
    index = job.array_index if job.array_index and job.array_index.isdigit() else None
    return {
        "A": job.array_id or number,
        "a": index if job.array_id else "4294967294",
        "b": str(int(index) % 10) if index else None,
        "j": number,
        "J": number,
        "N": job.batch_host or (nodes[0] if nodes else None),
        "n": "0",
        "s": "batch",
        "t": "0",
        "u": job.user,
        "x": job.name,
    }
