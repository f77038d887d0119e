"""Rules about processes: who is gone, how the run ended, and whether the end is what it claims to be."""

from prl.rundir import status
from prl.watch.facts import ALIVE, GONE
from prl.watch.phases import FAILURES
from prl.watch.rules.base import (
    Rule,
    cause_evidence,
    end_evidence,
    error_evidence,
    how_it_ended,
    restart,
    what_broke,
)
from prl.watch.verdict import CRITICAL, FAILED, FAILING, FINISHED, LIVE, WARNING, Evidence, Finding
from prl.watch.view import View

_NO_END = (status.STARTING, status.RUNNING, status.STOPPING)
_MAX_LOGS = 3


def component_gone(view: View) -> Finding | None:
    """A component is no more while the run needs it.

    Needs: the launcher's `launcher/status.json` and, on the same host, the process table; for runs without it a search
    of the process table of the only host that can write to the run directory.
    Speaks: when a process ended or is unknown to the system under its pid and start time while others live: the trainer
    or the orchestrator without the finish line in its log, any other one before both have finished. The process that
    ended first is named, unless its log only tells of lost connections while another that ended with it has a cause of
    its own.
    Silent: when a worker wrote its finish line and ended with 0, and for servers once the work is done.
    """
    if not view.lost:
        return _component_missing(view)
    if view.facts.launcher and view.facts.launcher.state == GONE:
        return None
    first = view.culprit or view.lost[0]
    # Once the launcher ends the rest, that others are gone is its doing.
    stopping = view.facts.launcher is not None and view.facts.launcher.phase == status.STOPPING
    others = [] if stopping else [process for process in view.lost if process is not first]
    also = f"; also no more: {', '.join(process.name for process in others)}" if others else ""
    return Finding(
        rule="process.component-gone",
        severity=CRITICAL,
        message=f"{first.name} {how_it_ended(first)} while the run needs it{_in_its_words(view)}{also}",
        evidence=[end_evidence(process) for process in (first, *others)] + cause_evidence(view),
        cause=_cause(view, first.log),
        action=restart(view),
    )


def _component_missing(view: View) -> Finding | None:
    """The same of a run that no launcher speaks of."""
    search = view.facts.search
    if not view.missing or search is None:
        return None
    words = view.last_words
    names = " and ".join(view.missing)
    return Finding(
        rule="process.component-gone",
        severity=CRITICAL,
        message=f"{names} of this run {'have' if len(view.missing) > 1 else 'has'} no process while others live",
        evidence=[
            Evidence(
                f"processes on {search.host}", f"{search.found} of the run, none of {names}", time=view.facts.as_of
            )
        ]
        + ([error_evidence(words)] if words else []),
        cause=f"{words.component}: {words.summary}" if words else None,
        action=restart(view),
    )


def run_failed(view: View) -> Finding | None:
    """The run ended with an error.

    Needs: the launcher's last word, or (runs without `launcher/status.json`) a crash header in the log of trainer,
    orchestrator or inference that no progress followed.
    Speaks: with exit codes and the earliest primary error. Secondary, and never the cause: the launcher's and
    torchrun's lines about a component, SLURM's wrappers, lost connections around the end of a process, and whatever
    is said within 90 s after one ended badly.
    Silent: when the run was stopped by a signal: the reason is then given with the verdict.
    """
    launcher = view.facts.launcher
    if launcher is not None and launcher.phase != status.FAILED:
        return None
    if launcher is None:
        if view.last_words is None or view.work_done:
            return None
        crash = view.last_words
        message = f"{crash.component} crashed: {crash.summary}"
        return Finding(
            rule="process.run-failed",
            severity=CRITICAL,
            message=message,
            evidence=_with(error_evidence(crash), cause_evidence(view)),
            cause=_cause(view, crash.file) if view.root_incident is not None else crash.summary,
            action=restart(view),
        )
    # A process without an exit code was ended by whoever cleaned up; the launcher's own word says why.
    process = view.culprit if view.culprit is not None and view.culprit.exit_code is not None else None
    said = launcher.reason or "no reason was recorded"
    how = f"{process.name} {how_it_ended(process)}{_in_its_words(view)}" if process is not None else said
    code = f" (launcher's exit code {launcher.exit_code})" if launcher.exit_code is not None else ""
    evidence = [end_evidence(process)] if process is not None else []
    evidence.append(Evidence(launcher.source, f"phase failed: {said}", time=launcher.ended or launcher.updated))
    return Finding(
        rule="process.run-failed",
        severity=CRITICAL,
        message=f"The run failed{code}: {how}",
        evidence=evidence + cause_evidence(view),
        cause=_cause(view, process.log) if process is not None else said,
        action=restart(view),
    )


def launcher_gone(view: View) -> Finding | None:
    """The launcher is no more and recorded no end.

    Needs: `launcher/status.json` written on this host.
    Speaks: when no process has the launcher's pid and start time although its last word was starting, running or
    stopping; the processes that still live are named with their pids.
    Silent: on other hosts (a launcher there that has not written for 30 s makes the health Unknown), and when both
    workers wrote their finish lines.
    """
    launcher = view.facts.launcher
    if launcher is None or launcher.state != GONE or launcher.phase not in _NO_END:
        return None
    left = [process for process in view.facts.processes if process.state == ALIVE]
    names = ", ".join(f"{process.name} (pid {process.pid})" for process in left)
    rest = f"; still alive without it: {names}" if left else "; none of its processes is alive"
    return Finding(
        rule="process.launcher-gone",
        severity=CRITICAL,
        message=f"The launcher (pid {launcher.pid} on {launcher.host}) is gone and recorded no end{rest}",
        evidence=[
            Evidence(launcher.source, f"phase {launcher.phase}, last written then", time=launcher.updated),
            Evidence(f"process {launcher.pid} on {launcher.host}", "no such process with that start time"),
            *cause_evidence(view),
        ],
        cause=_cause(view, "logs/latest/launcher.log")
        if view.cause or view.root_incident
        else _end_of_job(view) or "it was killed, or its host was restarted",
        action=(f"End what is left: kill {' '.join(str(process.pid) for process in left)}. " if left else "")
        + restart(view),
    )


def _end_of_job(view: View) -> str | None:
    """What ended the launcher where its job has failed: all processes of a job end with it."""
    job = view.job
    return f"job {job.id} ended as {job.state}" if job is not None and job.state in FAILURES else None


def stopped(view: View) -> Finding | None:
    """A process of the run is held by the system: it lives and does nothing.

    Needs: the process table of the host that the run's processes live on.
    Speaks: at once when a process of the run, or one that descends from it, is in state T (SIGSTOP, a debugger) while
    the run should be running, with the pids and the command that lets them go on.
    Silent: on other hosts and after the end.
    """
    held = {pid: process for process in view.facts.processes for pid in process.stopped}
    if not held:
        return None
    named = ", ".join(f"{process.name} (pid {pid})" for pid, process in held.items())
    return Finding(
        rule="process.stopped",
        severity=WARNING,
        message=f"Stopped by a signal, alive but doing nothing: {named}",
        evidence=[
            Evidence(f"process {pid} on {process.host}", "state T (stopped)", time=process.as_of)
            for pid, process in held.items()
        ],
        cause="somebody sent SIGSTOP, or a debugger holds it",
        action=f"Let it go on: kill -CONT {' '.join(map(str, held))}",
    )


def hidden_failure(view: View) -> Finding | None:
    """The run claims success and is none.

    Needs: the logs of trainer and orchestrator.
    Speaks: when the launcher recorded success but a worker never wrote its finish line, or the orchestrator's
    shutdown was cut off and it left with exit code 0.
    Silent: when a log cannot be read, or was read in part and that part holds none of the worker's own lines: nothing
    is then said of it.
    """
    launcher = view.facts.launcher
    if launcher is not None:
        if launcher.phase != status.FINISHED:
            return None
        missing = view.unfinished_workers
    else:
        missing = ["orchestrator"] if view.work_done and view.facts.mark("forced_exit") else []
    if not missing:
        return None
    forced = view.facts.mark("forced_exit")
    evidence = [
        Evidence(log.file, "no finish line", offset=log.size)
        for log in view.facts.logs
        if log.component in missing and not (forced and log.component == "orchestrator")
    ]
    if forced:
        evidence.append(Evidence(forced.file, forced.text, offset=forced.offset, time=forced.time))
    return Finding(
        rule="process.hidden-failure",
        severity=CRITICAL,
        message=f"The run claims success (exit code 0), but {' and '.join(missing)} never wrote the finish line",
        evidence=evidence + cause_evidence(view),
        cause=_cause(view, f"logs/latest/{missing[0]}.log"),
        action="Do not trust the exit code: read the named log and check the last checkpoint before using the result.",
    )


def _in_its_words(view: View) -> str:
    """What was said of the failure that began it: an entry of STATUS.md has this sentence alone."""
    known, cause = view.root_incident, view.cause
    if known is not None:
        return f" ({known.component}: {known.text})"
    return f" ({cause.component}: {cause.summary})" if cause is not None and cause.fatal else ""


def _cause(view: View, log: str) -> str:
    known = view.root_incident
    if known is None:
        return _said_cause(view, log)
    # A line at ERROR in the same log may only report what the known failure is.
    own = view.cause is not None and view.cause.file == known.file and view.cause.fatal
    return what_broke(view, _said_cause(view, log) if own else None) or _said_cause(view, log)


def _said_cause(view: View, log: str) -> str:
    cause, process = view.cause, view.culprit
    if cause is not None and (cause.fatal or process is None or not process.reason):
        return f"{cause.component}: {cause.summary}"
    if process is not None and process.reason:
        return f"{process.name}: {process.reason}"
    if process is not None and process.exit_code == -9:
        memory = view.facts.memory
        counted = memory.oom_kills if memory is not None else None
        kills = f" (its control group counts {counted} such kills since it was made)" if counted else ""
        return f"killed from outside, or by the kernel for want of memory{kills}; its log says nothing of it"
    return f"not known: no primary error was found; read the end of {log}"


def vanished(view: View) -> Finding | None:
    """No process of the run is left, and nothing recorded its end.

    Needs: a run without `launcher/status.json`, whose directory lies on a disk that only this host can write to, and
    the process table.
    Speaks: when no process of the run exists, trainer and orchestrator never wrote their finish lines, and no crash
    header says why.
    Silent: on file systems that other hosts share, where processes of the directory's owner cannot be looked into,
    and when a SLURM job of the run lives.
    """
    search = view.facts.search
    if search is None or not view.vanished or view.work_done or view.last_words is not None:
        return None
    unfinished = " and ".join(worker for worker in view.workers if not view.finished(worker))
    return Finding(
        rule="process.vanished",
        severity=CRITICAL,
        message=f"No process of the run is left on {search.host}, and {unfinished} never wrote the finish line",
        evidence=[
            Evidence(f"processes on {search.host}", "none belongs to this run directory", time=view.facts.as_of),
            *(Evidence(log.file, "no finish line", offset=log.size) for log in view.facts.logs[:_MAX_LOGS]),
        ],
        cause="it was killed, or its host was restarted",
        action=restart(view),
    )


def lingering(view: View) -> Finding | None:
    """The run has finished and some of its processes live on.

    Needs: the process table of the run's host, or the launcher's fresh word.
    Speaks: when the run finished more than {jobs.holding:.0f} s ago and processes of it are alive: they hold devices,
    ports and memory.
    Silent: before that (servers are ended after the workers), and where processes cannot be seen.
    """
    ended = _finished_at(view)
    left = [process for process in view.facts.processes if process.state == ALIVE]
    if not left or ended is None or view.facts.as_of - ended <= view.limits.jobs.holding:
        return None
    named = ", ".join(f"{process.name} (pid {process.pid} on {process.host})" for process in left)
    return Finding(
        rule="process.lingering",
        severity=WARNING,
        message=f"The run has finished, but these processes live on: {named}",
        evidence=[Evidence(f"process {process.pid} on {process.host}", process.title) for process in left],
        cause="they were not told to end, or do not heed it",
        action=f"When the result is safe, end them by their pids: kill {' '.join(str(one.pid) for one in left)}",
    )


def _finished_at(view: View) -> float | None:
    launcher = view.facts.launcher
    if launcher is not None and launcher.ended is not None:
        return launcher.ended
    marks = [view.facts.mark(f"{worker}_done", worker) for worker in view.workers]
    return max((mark.time for mark in marks if mark is not None and mark.time is not None), default=None)


def _with(first: Evidence, others: list[Evidence]) -> list[Evidence]:
    return [first, *(one for one in others if (one.source, one.offset) != (first.source, first.offset))]


RULES = (
    Rule("process.component-gone", component_gone, (FAILING,)),
    Rule("process.run-failed", run_failed, (FAILED,)),
    Rule("process.launcher-gone", launcher_gone, (FAILING, FAILED)),
    Rule("process.vanished", vanished, (FAILED,)),
    Rule("process.stopped", stopped, LIVE, explains=("startup", "progress", "inference", "loop", "episodes")),
    Rule("process.hidden-failure", hidden_failure, (FINISHED, FAILED)),
    Rule("process.lingering", lingering, (FINISHED,)),
)
