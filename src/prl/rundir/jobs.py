"""The jobs that ran a run: the launcher's id, SLURM's ids, and which attempt each belongs to where that can be told.

No configuration holds a job's id. It stands in the names of job logs, in ``launcher/job.json``, in the environment that
an attempt recorded, in what a launcher said that submitted it, and in torchrun's rendezvous id, which is a directory's
name below an attempt's logs. A requeued job keeps its id over several attempts. Asking SLURM itself is left to those
who may.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prl.rundir.configs import Document, attempts_of
from prl.rundir.status import read_status
from prl.rundir.tree import RunTree
from prl.rundir.untyped import as_object

MAX_ATTEMPTS = 1000
"""Attempts that are looked at, the newest."""

_JOB_LOG = re.compile(r"(?:.*[^0-9A-Za-z])?job_(\d{1,18}(?:_\d{1,9})?)\.log")
_RENDEZVOUS = re.compile(r"job_(\d{1,18})(?:\D.*)?")
_JOB_ID = re.compile(r"\d{1,18}(?:_\d{1,9})?")
_OPTION = re.compile(rb"^#SBATCH[ \t]+--?([A-Za-z][\w-]*)(?:[= \t]+(.*?))?[ \t\r]*$", re.M)
_SUBMITTED = re.compile(rb"Submitted batch job (\d{1,18})\b")
_SPOKEN = 20
"""Attempts whose launcher's output, where somebody keeps it, is searched for what ``sbatch`` said."""
_HEAD = 64 * 1024
"""Bytes of it, from its beginning."""
_STATUS = "launcher/status.json"
_SCRIPTS = ("launcher/rl.sbatch", "launcher/sft.sbatch", "rl.sbatch", "sft.sbatch")


@dataclass(frozen=True)
class Job:
    """A job of the cluster."""

    id: str
    attempts: tuple[int, ...]
    """The attempts it is known to have run. Empty: nothing tells."""
    log: str | None
    """Its output, a name below the run directory."""
    changed: float | None
    """When its output was last written to, Unix seconds."""
    sources: tuple[str, ...]
    """Where its id was found."""


@dataclass(frozen=True)
class RunJobs:
    """Who ran a run."""

    run_id: str | None
    """The launcher's id of the run (``PRL_RUN_ID``)."""
    jobs: tuple[Job, ...]
    """By the time they were last heard of, the newest last."""
    script: str | None
    """The batch script, a name below the run directory."""
    options: dict[str, str]
    """Its ``#SBATCH`` options by long name: ``job-name``, ``partition``, ``time`` ..."""
    trouble: tuple[str, ...] = ()


@dataclass
class _Found:
    attempts: set[int] = field(default_factory=set)
    log: str | None = None
    changed: float | None = None
    sources: list[str] = field(default_factory=list)


def read_jobs(root: Path) -> RunJobs:
    """The jobs of the run at ``root``, as its newest :data:`MAX_ATTEMPTS` attempts tell. Raises nothing."""
    tree = RunTree(root)
    attempts = attempts_of(tree)[-MAX_ATTEMPTS:]
    environments = {number: tree.document(f"configs/attempt_{number}/environment.json") for number in attempts}
    status = read_status(tree.path(_STATUS)) if tree.stat(_STATUS) is not None else None
    recorded = [_recorded(environments[number]).get("PRL_RUN_ID") for number in reversed(attempts)]
    script = next((name for name in _SCRIPTS if tree.stat(name) is not None), None)
    run_ids = [status.run_id if status else None, *recorded]
    return RunJobs(
        run_id=next((value for value in run_ids if isinstance(value, str) and value), None),
        jobs=find_jobs(tree, attempts, environments),
        script=script,
        options=_options(tree.read(script) if script else None),
        trouble=tuple(tree.trouble),
    )


def find_jobs(tree: RunTree, attempts: list[int], environments: Mapping[int, Document | None]) -> tuple[Job, ...]:
    """The jobs that names and documents of a run tell of, the newest last. ``environments``: those of the attempts."""
    found: dict[str, _Found] = {}
    for directory in ("", "launcher/logs"):
        for name in tree.names(directory):
            match = _JOB_LOG.fullmatch(name)
            if match:
                path = f"{directory}/{name}".lstrip("/")
                stat = tree.stat(path)
                job = _note(found, match[1], path)
                job.log, job.changed = path, stat.st_mtime if stat else None
    for number in attempts[-MAX_ATTEMPTS:]:
        job_id = _recorded_id(_recorded(environments.get(number)), found)
        if isinstance(job_id, str) and _JOB_ID.fullmatch(job_id):
            _note(found, job_id, f"configs/attempt_{number}/environment.json").attempts.add(number)
        for name in tree.names(f"logs/attempt_{number}/trainer/torchrun"):
            match = _RENDEZVOUS.fullmatch(name)
            if match:
                _note(found, match[1], f"logs/attempt_{number}/trainer/torchrun/{name}").attempts.add(number)
    for number in attempts[-_SPOKEN:]:
        for submitted_id in _SUBMITTED.findall(tree.head(f"logs/attempt_{number}/launcher.log", _HEAD) or b""):
            _note(found, submitted_id.decode(), f"logs/attempt_{number}/launcher.log").attempts.add(number)
    submitted = (tree.document("launcher/job.json") or {}).get("job_id")
    if isinstance(submitted, int | str) and _JOB_ID.fullmatch(str(submitted)):
        _note(found, str(submitted), "launcher/job.json")
    if len(found) == len(attempts) == 1:  # nothing else could have run it
        next(iter(found.values())).attempts.update(attempts)
    jobs = [Job(name, tuple(sorted(f.attempts)), f.log, f.changed, tuple(f.sources)) for name, f in found.items()]
    return tuple(sorted(jobs, key=_age))


def _age(job: Job) -> tuple[int, float, int]:
    """Attempts tell the order, then the time of the output, then the ids, which only grow."""
    return max(job.attempts, default=0), job.changed or 0.0, int(job.id.partition("_")[0])


def _note(found: dict[str, _Found], job_id: str, source: str) -> _Found:
    job = found.setdefault(job_id, _Found())
    job.sources.append(source)
    return job


def _recorded_id(environment: Mapping[str, Any], found: Mapping[str, _Found]) -> Any:
    """The number of its own that a task of an array has, or ``4244_3`` where its log is called so."""
    task = f"{environment.get('SLURM_ARRAY_JOB_ID')}_{environment.get('SLURM_ARRAY_TASK_ID')}"
    return task if task in found else environment.get("SLURM_JOB_ID")


def _recorded(environment: Document | None) -> dict[str, Any]:
    return as_object(as_object(environment).get("environment"))


def _options(script: bytes | None) -> dict[str, str]:
    pairs = _OPTION.findall(script or b"")
    return {name.decode(): value.decode(errors="replace").strip("\"'") for name, value in pairs}
