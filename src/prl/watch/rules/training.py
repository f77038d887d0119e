"""Rules about the optimisation itself."""

from prl.watch.facts import NonFinite, Series
from prl.watch.keys import STABILITY_KEYS
from prl.watch.rules.base import Rule
from prl.watch.verdict import CRITICAL, FAILED, FAILING, FINISHED, LIVE, WARNING, Evidence, Finding
from prl.watch.view import View

_RECENT = 20
"""Steps for which a value that was not a number stays worth telling once the values are numbers again."""

_ROW_DELAY = 2.0
"""Seconds by which the console line about a dropped value and its row may differ: clocks on lines are whole seconds."""

_GO_BACK = (
    "Stop the run and go back to a checkpoint from before the first such step, with a lower learning rate or a smaller "
    "max_norm."
)
_WATCH = "Watch the gradient norm and mismatch KL, and keep a checkpoint from before."


def non_finite(view: View) -> Finding | None:
    """Loss, gradient norm, entropy, mismatch KL or masked share is not a number: critical at the newest step, a warning
    for 20 steps after the values became numbers again.

    Needs: the trainer's log and `metrics.jsonl`.
    Speaks: when the console says that a value was dropped and the value is missing from the rows of a complete step,
    when a step line prints a loss or gradient norm of `nan` or `inf`, or when the metrics themselves hold one. A run
    that finished with one at its last step is told of too: it is Degraded.
    Silent: when a value is merely missing, for a step whose rows are not all written, and of a finished run whose last
    values are numbers.
    """
    named = [found for found in view.facts.nonfinite if found.component == "trainer" and found.key in STABILITY_KEYS]
    if not named or view.step is None:
        return None
    affected = {found.key: _affected(found.key, named, view) for found in named}
    steps = sorted({step for known in affected.values() for step in known})
    keys = sorted(key for key, known in affected.items() if known)
    if not steps or steps[-1] < view.step - _RECENT:
        return None
    still = steps[-1] >= view.step
    if view.phase == FINISHED and not still:
        return None
    where = f"at step {steps[-1]}" if len(steps) == 1 else f"at {len(steps)} of the last steps, up to step {steps[-1]}"
    after = "" if still else f"; since then the values are numbers again (step {view.step})"
    return Finding(
        rule="training.non-finite",
        severity=CRITICAL if still else WARNING,
        message=f"{', '.join(keys)} not a number {where}{after}",
        evidence=[_evidence(found) for found in named if found.key in keys][-4:],
        cause="the update diverged, or a batch held values that the loss cannot take (a ratio or log of zero)",
        action=_GO_BACK if still else _WATCH,
    )


def _affected(key: str, named: list[NonFinite], view: View) -> list[int]:
    """Steps at which ``key`` was not a number."""
    steps = {found.step for found in named if found.key == key and found.step is not None}
    series = view.facts.find("trainer", key)
    dropped = [found.time for found in named if found.key == key and found.step is None and found.time is not None]
    if series is not None and dropped:
        steps |= _missing(series, min(dropped), max(dropped))
    return sorted(steps)


def _missing(series: Series, first: float, last: float) -> set[int]:
    """Steps without a value while the console told of dropped ones."""
    rows = zip(series.steps, series.times, series.values, strict=False)
    return {
        step
        for step, time, value in rows
        if value is None and step is not None and first - _ROW_DELAY <= time <= last + _ROW_DELAY
    }


def _evidence(found: NonFinite) -> Evidence:
    return Evidence(found.file, f"{found.key} is not a number", offset=found.offset, step=found.step, time=found.time)


RULES = (Rule("training.non-finite", non_finite, (*LIVE, FINISHED, FAILING, FAILED)),)
