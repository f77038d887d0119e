"""How entries of logs and incidents look: for people, and as rows of JSON answers."""

import datetime as dt
import sys
from typing import Any

import click

from prl.rundir.logs.entries import LogEntry
from prl.rundir.logs.incidents import Incident
from prl.text.human import format_duration
from prl.text.secrets import mask_secrets
from prl.text.terminal import for_terminal
from prl.watch.outward import safe

_MAX_LINE = 2000
_NO_YEAR = 250_000_000_000
"""Unix seconds beyond which a calendar has no year of four digits."""
_COLOURS = {
    "TRACE": "blue",
    "DEBUG": "blue",
    "SUCCESS": "green",
    "WARNING": "yellow",
    "ERROR": "red",
    "CRITICAL": "red",
}


def entry_row(entry: LogEntry) -> dict[str, Any]:
    """An entry as a row of an answer."""
    return {
        "time": entry.time,
        "exact": entry.exact,
        "level": entry.level,
        "component": entry.component,
        "rank": entry.rank,
        "tag": entry.tag,
        "message": entry.message,
        "more": entry.more,
        "exception": entry.exception,
        "count": entry.count,
        "last_time": entry.last_time,
        "states": entry.states,
        "complete": entry.complete,
        "file": entry.file,
        "offset": entry.offset,
    }


def stamp(moment: float | None, *, exact: bool) -> str:
    """``11-29 14:30:05``, with a ``~`` where the date was inferred."""
    if moment is None or not 0 <= moment < _NO_YEAR:
        return "?" * 14
    return f"{dt.datetime.fromtimestamp(moment).astimezone():%m-%d %H:%M:%S}{' ' if exact else '~'}"


def entry_text(entry: LogEntry) -> str:
    """An entry as a person reads it, harmless for a terminal."""
    source = entry.component + (f" {entry.rank}" if entry.rank else "")
    counts = [f"x{entry.count}"] if entry.count > 1 else []
    counts += [f"drawn {entry.states} times"] if entry.states > 1 else []
    counts += [f"until {stamp(entry.last_time, exact=True).strip()}"] if entry.last_time is not None else []
    suffix = f"  [{', '.join(counts)}]" if counts else ""
    tag = f"[{entry.tag}] " if entry.tag else ""
    head = f"{stamp(entry.time, exact=entry.exact)} {entry.level or '-':>8} {source}: {tag}{entry.message}{suffix}"
    colour = _COLOURS.get(entry.level) if sys.stdout.isatty() else None
    text = "\n".join(_harmless(line) for line in (head, *entry.more))
    return (click.style(text, fg=colour) if colour else text) + "\n"


def _harmless(line: str) -> str:
    """A line for a terminal, its indentation kept, with secrets masked."""
    text = for_terminal(mask_secrets(for_terminal(line))).replace("\n", " ")
    return text if len(text) <= _MAX_LINE else text[: _MAX_LINE - 1] + "…"


def incident_row(incident: Incident) -> dict[str, Any]:
    """An incident as a row of an answer."""
    signature, collective = incident.signature, incident.collective
    row: dict[str, Any] = {
        "id": incident.id,
        "severity": incident.severity,
        "role": signature.role,
        "fault": signature.fault,
        "consequence_of": incident.consequence_of,
        "count": incident.count,
        "first": incident.first,
        "last": incident.last,
        "exact": incident.exact,
        "component": incident.component,
        "components": incident.components,
        "rank": incident.rank,
        "ranks": incident.ranks,
        "file": incident.file,
        "offset": incident.offset,
        "files": incident.files,
        "text": incident.text,
        "values": incident.values,
        "cause": signature.cause,
        "fix": signature.fix,
        "note": signature.note,
        "threads": list(signature.threads),
    }
    if collective is not None:
        row["collective"] = {
            "op": collective.op,
            "sequence": {str(rank): sequence for rank, sequence in sorted(collective.sequence.items())},
            "timeout": collective.timeout,
            "seen": collective.seen,
            "missing": collective.missing,
            "suspects": collective.suspects,
        }
    return row


def incident_text(incident: Incident) -> str:
    """An incident as a person reads it: what, where, how often, cause and fix."""
    signature, collective = incident.signature, incident.collective
    span = f", for {format_duration(incident.last - incident.first)}" if incident.last > incident.first else ""
    head = f"{stamp(incident.first, exact=incident.exact)} {incident.severity:>5} {incident.id}"
    head += f" ({signature.fault})" if signature.fault else ""
    head += f"  x{incident.count}{span}  {', '.join(incident.components)}"
    follows = f"follows from {incident.consequence_of}" if incident.consequence_of else ""
    stuck = ""
    if collective is not None:
        suspects = ", ".join(map(str, collective.suspects)) or "none stands out"
        stuck = f"{collective.op}: ranks {', '.join(map(str, collective.seen))} waited; suspect: {suspects}"
    place = f"{incident.file}:{incident.offset}"
    details = (place, incident.text, stuck, follows, f"cause: {signature.cause}", f"fix: {signature.fix}")
    return "\n".join([safe(head), *(f"    {safe(line)}" for line in details if line)]) + "\n"
