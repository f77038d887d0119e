"""Which errors are causes and which are echoes of another process's end.

Secondary are: whatever the launcher says about a component, torchrun's summary of a rank, SLURM's wrappers, and lost
connections and cancellations around the time at which the run was torn down. The rest is primary, and the earliest
primary error of an incident is its cause.
"""

import dataclasses
import re
from collections.abc import Sequence

from prl.watch.facts import LogError, Process

_ECHO = re.compile(
    r"(?:Error: )?.* failed with exit code -?\d+"
    r"|.*\bTerminating all\b.*"
    r"|.*ChildFailedError.*"
    r"|.*ncclRemoteError.*"
    r"|.*we are taking the entire process down.*"
    r"|srun: .*|slurmstepd: .*"
    r"|failed \(exitcode: 1\).*"
    r"|Router exited with code .*",
    re.IGNORECASE | re.DOTALL,
)
_LOST = re.compile(
    r"Connect(?:ion|Call|or)?\w*Error|Connection (?:refused|reset|closed|lost|aborted)|Connect call failed"
    r"|Cannot connect to host|Server ?[Dd]isconnected|Broken ?[Pp]ipe|CancelledError|KeyboardInterrupt|\bcancelled\b"
    r"|SIGTERM|SignalException",
)
BEFORE, AFTER = 15.0, 90.0
"""Seconds around the first end of a process in which lost connections are its consequence."""

INCIDENT = 900.0
"""Seconds before a process's end in which its cause is looked for."""


def tell_echoes(errors: Sequence[LogError], processes: Sequence[Process]) -> list[LogError]:
    """The errors with ``primary`` set, earliest first."""
    told = [dataclasses.replace(error, primary=not _is_echo(error)) for error in errors]
    breaks = [process.ended for process in processes if process.ended is not None and process.exit_code != 0]
    breaks += [
        error.time for error in told if error.fatal and error.time is not None and not _LOST.search(error.summary)
    ]
    moments = sorted(breaks)
    return [
        dataclasses.replace(error, primary=False)
        if error.primary and _LOST.search(error.summary) and _near(error.time, moments)
        else error
        for error in told
    ]


def first_broken(processes: Sequence[Process]) -> Process | None:
    """The process that ended badly first. Those that were terminated after it are not meant."""
    broken = [process for process in processes if process.exit_code not in (None, 0)]
    return min(broken, key=lambda process: (process.ended is None, process.ended or 0.0), default=None)


def root_cause(errors: Sequence[LogError], process: Process | None) -> LogError | None:
    """The earliest primary error that explains the end of ``process`` (None: the end of a run nobody recorded).

    A crash header counts wherever it stands in the incident; a line at ERROR or a bare traceback only in the log of the
    process that ended, as the last thing that it said: components log errors that they survive.
    """
    end = process.ended if process is not None else None
    within = [
        error
        for error in errors
        if error.primary and (end is None or error.time is None or end - INCIDENT <= error.time <= end + BEFORE)
    ]
    fatal = [error for error in within if error.fatal]
    if fatal:
        return fatal[0]
    own = [error for error in within if process is not None and _same_log(error, process)]
    return own[-1] if own else None


def _same_log(error: LogError, process: Process) -> bool:
    own = process.log.removesuffix(".log")
    file = error.file.removesuffix(".log")
    return file == own or file.startswith(own + "/") or file.split("/")[2:] == own.split("/")[2:]


def _is_echo(error: LogError) -> bool:
    return bool(_ECHO.fullmatch(error.summary) or _ECHO.fullmatch(error.header))


def _near(time: float | None, moments: Sequence[float]) -> bool:
    return time is not None and any(moment - BEFORE <= time <= moment + AFTER for moment in moments)
