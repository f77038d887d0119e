"""What a rule is, how it is documented, and words that several rules use."""

import inspect
import re
import shlex
import signal
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from prl.watch.facts import LogError, Process, Series
from prl.watch.surroundings import Incident
from prl.watch.thresholds import DEFAULT, Thresholds
from prl.watch.verdict import Evidence, Finding
from prl.watch.view import View

_PARTS = ("Needs", "Speaks", "Silent")


@dataclass(frozen=True)
class Rule:
    """A rule, the id under which it is documented, and the phases in which it is asked.

    The docstring of ``check`` is its documentation: what it means, then paragraphs that begin with ``Needs:``,
    ``Speaks:`` and ``Silent:``. A threshold stands in it as ``{training.kl_high}``.
    """

    id: str
    check: Callable[[View], Finding | None]
    phases: Collection[str] | None = None
    """None: in all of them."""
    explains: Collection[str] = ()
    """Rules, or the areas of rules, whose findings may follow from this one: it is then as grave as they are, and told
    before them."""


@dataclass(frozen=True)
class Documentation:
    """A rule in words."""

    summary: str
    needs: str
    speaks: str
    silent: str


def document(rule: Rule, limits: Thresholds = DEFAULT) -> Documentation:
    """The documentation of a rule with the thresholds filled in. Raises ValueError when a part is missing."""
    text = inspect.getdoc(rule.check) or ""
    parts = re.split(rf"^({'|'.join(_PARTS)}): ", text, flags=re.M)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    if tuple(found) != _PARTS:
        raise ValueError(f"rule {rule.id}: its docstring needs the parts {', '.join(_PARTS)} in this order")
    areas = vars(limits)
    summary, *others = (" ".join(part.format(**areas).split()) for part in (parts[0], *found.values()))
    return Documentation(summary, *others)


def restart(view: View) -> str:
    """How a run is started again. What to type, and what must hold before, is the plan's to say."""
    complete = view.facts.checkpoints.complete
    where = (
        f"its newest complete checkpoint is step {complete[-1]}"
        if complete
        else "it has no complete checkpoint"
        if view.facts.checkpoints.problem is None
        else "its checkpoints cannot be read"
    )
    plan = shlex.join(["prl", "restart-plan", view.facts.run.dir])
    return f"A run is restarted as a whole, when its cause is removed: `{plan}` says what to type ({where})."


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
    where = process.source if process.exit_code is not None else f"process {process.pid} on {process.host}"
    return Evidence(
        where, f"{process.name} (pid {process.pid}) {how_it_ended(process)}", time=process.ended or process.as_of
    )


def error_evidence(error: LogError) -> Evidence:
    """Where an error stands."""
    text = error.summary if error.summary == error.header else f"{error.header}: {error.summary}"
    return Evidence(error.file, text, offset=error.offset, time=error.time)


def incident_evidence(incident: Incident) -> Evidence:
    """Where a known failure was said first."""
    times = f" ({incident.count} times)" if incident.count > 1 else ""
    return Evidence(incident.file, f"{incident.text}{times}", offset=incident.offset, time=incident.time)


def what_broke(view: View, said: str | None = None) -> str | None:
    """The failure that began it, with its usual cause and fix where it is a known one. ``said``: its own words."""
    known = view.root_incident
    if known is None:
        words = view.cause or view.last_words
        return f"{words.component}: {words.summary}" if words is not None else None
    details = f" ({'; '.join(known.details)})" if known.details else ""
    return f"{said or f'{known.component}: {known.text}'}{details}. Usually: {known.cause}. Usual fix: {known.fix}"


def cause_evidence(view: View) -> list[Evidence]:
    """Where the failure that began it stands."""
    known = [incident_evidence(view.root_incident)] if view.root_incident is not None else []
    said = [error_evidence(view.cause)] if view.cause is not None else []
    return [*known, *(one for one in said if [one.offset, one.source] not in [[k.offset, k.source] for k in known])]


def series_evidence(series: Series, count: int = 1) -> list[Evidence]:
    """The last values of a series."""
    rows = list(zip(series.steps, series.times, series.values, strict=False))[-count:]
    return [
        Evidence(series.source, f"{series.key} = {value:.4g}", step=step, time=time)
        for step, time, value in rows
        if value is not None
    ]


def at_step(series: Series) -> str:
    """``at step 12``; nothing for a series by the clock."""
    return f" at step {series.last_step}" if series.last_step is not None else ""


def newest(series: Sequence[Series]) -> list[Series]:
    """Those with a value at the newest step of all: what an environment said long ago says nothing now."""
    steps = [one.last_step for one in series if one.last_step is not None]
    last = max(steps, default=None)
    return [one for one in series if one.last is not None and one.last_step == last]


def highest(series: Iterable[Series]) -> list[Series]:
    return sorted(series, key=lambda one: one.last or 0.0, reverse=True)
