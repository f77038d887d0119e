"""How a run is doing: the verdict with its findings, the plan of a restart, and what a rule says of itself."""

from dataclasses import asdict
from typing import Any

from prl.dashboard.errors import not_found
from prl.dashboard.evidence import link_of, series_of
from prl.dashboard.judgement import Judgement
from prl.dashboard.routing import Call, Route, head
from prl.watch.outward import safe, safe_tree

_WAIT = 2.5
"""Seconds for which a first verdict is waited."""
_MAX_FINDINGS = 100
_MAX_EVIDENCE = 50


def verdict(call: Call) -> dict[str, Any]:
    judged = _judged(call)
    if judged is None:
        return head(verdict=None, findings=[], bottleneck=None, numbers=None, unknown=[], judged_at=None)
    found = judged.verdict
    keys = series_of(found)
    findings = []
    for finding in found.findings[:_MAX_FINDINGS]:
        told = safe_tree(asdict(finding))
        told["evidence"] = [
            {**shown, "link": link_of(evidence, keys)}
            for shown, evidence in zip(told["evidence"], finding.evidence, strict=True)
        ][:_MAX_EVIDENCE]
        findings.append(told)
    fields = safe_tree(found.to_json())
    return head(
        verdict=fields,
        findings=findings,
        bottleneck=fields["bottleneck"],
        numbers=fields["numbers"],
        unknown=fields["unknown"],
        judged_at=found.as_of,
    )


def verdict_version(call: Call) -> str:
    judged = _judged(call)
    return str(judged.version) if judged is not None else "none"


def _judged(call: Call) -> Judgement | None:
    call.workspace.check(call.run)
    return call.workspace.judge.look_at(call.workspace.info(call.path["run"]), _WAIT)


def restart_plan(call: Call) -> dict[str, Any]:
    from prl.watch.assess import assess
    from prl.watch.gather import gather
    from prl.watch.launch_site import look
    from prl.watch.restart import plan
    from prl.watch.restart_screen import render_plan, whole

    limits = call.workspace.judge.limits()
    facts = gather(call.run.path)
    planned = plan(facts, assess(facts, limits), look(facts), limits)
    fields = safe_tree(planned.to_json())
    # Commands are typed as they are: whole, however long, with secrets masked.
    for name in ("alternatives", "verify"):
        fields[name] = [{"line": whole(one), "does": safe(one.does)} for one in getattr(planned, name)]
    command = planned.command
    fields["command"] = {"line": whole(command), "does": safe(command.does)} if command is not None else None
    return head(plan=fields, text=render_plan(planned))


def rule(call: Call) -> dict[str, Any]:
    from prl.watch.assess import DOCUMENTED
    from prl.watch.rules import document

    wanted = call.path["rule"]
    found = next((known for known in DOCUMENTED if known.id == wanted), None)
    if found is None:
        raise not_found(f"no rule {wanted[:200]!r} (prl rules lists them)")
    words = document(found, call.workspace.judge.limits())
    text = f"Needs: {words.needs}\nSpeaks: {words.speaks}\nSilent: {words.silent}"
    return head(
        id=found.id,
        title=words.summary,
        text=text,
        **{name: getattr(words, name) for name in ("needs", "speaks", "silent")},
        phases=list(found.phases) if found.phases is not None else None,
    )


ROUTES = (
    Route(
        "/api/v1/runs/{run}/verdict",
        verdict,
        "How the run is doing, and on what that rests",
        "`verdict` as `prl status --json` has it (null: not judged yet); `findings`: `rule`, `severity` (critical, "
        "warning, info), `kind` (alarm, advice), `message`, `cause`, `action`, `evidence` (`text`, `source`, `offset`, "
        "`step`, `time`, `link`: `page` and `params` of the place that shows it, or null); `bottleneck`; `numbers`; "
        "`unknown`: what could not be told; `judged_at`.",
        version=verdict_version,
    ),
    Route(
        "/api/v1/runs/{run}/restart-plan",
        restart_plan,
        "What to type to start the run again, and what must hold before that. Nothing is started",
        "`plan` as `prl restart-plan --json` has it, `text`: the same for people.",
    ),
    Route(
        "/api/v1/rules/{rule}",
        rule,
        "What a rule looks for, in its own words, with this user's thresholds",
        "`id`, `title`, `text`, `needs`, `speaks`, `silent`, `phases` (null: any).",
    ),
)
