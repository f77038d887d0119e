"""What a rule is, and words that several rules use."""

import signal
from collections.abc import Callable
from dataclasses import dataclass

from prl.watch.facts import LogError, Process
from prl.watch.verdict import Evidence, Finding
from prl.watch.view import View


@dataclass(frozen=True)
class Rule:
    """A rule and the id under which it is documented."""

    id: str
    check: Callable[[View], Finding | None]


def restart(view: View) -> str:
    """How a run is started again: from its newest checkpoint, or anew where it has none."""
    if view.facts.checkpoints.complete:
        step = view.facts.checkpoints.complete[-1]
        how = f"with --resume and the same run name (newest complete checkpoint: step {step})"
    else:
        how = "with --clean or under another run name: it has no complete checkpoint to resume from"
    return f"A run is restarted as a whole: remove the cause, then launch it again {how}."


def how_it_ended(process: Process) -> str:
    """The end of a process in words."""
    code = process.exit_code
    if code is None:
        return "is gone; nobody recorded its exit code"
    if code < 0:
        return f"was killed by signal {-code} ({signal_name(-code)})"
    return f"ended with exit code {code}"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown signal"


def end_evidence(process: Process) -> Evidence:
    """Where the end of a process is recorded, or that the system does not know the process any more."""
    where = "launcher/status.json" if process.exit_code is not None else f"process {process.pid} on {process.host}"
    return Evidence(where, f"{process.name} (pid {process.pid}) {how_it_ended(process)}", time=process.ended)


def error_evidence(error: LogError) -> Evidence:
    """Where an error stands."""
    text = error.summary if error.summary == error.header else f"{error.header}: {error.summary}"
    return Evidence(error.file, text, offset=error.offset, time=error.time)
