"""Which errors are causes and which are echoes of another process's end.

Secondary are: whatever the launcher says about a component, torchrun's summary of a rank, SLURM's wrappers, lost
connections and cancellations around the end of a process, and whatever is said once a process has ended badly and the
run is torn down. The rest is primary, and the earliest primary error of an incident is its cause.
"""

import dataclasses
import re
from collections.abc import Sequence

from prl.watch.facts import LogError, Process

_ECHO = re.compile(
    r"(?:Error: )?.* failed with exit code -?\d+.*"
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
"""Seconds around the end of a process in which lost connections, and after it any errors, are its consequence."""

_TOLD_TO_END = (0, -15)
"""Exit codes of who was asked to end. Such a process is to blame only when it was the first."""

SETTLE = 2.0
"""Seconds within which ends count as having come together."""

INCIDENT = 900.0
"""Seconds before a process's end in which its cause is looked for."""


def tell_echoes(
    errors: Sequence[LogError], processes: Sequence[Process], teardown: float | None = None
) -> list[LogError]:
    """The errors with ``primary`` set, earliest first. ``teardown``: when the launcher began to end the run."""
    told = [dataclasses.replace(error, primary=not _is_echo(error)) for error in errors]
    ends = [process.ended for process in processes if process.ended is not None and process.exit_code != 0]
    ends += [teardown] if teardown is not None else []
    crashes = [error.time for error in told if error.fatal and error.time and not _LOST.search(error.summary)]
    moments = sorted(ends + crashes)
    return [
        dataclasses.replace(error, primary=False) if error.primary and _follows(error, ends, moments) else error
        for error in told
    ]


def _follows(error: LogError, ends: Sequence[float], moments: Sequence[float]) -> bool:
    """Whether an error is a consequence: of a teardown that had begun, or a connection lost with its other end."""
    if error.time is None:
        return False
    # A line's clock is cut to whole seconds, so one that is later than an end was written after it.
    torn_down = any(end < error.time <= end + AFTER for end in ends)
    return torn_down or (bool(_LOST.search(error.summary)) and _near(error.time, moments))


def to_blame(lost: Sequence[Process], errors: Sequence[LogError]) -> Process | None:
    """Of processes that are no more (in the order of their ends), the one whose end is not the echo of another's.

    The launcher looks a few times a second: of several that it found dead together, the first in its list need not be
    the first that died. One that only tells of a lost connection is passed over for another that ended with it.
    """
    if not lost:
        return None
    first = lost[0].ended or lost[0].as_of
    together = [
        process
        for process in lost
        if (process.ended or process.as_of) - first <= SETTLE and process.exit_code not in _TOLD_TO_END
    ]
    return next((process for process in together if not _only_echoes(process, errors)), lost[0])


def _only_echoes(process: Process, errors: Sequence[LogError]) -> bool:
    own = [error for error in errors if same_log(error, process)]
    return (process.exit_code or 0) > 0 and bool(own) and all(_LOST.search(error.summary) for error in own)


def root_cause(errors: Sequence[LogError], process: Process | None, lost: Sequence[Process]) -> LogError | None:
    """The earliest primary error that explains the end of ``process`` (None: the end of a run nobody recorded).

    A crash header counts in the log of any process that is no more (workers of environments crash and are replaced); a
    line at ERROR or a bare traceback only in the log of ``process`` itself, as the last thing that it said: components
    log errors that they survive.
    """
    end = process.ended if process is not None else None
    within = [
        error
        for error in errors
        if error.primary and (end is None or error.time is None or end - INCIDENT <= error.time <= end + BEFORE)
    ]
    fatal = [error for error in within if error.fatal and any(same_log(error, other) for other in lost)]
    if fatal:
        return fatal[0]
    own = [error for error in within if process is not None and same_log(error, process)]
    return own[-1] if own else None


def same_log(error: LogError, process: Process) -> bool:
    """Whether an error stands in a log of this process: its own, or that of one of its ranks."""
    own = process.log.removesuffix(".log")
    file = error.file.removesuffix(".log")
    return file == own or file.startswith(own + "/") or file.split("/")[2:] == own.split("/")[2:]


def _is_echo(error: LogError) -> bool:
    return bool(_ECHO.fullmatch(error.summary) or _ECHO.fullmatch(error.header))


def _near(time: float, moments: Sequence[float]) -> bool:
    return any(moment - BEFORE <= time <= moment + AFTER for moment in moments)
