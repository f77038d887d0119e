"""What must hold before a run is started again, each from the facts alone.

A run has one launcher and is started as a whole, so nothing of the old attempt may live: processes of two attempts
would write the same files. None of this is changed here. What would change it is told, for a person to do.
"""

from collections.abc import Iterator

from prl.slurm.states import ENDED
from prl.text.human import format_bytes, format_duration
from prl.watch.conditions import FAILS, HOLDS, UNKNOWN, Condition
from prl.watch.facts import ALIVE, Facts, Process
from prl.watch.facts import UNKNOWN as NOT_KNOWN
from prl.watch.launch_site import LaunchSite
from prl.watch.surroundings import CheckpointFact, SlurmJob
from prl.watch.thresholds import Thresholds
from prl.watch.verdict import CRITICAL, STOPPED, Evidence, Finding, Verdict

_OUTSIDE = {
    "PREEMPTED": "the job was preempted",
    "NODE_FAIL": "a node of the job failed",
    "TIMEOUT": "the job reached its time limit",
    "BOOT_FAIL": "a node of the job did not boot",
}
"""Ends that say nothing against the run itself."""
_MANY = 20
"""Checkpoints for which there is room, from which on their number does not matter."""
_WITHOUT_CURE = ("process", "progress", "startup")
"""Areas of rules that tell what stands still or is gone. What is advised with them is the restart itself."""


def job_is_over(job: SlurmJob) -> bool | None:
    """Whether SLURM will run it no more; None: not known."""
    if job.state == "UNKNOWN":
        return True if job.ended is not None else None
    if job.waits_again:
        return False
    if job.state == "PREEMPTED" and job.ended is None:
        return None  # it may come back, where preempted jobs are requeued
    return (job.state in ENDED or job.ended is not None) and "COMPLETING" not in job.flags


def processes_gone(facts: Facts) -> Condition:
    """Nothing of the old attempt lives."""
    name, launcher = "processes gone", facts.launcher
    alive = [process for process in facts.processes if process.state == ALIVE]
    launching = launcher is not None and launcher.state == ALIVE
    if alive or launching:
        return Condition(name, FAILS, _who_lives(facts, alive), _process_evidence(alive), _how_to_end(facts))
    if facts.jobs and job_is_over(facts.jobs[-1]):
        job = facts.jobs[-1]
        return Condition(name, HOLDS, f"what ran of it ended with job {job.id}", [_job_evidence(job)])
    silent = [process for process in facts.processes if process.state == NOT_KNOWN]
    if silent or (launcher is not None and launcher.state == NOT_KNOWN):
        hosts = sorted({process.host for process in silent} | ({launcher.host} if launcher is not None else set()))
        return Condition(
            name,
            UNKNOWN,
            f"processes on {', '.join(hosts)} cannot be asked from {facts.host}",
            _process_evidence(silent),
            f"look there: prl status {facts.run.name} on {hosts[0]}, or ps -ef | grep -E 'PRL::|PRIME-RL::'",
        )
    return _searched(facts) if launcher is None else Condition(name, HOLDS, _all_ended(facts))


def job_ended(facts: Facts) -> Condition | None:
    """The SLURM job does not run, and will not start the run by itself. None: the run has no job."""
    name, running = "job ended", [job for job in facts.jobs if job_is_over(job) is not True]
    if not facts.jobs:
        return None
    if not running:
        job = facts.jobs[-1]
        return Condition(name, HOLDS, f"job {job.id} is over: {job.raw_state or job.state}", [_job_evidence(job)])
    evidence = [_job_evidence(job) for job in running]
    known = [job for job in running if job_is_over(job) is False]
    if not known:
        return Condition(
            name,
            UNKNOWN,
            f"SLURM does not say how job {running[-1].id} stands",
            evidence,
            f"squeue -j {running[-1].id} tells, where SLURM answers",
        )
    jobs = " and ".join(f"{job.id} ({job.raw_state or job.state})" for job in known)
    state = f"SLURM has {'job' if len(known) == 1 else 'jobs'} {jobs}"
    if any(job.as_of is not None and facts.as_of - job.as_of > 120 for job in known):
        oldest = max(facts.as_of - job.as_of for job in known if job.as_of is not None)
        state += f", as it said {format_duration(oldest)} ago"
    return Condition(name, FAILS, state, evidence, f"end it first: {cancel_line(known)}")


def cancel_line(jobs: list[SlurmJob]) -> str:
    return f"scancel {' '.join(job.id for job in jobs)}"


def checkpoint_complete(
    facts: Facts, chosen: CheckpointFact | None, before: int | None, source: str = "checkpoints"
) -> Condition:
    """There is a complete checkpoint to go on from. ``before``: the step from which values were not numbers."""
    name, states = "checkpoint complete", facts.checkpoint_states
    others = [one for one in states if one.state != "complete"]
    left_out = "".join(f"; step {one.step} is {one.state} and is not used" for one in others[-3:])
    sound = f"; later ones hold what was not a number from step {before} on" if before is not None else ""
    if chosen is not None:
        size = f", {format_bytes(chosen.bytes)}" if chosen.bytes else ""
        text = f"the newest complete one is of step {chosen.step}{size}{sound}{left_out}"
        return Condition(name, HOLDS, text, [_checkpoint_evidence(chosen)])
    evidence = [_checkpoint_evidence(one) for one in others]
    if facts.checkpoints.problem is not None:
        text = f"whether there is a complete one is not known: {facts.checkpoints.problem}{sound}{left_out}"
        return Condition(name, UNKNOWN, text, evidence, "look where it can be read, as whoever may read it")
    return Condition(
        name,
        FAILS,
        f"there is no complete checkpoint to go on from{sound}{left_out}",
        evidence or [Evidence(source, "no complete checkpoint")],
        "the run can only begin anew",
    )


def disk_space(facts: Facts, chosen: CheckpointFact | None, limits: Thresholds) -> Condition:
    """The disk takes at least one more checkpoint."""
    name, disk = "disk space", facts.disk
    if disk is None:
        return Condition(name, UNKNOWN, "the file system of the run directory cannot be asked", action="df -h")
    needed = chosen.bytes if chosen is not None else 0
    least = max(limits.host.disk_least, limits.host.disk_share * disk.total)
    room = f"{format_bytes(disk.free)} of {format_bytes(disk.total)} are free"
    evidence = [Evidence(disk.path, room, time=facts.as_of)]
    if disk.free < max(needed, least):
        need = f"; a checkpoint takes {format_bytes(needed)}" if needed else ""
        return Condition(name, FAILS, f"only {room}{need}", evidence, "free space there first")
    number = disk.free // needed if needed else _MANY
    few = f", room for {number} more checkpoints of {format_bytes(needed)}" if number < _MANY else ""
    return Condition(name, HOLDS, f"{room}{few}", evidence)


def ports_free(facts: Facts, site: LaunchSite) -> Condition | None:
    """Nobody else listens where the run did. None: it listens nowhere, or inside a job, on whatever host that gets."""
    name, launch = "ports free", facts.launch
    if launch is None or not launch.ports or facts.jobs:
        return None
    ports = ", ".join(map(str, launch.ports))
    if not site.looked:
        where = launch.host or "its host"
        return Condition(name, UNKNOWN, f"ports {ports} of {where} cannot be looked at from {facts.host}")
    if not site.listening:
        return Condition(name, HOLDS, f"nobody listens on {ports}")
    taken = ", ".join(f"{port} by {who}" for port, who in site.listening.items())
    evidence = [Evidence(f"port {port} on {facts.host}", who) for port, who in site.listening.items()]
    if any(process.state == ALIVE for process in facts.processes):
        return Condition(name, FAILS, f"taken: {taken}", evidence, "free once the processes of the run are gone")
    return Condition(
        name,
        UNKNOWN,
        f"taken: {taken}",
        evidence,
        "the launcher moves to free ports, but refuses to start where the configuration fixes one of these",
    )


def place_is_there(facts: Facts, site: LaunchSite) -> Condition:
    """Working directory, interpreter and configuration files exist."""
    name, launch = "place is there", facts.launch
    if launch is None or launch.cwd is None:
        text = "no record says in which directory the command was typed"
        return Condition(name, UNKNOWN, text, action="type it in the directory from which the files it names are found")
    evidence = [Evidence(launch.source, f"cwd {launch.cwd}")] if launch.source else []
    if not site.looked:
        text = f"{launch.cwd} on {launch.host} cannot be looked at from {facts.host}"
        return Condition(name, UNKNOWN, text, evidence)
    if site.missing:
        text = f"not there any more: {', '.join(site.missing)}"
        return Condition(name, FAILS, text, evidence, "bring it back, or type the command where it is now")
    changed = f"; changed since the launch: {', '.join(site.changed)}" if site.changed else ""
    return Condition(name, HOLDS, f"{launch.cwd} and what the command names exist{changed}", evidence)


def cause_removed(facts: Facts, verdict: Verdict, disk: Condition) -> Condition:
    """What ended the run, or holds it up, will not do so again."""
    name, job = "cause removed", facts.jobs[-1] if facts.jobs else None
    if verdict.phase == STOPPED and _critical(verdict) is None:
        return Condition(name, HOLDS, f"it was stopped on purpose ({verdict.reason or 'by a signal'})")
    if job is not None and job.state in _OUTSIDE:
        return Condition(name, HOLDS, f"{_OUTSIDE[job.state]}, which is no fault of the run", [_job_evidence(job)])
    finding = _critical(verdict)
    if finding is None:
        text = "nothing that was found says why it would have to be restarted"
        return Condition(name, UNKNOWN, text)
    cause = finding.cause or finding.message
    if finding.rule == "disk.full" and disk.state == HOLDS:
        return Condition(name, HOLDS, f"{cause}: {disk.text}", finding.evidence[:3])
    return Condition(
        name,
        FAILS if finding.rule == "disk.full" and disk.state == FAILS else UNKNOWN,
        f"{finding.rule}: {cause}",
        finding.evidence[:3],
        _cure(facts, finding),
    )


def _cure(facts: Facts, finding: Finding) -> str:
    """What is known to help against the failure that the finding rests on, or what the rule says."""
    named = {(one.source, one.offset) for one in finding.evidence}
    fatal = next((one for one in facts.incidents if (one.file, one.offset) in named), None)
    told = fatal.fix if fatal is not None else finding.action
    if fatal is None and finding.rule.partition(".")[0] in _WITHOUT_CURE:
        told = None
    helps = f": {told}" if told and told not in (finding.cause or "") else ""
    return f"nothing records whether it is removed, and if not the run ends the same way{helps}"


def _critical(verdict: Verdict) -> Finding | None:
    return next((finding for finding in verdict.findings if finding.severity == CRITICAL), None)


def _who_lives(facts: Facts, alive: list[Process]) -> str:
    return "these live: " + ", ".join(_living(facts, alive))


def _living(facts: Facts, alive: list[Process]) -> Iterator[str]:
    launcher = facts.launcher
    if launcher is not None and launcher.state == ALIVE:
        yield f"launcher (pid {launcher.pid} on {launcher.host})"
    for process in alive:
        yield f"{process.name} (pid {process.pid} on {process.host})"


def _process_evidence(processes: list[Process]) -> list[Evidence]:
    return [
        Evidence(f"process {one.pid} on {one.host}", f"{one.name}: {one.state}", time=one.as_of) for one in processes
    ]


def _how_to_end(facts: Facts) -> str:
    """What ends an attempt. A launcher that lives ends its components itself; where none lives each must be ended."""
    active = [job for job in facts.jobs if job_is_over(job) is False]
    if active:
        return f"they end with the job: {cancel_line(active)}"
    launcher = facts.launcher
    if launcher is not None and launcher.state == ALIVE:
        return f"on {launcher.host}: kill -TERM {launcher.pid} (the launcher ends its components)"
    by_host: dict[str, list[str]] = {}
    for process in facts.processes:
        if process.state == ALIVE:
            by_host.setdefault(process.host, []).append(str(process.pid))
    return "; ".join(f"on {host}: kill -TERM {' '.join(pids)}" for host, pids in by_host.items())


def _all_ended(facts: Facts) -> str:
    launcher, number = facts.launcher, len(facts.processes)
    assert launcher is not None
    return f"launcher (pid {launcher.pid} on {launcher.host}) and its {number} components have ended"


def _searched(facts: Facts) -> Condition:
    name, search = "processes gone", facts.search
    if search is not None and search.local and not search.hidden:
        return Condition(name, HOLDS, f"no process of the run is on {search.host}, the only host that it can be on")
    return Condition(
        name,
        UNKNOWN,
        "no record says which processes the run has, and they may be on another host",
        action="look on its hosts: ps -ef | grep -E 'PRL::|PRIME-RL::'",
    )


def _checkpoint_evidence(one: CheckpointFact) -> Evidence:
    return Evidence(one.path, one.problem or one.state, step=one.step, time=one.changed or None)


def _job_evidence(job: SlurmJob) -> Evidence:
    return Evidence(job.source, f"job {job.id}: {job.raw_state or job.state}", time=job.as_of)
