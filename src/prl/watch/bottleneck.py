"""Where the wall time of the last steps went, and which side to give more.

The trainer's steps follow each other without a gap, so their durations are the wall time. What a step's record calls
by name counts as it stands: computing, sending weights, saving. The wait for a batch is divided by what the episodes
of those steps spent their time on (model, environment, scoring), after the part in which the orchestrator itself
waited for a policy, or evaluated. What no record names is unaccounted, and said: it is never spread over the others.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from prl.text.human import format_percent
from prl.watch.facts import Series
from prl.watch.verdict import Bottleneck, Share

if TYPE_CHECKING:
    from prl.watch.view import View

_STEPS = 10
"""The last steps that are looked at."""
_LEAST = 3

GENERATION, ENVIRONMENT, SCORING = "generation", "environment", "scoring"
BATCH, POLICY, TRAINING = "waiting for a batch", "waiting for a policy", "training"
BROADCAST, CHECKPOINT, EVALUATION = "weight broadcast", "checkpoint", "evaluation"

_DIRECT = (
    (TRAINING, ("time/forward_backward", "time/load_data")),
    (BROADCAST, ("time/broadcast_weights",)),
    (CHECKPOINT, ("time/save_ckpt",)),
)

_ENVIRONMENT_PHASES = ("setup", "finalize", "agent/harness")


def split(view: "View") -> Bottleneck | None:
    """The split over the last steps; None with fewer than 3 that say how long they took."""
    whole = view.trainer("time/step")
    if whole is None:
        return None
    times = {
        step: value
        for step, value in zip(whole.steps, whole.values, strict=False)
        if step is not None and value and step >= view.first_step + view.limits.pace.first_steps
    }
    steps = sorted(times)[-_STEPS:]
    if len(steps) < _LEAST:
        return None
    wall = sum(times[step] for step in steps)
    seconds = {name: sum(_sum(view.trainer(key), steps) for key in keys) for name, keys in _DIRECT}
    waited = _sum(view.trainer("time/wait_for_batch"), steps)
    held, paced = _orchestrator(view, steps)
    seconds |= _of_wait(view, waited, steps)
    known = sum(seconds.values())
    scale = min(wall / known, 1.0) if known else 1.0  # rounding may add up to a little more than the whole
    shares = [
        Share(name, value * scale / wall, value * scale / len(steps))
        for name, value in sorted(seconds.items(), key=lambda item: -item[1])
        if value > 0
    ]
    trainer_waits = min(waited / wall, 1.0)
    orchestrator_waits = min(held / paced, 1.0) if paced else None
    grow, why = _advice(view, trainer_waits, orchestrator_waits, seconds)
    return Bottleneck(
        first_step=steps[0],
        last_step=steps[-1],
        seconds=wall / len(steps),
        shares=shares,
        unaccounted=max(1.0 - known * scale / wall, 0.0),
        trainer_waits=trainer_waits,
        orchestrator_waits=orchestrator_waits,
        grow=grow,
        why=why,
    )


def _orchestrator(view: "View", steps: list[int]) -> tuple[float, float]:
    """Seconds that the orchestrator waited for policies, and that its steps took, over the same steps."""
    held = view.orchestrator("time/wait_for_policy")
    return (_sum(held, steps), _sum(view.orchestrator("time/step"), steps)) if held is not None else (0.0, 0.0)


def _of_wait(view: "View", waited: float, steps: list[int]) -> dict[str, float]:
    """The wait for batches by what was done meanwhile."""
    if waited <= 0:
        return {}
    evaluating = waited * _evaluating(view, steps)
    rest = waited - evaluating
    # Only what the orchestrator waited while the trainer waited too held up anything.
    both = _overlap(view, steps)
    policy = min(both, rest)
    rest -= policy
    parts = _episode_seconds(view, steps)
    total = sum(parts.values())
    divided = {name: rest * value / total for name, value in parts.items()} if total else {BATCH: rest}
    return {EVALUATION: evaluating, POLICY: policy, **divided}


def _overlap(view: "View", steps: list[int]) -> float:
    """Seconds in which both sides waited, at least: what their waits add up to beyond one step."""
    batch, policy = _values(view.trainer("time/wait_for_batch")), _values(view.orchestrator("time/wait_for_policy"))
    whole = _values(view.orchestrator("time/step"))
    return sum(max(batch.get(step, 0.0) + policy.get(step, 0.0) - whole.get(step, float("inf")), 0.0) for step in steps)


def _evaluating(view: "View", steps: list[int]) -> float:
    """Share of the recorded moments of these steps in which evaluation alone was in flight."""
    train, evaluation = view.orchestrator("dispatcher/inflight/train"), view.orchestrator("dispatcher/inflight/eval")
    whole = view.trainer("time/step")
    if train is None or evaluation is None or whole is None:
        return 0.0
    begun = min((time for time, step in zip(whole.times, whole.steps, strict=False) if step in steps), default=0.0)
    in_train = dict(zip(train.times, train.values, strict=False))
    moments = [
        bool(value) and not in_train.get(time, 1)
        for time, value in zip(evaluation.times, evaluation.values, strict=False)
        if time >= begun
    ]
    return sum(moments) / len(moments) if moments else 0.0


def _episode_seconds(view: "View", steps: list[int]) -> dict[str, float]:
    """Mean seconds that an episode of these steps spent with the model, in the environment and being scored."""
    mean = {
        "/".join(series.key.split("/")[5:-1]): _mean(series, steps)
        for series in view.facts.series
        if series.key.startswith("train/agg/effective/") and series.key.split("/")[4:5] == ["timing"]
        if series.key.endswith("/mean")
    }
    if "agent/model" not in mean and "agent" in mean:  # an older writer does not divide the agent's time
        mean["agent/model"] = mean["agent"]
    parts = {
        GENERATION: mean.get("agent/model", 0.0),
        ENVIRONMENT: sum(mean.get(name, 0.0) for name in _ENVIRONMENT_PHASES),
        SCORING: mean.get("scoring", 0.0),
    }
    return {name: value for name, value in parts.items() if value > 0}


def _advice(
    view: "View", trainer_waits: float, orchestrator_waits: float | None, seconds: Mapping[str, float]
) -> tuple[str | None, str]:
    bound = view.limits.pace.waiting
    if trainer_waits >= bound and trainer_waits >= (orchestrator_waits or 0.0):
        outside = seconds.get(ENVIRONMENT, 0.0) + seconds.get(SCORING, 0.0)
        said = f"the trainer waits for batches {format_percent(trainer_waits)} of its time"
        if view.facts.run.kind != "rl":
            return None, f"{said}: loading data is slow"
        if outside > seconds.get(GENERATION, 0.0):
            return "environments", f"{said}, and episodes spend most of theirs in environments and scoring"
        return "inference", said
    if orchestrator_waits is not None and orchestrator_waits >= bound:
        return "trainer", f"the orchestrator waits for policies {format_percent(orchestrator_waits)} of its time"
    return None, "neither side waits most of its time"


def _values(series: Series | None) -> dict[int | None, float]:
    if series is None:
        return {}
    return {step: value for step, value in zip(series.steps, series.values, strict=False) if value is not None}


def _sum(series: Series | None, steps: Iterable[int]) -> float:
    values = _values(series)
    return sum(max(values.get(step, 0.0), 0.0) for step in steps)


def _mean(series: Series, steps: Iterable[int]) -> float:
    values = _values(series)
    found = [values[step] for step in steps if step in values]
    return sum(found) / len(found) if found else 0.0
