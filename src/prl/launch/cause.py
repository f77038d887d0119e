"""Why a component ended: the line of its log that says so, rather than the echo that others print.

The order of belief: a signal that killed the process itself; the exception of the first crash block
(``Fatal error in``, or a plain traceback) in the files that the component left; torchrun's table of failed ranks; the
last ERROR line; what the component said last. Of several components that died together, the first whose cause is not
itself the loss of another is to blame.
"""

import dataclasses
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prl.rundir.logs.reader import LogEntry, errors, read_log
from prl.text.secrets import mask_secrets

_WINDOW = 4 * 1024**2
_FATAL = "Fatal error in "
_TORCHRUN_TABLE = "Root Cause (first observed failure)"
_TORCHRUN_RANK = re.compile(r"\s*rank\s*: (\d+)")
_TORCHRUN_EXIT = re.compile(r"\s*exitcode\s*: (-?\d+) \(pid: (\d+)\)")
_TORCHRUN_OWN = "ChildFailedError"
_ECHOES = (
    "BrokenPipeError",
    "CancelledError",
    "ClientConnectorError",
    "ClientOSError",
    "Connection closed by peer",
    "Connection reset by peer",
    "ConnectionRefusedError",
    "ConnectionResetError",
    "ServerDisconnectedError",
    "SIGINT",
    "SIGTERM",
    "SignalException",
    _TORCHRUN_OWN,
)
_LAST_WORDS = 3


@dataclass(frozen=True)
class Cause:
    """Why a component ended, in one line, and the file that says so."""

    text: str
    log: Path

    @property
    def is_echo(self) -> bool:
        """Whether the text only tells of the loss of another process."""
        return any(word in self.text for word in _ECHOES)


def find_cause(exit_code: int, log: Path, more: Sequence[Path] = ()) -> Cause:
    """Why a component with this log (and ``more`` files, such as a rank's own) ended with ``exit_code``.

    Secrets are masked: the text goes to the terminal and into files that are sent around.
    """
    cause = _find(exit_code, log, more)
    return dataclasses.replace(cause, text=mask_secrets(cause.text))


def _find(exit_code: int, log: Path, more: Sequence[Path]) -> Cause:
    if exit_code < 0:
        return Cause(f"killed by {signal_name(-exit_code)}", log)
    logs = {path: read_log(path, _WINDOW).entries for path in (*more, log)}
    crashes = [Cause(text, path) for path, entries in logs.items() if (text := _crash(entries))]
    primary = next((cause for cause in crashes if not cause.is_echo), None)
    if primary:
        return primary
    entries = logs[log]
    rank = _torchrun(entries)
    if rank and "killed by" in rank:  # then the other ranks only tell that they lost it
        return Cause(rank, log)
    if crashes:
        return crashes[0]
    for text in (rank, _last_error(entries), _last_words(entries)):
        if text:
            return Cause(text, log)
    return Cause(f"ended with exit code {exit_code} and said nothing", log)


def has_fatal_line(log: Path) -> bool:
    """Whether a component reported a crash, whatever its exit code says."""
    return any(entry.message.startswith(_FATAL) for entry in errors(read_log(log, _WINDOW)))


def signal_name(number: int) -> str:
    """``SIGKILL (...)``, with who may have sent it where that is not plain."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
    return f"{name} (sent by someone, or by the kernel when memory ran out)" if number == signal.SIGKILL else name


def _crash(entries: Sequence[LogEntry]) -> str | None:
    """The exception of the first crash block: of a chain the outermost, which says what it meant for the process."""
    failed = [entry for entry in entries if entry.exception and _TORCHRUN_OWN not in entry.exception]
    fatal = next((entry for entry in failed if entry.message.startswith(_FATAL)), None)
    first = fatal or next(iter(failed), None)
    return first.exception if first else None


def _torchrun(entries: Sequence[LogEntry]) -> str | None:
    """The rank that torchrun names as the first to fail."""
    lines = [line for entry in entries for line in (entry.message, *entry.more)]
    start = next((index for index, line in enumerate(lines) if line.startswith(_TORCHRUN_TABLE)), len(lines))
    rank = "?"
    for line in lines[start:]:
        named, ended = _TORCHRUN_RANK.match(line), _TORCHRUN_EXIT.match(line)
        rank = named[1] if named else rank
        if ended:
            code = int(ended[1])
            how = f"killed by {signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
            return f"rank {rank} (pid {ended[2]}) {how}"
    return None


def _last_error(entries: Sequence[LogEntry]) -> str | None:
    said = [entry.summary for entry in entries if entry.is_error and _TORCHRUN_OWN not in entry.summary]
    return said[-1] if said else None


def _last_words(entries: Sequence[LogEntry]) -> str | None:
    lines = [line.strip() for entry in entries for line in (entry.message, *entry.more) if line.strip()]
    return " / ".join(lines[-_LAST_WORDS:])[:500] or None
