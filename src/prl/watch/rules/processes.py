"""Rules about processes: who is gone, how the run ended, and whether the end is what it claims to be."""

from prl.rundir import status
from prl.watch.facts import ALIVE, GONE
from prl.watch.rules.base import Rule, end_evidence, error_evidence, how_it_ended, restart
from prl.watch.verdict import (
    CRITICAL,
    DRAINING,
    FAILED,
    FAILING,
    FINISHED,
    RUNNING,
    STARTING,
    WARNING,
    Evidence,
    Finding,
)
from prl.watch.view import View


def component_gone(view: View) -> Finding | None:
    """A component ended while the run needs it and its launcher still lives."""
    if view.phase != FAILING or not view.lost or (view.facts.launcher and view.facts.launcher.state == GONE):
        return None
    first = view.culprit or view.lost[0]
    # Once the launcher ends the rest, that others are gone is its doing.
    stopping = view.facts.launcher is not None and view.facts.launcher.phase == status.STOPPING
    others = [] if stopping else [process for process in view.lost if process is not first]
    also = f"; also no more: {', '.join(process.name for process in others)}" if others else ""
    return Finding(
        rule="process.component-gone",
        severity=CRITICAL,
        message=f"{first.name} {how_it_ended(first)} while the run needs it{also}",
        evidence=[end_evidence(process) for process in (first, *others)] + _cause_evidence(view),
        cause=_cause(view, first.log),
        action=restart(view),
    )


def run_failed(view: View) -> Finding | None:
    """The run ended with an error."""
    launcher = view.facts.launcher
    if view.phase != FAILED or (launcher is not None and launcher.phase != status.FAILED):
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
            evidence=[error_evidence(crash)],
            cause=crash.summary,
            action=restart(view),
        )
    # A process without an exit code was ended by whoever cleaned up; the launcher's own word says why.
    process = view.culprit if view.culprit is not None and view.culprit.exit_code is not None else None
    said = launcher.reason or "no reason was recorded"
    how = f"{process.name} {how_it_ended(process)}" if process is not None else said
    code = f" (launcher's exit code {launcher.exit_code})" if launcher.exit_code is not None else ""
    evidence = [end_evidence(process)] if process is not None else []
    evidence.append(Evidence(launcher.source, f"phase failed: {said}", time=launcher.ended))
    return Finding(
        rule="process.run-failed",
        severity=CRITICAL,
        message=f"The run failed{code}: {how}",
        evidence=evidence + _cause_evidence(view),
        cause=_cause(view, process.log) if process is not None else said,
        action=restart(view),
    )


def launcher_gone(view: View) -> Finding | None:
    """The launcher is gone and recorded no end."""
    launcher = view.facts.launcher
    if (
        launcher is None
        or launcher.state != GONE
        or launcher.phase
        not in (
            status.STARTING,
            status.RUNNING,
            status.STOPPING,
        )
    ):
        return None
    if view.phase == FINISHED:
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
            *_cause_evidence(view),
        ],
        cause=view.cause.summary if view.cause else "it was killed, or its host was restarted",
        action=(f"End the processes that are left by their pids ({names}), then go on. " if left else "")
        + restart(view),
    )


def stopped(view: View) -> Finding | None:
    """A process of a run that should be running is held by the system: it lives and does nothing."""
    if view.phase not in (STARTING, RUNNING, DRAINING):
        return None
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
    """Everything claims success, but a worker never said that it had finished."""
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
        evidence=evidence + _cause_evidence(view),
        cause=_cause(view, f"logs/latest/{missing[0]}.log"),
        action="Do not trust the exit code: read the named log and check the last checkpoint before using the result.",
    )


def _cause(view: View, log: str) -> str:
    cause, process = view.cause, view.culprit
    if cause is not None and (cause.fatal or process is None or not process.reason):
        return f"{cause.component}: {cause.summary}"
    if process is not None and process.reason:
        return f"{process.name}: {process.reason}"
    if process is not None and process.exit_code == -9:
        return "killed from outside, or by the kernel for want of memory; its log says nothing of it"
    return f"not known: no primary error was found; read the end of {log}"


def _cause_evidence(view: View) -> list[Evidence]:
    return [error_evidence(view.cause)] if view.cause is not None else []


RULES = (
    Rule("process.component-gone", component_gone),
    Rule("process.run-failed", run_failed),
    Rule("process.launcher-gone", launcher_gone),
    Rule("process.stopped", stopped),
    Rule("process.hidden-failure", hidden_failure),
)
