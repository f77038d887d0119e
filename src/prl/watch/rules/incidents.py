"""Rules about failures that are known by their words, and about those that only several facts together explain."""

from collections.abc import Callable
from dataclasses import dataclass

from prl.watch.rules.base import Rule, incident_evidence, restart
from prl.watch.surroundings import Incident
from prl.watch.verdict import CRITICAL, FAILED, FAILING, LIVE, PHASE_UNKNOWN, STARTING, WARNING, Evidence, Finding
from prl.watch.view import GENERIC, View

_TOLD_ELSEWHERE = GENERIC | {
    "env.no_workers",
    "env.pool_fatal",
    "env.worker_exit",
    "env.worker_died_old",
    "fs.enospc",
    "fs.quota",
    "monitor.nonfinite",
    "os.oomkill",
    "prl.bcast_wait",
    "prl.empty",
    "prl.forced_exit",
    "prl.lag",
    "prl.metrics_poll",
    "prl.node_grace",
    "prl.zero_out",
}
"""Signatures that other rules read, which know when they matter."""


def known(view: View) -> Finding | None:
    """A known failure stands in the logs of a run that still lives: critical when it is a fatal one and nothing
    advanced since, else a warning.

    Needs: the logs, compared with the signatures of `prl.rundir.logs`.
    Speaks: when a fatal one was said after the last progress; or one that is an error, and nothing advanced for
    longer than two steps take. The earliest primary one is named with its usual cause and fix; consequences and
    reports of others' failures (torchrun's summary, SLURM's wrappers, an engine that others find dead) are counted
    only.
    Silent: when the run went on after it; about what happens at a rate (failed requests, slow calls), which the rules
    about episodes tell; about lines that look like failures and are none; and once a process has ended, whose rule
    names it as the cause.
    """
    found = [
        one
        for one in view.facts.incidents
        if not one.secondary and _open(view, one) and one.signature not in _TOLD_ELSEWHERE and not _slurm(one)
    ]
    if not found:
        return None
    first = next((one for one in found if one.severity == "fatal"), found[0])
    others = len([one for one in view.facts.incidents if one is not first and _open(view, one)])
    more = f"; {others} more in the logs, its consequences among them" if others else ""
    details = f" ({'; '.join(first.details)})" if first.details else ""
    survives = first.component.startswith("envs/") and not first.signature.startswith("env.")
    return Finding(
        rule="incident.known",
        severity=CRITICAL if first.severity == "fatal" and not survives else WARNING,
        message=f"{first.component} tells of a known failure ({first.signature}): {first.text}{details}{more}",
        evidence=[incident_evidence(one) for one in (first, *(one for one in found if one is not first))][:3],
        cause=first.cause,
        action=first.fix,
    )


def compound(view: View) -> Finding | None:
    """Facts that explain each other: several signs with one cause.

    Needs: the known failures in the logs, and what else the run shows.
    Speaks: when a sequence is complete that has one known cause: an engine that failed while it took new weights, so
    that the trainer waits for it in a collective; a worker of an environment that the kernel killed, so that its
    episodes never end; a node whose task ended first and whose device reported a fault of the hardware; a checkpoint
    that a full disk cut in half, so that resuming from it fails.
    Silent: when a part of the sequence is missing: the parts are then told by themselves.
    """
    for story in _STORIES:
        evidence = story.tells(view)
        if evidence:
            critical = view.phase in (FAILING, FAILED, STARTING) or view.slow
            return Finding(
                rule="incident.compound",
                severity=CRITICAL if critical else WARNING,
                message=story.message,
                evidence=evidence,
                cause=story.cause,
                action=f"{story.action} {restart(view)}" if critical else story.action,
            )
    return None


def _open(view: View, incident: Incident) -> bool:
    """Whether nothing of the run advanced since."""
    if incident.severity not in ("fatal", "error"):
        return False
    last = incident.last_time
    if view.last_progress is not None and (last is None or last <= view.last_progress):
        return False
    return incident.severity == "fatal" or view.slow or view.phase == STARTING


def _slurm(incident: Incident) -> bool:
    return incident.signature.startswith("slurm.")


# ---- sequences with one cause; each gives its evidence, or nothing when it is not complete


def _engine_failed_at_update(view: View) -> list[Evidence]:
    failed = [one for one in view.incidents("vllm.worker_failed", "cuda.oom") if one.component.startswith("inference")]
    stuck = view.incidents("nccl.watchdog")
    waits = view.handshake
    if not failed or not (stuck or waits is not None):
        return []
    evidence = [incident_evidence(failed[0]), *map(incident_evidence, stuck[:1])]
    return evidence + ([Evidence(waits.source, waits.text, time=waits.since)] if waits is not None else [])


def _worker_killed(view: View) -> list[Evidence]:
    killed = view.incidents("os.oomkill", "slurm.oom")
    ended = [one for one in view.incidents("env.worker_exit", "env.worker_died_old") if "-9" in one.text]
    pipeline = view.facts.pipeline
    if not (killed and ended) or not view.slow or pipeline is None or not pipeline.inflight_train:
        return []
    line = Evidence(pipeline.file, pipeline.text, offset=pipeline.offset, time=pipeline.time)
    return [incident_evidence(killed[0]), incident_evidence(ended[0]), line]


def _hardware(view: View) -> list[Evidence]:
    faults = [one for one in view.incidents("gpu.xid", "gpu.ecc") if one.severity == "fatal"]
    ended = view.incidents("slurm.task_exit")
    return [incident_evidence(faults[0]), incident_evidence(ended[0])] if faults and ended else []


def _half_by_full_disk(view: View) -> list[Evidence]:
    failed = view.incidents("ckpt.missing", "ckpt.dcp", "ckpt.zip")
    half = [one for one in view.facts.checkpoint_states if one.state in ("half", "damaged", "stuck")]
    if not failed or not half or view.last_step is not None:
        return []
    return [
        incident_evidence(failed[0]),
        *(
            Evidence(one.path, f"{one.state}: {one.problem or ''}".rstrip(": "), step=one.step, time=one.changed)
            for one in half[-1:]
        ),
    ]


@dataclass(frozen=True)
class _Story:
    tells: Callable[[View], list[Evidence]]
    message: str
    cause: str
    action: str


_STORIES = (
    _Story(
        _engine_failed_at_update,
        "An engine failed while it took new weights, and the trainer waits for it in a collective",
        "the engine ran out of device memory, or raised, at the update",
        "Lower inference.gpu_memory_utilization by a few points.",
    ),
    _Story(
        _worker_killed,
        "The kernel killed a worker of an environment, and the episodes that it ran never end",
        "main memory ran out",
        "Fewer workers, or more memory.",
    ),
    _Story(
        _hardware,
        "A device reported a fault of the hardware, and the task on its node ended",
        "the hardware of that node",
        "Exclude the node and resume elsewhere.",
    ),
    _Story(
        _half_by_full_disk,
        "Resuming fails because the newest checkpoint is not whole",
        "it was cut off when it was written: by a full disk, or a kill in between",
        "Remove that step, see that there is room, and resume from the one before.",
    ),
)

RULES = (
    Rule("incident.compound", compound, (*LIVE, FAILING, FAILED)),
    Rule("incident.known", known, (*LIVE, PHASE_UNKNOWN)),
)
