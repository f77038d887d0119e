"""The SLURM jobs of a run: what the cluster says, how old that is, and what the job's log tells of hosts and the end.

Nothing is asked where nothing points to SLURM. Where something does, one ``squeue`` for all jobs, at most one ``sacct``
for those that left the queue, and for the newest job alone its details and its nodes, all within a few seconds
together. What was learnt is shared between commands through :class:`prl.slurm.SlurmMemory`, which also keeps the last
known state while the controller is silent.
"""

import contextlib
import dataclasses
import math
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from prl.rundir.jobs import Job as Recorded
from prl.rundir.jobs import RunJobs
from prl.rundir.locate import RunFiles
from prl.rundir.regular import open_regular
from prl.rundir.tree import RunTree
from prl.slurm.accounting import Accounting
from prl.slurm.commands import Answer, Kind, Query, Runner, Trouble, run
from prl.slurm.finding import find_job
from prl.slurm.joblog import JobLog, parse_job_log
from prl.slurm.jobs import Job
from prl.slurm.memory import SlurmMemory
from prl.slurm.nodes import query_nodes
from prl.slurm.standing import Standing
from prl.slurm.states import JobState
from prl.slurm.values import ExitCode
from prl.watch.state_dir import state_dir
from prl.watch.surroundings import RECORDED, JobNode, SlurmJob

SECONDS = 4.0
"""For all questions together; one that is late then takes up to two seconds to be ended."""
MAX_JOBS = 4
"""Jobs asked for: the newest ones."""
MAX_NODES = 64
"""Nodes of a job whose state is asked for."""

_WINDOW = 96 * 1024
"""Bytes of the beginning and of the end of a job's log that are read."""
_MEMORY = "slurm.json"
_SOCKETS = Path("/tmp")
"""Where engines on a node have sockets that are called after their job."""
_NODE_FAILURES = ("NODE_FAIL", "BOOT_FAIL")


@dataclass
class Jobs:
    """What is known of the jobs of a run."""

    jobs: list[SlurmJob] = field(default_factory=list)
    """The current one last."""
    log: JobLog = field(default_factory=JobLog)
    """That of the current one."""
    unknown: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Traces:
    """What points from a run to SLURM."""

    recorded: RunJobs
    """What lies in the run directory."""
    environments: Sequence[Mapping[str, str]] = ()
    """Of its processes on this host."""
    run_name: str | None = None
    ask_queue: bool = False
    """Whether this user's queue may be searched for it: nobody says yet where it runs."""


def job_facts(files: RunFiles, traces: Traces, now: float, runner: Runner | None = run) -> Jobs:
    """The jobs of the run. ``runner`` None: SLURM is not asked, only read about."""
    known = [job for job in traces.recorded.jobs if not job.attempts or files.attempt in (None, *job.attempts)]
    queue = _Queue(runner, now)
    ids = _ids(files, known, traces, queue)
    found = Jobs()
    if not ids:
        return found
    logs = {job.id: job.log for job in known}
    standings = queue.standings(ids)
    for job_id in ids:
        newest = job_id == ids[-1]
        standing = standings.get(job_id)
        place = _log_path(files.root, logs.get(job_id), standing)
        log, changed, last = _read_log(place) if newest and place is not None else (JobLog(), None, False)
        fact = _fact(job_id, standing, now) if standing is not None else _unasked(job_id, queue.why)
        fact = dataclasses.replace(fact, log=_name(files.root, place) if place is not None else None)
        if newest:
            found.log = log
            fact = _with_log(fact, log, changed if last else None, queue.nodes(standing))
        found.jobs.append(fact)
    if queue.why is not None and standings == {}:
        found.unknown.append(f"SLURM job {ids[-1]}: {queue.why}")
    return found


def ask_together(ids: Sequence[str], now: float, runner: Runner = run) -> None:
    """Ask SLURM of the jobs of many runs at once, so that :func:`job_facts` of each need not for half a minute."""
    if ids and (runner is not run or shutil.which("squeue") is not None):
        with contextlib.suppress(ValueError):  # one of them is no job id
            SlurmMemory(state_dir() / _MEMORY, _within(runner, time.monotonic() + SECONDS), lambda: now).standings(ids)


class _Queue:
    """SLURM within :data:`SECONDS`."""

    def __init__(self, runner: Runner | None, now: float) -> None:
        self._runner = self.why = None
        if runner is None:
            self.why = "SLURM was not asked"
        elif runner is run and shutil.which("squeue") is None:
            self.why = "squeue is not installed here"
        else:
            self._runner = _within(runner, time.monotonic() + SECONDS)
            self._memory = SlurmMemory(state_dir() / _MEMORY, self._runner, lambda: now)

    def standings(self, ids: Sequence[str]) -> dict[str, Standing]:
        if self._runner is None:
            return {}
        found = self._memory.standings(ids)
        newest = ids[-1]
        # SLURM keeps a job that has ended for some minutes, with an exit code that squeue does not tell.
        gone = found[newest].absent_since is not None
        return found if gone else {**found, newest: self._memory.details(newest)}

    def mine(self) -> tuple[Job, ...]:
        """This user's jobs in the queue."""
        return self._memory.mine().jobs if self._runner is not None else ()

    def began_before(self, job_id: str, files: RunFiles) -> bool:
        """Whether the run did something after the job began: an engine's socket may be that of any run of its owner."""
        standing = self._memory.standings([job_id])[job_id] if self._runner is not None else None
        began = standing.job.start if standing is not None and standing.job is not None else None
        written = max((log.path.stat().st_mtime for log in files.logs if log.path.is_file()), default=0.0)
        return began is not None and written > began

    def nodes(self, standing: Standing | None) -> dict[str, tuple[str, str | None]]:
        """State and reason of the nodes of a job that holds several, or lost one."""
        job = standing.job if standing is not None else None
        if self._runner is None or job is None or standing is None or standing.trouble is not None:
            return {}
        names = [name for name in job.nodes if name[:1].isalnum()][:MAX_NODES]
        if not names or not (job.state.base in _NODE_FAILURES or (job.state.holds_nodes and len(names) > 1)):
            return {}
        try:
            answer = query_nodes(names, self._runner)
        except ValueError:  # a list of nodes that this reader does not understand
            return {}
        return {node.name: (node.state, node.reason or node.sign) for node in answer.nodes}


def _within(runner: Runner, deadline: float) -> Runner:
    """The runner with what is left of the time for each question."""

    def ask(query: Query) -> Answer:
        left = deadline - time.monotonic()
        if left < 0.1:
            return Answer("", Trouble(Kind.TIMED_OUT, "no time was left to ask", query.argv[0]), time.time())
        return runner(dataclasses.replace(query, seconds=min(query.seconds, left)))

    return ask


def _ids(files: RunFiles, known: Sequence[Recorded], traces: Traces, queue: _Queue) -> list[str]:
    """The ids of the run's jobs, the current one last."""
    ids = [job.id for job in known]
    search = not ids and not any(values.get("SLURM_JOB_ID") for values in traces.environments) and traces.ask_queue
    current = find_job(
        str(files.root),
        run_name=traces.run_name,
        # A task of an array that is known by its own number is not another job by its name.
        environments=[
            {"SLURM_JOB_ID": values["SLURM_JOB_ID"]} if values.get("SLURM_JOB_ID") in ids else values
            for values in traces.environments
        ],
        log_names=[Path(job.log).name for job in known[-1:] if job.log],
        socket_names=_sockets(files.root) if search else (),
        jobs=queue.mine() if search else (),
    )
    if current is not None and current.ways == ("engine socket",) and not queue.began_before(current.id, files):
        current = None
    if current is not None:
        ids = [*(job_id for job_id in ids if job_id != current.id), current.id]
    return ids[-MAX_JOBS:]


def _sockets(root: Path) -> list[str]:
    """Sockets of engines on this host that belong to whoever owns the run, where all are of one job."""
    try:
        owner = root.stat().st_uid
        own = [path.name for path in _SOCKETS.glob("vllm-rpc-*") if path.lstat().st_uid == owner]
    except OSError:
        return []
    return own if len({name.split("-")[-2] for name in own if name.count("-") > 2}) == 1 else []


def _fact(job_id: str, standing: Standing, now: float) -> SlurmJob:
    job, past = standing.job, standing.accounting
    state = _state(standing)
    exit_code = _exit_code(standing)
    trouble = standing.trouble or (standing.accounting_trouble if standing.absent_since is not None else None)
    said = job or Job(job_id, state or JobState("UNKNOWN"))
    over = state is not None and state.terminal
    return SlurmJob(
        id=job_id,
        state=state.base if state is not None and state.known else "UNKNOWN",
        as_of=None if standing.age is None else now - standing.age,
        source="sacct" if past is not None and standing.absent_since is not None else "squeue",
        flags=sorted(state.flags) if state is not None else [],
        raw_state=state.raw if state is not None else None,
        name=said.name,
        reason=said.reason or None,
        reason_text=said.explained.plain if said.explained is not None else None,
        restarts=said.restarts,
        submitted=_finite(said.submitted),
        started=_finite(past.start if past is not None and past.start is not None else said.start),
        ended=_ended(standing, past) if over or standing.over else None,
        time_limit=_finite(said.time_limit),
        time_left=_finite(said.time_left),
        exit_code=exit_code.status if exit_code is not None else None,
        signal=exit_code.signal or None if exit_code is not None else None,
        step_failure=past.step_failure if past is not None else None,
        work_dir=said.work_dir,
        script=said.command,
        nodes=[JobNode(name, "UNKNOWN") for name in said.nodes[:MAX_NODES]],
        batch_host=said.batch_host,
        problem=_problem(standing, trouble),
    )


def _exit_code(standing: Standing) -> ExitCode | None:
    """Accounting's, or the queue's where it is the same whole: accounting takes 128 off a high status."""
    queued = standing.job.exit if standing.job is not None else None
    past = standing.accounting.exit if standing.accounting is not None else None
    if past is None or (queued is not None and queued == ExitCode(past.status + 128, past.signal)):
        return queued
    return past


def _state(standing: Standing) -> JobState | None:
    """The state that stands; None: over, and nobody says how, or never heard of."""
    job, past = standing.job, standing.accounting
    if standing.absent_since is None:
        return job.state if job is not None else None
    if past is not None:
        return past.state
    if job is not None and (job.state.terminal or standing.phase == "requeued"):
        return job.state
    return None


def _ended(standing: Standing, past: Accounting | None) -> float | None:
    if past is not None and past.end is not None:
        return _finite(past.end)
    job = standing.job
    if standing.absent_since is None:
        return _finite(job.end) if job is not None else None
    return standing.absent_since


def _problem(standing: Standing, trouble: Trouble | None) -> str | None:
    if standing.phase in ("gone", "unknown"):
        return standing.plain
    return str(trouble) if trouble is not None else None


def _unasked(job_id: str, why: str | None) -> SlurmJob:
    return SlurmJob(id=job_id, state="UNKNOWN", as_of=None, source=RECORDED, problem=why)


def _with_log(
    fact: SlurmJob, log: JobLog, grace_since: float | None, nodes: Mapping[str, tuple[str, str | None]]
) -> SlurmJob:
    """With what the job's log says of hosts, restarts and nodes held, and SLURM of the nodes."""
    roles = log.roles
    names = list(dict.fromkeys([*(node.name for node in fact.nodes), *roles]))[:MAX_NODES]
    held = log.grace if log.holding else None
    return dataclasses.replace(
        fact,
        nodes=[_node(name, nodes.get(name), roles.get(name, ())) for name in names],
        restarts=max((count for count in (fact.restarts, log.restarts or None) if count is not None), default=None),
        grace_since=grace_since if held is not None else None,
        grace_seconds=float(held.seconds) if held is not None else None,
    )


def _node(name: str, said: tuple[str, str | None] | None, roles: Iterable[str]) -> JobNode:
    state, reason = said or ("UNKNOWN", None)
    return JobNode(name, state.upper(), reason, " ".join(roles) or None)


def _log_path(root: Path, recorded: str | None, standing: Standing | None) -> Path | None:
    if recorded is not None:
        return RunTree(root).path(recorded)
    job = standing.job if standing is not None else None
    return Path(job.stdout) if job is not None and job.stdout is not None and job.stdout.startswith("/") else None


def _read_log(path: Path) -> tuple[JobLog, float | None, bool]:
    """What a job's log says, when it was last written to, and whether the line about grace is its last."""
    try:
        with open_regular(path) as file:
            changed, size = path.stat().st_mtime, path.stat().st_size
            data = file.read(_WINDOW)
            if size > 2 * _WINDOW:
                file.seek(size - _WINDOW)
                data = data[: data.rfind(b"\n") + 1] + file.read(_WINDOW).partition(b"\n")[2]
            else:
                data += file.read(_WINDOW)
    except OSError:
        return JobLog(), None, False
    lines = data.decode(errors="replace").rstrip("\n").split("\n")
    log = parse_job_log(lines)
    return log, changed, log.grace is not None and log.grace.line == len(lines) - 1


def _name(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
