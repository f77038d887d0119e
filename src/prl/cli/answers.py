"""What the watch side's commands have in common: which run is meant, and the form of JSON answers."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from prl.rundir.discovery import RunNotFoundError, find_run
from prl.watch.outward import safe, safe_tree
from prl.watch.verdict import SEVERITIES, Verdict

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


def print_json(answer: dict[str, Any]) -> None:
    """Print an answer as JSON. Text is made harmless and secrets are masked."""
    print_text(json.dumps(safe_tree(answer), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def print_text(text: str) -> None:
    """Print ``text``. A reader that went away (``prl status | head``) changes nothing: the exit status is an answer."""
    try:
        click.echo(text, nl=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes once more at its end, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
    head = {"schema_version": SCHEMA_VERSION, "as_of": fields.pop("as_of"), "ok": verdict.exit_code == 0}
    fields.pop("schema_version")
    truncated = any(counts[name] > MAX_ROWS for name in _LISTS)
    return {**head, **fields, "counts": counts, "rows": rows, "truncated": truncated}
