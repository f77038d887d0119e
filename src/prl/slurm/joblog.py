"""What a job's log tells besides its run's own lines: hosts and their roles, restarts, nodes held in grace, the end.

The script of a job over several nodes prints ``NAME=value`` lines at its top. SLURM's own lines name why it ended,
where no accounting does. When a job is requeued its log may go on in the same file: later values replace earlier ones.
Left out: failures of the run itself, which stand in its components' logs.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from prl.slurm.hosts import expand
from prl.text.terminal import strip_escapes

_VALUE = re.compile(
    r"(INFER_HOSTS|INFER_URLS|ADMIN_URLS|HOSTNAMES|TRAIN_HOSTS|MASTER_ADDR|MASTER_PORT|ORCH_ADDR|SLURM_RESTART_COUNT)=(.*)"
)
_ONCE = frozenset({"INFER_HOSTS", "HOSTNAMES", "SLURM_RESTART_COUNT"})
"""Values that a script prints once: again means that the job started again."""
_CLEANUP = re.compile(r"\[node-cleanup\] (\S+) procs=(\d{1,9}) gpu_mem=(\d{1,9})MiB")
_GRACE = re.compile(r"\[([^\]]+)\] component exited with code (\d{1,9}) - waiting up to (\d{1,9})s\b")
_TEARDOWN = re.compile(r"\[([^\]]+)\] tearing down \(exit code (\d{1,9})\)")
_CANCELLED = re.compile(
    r"\*\*\* (JOB|STEP) (\S+) ON (\S+) CANCELLED AT (\S+)(?: DUE TO ([A-Z ]+?)(?:, SEE SLURMCTLD LOG.*)?)? \*\*\*"
)
_OOM = re.compile(
    r"Detected (\d{1,9}) oom[-_]kill event(?:s|\(s\))? in (?:StepId=|step )(\d+)(?:[_+]\d+)?\.(\w+)", re.I
)
_LABEL = re.compile(r"\d{1,6}: ")


@dataclass(frozen=True)
class Cleanup:
    """What was left on a node before the run began: processes, and memory held on its GPUs in MiB."""

    host: str
    processes: int
    gpu_mib: int


@dataclass(frozen=True)
class Grace:
    """A component ended on ``host``; the job keeps its nodes for up to ``seconds`` so that others finish writing."""

    host: str
    code: int
    seconds: int
    line: int
    """Number of the line, from 0."""


@dataclass(frozen=True)
class Cancellation:
    """SLURM ended the job or a step, for a ``cause`` such as ``TIME LIMIT`` or ``NODE FAILURE``; None: it was asked to.

    ``at`` is SLURM's local time as it stands.
    """

    job: bool
    id: str
    host: str
    at: str
    cause: str | None


@dataclass(frozen=True)
class HostOom:
    """The kernel ended processes of a step since the job's memory limit was reached: host memory, not a GPU's."""

    events: int
    job_id: str
    step: str


@dataclass
class JobLog:
    """What was found. Values are those of the last start."""

    values: dict[str, str] = field(default_factory=dict)
    cleanups: dict[str, Cleanup] = field(default_factory=dict)
    grace: Grace | None = None
    teardown: int | None = None
    """The exit code with which the script ended everything."""
    cancellations: list[Cancellation] = field(default_factory=list)
    ooms: list[HostOom] = field(default_factory=list)
    starts: int = 0
    """How often the top stands in the log."""

    @property
    def holding(self) -> bool:
        """Failing: a component has ended and the nodes are held in grace."""
        return self.grace is not None and self.teardown is None and not any(end.job for end in self.cancellations)

    @property
    def restarts(self) -> int:
        """Restarts that the log knows of; SLURM's own count may be higher when the log was begun anew."""
        said = self.values.get("SLURM_RESTART_COUNT", "")
        return max(int(said) if re.fullmatch(r"[0-9]{1,6}", said) else 0, self.starts - 1, 0)

    @property
    def roles(self) -> dict[str, tuple[str, ...]]:
        """Each host's roles, hosts in the log's order: ``inference router trainer master orchestrator``."""
        roles: dict[str, list[str]] = {host: [] for host in self._hosts("HOSTNAMES")}
        inference = self._hosts("INFER_HOSTS")
        for role, hosts in (
            ("inference", inference),
            ("router", inference[:1] if "INFER_URLS" in self.values else ()),
            ("trainer", self._hosts("TRAIN_HOSTS")),
            ("master", self._hosts("MASTER_ADDR")),
            ("orchestrator", self._hosts("ORCH_ADDR")),
        ):
            for host in hosts:
                roles.setdefault(host, []).append(role)
        return {host: tuple(dict.fromkeys(of_host)) for host, of_host in roles.items()}

    def _hosts(self, name: str) -> tuple[str, ...]:
        """The hosts of a value: words, an array as bash prints it, or a host list."""
        words = self.values.get(name, "").strip().strip("()").split()
        return tuple(host for word in words for host in expand(word.strip("\"'")))


_KEPT = 100


def parse_job_log(lines: Iterable[str]) -> JobLog:
    """Read the lines of a job's log, or of its beginning and its end. Any text is accepted."""
    log = JobLog()
    for number, raw in enumerate(lines):
        line = _LABEL.sub("", strip_escapes(raw[:4096]).strip(), count=1)
        value = _VALUE.fullmatch(line)
        if value is not None:
            _take_value(log, value[1], value[2].strip())
        elif line.startswith("["):
            _take_bracket(log, line, number)
        elif "oom" in line.lower() or "CANCELLED" in line:
            _take_slurm(log, line)
    return log


def _take_value(log: JobLog, name: str, value: str) -> None:
    if not log.starts or (name in _ONCE and name in log.values):
        _begin(log)
    log.values[name] = value


def _begin(log: JobLog) -> None:
    """A new start: nothing that the one before said stands any more."""
    log.starts += 1
    log.values, log.cleanups, log.grace, log.teardown, log.cancellations, log.ooms = {}, {}, None, None, [], []


def _take_bracket(log: JobLog, line: str, number: int) -> None:
    if match := _CLEANUP.match(line):
        if len(log.cleanups) < 10 * _KEPT:
            log.cleanups[match[1]] = Cleanup(match[1], int(match[2]), int(match[3]))
    elif match := _GRACE.match(line):
        # The first component to end is the cause; the others follow it.
        log.grace = log.grace or Grace(match[1], int(match[2]), int(match[3]), number)
    elif match := _TEARDOWN.match(line):
        log.teardown = int(match[2])


def _take_slurm(log: JobLog, line: str) -> None:
    if match := _CANCELLED.search(line):
        kind, name, host, at, cause = match.groups()
        if len(log.cancellations) < _KEPT:
            log.cancellations.append(Cancellation(kind == "JOB", name, host, at, cause))
    elif (match := _OOM.search(line)) and len(log.ooms) < _KEPT:
        log.ooms.append(HostOom(int(match[1]), match[2], match[3]))
