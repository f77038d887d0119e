"""The job that runs a run, found from what lies around: no configuration holds its id.

A pure function of facts that others gathered. Where several jobs claim a run (each restart by hand is a new one),
what lives now counts before what was recorded once, and of the recorded ones the newest job.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal

from prl.slurm.jobs import JOB_ID, Job

Way = Literal[
    "queue",  # output, script or comment of a queued job lie in the run directory
    "environment",  # SLURM_JOB_ID of a process of the run
    "job.json",  # launcher/job.json
    "job log",  # launcher/logs/*job_<id>.log, or job_<id>.log in older layouts
    "rendezvous",  # torchrun's log directory is called after job_<id>
    "launcher",  # "Submitted batch job <id>" in the launcher's output
    "queue name",  # a queued job is called as the run, or works in its directory
    "engine socket",  # /tmp/vllm-rpc-<user>-<id>-<port> on this node: any run of the user
]

_TIER: dict[Way, int] = {
    "queue": 0,
    "environment": 0,
    "job.json": 1,
    "job log": 1,
    "rendezvous": 1,
    "launcher": 1,
    "queue name": 2,
    "engine socket": 3,
}
_JOB_LOG = re.compile(r"(?:.*[^A-Za-z0-9])?job_(\d+(?:_\d+)?)\.log")
_RENDEZVOUS = re.compile(r"(?:.*[^A-Za-z0-9])?job_(\d+)(?:[^\d].*)?")
_SUBMITTED = re.compile(r"Submitted batch job (\d+)")
_SOCKET = re.compile(r"vllm-rpc-.+-(\d+)-\d+")


@dataclass(frozen=True)
class FoundJob:
    """A run's job: its id, by which ways it was found, and the other ids that were claimed, newest first."""

    id: str
    ways: tuple[Way, ...]
    others: tuple[str, ...] = ()


def find_job(
    run_dir: str,
    *,
    run_name: str | None = None,
    job_json: object = None,
    log_names: Iterable[str] = (),
    rendezvous_names: Iterable[str] = (),
    launcher_text: str = "",
    environments: Iterable[Mapping[str, str]] = (),
    socket_names: Iterable[str] = (),
    jobs: Iterable[Job] = (),
) -> FoundJob | None:
    """The job of the run in ``run_dir`` (absolute), None where nothing tells.

    ``job_json``: what ``launcher/job.json`` holds. ``log_names``: files in ``launcher/logs`` and the run directory.
    ``rendezvous_names``: directories below torchrun's logs. ``launcher_text``: the launcher's output.
    ``environments``: those of the run's processes. ``socket_names``: file names in ``/tmp``. ``jobs``: of the queue.
    """
    queued = tuple(jobs)
    claims: dict[str, set[Way]] = {}

    def claim(way: Way, job_id: object) -> None:
        if isinstance(job_id, str) and JOB_ID.fullmatch(job_id):
            claims.setdefault(job_id, set()).add(way)

    if isinstance(job_json, Mapping):
        claim("job.json", _id_text(job_json.get("job_id")))
    named: tuple[tuple[Way, re.Pattern[str], Iterable[str]], ...] = (
        ("job log", _JOB_LOG, log_names),
        ("rendezvous", _RENDEZVOUS, rendezvous_names),
        ("engine socket", _SOCKET, socket_names),
    )
    for way, pattern, names in named:
        for match in filter(None, map(pattern.fullmatch, names)):
            claim(way, match[1])
    for job_id in _SUBMITTED.findall(launcher_text):
        claim("launcher", job_id)
    for values in environments:
        claim("environment", _environment_id(values))
    for job in queued:
        way_of_job = _match(job, run_dir.rstrip("/"), run_name)
        if way_of_job is not None:
            claim(way_of_job, job.id)
    return _best(_same_jobs(claims, queued))


def _best(claims: Mapping[str, set[Way]]) -> FoundJob | None:
    if not claims:
        return None

    def rank(job_id: str) -> tuple[int, int]:
        return min(_TIER[way] for way in claims[job_id]), -int(re.split(r"[_+]", job_id)[0])

    best, *others = sorted(claims, key=rank)
    # An engine's socket or a job's name alone says little beside a job that is really known.
    others = [job_id for job_id in others if rank(job_id)[0] < 2]
    newest = sorted(others, key=lambda job_id: -int(re.split(r"[_+]", job_id)[0]))
    return FoundJob(best, tuple(sorted(claims[best], key=lambda way: (_TIER[way], way))), tuple(newest))


def _match(job: Job, run_dir: str, run_name: str | None) -> Way | None:
    """Whether a queued job is this run's, by the paths that it was submitted with."""
    command = job.command or ""
    if any(_inside(path, run_dir) for path in (job.stdout or "", command)):
        return "queue"
    if job.comment and run_dir in (word.rstrip("/") for word in re.split(r"[\s=,;]+", job.comment)):
        return "queue"
    if _inside(job.work_dir or "", run_dir) or (run_name and run_name in (job.name, job.comment)):
        return "queue name" if not job.state.terminal else None
    return None


def _inside(path: str, directory: str) -> bool:
    """Whether ``path`` (its arguments behind it, as SLURM prints a script) is ``directory`` or lies below it."""
    return path == directory or (path.startswith(f"{directory}/") and ".." not in PurePosixPath(path).parts)


def _same_jobs(claims: dict[str, set[Way]], jobs: Iterable[Job]) -> dict[str, set[Way]]:
    """One task of an array has a number of its own besides ``4244_3``: what claims either claims the task."""
    names = {job.raw_id: job.id for job in jobs if job.raw_id and job.raw_id != job.id and JOB_ID.fullmatch(job.id)}
    merged: dict[str, set[Way]] = {}
    for job_id, ways in claims.items():
        merged.setdefault(names.get(job_id, job_id), set()).update(ways)
    return merged


def _environment_id(values: Mapping[str, str]) -> str | None:
    array, index = values.get("SLURM_ARRAY_JOB_ID"), values.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{index}" if array and index else values.get("SLURM_JOB_ID")


def _id_text(value: Any) -> str | None:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None
