"""What a job's state and its pending reason mean.

A state is a base and flags. SLURM prints it as one word, as a list, with flags in place of the base (``COMPLETING``),
with an author (``CANCELLED by 1234``) or cut (``OUT_OF_ME+``); JSON has a string or a list by version. What is not
known is kept as its text and called unknown, never guessed.
"""

import re
from dataclasses import dataclass

UNKNOWN = "UNKNOWN"

ENDED = frozenset(
    {
        "COMPLETED",
        "CANCELLED",
        "FAILED",
        "TIMEOUT",
        "NODE_FAIL",
        "PREEMPTED",
        "BOOT_FAIL",
        "DEADLINE",
        "OUT_OF_MEMORY",
    }
)
"""The base states of a job that does not run any more."""
BASES = ENDED | {"PENDING", "RUNNING", "SUSPENDED"}

_OVER = "ENDED"
_IMPLIED = {
    "CONFIGURING": "RUNNING",
    "POWER_UP_NODE": "RUNNING",
    "RESIZING": "RUNNING",
    "SIGNALING": "RUNNING",
    "STOPPED": "RUNNING",
    "LAUNCH_FAILED": UNKNOWN,
    "UPDATE_DB": UNKNOWN,
    "RECONFIG_FAIL": UNKNOWN,
    "EXPEDITING": "PENDING",
    "COMPLETING": _OVER,
    "STAGE_OUT": _OVER,
    "REQUEUED": "PENDING",
    "REQUEUE": "PENDING",
    "REQUEUE_HOLD": "PENDING",
    "REQUEUE_FED": "PENDING",
    "SPECIAL_EXIT": "PENDING",
    "RESV_DEL_HOLD": "PENDING",
    "REVOKED": "CANCELLED",
}
"""The flags, and what base each implies where it stands alone. ``ENDED``: over, the result not said."""
_REQUEUE_FLAGS = frozenset({"REQUEUED", "REQUEUE", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"})
_COMPACT = {
    "PD": "PENDING",
    "R": "RUNNING",
    "S": "SUSPENDED",
    "CD": "COMPLETED",
    "CA": "CANCELLED",
    "F": "FAILED",
    "TO": "TIMEOUT",
    "NF": "NODE_FAIL",
    "PR": "PREEMPTED",
    "BF": "BOOT_FAIL",
    "DL": "DEADLINE",
    "OOM": "OUT_OF_MEMORY",
    "CF": "CONFIGURING",
    "CG": "COMPLETING",
    "RQ": "REQUEUED",
    "RH": "REQUEUE_HOLD",
    "RF": "REQUEUE_FED",
    "RS": "RESIZING",
    "RV": "REVOKED",
    "SE": "SPECIAL_EXIT",
    "SI": "SIGNALING",
    "SO": "STAGE_OUT",
    "ST": "STOPPED",
    "RD": "RESV_DEL_HOLD",
}
_NAMES = (*sorted(BASES), *_IMPLIED)
_BY = re.compile(r"\s+by\s+\S+", re.I)
_SPLIT = re.compile(r"[,|\s]+|\+(?=\w)")


@dataclass(frozen=True)
class JobState:
    """``base`` is one of :data:`BASES`, ``ENDED`` (result not said) or ``UNKNOWN``; ``raw`` is what was read."""

    base: str
    flags: tuple[str, ...] = ()
    raw: str = ""

    @property
    def known(self) -> bool:
        return self.base != UNKNOWN

    @property
    def requeued(self) -> bool:
        """The same job is to run again, by itself or (held) when somebody lets it."""
        return not _REQUEUE_FLAGS.isdisjoint(self.flags)

    @property
    def terminal(self) -> bool:
        """The result stands. Not so for a preempted or requeued job that SLURM still has: it may run again."""
        return self.base in ENDED and self.base != "PREEMPTED" and not self.requeued

    @property
    def holds_nodes(self) -> bool:
        """Nodes are allocated to it: it runs, is suspended, or its nodes are being cleared."""
        return self.base in ("RUNNING", "SUSPENDED") or "COMPLETING" in self.flags

    @property
    def starting(self) -> bool:
        """Nodes are allocated and are being made ready."""
        return "CONFIGURING" in self.flags or "POWER_UP_NODE" in self.flags

    def __str__(self) -> str:
        if not self.known:
            return f"unknown ({self.raw})" if self.raw else "unknown"
        names = [self.base] if self.base != _OVER else []
        return "+".join([*names, *self.flags]) or _OVER


def parse_state(value: object) -> JobState:
    """A state out of a text or a list of texts, of any SLURM.

    >>> parse_state(["PENDING", "REQUEUED"])
    JobState(base='PENDING', flags=('REQUEUED',), raw='PENDING REQUEUED')
    >>> parse_state("CANCELLED by 1234").base, parse_state("OUT_OF_ME+").base, str(parse_state("HIBERNATED"))
    ('CANCELLED', 'OUT_OF_MEMORY', 'unknown (HIBERNATED)')
    """
    parts = value if isinstance(value, list | tuple) else [value]
    texts = [part for part in parts if isinstance(part, str)]
    raw = " ".join(" ".join(texts).split())
    words = [_word(word) for text in texts for word in _SPLIT.split(_BY.sub("", text.strip())) if word]
    if not words or None in words:
        return JobState(UNKNOWN, (), raw[:200])
    names = dict.fromkeys(word for word in words if word is not None)
    bases = [name for name in names if name in BASES]
    flags = tuple(name for name in names if name not in BASES)
    return JobState(bases[0] if bases else _IMPLIED[flags[0]], flags, raw)


def _word(word: str) -> str | None:
    """The full name of one word of a state, None for one that is not known or fits several."""
    name = word.upper()
    if name in _COMPACT:
        return _COMPACT[name]
    if name.endswith("+"):
        name = name[:-1]
        fits = [known for known in _NAMES if known.startswith(name)] if len(name) >= 3 else []
        return name if name in fits else fits[0] if len(fits) == 1 else None
    return name if name in _NAMES else None


@dataclass(frozen=True)
class Reason:
    """Why a job waits or ended, in SLURM's word and in plain ones.

    ``blocked`` tells that it will not start by itself: somebody has to act.
    """

    raw: str
    plain: str
    blocked: bool = False


_WAITING = {
    "Priority": "jobs of higher priority are ahead of it",
    "Resources": "first in line, waiting until enough nodes are free",
    "Dependency": "waits for another job to end",
    "BeginTime": "not to start before a set time; a requeued job waits so too",
    "Licenses": "waits for a licence",
    "Reservation": "waits for its reservation to begin",
    "JobArrayTaskLimit": "its array runs as many tasks at once as it may",
    "NodeDown": "a node of it is down",
    "Cleaning": "its former run is being cleared away",
    "Prolog": "the nodes' prolog runs",
    "ReqNodeNotAvail": "a node that it asks for is down, drained or reserved",
    "PartitionDown": "its partition is down",
    "ReservationDeleted": "its reservation is gone",
    "MaxJobsPerUser": "as many of the user's jobs run as may",
    "SchedDefer": "the scheduler puts it off",
    "FrontEndDown": "no front-end node is up",
    "BurstBufferResources": "waits for room in the burst buffer",
    "PowerNotAvail": "waits for power",
}
_BLOCKED = {
    "DependencyNeverSatisfied": "the job it depends on ended otherwise than asked; it can never start",
    "JobHeldUser": "held by its user: scontrol release",
    "JobHeldAdmin": "held by an administrator",
    "BadConstraints": "no node fits what it asks for",
    "InvalidAccount": "its account is not valid",
    "InvalidQOS": "its QOS is not valid",
    "AccountNotAllowed": "its account may not use this partition",
    "QOSNotAllowed": "its QOS may not be used here",
    "PartitionTimeLimit": "it asks for more time than its partition allows",
    "PartitionNodeLimit": "it asks for more nodes than its partition has or allows",
    "PartitionConfig": "it asks for what its partition does not allow",
    "PartitionInactive": "its partition takes no jobs",
    "JobHoldMaxRequeue": "requeued as often as it may be, now held",
}
_ENDED_BY = {
    "NonZeroExitCode": "its script ended with an error",
    "TimeLimit": "it reached its time limit",
    "OutOfMemory": "a node's memory limit for it was reached",
    "JobLaunchFailure": "it could not be started on its nodes",
    "SystemFailure": "SLURM itself failed",
    "FedJobLock": "another cluster of the federation has it",
}
_TABLES = tuple(
    ({name.lower(): plain for name, plain in table.items()}, blocked)
    for table, blocked in ((_WAITING, False), (_BLOCKED, True), (_ENDED_BY, False))
)


def explain(raw: str) -> Reason | None:
    """A reason in plain words, None where none is given.

    Of what is not in the tables: any ``QOS…`` or ``Assoc…`` is a limit of accounting, the rest is passed on as it is.
    """
    raw = raw.strip()
    # A reason may go on: ``ReqNodeNotAvail, UnavailableNodes:n3``, ``Nodes_required_for_job_are_DOWN,_DRAINED…``.
    word = re.split(r"[,:(\s]", raw, maxsplit=1)[0].strip("_").lower()
    if not word or word in ("none", "null"):
        return None
    text = raw.replace("_", " ").lower()
    if "requeued" in text and "held" in text:
        return Reason(raw, f"requeued after {'a failed launch' if 'launch' in text else 'its end'}, now held", True)
    if text.startswith("nodes required for job are down"):
        return Reason(raw, "a node that it needs is down, drained or reserved")
    for table, blocked in _TABLES:
        if word in table:
            return Reason(raw, table[word] + _rest(raw), blocked)
    if word == "raisedsignal":
        return Reason(raw, f"ended by a signal{_rest(raw)}")
    if word.startswith(("qos", "assoc")):
        whose = "the QOS" if word.startswith("qos") else "the account"
        if "perjob" in word:
            return Reason(raw, f"it asks for more than {whose} allows one job ({raw})", True)
        return Reason(raw, f"a limit of {whose} is reached ({raw})")
    return Reason(raw, f"SLURM's reason: {raw}")


def _rest(raw: str) -> str:
    """What a reason names besides its word: the nodes that are not available."""
    match = re.search(r"UnavailableNodes:\s*(\S+)", raw) or re.search(r"^RaisedSignal:(\S+)", raw)
    return f" ({match[1]})" if match else ""
