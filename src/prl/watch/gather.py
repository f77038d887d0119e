"""Facts about a run, gathered from its directory, the process table of this host, its engines and SLURM. Reads only.

Every reader is bounded, so that a run of any size costs about the same, and none raises on what files hold: what could
not be read is said in ``Facts.unknown``. Engines are asked at the run's own addresses, SLURM where something points to
it; both can be left out.
"""

import contextlib
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from prl.rundir.checkpoint_states import read_checkpoints
from prl.rundir.configs import AttemptConfigs, read_configs
from prl.rundir.jobs import RunJobs, read_jobs
from prl.rundir.layout import EPISODE_INDEX, METRICS, RunLayout
from prl.rundir.locate import RunFiles, has_logs, list_attempts, locate, unread_rollouts
from prl.rundir.status import STOPPED, LauncherStatus, StatusError, load_status
from prl.rundir.tree import RunTree
from prl.watch import disk, proctable
from prl.watch.blame import tell_echoes
from prl.watch.clocks import AHEAD, newest_broadcast, progress_facts
from prl.watch.engines import Address, addresses, recorded, scrape
from prl.watch.facts import ALIVE, GONE, UNKNOWN, Facts, Launcher, Process, ProcessSearch
from prl.watch.identity import environment_servers, identity_facts, unread_documents
from prl.watch.launches import launch_facts
from prl.watch.lines import Lines, read_lines
from prl.watch.memory import memory_facts
from prl.watch.process_search import find_processes, search_result
from prl.watch.processes import ENDED, FRESH, launcher_facts, process_facts
from prl.watch.series import Metrics, read_metrics_end
from prl.watch.surroundings import Engine, Memory, SlurmJob

_DRY_RUNS = 1000
"""Attempts from the newest on that are looked at for one that ran."""


def gather(run_dir: Path, now: float | None = None, *, ask_engines: bool = True, ask_slurm: bool = True) -> Facts:
    """The facts about the newest attempt of a run, as of ``now`` (Unix seconds; default: this moment).

    ``ask_engines`` and ``ask_slurm``: whether to go beyond the directory and the process table; without them engines
    are as the run recorded them and jobs as the run directory names them.

    Files are read one after the other while the run goes on: a run that ends between two of them looks as if it had
    lost something. So where something has just been lost, all is looked at once more.
    """
    facts = _gather(run_dir, now, ask_engines=ask_engines, ask_slurm=ask_slurm)
    return _gather(run_dir, now, ask_engines=ask_engines, ask_slurm=ask_slurm) if _just_lost(facts) else facts


def _just_lost(facts: Facts) -> bool:
    launcher = facts.launcher
    if launcher is None or launcher.phase in ENDED or facts.as_of - launcher.updated > FRESH:
        return False
    states = [launcher.state, *(one.state for one in facts.processes), *(one.state for one in facts.engines)]
    return GONE in states


def _gather(run_dir: Path, now: float | None, *, ask_engines: bool, ask_slurm: bool) -> Facts:
    moment = time.time() if now is None else now
    root = run_dir.resolve()
    status, broken = _launcher_status(root, moment)
    status, attempt = _current_attempt(root, status)
    files = locate(root, attempt)
    # Processes come before logs: who has finished says so first and ends then.
    people = _processes(files, status, moment)
    lines = read_lines(files)
    configs = read_configs(root, files.attempt)
    started = _attempt_started(files, status, lines)
    since = started - 1 if started is not None and len(files.attempts) > 1 else 0.0
    run = identity_facts(files, configs, status, lines)
    metrics = _metrics(files, since)
    checkpoints = read_checkpoints(root, configs.documents, moment)
    in_short, checkpoint_states = disk.checkpoint_facts(root, checkpoints)
    jobs = _jobs(files, people, lines, moment, ask=ask_slurm)
    launch = launch_facts(files, configs, status.ports if status is not None else {}, jobs.recorded.script)
    asked = _ask_engines(configs, status, people, jobs.values) if ask_engines else []
    engines = _engines(asked, metrics, lines, moment)
    return Facts(
        as_of=moment,
        host=people.host,
        run=run,
        attempt=files.attempt,
        attempts=list(files.attempts),
        attempt_started=started,
        configured=files.resolved is not None,
        launched=bool(files.logs) or people.launcher is not None or bool(people.processes),
        env_servers=environment_servers(files),
        launcher=people.launcher,
        processes=people.processes,
        search=people.search,
        hosts=_hosts(people, launch.host if launch is not None else None, jobs.facts),
        progress=progress_facts(
            root,
            metrics,
            lines,
            people.launcher,
            checkpoint=disk.checkpoint_clock(root, checkpoints),
            since=since,
            resumed=run.resume_step,
            now=moment,
        ),
        pipeline=lines.pipeline,
        marks=lines.marks,
        broadcast=newest_broadcast(root),
        series=metrics.series,
        nonfinite=[*metrics.nonfinite, *lines.nonfinite],
        logs=lines.logs,
        errors=tell_echoes(lines.errors, people.processes, _teardown(people.launcher, lines)),
        checkpoints=in_short,
        checkpoint_states=checkpoint_states,
        disk=disk.disk_facts(root, metrics, checkpoints),
        launch=launch,
        jobs=jobs.facts,
        engines=engines,
        memory=_memory(people),
        incidents=lines.incidents,
        unknown=[
            *checkpoints.trouble,
            *_unknown(files, people, lines, broken),
            *unread_documents(files, configs),
            *metrics.unknown,
            *jobs.unknown,
        ],
    )


# ---- which attempt, and when it began


def _launcher_status(root: Path, now: float) -> tuple[LauncherStatus | None, str | None]:
    """The launcher's word, and why it cannot be read where there is one. It is no younger than its file."""
    path = RunLayout(root).status_json
    try:
        status = load_status(path)
    except StatusError as error:
        return None, str(error)
    if status is not None and status.updated > now + AHEAD:
        with contextlib.suppress(OSError):
            status.updated = min(path.stat().st_mtime, now)
    return status, None


def _current_attempt(root: Path, status: LauncherStatus | None) -> tuple[LauncherStatus | None, int | None]:
    """The attempt to judge, and the launcher's word on it.

    That is the launcher's, unless a later attempt has logs. A dry run makes a later attempt too, but writes no log.
    """
    attempts = list_attempts(root)
    later = [number for number in attempts if status is None or number > status.attempt]
    ran = next((number for number in reversed(later[-_DRY_RUNS:]) if has_logs(root, number)), None)
    if ran is not None or status is None:
        return None, ran if ran is not None else max(attempts, default=None)
    return status, status.attempt if status.attempt in attempts else (max(attempts, default=None))


def _attempt_started(files: RunFiles, status: LauncherStatus | None, lines: Lines) -> float | None:
    if status is not None:
        return status.started
    if files.configs is not None:
        try:
            return (files.configs / "command.txt").stat().st_mtime
        except OSError:
            pass
    return min((mark.time for mark in lines.marks if mark.time is not None), default=None)


def _teardown(launcher: Launcher | None, lines: Lines) -> float | None:
    """When the launcher began to end the run.

    Of a run that somebody stopped, what was said in the same second counts as after it: lines carry whole seconds, and
    there is no crash that could have come just before.
    """
    if lines.teardown is None:
        return None
    return lines.teardown - 1 if launcher is not None and launcher.phase == STOPPED else lines.teardown


def _metrics(files: RunFiles, since: float) -> Metrics:
    if files.metrics is None:
        return Metrics()
    return read_metrics_end(files.metrics, files.metrics.relative_to(files.root).as_posix(), since)


# ---- who lives


@dataclass(frozen=True)
class _People:
    """The launcher and the components, and what lives of them on this host."""

    host: str
    launcher: Launcher | None
    processes: list[Process]
    search: ProcessSearch | None

    @property
    def here(self) -> list[int]:
        """Pids of what lives on this host, the launcher's first."""
        launcher = self.launcher
        first = [launcher.pid] if launcher and launcher.state == ALIVE and launcher.host == self.host else []
        return first + [one.pid for one in self.processes if one.state == ALIVE and one.host == self.host]

    @property
    def ended(self) -> bool:
        return self.launcher is not None and self.launcher.phase in ENDED


def _processes(files: RunFiles, status: LauncherStatus | None, now: float) -> _People:
    table = proctable.read_table()
    launcher = launcher_facts(status, table, now) if status is not None else None
    known = process_facts(status, launcher, table, now) if status is not None and launcher is not None else []
    host = proctable.host_name()
    taken = [process.pid for process in known if process.host == host and process.state == ALIVE]
    taken += [launcher.pid] if launcher is not None and launcher.host == host and launcher.state == ALIVE else []
    found = find_processes(files, table, taken, now)
    search = search_result(files, found) if launcher is None else None
    return _People(host, launcher, [*known, *found], search)


def _memory(people: _People) -> Memory | None:
    return memory_facts(people.here[0]) if people.here else None


def _hosts(people: _People, launch_host: str | None, jobs: list[SlurmJob]) -> list[str]:
    told = [people.launcher.host] if people.launcher is not None else []
    told += [process.host for process in people.processes]
    told += [launch_host] if launch_host is not None else []
    told += [node.name for job in jobs[-1:] for node in job.nodes]
    return list(dict.fromkeys(told))


# ---- what it lives in


@dataclass(frozen=True)
class _Jobs:
    recorded: RunJobs
    facts: list[SlurmJob] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)


def _jobs(files: RunFiles, people: _People, lines: Lines, now: float, *, ask: bool) -> _Jobs:
    """The run's jobs. SLURM's part of the program is loaded only where something points to it."""
    recorded = read_jobs(files.root)
    environments = [_slurm_environment(pid) for pid in people.here[:2]]
    # Where a launcher speaks, the run is where it is. Where none does, it may wait in the queue or run on other hosts.
    nobody = people.launcher is None and not people.here and all(mark.kind != "trainer_done" for mark in lines.marks)
    search = ask and nobody and _has_slurm()
    if not recorded.jobs and not any(environments) and not search:
        return _Jobs(recorded)
    from prl.slurm.commands import run
    from prl.watch.jobs import Traces, job_facts

    traces = Traces(recorded, environments, files.root.name, ask_queue=search)
    found = job_facts(files, traces, now, run if ask else None)
    return _Jobs(recorded, found.jobs, found.log.values, found.unknown)


def _has_slurm() -> bool:
    places = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return any(os.access(f"{place}/squeue", os.X_OK) for place in places if place)


def _slurm_environment(pid: int) -> dict[str, str]:
    return {name: value for name, value in proctable.environment(pid).items() if name.startswith("SLURM_")}


def _ask_engines(
    configs: AttemptConfigs, status: LauncherStatus | None, people: _People, job_values: dict[str, str]
) -> list[Address]:
    """The addresses that may be asked: a loopback address is the run's only where the run's processes live."""
    if people.ended or (people.launcher is not None and people.launcher.state == GONE and not people.here):
        return []
    found = addresses(configs.documents, status.ports if status is not None else {}, job_values)
    return [address for address in found if people.here or not address.loopback]


def _engines(asked: list[Address], metrics: Metrics, lines: Lines, now: float) -> list[Engine]:
    answered = scrape(asked, now) if asked else []
    if any(engine.state == ALIVE for engine in answered):
        return answered
    return [*answered, *recorded(metrics.engines, lines.engines, metrics.source)]


# ---- what is not known


def _unknown(files: RunFiles, people: _People, lines: Lines, broken: str | None) -> list[str]:
    notes = [] if files.root.exists() else [f"the run: {files.root} is not there, or cannot be reached"]
    search, launcher = people.search, people.launcher
    if broken is not None:
        notes.append(f"processes: launcher/status.json cannot be read ({broken}), so nothing says which they are")
    elif search is not None and files.logs and not search.found:
        notes.append(f"processes: {_not_found(search)}")
    silent = [process.name for process in people.processes if process.state == UNKNOWN]
    if silent and launcher is not None:
        age = "its word is old" if launcher.state == UNKNOWN else "they run on another host"
        notes.append(f"processes {', '.join(silent)}: on {launcher.host}, which cannot be asked from here ({age})")
    notes += _why_unread(files)
    unread = unread_rollouts(files.root)
    notes += [unread] if unread else []
    skipped = [f"{log.file} ({log.skipped} bytes)" for log in lines.logs if log.skipped]
    if skipped:
        notes.append(f"the beginning of these logs was not looked at, or in part: {', '.join(skipped)}")
    notes += [f"{log.file}: {log.problem}" for log in lines.logs if log.problem]
    notes += files.trouble
    if files.logs_left_out:
        notes.append(f"{files.logs_left_out} more log files were not looked at")
    return notes


def _why_unread(files: RunFiles) -> list[str]:
    """Why there are no metrics, and what of the file monitor's could not be looked at."""
    tree, (name, *_) = RunTree(files.root), METRICS
    there = tree.stat(name) is not None or os.path.lexists(tree.path(name))
    if files.metrics is None and files.logs and not tree.trouble:
        what = "is not a regular file (a named pipe, a directory, a link to nothing)" if there else "does not exist"
        return [f"metrics: {name} {what}"]
    tree.stat(EPISODE_INDEX)
    return [trouble for trouble in tree.trouble if not trouble.startswith(f"{name}: ") or files.metrics is None]


def _not_found(search: ProcessSearch) -> str:
    where = f"this attempt has no launcher/status.json, and no process of the run was found on {search.host}"
    if search.hidden:
        return f"{where}, where another user's processes cannot be looked into"
    if search.local:
        return f"{where}, the only host that can write to its directory ({search.file_system})"
    return f"{where}; it may live on another host"
