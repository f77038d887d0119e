"""The verdict as one screen of plain text, for a terminal of 80 columns or more (lines are not wrapped)."""

from collections.abc import Iterable, Iterator

from prl.text.human import format_duration
from prl.watch.facts import LogError, Process
from prl.watch.outward import safe
from prl.watch.verdict import Evidence, Finding, Number, Verdict
from prl.watch.words import clock_words, number_words, step_words

_MAX_FINDINGS = 6
_MAX_EVIDENCE = 4
_MAX_ERRORS = 5
_MAX_NUMBERS = 12


def render(verdict: Verdict) -> str:
    """One screen: verdict, findings with evidence, key numbers, processes, newest errors. Ends in a newline."""
    return "\n".join(_lines(verdict)) + "\n"


def _lines(verdict: Verdict) -> Iterator[str]:
    attempt = f", attempt {verdict.attempt}" if verdict.attempt is not None else ""
    yield f"{safe(verdict.run)}{attempt}  ({safe(verdict.run_dir)})"
    stage = f" at '{verdict.stage}'" if verdict.stage else ""
    yield f"{verdict.health}: {verdict.phase}{stage}, step {step_words(verdict.step, verdict.max_steps)}{_age(verdict)}"
    # A finding is shown below with its evidence: its sentence is not said twice.
    if verdict.reason and verdict.reason not in [finding.message for finding in verdict.findings]:
        yield f"  {safe(verdict.reason)}"
    if verdict.awaits and not any(verdict.awaits in finding.message for finding in verdict.findings):
        yield f"  waits for: {safe(verdict.awaits)}"
    for finding in verdict.findings[:_MAX_FINDINGS]:
        yield ""
        yield from _finding(finding)
    if len(verdict.findings) > _MAX_FINDINGS:
        yield f"  and {len(verdict.findings) - _MAX_FINDINGS} more findings (--json has all)"
    numbers = verdict.numbers
    groups = (("progress", numbers.progress), ("stability", numbers.stability), ("performance", numbers.performance))
    if any(group for _, group in groups):
        yield ""
        yield from (f"{name + ':':<13}{_numbers(group)}" for name, group in groups if group)
    if verdict.processes:
        yield ""
        yield from _processes(verdict.processes)
    if verdict.errors:
        yield ""
        yield from _errors(verdict.errors)
    if verdict.unknown:
        yield ""
        yield from (f"not known: {safe(note)}" for note in verdict.unknown)


def _age(verdict: Verdict) -> str:
    if verdict.since_progress is None or verdict.phase in ("finished", "configured"):
        return ""
    return f", last progress {format_duration(verdict.since_progress)} ago"


def _finding(finding: Finding) -> Iterator[str]:
    yield f"[{finding.severity}] {finding.rule}: {safe(finding.message)}"
    for evidence in finding.evidence[:_MAX_EVIDENCE]:
        yield f"    {_evidence(evidence)}"
    if finding.cause:
        yield f"    likely cause: {safe(finding.cause)}"
    if finding.action:
        yield f"    what to do: {safe(finding.action)}"


def _evidence(evidence: Evidence) -> str:
    place = safe(evidence.source) + (f" at byte {evidence.offset}" if evidence.offset is not None else "")
    when = f" ({clock_words(evidence.time)})" if evidence.time is not None else ""
    return f"{place}{when}: {safe(evidence.text)}"


def _numbers(numbers: list[Number]) -> str:
    shown = ", ".join(safe(number_words(number)) for number in numbers[:_MAX_NUMBERS])
    return shown + (f", and {len(numbers) - _MAX_NUMBERS} more" if len(numbers) > _MAX_NUMBERS else "")


def _processes(processes: Iterable[Process]) -> Iterator[str]:
    for process in processes:
        code = f" with exit code {process.exit_code}" if process.exit_code is not None else ""
        yield f"process:     {safe(process.name)} (pid {process.pid} on {safe(process.host)}) {process.state}{code}"


def _errors(errors: list[LogError]) -> Iterator[str]:
    for error in errors[:_MAX_ERRORS]:
        times = f", {error.count} times" if error.count > 1 else ""
        echo = "" if error.primary else " (echo)"
        when = clock_words(error.last_time, exact=error.exact)
        yield f"error{echo}: {safe(error.file)} ({when}{times}): {safe(error.summary)}"
    if len(errors) > _MAX_ERRORS:
        yield f"errors in {len(errors) - _MAX_ERRORS} more logs (--json has all)"
