"""No reward that is not a number leaves a worker.

verifiers 0.4.0 records a NaN reward as a success, and one such value makes every mean above it NaN and every JSON line
that holds it unreadable to browsers. A reward that is NaN or infinite is an error of the task (type ``TaskError``, the
reward named in its message); a metric that is one is recorded as not measured.
"""

import logging
import math
from typing import Any

from verifiers.v1.errors import TaskError
from verifiers.v1.trace import Trace

logger = logging.getLogger(__name__)


def record_reward(trace: Trace, name: str, value: float, weight: float = 1.0) -> None:
    """Replaces ``Trace.record_reward``. Raises TaskError for a score or weight that is not finite."""
    for what, number in (("score", float(value)), ("weight", float(weight))):
        if not math.isfinite(number):
            raise TaskError(f"reward {name!r}: its {what} is {number}, which is not a finite number")
    _plain_record_reward(trace, name, value, weight)


def record_metric(trace: Trace, name: str, value: float) -> None:
    """Replaces ``Trace.record_metric``: a value that is not finite is recorded as None."""
    if math.isfinite(float(value)):
        _plain_record_metric(trace, name, value)
    else:
        logger.warning("metric %r is %s in trace %s: recorded as not measured", name, float(value), trace.id)
        trace.metrics[name] = None


_plain_record_reward = Trace.record_reward
_plain_record_metric = Trace.record_metric


def install() -> None:
    """Make both replacements, in this process. Idempotent."""
    Trace.record_reward = record_reward
    Trace.record_metric = record_metric


def finite_delta(delta: dict[str, Any]) -> dict[str, Any]:
    """``delta`` with None for rewards and metrics that are not finite: an environment can assign some itself."""
    changed = delta.get("set", {})
    scores = {key: changed[key] for key in ("rewards", "metrics") if key in changed}
    if all(_is_finite(value) for values in scores.values() for value in values.values()):
        return delta
    cleaned = {
        key: {name: value if _is_finite(value) else None for name, value in values.items()}
        for key, values in scores.items()
    }
    return {**delta, "set": {**changed, **cleaned}}


def settle(trace: Trace) -> bool:
    """Make errors of the rewards of ``trace`` that were assigned and are not finite. Whether there were any."""
    bad = [name for name, reward in trace.rewards.items() if reward is not None and not math.isfinite(reward.value)]
    for name in bad:
        trace.rewards[name] = None
        trace.record_error(TaskError(f"reward {name!r} is not a finite number"))
    for name, value in trace.metrics.items():
        if not _is_finite(value):
            trace.metrics[name] = None
    return bool(bad)


def _is_finite(value: Any) -> bool:
    """Of a metric, or a dumped reward ``{score, weight}``; None (not scored) counts as finite."""
    numbers = value.values() if isinstance(value, dict) else (value,)
    return all(number is None or math.isfinite(number) for number in numbers)
