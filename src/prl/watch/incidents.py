"""Known failures among the lines that were looked at, as incidents: one for each kind, whatever says it how often.

Only lines that may tell of one are compared: those of level WARNING or above, those without a level, and what follows
a line without a header of its own. Left out: scanning whole logs, which takes a second for some hundred megabytes and
is :func:`prl.rundir.logs.incident_scan.find_incidents`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prl.rundir.logs.components import LogFile
from prl.rundir.logs.entries import LogEntry
from prl.text.human import format_duration
from prl.watch.surroundings import Incident

# The readers of whole logs take a tenth of a second to load, which a run without any such line does not pay.
if TYPE_CHECKING:
    from prl.rundir.logs.incidents import Incident as Found
    from prl.rundir.logs.incidents import IncidentFold

_CALM = ("INFO", "SUCCESS", "DEBUG", "TRACE")
_SLURM = ("slurm", "srun", "sbatch", "scancel")
_MAX_LINES = 4000
"""Lines compared of one log: the first and last of them will do."""
_CRASH_HEADERS = ("prl.fatal", "vllm.engine_fatal")
_SAME_TIME = 5.0
_MAX_FACTS = 60
_MAX_NAMED = 16


class Sightings:
    """Collects what lines tell of known failures."""

    def __init__(self) -> None:
        self._fold: IncidentFold | None = None
        self._told: set[tuple[str, str, str]] = set()
        """Group, signature and text of what the logs of whole components said."""

    def look(self, entries: list[LogEntry], file: LogFile, name: str, undated: float | None) -> None:
        """Compare the lines of one log. ``undated``: a time for lines of which nothing says when they were written."""
        lines = [line for entry in entries for line in _suspicious(entry)]
        if len(lines) > _MAX_LINES:
            lines = lines[: _MAX_LINES // 2] + lines[-_MAX_LINES // 2 :]
        if not lines:
            return
        from prl.rundir.logs.incidents import IncidentFold, rank_of
        from prl.rundir.logs.signatures import load_signatures

        self._fold = self._fold or IncidentFold()
        for number, match in load_signatures().find_each([(entry.offset, text) for entry, text in lines]):
            entry, text = lines[number]
            told = (file.group, match.signature.id, text)
            if file.repeats and told in self._told:
                continue
            if not file.repeats:
                self._told.add(told)
            self._fold.take(
                match,
                component=file.component,
                file=name,
                rank=rank_of(match.text, entry, file),
                time=entry.time if entry.time is not None else undated,
                exact=entry.exact,
            )

    def facts(self, ranks: int) -> list[Incident]:
        """The incidents, what broke first before what followed. ``ranks``: how many have an output of their own."""
        found = self._fold.incidents(ranks) if self._fold is not None else []
        headers = {one.id for one in found if _is_header(one, found)}
        ordered = sorted(found, key=lambda one: one.id in headers)
        return [_fact(one, header=one.id in headers) for one in ordered[:_MAX_FACTS]]


def _suspicious(entry: LogEntry) -> Iterator[tuple[LogEntry, str]]:
    if entry.message and (entry.level not in _CALM or entry.message.startswith(_SLURM)):
        yield entry, entry.first_line
    for line in entry.more:
        yield entry, line


def _is_header(incident: "Found", all_found: "list[Found]") -> bool:
    """Whether it only announces a crash that another incident names, in the same log and at the same time."""
    return incident.id in _CRASH_HEADERS and any(
        other.id not in _CRASH_HEADERS
        and other.is_failure
        and other.signature.role == "primary"
        and other.file == incident.file
        and abs(other.first - incident.first) <= _SAME_TIME
        for other in all_found
    )


def _fact(found: "Found", *, header: bool) -> Incident:
    signature = found.signature
    return Incident(
        signature=found.id,
        severity=found.severity,
        component=found.component,
        file=found.file,
        offset=found.offset,
        text=found.text,
        cause=signature.cause,
        fix=signature.fix,
        time=found.first or None,
        last_time=found.last or None,
        count=found.count,
        secondary=header or signature.role != "primary" or found.consequence_of is not None,
        components=found.components,
        details=_details(found),
    )


def _details(found: "Found") -> list[str]:
    details = []
    collective = found.collective
    if collective is not None:
        details.append(f"collective {collective.op}")
        if collective.timeout is not None:
            details.append(f"timed out after {format_duration(collective.timeout)}, it began then")
        details.append(f"ranks that reported: {_numbers(collective.seen)}")
        if collective.missing:
            details.append(f"ranks that did not: {_numbers(collective.missing)}")
        if collective.suspects:
            details.append(f"held up by: {_numbers(collective.suspects)}")
    elif found.ranks:
        details.append(f"ranks: {_numbers(found.ranks)}")
    if found.consequence_of is not None:
        details.append(f"follows from {found.consequence_of}")
    if len(found.files) > 1:
        details.append(f"in {len(found.files)} files")
    return details


def _numbers(values: list[int]) -> str:
    shown = ", ".join(map(str, values[:_MAX_NAMED]))
    return shown if len(values) <= _MAX_NAMED else f"{shown} and {len(values) - _MAX_NAMED} more"
