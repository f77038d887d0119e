"""The last check-in that was written by this project, read back from STATUS.md, and what has changed since.

An entry is known by the line ``**Since last check-in**``, which others do not write. What people write between entries,
even in the same form, is skipped. Only the end of the file is read, and what it holds is anybody's text.
"""

import datetime as dt
import re
from dataclasses import dataclass
from pathlib import Path

from prl.rundir.regular import open_regular
from prl.watch.verdict import ADVICE, DEGRADED, UNKNOWN, Verdict
from prl.watch.words import utc_words

LABEL = "**Since last check-in**"

_READ = 256 * 1024
_ENTRY = re.compile(
    r"^## (\d{4}-\d\d-\d\d \d\d:\d\d) UTC\n\n"
    r"\*\*Step\*\*: (\d{1,12}|\?) / \S+\n"
    r"\*\*Health\*\*: (Healthy|Degraded|Down)\n\n"
    r"(?:\*\*(?:Progress|Stability|Performance)\*\*: .*\n){3}"
    r"\*\*Since last check-in\*\* \(.*\): attempt (\d{1,12}|\?)(; .*)?\n",
    re.M,
)
_RULES = re.compile(r"; (?:new|still) ([a-z0-9., -]+)")


@dataclass(frozen=True)
class LastEntry:
    """What an earlier check-in said."""

    time: float
    """Its minute, Unix seconds."""
    step: int | None
    health: str
    attempt: int | None
    rules: tuple[str, ...]
    """Rules that had a finding."""


def last_entry(path: Path) -> LastEntry | None:
    """The last entry of ours in a file. None: there is none, or it cannot be read."""
    try:
        with open_regular(path, path.parent) as file:
            file.seek(max(file.seek(0, 2) - _READ, 0))
            text = file.read(_READ).decode(errors="replace")
    except OSError:
        return None
    found = None
    for match in _ENTRY.finditer(text):
        found = match
    return _entry(found) if found is not None else None


def changes(verdict: Verdict, previous: LastEntry | None) -> str:
    """The line that says what has changed, in the form that :func:`last_entry` reads."""
    rules = [finding.rule for finding in verdict.findings if finding.kind != ADVICE]
    health = DEGRADED if verdict.health == UNKNOWN else verdict.health
    attempt = "?" if verdict.attempt is None else verdict.attempt
    if previous is None:
        parts = [f"attempt {attempt}", *_listed("new", rules)]
        return f"{LABEL} (none before): {'; '.join(parts)}"
    parts = [f"attempt {attempt}"]
    if previous.attempt is not None and previous.attempt != verdict.attempt:
        parts.append(f"before: attempt {previous.attempt}")
    if previous.step is not None and verdict.step is not None:
        parts.append(f"step {verdict.step - previous.step:+d}")
    parts.append("health as before" if health == previous.health else f"health {previous.health} -> {health}")
    parts += _listed("new", [rule for rule in rules if rule not in previous.rules])
    parts += _listed("gone", [rule for rule in previous.rules if rule not in rules])
    parts += _listed("still", [rule for rule in rules if rule in previous.rules])
    return f"{LABEL} ({utc_words(previous.time)}): {'; '.join(parts)}"


def _listed(word: str, rules: list[str]) -> list[str]:
    return [f"{word} {', '.join(dict.fromkeys(rules))}"] if rules else []


def _entry(match: "re.Match[str]") -> LastEntry | None:
    stamp, step, health, attempt, rest = match.groups()
    try:
        moment = dt.datetime.strptime(f"{stamp} +0000", "%Y-%m-%d %H:%M %z").timestamp()
    except ValueError:  # digits that are no date
        return None
    rules = [rule for names in _RULES.findall(rest or "") for rule in names.split(", ")]
    return LastEntry(
        time=moment,
        step=int(step) if step.isdigit() else None,
        health=health,
        attempt=int(attempt) if attempt.isdigit() else None,
        rules=tuple(rules),
    )
