"""The numbers that rules compare with, by area, and how somebody sets their own.

The defaults stand for most runs; what depends on the speed of a run is a multiple of its own step time. A TOML file
named by ``$PRL_RULES``, or ``~/.config/prl/rules.toml`` where that is absent, changes single ones::

    [episodes]
    errors_twice = 0.10

A key that is not one of these, or a value of another kind, is an error that names the file, the key and what was
expected: a threshold that is silently ignored is an alarm that never comes.
"""

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prl.rundir.home import home

VARIABLE = "PRL_RULES"


class ThresholdsError(ValueError):
    """A file of thresholds that cannot be used, with the file, the key and what was expected."""


@dataclass(frozen=True)
class ProgressLimits:
    """Seconds, and multiples of the median step."""

    stall_factor: float = 10.0
    """A run is stuck when nothing advanced for this many median steps ..."""
    stall_floor: float = 60.0
    """... and for at least this long."""
    deadlock: float = 120.0
    """Two sides that wait for each other for this long will not stop doing so."""
    handshake: float = 120.0
    """A policy that waits for this long to be accepted, or to be sent, is late."""
    handshake_stuck: float = 600.0
    """After this long it will not come."""
    transfer: float = 300.0
    """As ``handshake``, of a policy that is being written."""
    transfer_stuck: float = 1200.0
    """As ``handshake_stuck``, of a policy that is being written."""


@dataclass(frozen=True)
class TrainingLimits:
    """Of the optimisation, per step. Factors are of the median of the steps before, in this attempt."""

    least: int = 10
    """Steps that a baseline takes."""
    window: int = 20
    """Steps that it is taken over."""
    mads: float = 6.0
    """How many times the usual scatter (1.4826 x MAD) beyond the median a spike is."""
    grad_norm_factor: float = 10.0
    grad_norm_huge: float = 100.0
    """A single step above this many medians is told at once; smaller spikes must come back."""
    kl_good: float = 0.015
    """Mean mismatch KL up to which nothing is wrong, however much it varies."""
    kl_high: float = 0.05
    kl_critical: float = 0.1
    """Mean mismatch KL at which, when it lasts, sampler and trainer are no longer the same policy."""
    kl_huge: float = 1.0
    """It need not last for that."""
    kl_factor: float = 3.0
    kl_climb: float = 3.0
    """A lasting climb counts from this many medians on."""
    entropy_low: float = 0.3
    """Of the entropy at the beginning, while rewards do not rise."""
    entropy_high: float = 2.0
    entropy_fall: float = 0.5
    """A lasting fall counts below this share of the entropy at the beginning."""
    masked: float = 0.05
    """Share of tokens outside the trust region."""
    drift: float = 0.5
    """Page-Hinkley: changes of this many scatters are tolerated (delta) ..."""
    drift_alarm: float = 20.0
    """... and a change is told when this many have come together (lambda)."""


@dataclass(frozen=True)
class EpisodeLimits:
    """Shares of episodes, traces or groups, 0 to 1."""

    errors_twice: float = 0.05
    """Too many failures at two steps running."""
    errors_once: float = 0.25
    """Too many at one step."""
    errors_most: float = 0.75
    """At two steps running: the run learns from next to nothing."""
    truncated: float = 0.20
    timeouts: float = 0.10
    cancelled: float = 0.10
    trainable: float = 0.30
    """Fewer traces with a signal than this are too few."""
    trainable_least: float = 0.10
    """With fewer the run learns next to nothing."""
    one_sided: float = 0.60
    """Groups in which every attempt failed, or in which every one succeeded."""
    discarded: float = 0.50
    slower: float = 1.5
    """Episodes that are thrown away took this many times as long, or as many tokens, as those that train."""


@dataclass(frozen=True)
class RewardLimits:
    """Of rewards that rise for another reason than they should: from the first third of the steps to the last one."""

    least: int = 30
    """Steps without which nothing is said."""
    evaluations: int = 6
    """Evaluations without which nothing is said of them."""
    scatters: float = 2.0
    """A change is one above this many times the usual scatter (1.4826 x MAD) within the thirds ..."""
    change: float = 0.05
    """... and above this share of the level."""
    lengths: float = 1.5
    """Answers of another length: this many times as long, or as short."""


@dataclass(frozen=True)
class PaceLimits:
    """Of who waits for whom."""

    waiting: float = 0.5
    """Share of a step spent waiting: as long as it works."""
    first_steps: int = 2
    """Steps at the beginning that do not count: everything waits for the first batch."""
    near_bound: float = 0.9
    """Share of the bound of staleness from which on an episode is nearly too old."""


@dataclass(frozen=True)
class EngineLimits:
    kv_usage: float = 0.95
    """Share of the KV cache in use."""
    polls: int = 10
    """Polls in a row with a full cache and requests waiting."""
    preemptions: float = 1.0
    """Preempted requests a minute."""
    silent: float = 60.0
    """Seconds without a row from the engines."""
    silent_long: float = 300.0


@dataclass(frozen=True)
class LoopLimits:
    lag_p99: float = 1.0
    """Seconds by which one in a hundred wake-ups is late."""
    lag_max: float = 10.0
    """Seconds by which the latest one is."""
    lag_critical: float = 60.0


@dataclass(frozen=True)
class HostLimits:
    """Of the host's disk and memory."""

    disk_least: int = 64 * 1024**2
    """Bytes below which a disk is full."""
    disk_share: float = 0.005
    """Share of a disk below which it is full."""
    disk_low: float = 0.05
    """Share below which room is short whatever the forecast."""
    disk_hours: float = 12.0
    """A disk that fills within this time is told of."""
    memory_low: float = 0.05
    """Share of main memory, or of the control group's limit, that must be left."""


@dataclass(frozen=True)
class JobLimits:
    """Of SLURM jobs, seconds."""

    pending: float = 3600.0
    time_left: float = 1800.0
    """The time limit is near when less than this is left, or less than ``steps_left`` steps take."""
    steps_left: int = 3
    silent: float = 300.0
    """The controller's last word counts as old."""
    holding: float = 300.0
    """A job may live on for this long after the run has finished."""


@dataclass(frozen=True)
class Thresholds:
    """All of them; each field is a table of the file."""

    progress: ProgressLimits = ProgressLimits()
    training: TrainingLimits = TrainingLimits()
    episodes: EpisodeLimits = EpisodeLimits()
    rewards: RewardLimits = RewardLimits()
    pace: PaceLimits = PaceLimits()
    engines: EngineLimits = EngineLimits()
    loops: LoopLimits = LoopLimits()
    host: HostLimits = HostLimits()
    jobs: JobLimits = JobLimits()


DEFAULT = Thresholds()


def load_thresholds(environ: Mapping[str, str] | None = None) -> Thresholds:
    """The user's thresholds. Raises :class:`ThresholdsError`; without a file they are :data:`DEFAULT`."""
    given = (os.environ if environ is None else environ).get(VARIABLE)
    path = Path(given).expanduser() if given else home() / ".config" / "prl" / "rules.toml"
    try:
        return read_thresholds(path)
    except (FileNotFoundError, NotADirectoryError):
        if given:
            raise ThresholdsError(f"{path}: ${VARIABLE} names this file and it does not exist") from None
        return DEFAULT


def read_thresholds(path: Path) -> Thresholds:
    """Thresholds from a TOML file. Raises :class:`ThresholdsError`, and FileNotFoundError or
    NotADirectoryError when there is none."""
    try:
        text = path.read_text()
        import tomllib  # there is a file: most users have none

        document = tomllib.loads(text)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise ThresholdsError(f"{path}: cannot be read ({error.strerror or error})") from error
    except ValueError as error:  # not TOML, or not UTF-8
        raise ThresholdsError(f"{path}: not TOML: {error}") from error
    areas = _fields(DEFAULT)
    changed = {}
    for name, table in document.items():
        if name not in areas:
            raise ThresholdsError(f"{path}: {name}: no such table; expected one of {', '.join(areas)}")
        if not isinstance(table, dict):
            raise ThresholdsError(f"{path}: {name}: expected a table [{name}], found {table!r}")
        changed[name] = _area(path, name, areas[name], table)
    return dataclasses.replace(DEFAULT, **changed)


def _area(path: Path, area: str, default: Any, table: dict[str, object]) -> Any:
    known = _fields(default)
    for key, value in table.items():
        if key not in known:
            raise ThresholdsError(f"{path}: {area}.{key}: no such threshold; expected one of {', '.join(known)}")
        whole = isinstance(known[key], int)
        right = isinstance(value, int) if whole else isinstance(value, int | float)
        if not right or isinstance(value, bool) or not 0 <= value < float("inf"):  # type: ignore[operator]
            kind = "a whole number" if whole else "a number"
            raise ThresholdsError(f"{path}: {area}.{key}: expected {kind}, not negative, found {value!r}")
    return dataclasses.replace(default, **{key: type(known[key])(value) for key, value in table.items()})


def _fields(limits: Any) -> dict[str, Any]:
    return {field.name: getattr(limits, field.name) for field in dataclasses.fields(limits)}
