"""The verdict as one screen of plain text, for a terminal of 80 columns or more.

Lines are wrapped between words; what is longer than a line without a space, and the first line, are left whole. The
gravest finding is shown with all that it rests on, the others shortly: whoever is called at night acts on one.
"""

import textwrap
from collections.abc import Iterable, Iterator
from itertools import groupby

from prl.text.human import format_duration, format_percent
from prl.watch.facts import ALIVE, LogError, Process
from prl.watch.outward import safe
from prl.watch.verdict import Bottleneck, Evidence, Finding, Number, Verdict
from prl.watch.words import clock_words, number_words, step_words

WIDTH = 80
_LABEL = 13
"""Columns of the labels at the left."""
_MAX_FINDINGS = 6
_MAX_EVIDENCE = 4
_MAX_ERRORS = 5
_MAX_NUMBERS = 12
_MAX_TEXT = 240
"""Characters of one text of a log."""


def render(verdict: Verdict, width: int = WIDTH) -> str:
    """One screen: verdict, findings with evidence, key numbers, processes, newest errors. Ends in a newline."""
    attempt = f", attempt {verdict.attempt}" if verdict.attempt is not None else ""
    head = f"{safe(verdict.run)}{attempt}  ({safe(verdict.run_dir)})"
    return "\n".join([head, *(line for text in _lines(verdict) for line in _wrapped(text, width))]) + "\n"


def _wrapped(text: str, width: int) -> list[str]:
    """A line in as many as it takes, the further ones below its own text."""
    if len(text) <= width:
        return [text]
    indent = len(text) - len(text.lstrip(" "))
    hang = _LABEL if not indent and text[: _LABEL - 1].rstrip().endswith(":") else indent + 2
    return textwrap.wrap(text, width, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False)


def _lines(verdict: Verdict) -> Iterator[str]:
    stage = f" at '{verdict.stage}'" if verdict.stage else ""
    step = step_words(verdict.step, verdict.max_steps, endless=verdict.endless)
    yield f"{verdict.health}: {verdict.phase}{stage}, step {step}{_age(verdict)}"
    # A finding is shown below with its evidence: its sentence is not said twice.
    if verdict.reason and verdict.reason not in [finding.message for finding in verdict.findings]:
        yield f"  {safe(verdict.reason)}"
    if verdict.awaits and not any(verdict.awaits in finding.message for finding in verdict.findings):
        yield f"  waits for: {safe(verdict.awaits)}"
    for index, finding in enumerate(verdict.findings[:_MAX_FINDINGS]):
        yield ""
        yield from _finding(finding, _MAX_EVIDENCE if index == 0 else 1)
    if len(verdict.findings) > _MAX_FINDINGS:
        yield f"  and {len(verdict.findings) - _MAX_FINDINGS} more findings (--json has all)"
    numbers = verdict.numbers
    groups = (("progress", numbers.progress), ("stability", numbers.stability), ("performance", numbers.performance))
    if any(group for _, group in groups):
        yield ""
        yield from (f"{name + ':':<{_LABEL}}{_numbers(group)}" for name, group in groups if group)
    if verdict.bottleneck is not None:
        yield from _bottleneck(verdict.bottleneck)
    if verdict.processes:
        yield ""
        yield from _processes(verdict.processes)
    if verdict.errors:
        yield ""
        yield from _errors(verdict.errors)
    if verdict.unknown:
        yield ""
        yield from (f"{'not known:':<{_LABEL}}{safe(note)}" for note in verdict.unknown)


def _age(verdict: Verdict) -> str:
    if verdict.since_progress is None or verdict.phase in ("finished", "configured"):
        return ""
    return f", last progress {format_duration(verdict.since_progress)} ago"


def _finding(finding: Finding, evidence_shown: int) -> Iterator[str]:
    yield f"[{finding.severity}] {finding.rule}: {safe(finding.message)}"
    for evidence in finding.evidence[:evidence_shown]:
        yield f"    {_evidence(evidence)}"
    if finding.cause:
        yield f"    likely cause: {safe(finding.cause)}"
    if finding.action:
        yield f"    what to do: {safe(finding.action)}"


def _bottleneck(split: Bottleneck) -> Iterator[str]:
    shares = [f"{share.cause} {format_percent(share.share)}" for share in split.shares]
    if split.unaccounted >= 0.0005:
        shares.append(f"unaccounted {format_percent(split.unaccounted)}")
    steps = f"{format_duration(split.seconds)} a step, steps {split.first_step} to {split.last_step}"
    yield f"{'time:':<{_LABEL}}{', '.join(shares)} ({steps})"
    grow = f"{split.why}: grow {split.grow}" if split.grow else split.why
    yield f"{'bottleneck:':<{_LABEL}}{grow}"


def _evidence(evidence: Evidence) -> str:
    place = safe(evidence.source) + (f" at byte {evidence.offset}" if evidence.offset is not None else "")
    when = f" ({clock_words(evidence.time)})" if evidence.time is not None else ""
    return f"{place}{when}: {safe(evidence.text, _MAX_TEXT)}"


def _numbers(numbers: list[Number]) -> str:
    shown = ", ".join(safe(number_words(number)) for number in numbers[:_MAX_NUMBERS])
    return shown + (f", and {len(numbers) - _MAX_NUMBERS} more" if len(numbers) > _MAX_NUMBERS else "")


def _processes(processes: Iterable[Process]) -> Iterator[str]:
    """Those that live first; of one state and host in one line."""
    ordered = sorted(processes, key=lambda one: (one.state != ALIVE, one.state, one.host))
    for (state, host), members in groupby(ordered, key=lambda one: (one.state, one.host)):
        named = ", ".join(
            f"{safe(process.name)} (pid {process.pid}"
            + (f", exit code {process.exit_code})" if process.exit_code is not None else ")")
            for process in members
        )
        yield f"{state + ':':<{_LABEL}}{named} on {safe(host)}"


def _errors(errors: list[LogError]) -> Iterator[str]:
    for error in errors[:_MAX_ERRORS]:
        times = f", {error.count} times" if error.count > 1 else ""
        label = "error:" if error.primary else "echo:"
        when = clock_words(error.last_time, exact=error.exact)
        yield f"{label:<{_LABEL}}{safe(error.file)} ({when}{times}): {safe(error.summary, _MAX_TEXT)}"
    if len(errors) > _MAX_ERRORS:
        yield f"{'':<{_LABEL}}errors in {len(errors) - _MAX_ERRORS} more logs (--json has all)"
