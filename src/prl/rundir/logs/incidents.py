"""The failures of an attempt as incidents: one for each kind, whatever number of ranks, files and lines tell of it.

An incident keeps when it was first and last told of, how often, by which components and ranks, and the first line. Of a
collective that timed out it says what no single line does: which ranks reported it and which did not, where each
stood, and when it began. An incident that only follows from another one of its time says so. Whole logs are scanned by
:mod:`prl.rundir.logs.incident_scan`. Left out: whether the run is down, and what to do about it, which the verdict
decides with more than logs.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from prl.rundir.logs.components import LogFile
from prl.rundir.logs.entries import LogEntry
from prl.rundir.logs.signatures import SEVERITIES, Match, Signature

_T = TypeVar("_T")

NEAR = 120.0
"""Seconds within which a failure counts as the cause of those that follow from one."""

_MAX_NAMED = 64
"""Files, ranks and values kept of one incident."""
_COLLECTIVE = re.compile(r"SeqNum=(?P<seq>\d+), OpType=(?P<op>\w+)(?:.*?Timeout\(ms\)=(?P<timeout>\d+))?")
_OWN_RANK = re.compile(r"\[Rank (\d{1,6})\]|\[rank(\d{1,6})\]")
_REPEATED = re.compile(r"\[repeated (\d{1,9})x across cluster\]")


@dataclass
class Collective:
    """A collective operation that timed out on several ranks."""

    op: str = ""
    sequence: dict[int, int] = field(default_factory=dict)
    """Number of the operation at which each rank that reported stood."""
    timeout: float | None = None
    """Seconds."""
    ranks: int = 0
    """How many ranks are known of."""

    @property
    def seen(self) -> list[int]:
        """Ranks that reported."""
        return sorted(self.sequence)

    @property
    def missing(self) -> list[int]:
        """Ranks that did not."""
        return [
            rank for rank in range(max(self.ranks, max(self.sequence, default=-1) + 1)) if rank not in self.sequence
        ]

    @property
    def suspects(self) -> list[int]:
        """Who held the others up: the ranks that are missing, else those that stood at an older operation."""
        oldest, newest = min(self.sequence.values(), default=0), max(self.sequence.values(), default=0)
        behind = [rank for rank in self.seen if self.sequence[rank] == oldest] if oldest < newest else []
        return self.missing or behind


class _TimedOut(NamedTuple):
    """What one rank's watchdog says of a collective."""

    op: str
    sequence: int
    timeout: float | None


@dataclass
class Incident:
    """All that was told of one kind of failure."""

    signature: Signature
    severity: str
    last: float
    """Unix seconds."""
    first: float = math.inf
    """Unix seconds. Of a collective that timed out when it began: the line's time less the timeout."""
    exact: bool = False
    """Whether the date of ``first`` stood in the log."""
    component: str = ""
    """Of the first line in time; so are ``file``, ``offset``, ``rank``, ``text`` and ``values``."""
    file: str = ""
    offset: int = 0
    text: str = ""
    values: dict[str, str] = field(default_factory=dict)
    rank: int | None = None
    count: int = 0
    """How often it was told of."""
    components: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)
    collective: Collective | None = None
    consequence_of: str | None = None
    """Id of the failure of its time that this one follows from."""

    @property
    def id(self) -> str:
        return self.signature.id

    @property
    def is_failure(self) -> bool:
        """Whether something broke, rather than being worth a look or planned."""
        return self.severity in ("fatal", "error") and self.signature.role != "end"


class IncidentFold:
    """Makes incidents of matches, handed over in any order."""

    def __init__(self) -> None:
        self._found: dict[str, Incident] = {}

    def take(
        self, match: Match, *, component: str, file: str, rank: int | None, time: float | None, exact: bool
    ) -> None:
        """One line. ``time``: when it was written, Unix seconds."""
        timed_out = _timed_out(match)
        moment = time or 0.0
        began = moment - (timed_out.timeout or 0.0) if timed_out else moment
        incident = self._found.get(match.signature.id)
        if incident is None:
            incident = self._found[match.signature.id] = Incident(match.signature, match.severity, last=moment)
        if began < incident.first:
            incident.component, incident.file, incident.offset = component, file, match.offset
            incident.text, incident.values, incident.rank = match.text, match.values, rank
            incident.first, incident.exact = began, exact
        _keep(incident.components, component)
        _keep(incident.files, file)
        _count(incident, match, rank, moment)
        if timed_out is not None:
            known = incident.collective = incident.collective or Collective(timed_out.op)
            known.timeout = timed_out.timeout or known.timeout
            if rank is not None:
                known.sequence[rank] = min(known.sequence.get(rank, timed_out.sequence), timed_out.sequence)

    def incidents(self, ranks: int) -> list[Incident]:
        """What broke first comes first. ``ranks``: how many are known of."""
        found = list(self._found.values())
        for incident in found:
            if incident.collective is not None:
                incident.collective.ranks = ranks
        _mark_consequences(found)
        return sorted(found, key=_weight)


def _count(incident: Incident, match: Match, rank: int | None, moment: float) -> None:
    incident.last = max(incident.last, moment)
    repeated = _REPEATED.search(match.text)
    incident.count += int(repeated[1]) if repeated else 1
    if SEVERITIES.index(match.severity) < SEVERITIES.index(incident.severity):
        incident.severity = match.severity
    if rank is not None:
        _keep(incident.ranks, rank)
        incident.ranks.sort()


def _mark_consequences(incidents: Sequence[Incident]) -> None:
    """Say of what only follows from a failure which one it was: the first primary one within two minutes."""
    primaries = sorted(
        (one for one in incidents if one.signature.role == "primary" and one.is_failure), key=lambda one: one.first
    )
    for incident in incidents:
        if incident.signature.role in ("secondary", "wrapper"):
            near = (one.id for one in primaries if _told(one) - NEAR <= incident.first <= one.last + NEAR)
            incident.consequence_of = next(near, None)


def _told(incident: Incident) -> float:
    """When it was first told of. A collective began to hang long before."""
    timeout = incident.collective.timeout if incident.collective else None
    return incident.first + (timeout or 0.0)


def _weight(incident: Incident) -> tuple[bool, int, bool, float]:
    role = incident.signature.role
    return (role == "end", SEVERITIES.index(incident.severity), role != "primary", incident.first)


def _timed_out(match: Match) -> _TimedOut | None:
    found = _COLLECTIVE.search(match.text) if match.signature.id == "nccl.watchdog" else None
    if found is None:
        return None
    timeout = float(found["timeout"]) / 1000 if found["timeout"] else None
    return _TimedOut(found["op"], int(found["seq"]), timeout)


def rank_of(text: str, entry: LogEntry, file: LogFile) -> int | None:
    """The rank that a line is about: the one it names, else the one whose output it stands in."""
    own = _OWN_RANK.search(text)
    return int(own[1] or own[2]) if own else file.rank_of(entry.rank)


def _keep(known: list[_T], new: _T) -> None:
    if new not in known and len(known) < _MAX_NAMED:
        known.append(new)
