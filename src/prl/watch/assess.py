"""From facts to a verdict: a pure function, so that every face of the project says the same of the same facts."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from prl.text.human import format_duration
from prl.watch.facts import Facts, LogError
from prl.watch.numbers import key_numbers
from prl.watch.rules import RULES, Rule
from prl.watch.thresholds import DEFAULT, Thresholds
from prl.watch.verdict import (
    ADVICE,
    ALARM,
    CONFIGURED,
    CRITICAL,
    DEGRADED,
    DOWN,
    FAILED,
    FAILING,
    FINISHED,
    HEALTHY,
    INFO,
    PHASE_UNKNOWN,
    PREEMPTED,
    QUEUED,
    REQUEUED,
    RUNNING,
    SEVERITIES,
    STARTING,
    STOPPED,
    UNKNOWN,
    WARNING,
    Bottleneck,
    Evidence,
    Finding,
    Verdict,
)
from prl.watch.view import View

RULE_FAILED = "rule.failed"
"""Id of the finding that a rule which raised leaves in its place."""


def rule_failed(_: View) -> None:
    """A rule raised an error on these facts.

    Needs: nothing.
    Speaks: as a warning in the place of the rule that failed, and names it; the other rules are not affected. It is a
    fault of this project: report it with the facts (`prl status --save-facts FILE`).
    Silent: otherwise.
    """


DOCUMENTED = (*RULES, Rule(RULE_FAILED, rule_failed))
"""Every id that a finding may have."""


def assess(facts: Facts, thresholds: Thresholds = DEFAULT, rules: Sequence[Rule] = RULES) -> Verdict:
    """The verdict on these facts."""
    view = View(facts, thresholds)
    findings = _told(_findings(view, rules), rules)
    health, reason = _health(view, findings)
    starting = view.phase == STARTING and view.stage is not None
    return Verdict(
        as_of=facts.as_of,
        host=facts.host,
        run=facts.run.name,
        run_dir=facts.run.dir,
        kind=facts.run.kind,
        attempt=facts.attempt,
        phase=view.phase,
        health=health,
        reason=reason,
        stage=view.stage.name if starting and view.stage else None,
        awaits=_awaits(view),
        step=view.step,
        max_steps=facts.run.max_steps,
        endless=facts.run.endless,
        since_progress=view.idle,
        bottleneck=_split(view, findings),
        numbers=key_numbers(facts),
        findings=findings,
        processes=facts.processes,
        errors=_newest_errors(facts.errors, view.cause or view.last_words),
        unknown=facts.unknown,
    )


def _findings(view: View, rules: Iterable[Rule]) -> Iterator[Finding]:
    for rule in rules:
        if rule.phases is not None and view.phase not in rule.phases:
            continue
        try:
            finding = rule.check(view)
        except Exception as error:  # one broken rule must never hide what the others say
            text = f"{type(error).__name__}: {error}"
            yield Finding(
                rule=RULE_FAILED,
                severity=WARNING,
                message=f"The rule {rule.id} failed on these facts and says nothing: {text}",
                evidence=[Evidence(rule.id, text)],
                action="Report it with the facts (prl status --save-facts FILE).",
            )
        else:
            if finding is not None:
                yield finding


def _told(findings: Iterable[Finding], rules: Sequence[Rule]) -> list[Finding]:
    """The gravest first; advice only when nothing is wrong: who tunes a run that fails makes two problems of one."""
    explains = {rule.id: rule.explains for rule in rules}
    known = list(findings)
    raised = (_as_grave(finding, explains.get(finding.rule, ()), known) for finding in known)
    found = sorted(raised, key=lambda finding: SEVERITIES.index(finding.severity))
    return [finding for finding in found if finding.kind != ADVICE] if _wrong(found) else found


def _wrong(findings: Iterable[Finding]) -> bool:
    return any(finding.kind == ALARM and finding.severity != INFO for finding in findings)


def _split(view: View, findings: Sequence[Finding]) -> Bottleneck | None:
    """Where the time goes. Which side to grow is advice, and keeps silent with the other advice."""
    split = view.bottleneck
    return replace(split, grow=None) if split is not None and _wrong(findings) else split


def _as_grave(finding: Finding, explains: Collection[str], others: Sequence[Finding]) -> Finding:
    """A cause with the severity of the gravest finding that it explains, so that it does not stand below it."""
    follow = [one.severity for one in others if one.rule in explains or one.rule.partition(".")[0] in explains]
    return replace(finding, severity=min((finding.severity, *follow), key=SEVERITIES.index))


def _health(view: View, findings: Sequence[Finding]) -> tuple[str, str | None]:
    alarms = [finding for finding in findings if finding.severity != INFO]
    first = alarms[0].message if alarms else None
    phase, launcher = view.phase, view.facts.launcher
    if phase in (FINISHED, CONFIGURED, QUEUED):
        return (DEGRADED, first) if alarms else (HEALTHY, _queued(view))
    if phase in (PREEMPTED, REQUEUED):
        return DEGRADED, first or f"the job was {phase}"
    if phase == STOPPED:
        return DOWN, (launcher.reason if launcher else None) or _stopped(view)
    if phase in (FAILED, FAILING):
        return DOWN, first or (launcher.reason if launcher else None) or "the run failed"
    if alarms and alarms[0].severity == CRITICAL:
        return DOWN, first  # whether its processes live or not, where the phase is not known
    if phase == PHASE_UNKNOWN:
        return UNKNOWN, _not_known(view)
    if alarms:
        return DEGRADED, first
    if phase == RUNNING and view.idle is None:
        return UNKNOWN, "the processes live, but nothing that could be read records progress"
    return HEALTHY, None


def _queued(view: View) -> str | None:
    job = view.job
    if view.phase != QUEUED or job is None:
        return None
    return f"job {job.id} waits: {job.reason_text or job.reason or job.state}"


def _stopped(view: View) -> str:
    job = view.job
    return f"job {job.id} was cancelled" if job is not None and job.state == "CANCELLED" else "the run was stopped"


def _not_known(view: View) -> str:
    facts = view.facts
    if not facts.launched and not facts.configured:
        return "the directory holds neither a configuration nor a log"
    if facts.launcher is not None:
        age = format_duration(max(facts.as_of - facts.launcher.updated, 0.0))
        return f"the launcher on {facts.launcher.host} has not written for {age} and cannot be asked from {facts.host}"
    job = view.job
    if job is not None and job.ended is not None and job.problem is not None:
        return f"job {job.id}: {job.problem}"
    if view.idle is None:
        return "no step is recorded, and nothing says which processes belong to the run"
    idle = format_duration(view.idle)
    return f"nothing has advanced for {idle}, and nothing says whether the processes of the run live"


def _awaits(view: View) -> str | None:
    if view.phase == STARTING and view.stage is not None:
        said = view.facts.launcher.waiting_for if view.facts.launcher else None
        return said or view.stage.awaits
    return view.awaits if view.phase == RUNNING and view.slow else None


def _newest_errors(errors: Sequence[LogError], cause: LogError | None) -> list[LogError]:
    """The newest error of each log, the earliest primary one of all first (the cause, where one was found)."""
    newest = {error.file: error for error in sorted(errors, key=lambda error: error.last_time or 0.0)}
    primary = cause or next((error for error in errors if error.primary), None)
    rest = sorted(newest.values(), key=lambda error: (not error.primary, error.time or 0.0))
    first = [primary] if primary is not None else []
    return first + [error for error in rest if error is not primary]
