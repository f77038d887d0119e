"""Rules about checkpoints: one that cannot be resumed from is worth nothing on the day that it is needed."""

from prl.watch.rules.base import Rule, incident_evidence
from prl.watch.surroundings import CheckpointFact
from prl.watch.verdict import FAILED, FAILING, FINISHED, LIVE, STOPPED, WARNING, Evidence, Finding
from prl.watch.view import View

_SAVE_FAILED = ("fs.enospc", "fs.quota", "ckpt.writer", "ckpt.zip", "ckpt.dcp", "fs.eio")


def half(view: View) -> Finding | None:
    """The newest checkpoint holds one half only.

    Needs: the checkpoint directory.
    Speaks: when the newest step has the half of the trainer or of the orchestrator alone and nothing writes to it any
    more: it is not offered for a restart.
    Silent: while it is being written, and about older ones that a complete one follows.
    """
    newest = _newest(view)
    if newest is None or newest.state != "half" or _young(view, newest):
        return None
    return _finding(
        view,
        "checkpoint.half",
        newest,
        "has one half only",
        "the other side did not save, or was ended before it could",
    )


def damaged(view: View) -> Finding | None:
    """A checkpoint is damaged.

    Needs: the checkpoint directory.
    Speaks: when files of one of the newest two steps are missing or shorter than they say they are.
    Silent: about older ones.
    """
    known = _by_step(view)[-2:]
    found = next((one for one in reversed(known) if one.state == "damaged"), None)
    if found is None:
        return None
    return _finding(
        view, "checkpoint.damaged", found, "is damaged", "it was cut off: a full disk, or a kill in between"
    )


def stuck(view: View) -> Finding | None:
    """A checkpoint that was begun does not grow.

    Needs: the checkpoint directory.
    Speaks: when a checkpoint is not whole and nothing in it was written for 10 minutes.
    Silent: while it grows, and when the next one is complete.
    """
    found = next((one for one in reversed(_by_step(view)) if one.state == "stuck"), None)
    complete = view.facts.checkpoints.complete
    if found is None or (complete and complete[-1] > found.step):
        return None
    lives = view.phase in LIVE
    cause = "its writer hangs, or the file system stands" if lives else "its writer ended before it was whole"
    return _finding(view, "checkpoint.stuck", found, "was begun and is not whole", cause)


def _finding(view: View, rule: str, found: CheckpointFact, what: str, cause: str) -> Finding:
    complete = [step for step in view.facts.checkpoints.complete if step != found.step]
    safe = f"the newest complete one is step {complete[-1]}" if complete else "there is no complete one"
    said = view.incidents(*_SAVE_FAILED)
    problem = f": {found.problem}" if found.problem else ""
    return Finding(
        rule=rule,
        severity=WARNING,
        message=f"The checkpoint of step {found.step} {what}{problem}; {safe}",
        evidence=[
            Evidence(found.path, f"{found.state}, {found.bytes} bytes", step=found.step, time=found.changed),
            *(incident_evidence(one) for one in said[:1]),
        ],
        cause=f"{said[0].cause} ({said[0].component})" if said else cause,
        action=f"Do not resume from step {found.step}; "
        + (f"resume from step {complete[-1]} (--resume.step {complete[-1]}). " if complete else "")
        + "Remove it before a restart, so that no --resume finds it.",
    )


def _by_step(view: View) -> list[CheckpointFact]:
    return sorted(view.facts.checkpoint_states, key=lambda one: one.step)


def _newest(view: View) -> CheckpointFact | None:
    known = _by_step(view)
    return known[-1] if known else None


def _young(view: View, found: CheckpointFact) -> bool:
    """Whether the other side may still be about to write its half: it does so at its own pace."""
    return view.phase in LIVE and view.facts.as_of - found.changed <= view.stall_bound


_PHASES = (*LIVE, FAILING, FAILED, STOPPED, FINISHED)
RULES = (
    Rule("checkpoint.half", half, _PHASES),
    Rule("checkpoint.damaged", damaged, _PHASES),
    Rule("checkpoint.stuck", stuck, _PHASES),
)
