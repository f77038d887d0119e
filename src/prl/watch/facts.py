"""What is known about a run at one moment: typed, with where each thing stands, and None where nothing says.

Facts are plain data. They serialise to JSON and back without loss (a metric that is not a number is ``null`` with its
step in ``nonfinite``), so that a verdict can be given again elsewhere from a recorded file. They are gathered by
:mod:`prl.watch.gather` and judged by :mod:`prl.watch.assess`, which sees nothing else.

What the run lives in (SLURM job, engines, memory) and what its logs are known for is in
:mod:`prl.watch.surroundings`.
"""

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

from prl.watch.keys import older_names
from prl.watch.plain import PlainError, build
from prl.watch.surroundings import CheckpointFact, Engine, Incident, Launch, Memory, SlurmJob

SCHEMA_VERSION = 1

ALIVE = "alive"
GONE = "gone"
EXITED = "exited"
UNKNOWN = "unknown"


class FactsError(ValueError):
    """A file that is not recorded facts, with the place that is wrong."""


@dataclass(frozen=True)
class RunIdentity:
    """What was configured. Bounds are seconds."""

    name: str
    dir: str
    kind: str
    """``rl``, ``sft``, ``eval`` or ``other``."""
    layout: str
    source: str | None = None
    """Directory of the resolved configuration, relative to the run."""
    max_steps: int | None = None
    endless: bool = False
    """Whether the configuration says that there is no last step. Else an unknown ``max_steps`` is just not known."""
    model: str | None = None
    envs: list[str] = field(default_factory=list)
    env_startup_timeout: float = 600.0
    inference_ready_timeout: float = 3600.0
    sync_timeout: float = 1200.0
    batch_timeout: float = 3600.0
    resume_step: int | None = None
    max_off_policy_steps: int | None = None
    """Policy versions by which an episode may be older than the step that trains on it."""
    checkpoint_interval: int | None = None
    """Steps between two checkpoints; None: none is written on the way, or nothing says."""


@dataclass(frozen=True)
class Launcher:
    """The launcher's last word in ``launcher/status.json`` and whether it lives."""

    host: str
    pid: int
    phase: str
    state: str
    """``alive``, ``gone`` or ``unknown`` (its host cannot be asked and its word is old)."""
    started: float
    updated: float
    step: int | None = None
    waiting_for: str | None = None
    exit_code: int | None = None
    reason: str | None = None
    ended: float | None = None
    source: str = "launcher/status.json"


@dataclass(frozen=True)
class Member:
    """A process below a component's own: a rank of torchrun, a worker of an environment server, an engine's core."""

    kind: str
    """``rank``, ``worker``, ``engine``, ``router`` or ``other``."""
    pid: int
    state: str
    """``alive``, ``stopped`` or ``zombie``."""
    title: str
    index: int | None = None
    """Rank or number of the worker, where its title or environment says so."""
    started: float | None = None


@dataclass(frozen=True)
class Process:
    """One component's process."""

    name: str
    title: str
    pid: int
    host: str
    state: str
    """``alive``, ``exited`` (the launcher saw its end), ``gone`` (nobody recorded its end) or ``unknown``."""
    started: float
    log: str
    as_of: float
    """When this was true."""
    exit_code: int | None = None
    reason: str | None = None
    ended: float | None = None
    stopped: list[int] = field(default_factory=list)
    """Of its own pid and those of its descendants, the ones that the system holds stopped (SIGSTOP, a debugger)."""
    zombie: bool = False
    """It has ended and its parent has not noticed; its state is ``gone``."""
    members: list[Member] = field(default_factory=list)
    """Its descendants that are ranks, workers or engines, as the process table of this host shows them."""
    expected: int | None = None
    """How many ranks it was told to start on this host."""
    parent: int | None = None
    source: str = "launcher/status.json"
    """What says that it is a process of this run: the launcher, or its argument, directory or open file."""


@dataclass(frozen=True)
class ProcessSearch:
    """What looking for the processes of a run without a launcher's word came to, in the process table of this host."""

    host: str
    found: int
    """Components found. 0 says little unless ``local``: the run may live on another host."""
    missing: list[str] = field(default_factory=list)
    """Components that wrote a log in this attempt and have no process here, though others of the run have. A worker
    that finished is among them."""
    file_system: str | None = None
    """Of the run directory: ``ext4``, ``nfs4``, ``lustre`` ..."""
    local: bool | None = None
    """Whether only this host can write to that file system: then processes that are not here are nowhere."""
    hidden: bool = False
    """Whether processes of the directory's owner cannot be looked into from here."""


@dataclass(frozen=True)
class Clock:
    """A counter of progress and when it last advanced."""

    value: int | None = None
    time: float | None = None
    source: str | None = None
    seen: float | None = None
    """When the value was last recorded, which may be long after it advanced."""


@dataclass(frozen=True)
class EnvServer:
    """An environment server of this attempt and when it published its address (None: not yet)."""

    name: str
    ready: float | None
    source: str


@dataclass(frozen=True)
class Progress:
    """The counters that decide whether a run moves. Modification times do not count: health checks keep logs warm."""

    trainer: Clock = Clock()
    """Last finished optimizer step."""
    orchestrator: Clock = Clock()
    """Last shipped batch."""
    policy: Clock = Clock()
    """Policy version that the engines apply."""
    episodes: Clock = Clock()
    """Episodes recorded in the whole run."""
    pipeline: Clock = Clock()
    """The orchestrator's line about its pipeline, written every few seconds; value: episodes in flight."""
    inference: Clock = Clock()
    """The last recorded row of the engines; value: engines in it."""
    broadcast: Clock = Clock()
    """The newest broadcast and its last marker."""
    checkpoint: Clock = Clock()
    """The newest checkpoint and when something in it was last written."""
    median_step: float | None = None
    """Seconds between two steps of this attempt: the median of the last ones, the slower side's."""
    trainer_median: float | None = None
    orchestrator_median: float | None = None


@dataclass(frozen=True)
class Pipeline:
    """What the orchestrator last said of the batch under collection."""

    time: float | None
    queued: int | None
    """Traces in the batch."""
    wanted: int | None
    """Traces that make it full."""
    inflight_train: int | None
    inflight_eval: int | None
    file: str
    offset: int
    text: str


@dataclass(frozen=True)
class Mark:
    """A line of fixed meaning (a finish line, a hold line): where it stands and when it was written."""

    kind: str
    component: str
    file: str
    offset: int
    time: float | None
    text: str


@dataclass(frozen=True)
class Broadcast:
    """The newest policy version on its way; times are those of the handshake's markers."""

    version: int
    sender_ready: float | None
    receiver_ready: float | None
    started: float | None
    finished: float | None
    source: str


@dataclass(frozen=True)
class Series:
    """The last points of one metric of one producer in this attempt, oldest first."""

    producer: str
    key: str
    steps: list[int | None] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    values: list[float | None] = field(default_factory=list)
    """None: the row of that step exists and has no finite value for this key."""
    source: str = "monitors/file/metrics.jsonl"

    @property
    def last(self) -> float | None:
        """The newest value, None when the newest row has no finite one."""
        return self.values[-1] if self.values else None

    @property
    def last_step(self) -> int | None:
        return self.steps[-1] if self.steps else None


@dataclass(frozen=True)
class NonFinite:
    """A value that was not a number: dropped by the writer (a console line says so) or read as such."""

    key: str
    component: str
    step: int | None
    time: float | None
    file: str
    offset: int | None


@dataclass(frozen=True)
class LogError:
    """One error of a log."""

    component: str
    file: str
    offset: int
    time: float | None
    """Of its first occurrence, as ``offset``."""
    last_time: float | None
    exact: bool
    header: str
    """The line that introduced it, e.g. ``Fatal error in train``."""
    summary: str
    """The exception where there is one, else the header."""
    fatal: bool
    """A crash header or a traceback that ended the process, not merely a line at ERROR."""
    primary: bool = True
    """False for echoes: the launcher's line, torchrun's summary, lost connections while a run is torn down."""
    count: int = 1


@dataclass(frozen=True)
class Log:
    """What was looked at of one log file."""

    component: str
    file: str
    size: int
    modified: float | None
    skipped: int
    """Bytes at its beginning that were not looked at."""
    errors: int = 0
    warnings: int = 0
    replaced: int = 0
    problem: str | None = None


@dataclass(frozen=True)
class Checkpoints:
    """Checkpoints by step; unfinished ones are being written or were abandoned."""

    complete: list[int] = field(default_factory=list)
    half: list[int] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    changed: float | None = None
    """When an unfinished one was last written to."""
    source: str = "checkpoints"
    problem: str | None = None
    """Why there may be others than those that were found: a directory that cannot be read."""


@dataclass(frozen=True)
class Disk:
    """The file system of the run directory, bytes."""

    path: str
    free: int
    total: int
    growth: float | None = None
    """Bytes a second that the run adds, from its own record; None: it cannot be told."""
    growth_source: str | None = None


@dataclass(frozen=True)
class Facts:
    """Everything that a verdict rests on."""

    as_of: float
    """When they were gathered, Unix seconds."""
    host: str
    """Where they were gathered."""
    run: RunIdentity
    attempt: int | None = None
    attempts: list[int] = field(default_factory=list)
    attempt_started: float | None = None
    configured: bool = False
    """A configuration was written."""
    launched: bool = False
    """Something ran: a log or a launcher's word exists."""
    env_servers: list[EnvServer] = field(default_factory=list)
    launcher: Launcher | None = None
    processes: list[Process] = field(default_factory=list)
    search: ProcessSearch | None = None
    """None: the launcher's word says which processes the run has."""
    hosts: list[str] = field(default_factory=list)
    """Hosts that the run is known to live on, or to have lived on."""
    progress: Progress = Progress()
    pipeline: Pipeline | None = None
    marks: list[Mark] = field(default_factory=list)
    broadcast: Broadcast | None = None
    series: list[Series] = field(default_factory=list)
    nonfinite: list[NonFinite] = field(default_factory=list)
    logs: list[Log] = field(default_factory=list)
    errors: list[LogError] = field(default_factory=list)
    checkpoints: Checkpoints = Checkpoints()
    checkpoint_states: list[CheckpointFact] = field(default_factory=list)
    """Every checkpoint that exists, by step."""
    disk: Disk | None = None
    launch: Launch | None = None
    jobs: list[SlurmJob] = field(default_factory=list)
    """SLURM jobs of the run, the current one last."""
    engines: list[Engine] = field(default_factory=list)
    memory: Memory | None = None
    incidents: list[Incident] = field(default_factory=list)
    """Known failures in the logs of the attempt, the earliest primary one first."""
    unknown: list[str] = field(default_factory=list)
    """What could not be read or told, in words."""
    schema_version: int = SCHEMA_VERSION

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, raw: object) -> "Facts":
        """Facts from what :meth:`to_json` gave. Unknown fields are ignored; raises :class:`FactsError`."""
        if not isinstance(raw, dict) or raw.get("schema_version") != SCHEMA_VERSION:
            found = raw.get("schema_version") if isinstance(raw, dict) else None
            raise FactsError(f"not recorded facts of schema version {SCHEMA_VERSION} (found {found!r})")
        try:
            return build(cls, raw, "facts")
        except PlainError as error:
            raise FactsError(str(error)) from None

    def mark(self, kind: str, component: str | None = None) -> Mark | None:
        """The newest line of a kind (of one component)."""
        found = [mark for mark in self.marks if mark.kind == kind and component in (None, mark.component)]
        return max(found, key=lambda mark: mark.time or 0.0, default=None)

    def find(self, producer: str, key: str) -> Series | None:
        """One metric's series, by its newer name also where an older writer named it otherwise."""
        names = (key, *older_names(key))
        found = [series for series in self.series if series.producer == producer and series.key in names]
        return min(found, key=lambda series: names.index(series.key), default=None)


def loads(data: bytes | str) -> Facts:
    """Facts from JSON text. Raises :class:`FactsError`."""
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FactsError(f"not JSON: {error}") from error
    return Facts.from_json(raw)
