"""What the watch side's commands have in common: which run is meant, and the form of JSON answers."""

import dataclasses
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prl.rundir.discovery import RunNotFoundError, find_run
from prl.watch.assess import assess
from prl.watch.facts import Facts, FactsError, loads
from prl.watch.outward import safe, safe_tree
from prl.watch.thresholds import Thresholds, ThresholdsError, load_thresholds
from prl.watch.verdict import SEVERITIES, Verdict

if TYPE_CHECKING:
    from prl.watch.conditions import Condition
    from prl.watch.resumption import Resumption

SCHEMA_VERSION = 1
MAX_ROWS = 100
"""Entries of each list of an answer. Beyond that ``truncated`` is true and ``counts`` has the whole number."""

_LISTS = ("findings", "processes", "errors", "unknown")


def locate_run(run: str | None) -> Path:
    """The run that was meant. Raises a usage error that says what exists."""
    try:
        return find_run(run)
    except RunNotFoundError as error:
        raise click.UsageError(safe(str(error))) from None


def user_thresholds() -> Thresholds:
    """The thresholds that this user set. Raises a usage error that names file and key."""
    try:
        return load_thresholds()
    except ThresholdsError as error:
        raise click.UsageError(safe(str(error))) from None


def judge(facts: Facts) -> Verdict:
    """The verdict by this user's thresholds."""
    return assess(facts, user_thresholds())


def recorded_facts(path: Path) -> Facts:
    """Facts from a file. Raises a usage error."""
    try:
        return loads(path.read_bytes())
    except (OSError, FactsError) as error:
        raise click.UsageError(safe(f"{path}: {error}")) from None


def print_json(answer: dict[str, Any]) -> None:
    """Print an answer as JSON. Text is made harmless and secrets are masked."""
    print_safe_json(safe_tree(answer))


def print_safe_json(answer: dict[str, Any]) -> None:
    """Print as JSON what is harmless already."""
    print_text(json.dumps(answer, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def print_text(text: str) -> None:
    """Print ``text``. A reader that went away (``prl status | head``) changes nothing: the exit status is an answer."""
    try:
        click.echo(text, nl=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes once more at its end, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def envelope(
    *,
    counts: Mapping[str, int],
    rows: Sequence[Any],
    truncated: bool,
    ok: bool = True,
    as_of: float | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """A JSON answer. ``as_of``: Unix seconds, by default this moment; ``fields``: what this command alone has."""
    head = {"schema_version": SCHEMA_VERSION, "as_of": time.time() if as_of is None else as_of, "ok": ok}
    return {**head, **fields, "counts": dict(counts), "rows": list(rows), "truncated": truncated}


def verdict_answer(verdict: Verdict) -> dict[str, Any]:
    """The answer of ``status`` and ``check-in``: the verdict's fields, and its findings flat as ``rows``.

    ``ok`` says whether the run is healthy or finished, that is whether the exit status is 0.
    """
    fields = verdict.to_json()
    counts: dict[str, int] = {name: len(fields[name]) for name in _LISTS}
    for severity in SEVERITIES:
        counts[severity] = sum(finding.severity == severity for finding in verdict.findings)
    for name in _LISTS:
        fields[name] = fields[name][:MAX_ROWS]
    rows = [
        {"rule": finding.rule, "severity": finding.severity, "message": finding.message}
        for finding in verdict.findings[:MAX_ROWS]
    ]
    fields.pop("schema_version")
    truncated = any(counts[name] > MAX_ROWS for name in _LISTS)
    return envelope(ok=verdict.exit_code == 0, counts=counts, rows=rows, truncated=truncated, **fields)


def resumption_answer(resumption: "Resumption") -> dict[str, Any]:
    """The answer of ``status --since-restart``; ``rows`` are the conditions."""
    fields = dataclasses.asdict(resumption)
    rows, counts = fields.pop("conditions"), condition_counts(resumption.conditions)
    return envelope(ok=resumption.exit_code == 0, counts=counts, rows=rows, truncated=False, **fields)


def condition_counts(conditions: "Iterable[Condition]") -> dict[str, int]:
    """How many conditions are in which state."""
    from prl.watch.conditions import STATES

    states = [condition.state for condition in conditions]
    return {state.replace(" ", "_"): states.count(state) for state in STATES}
