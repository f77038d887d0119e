"""Writing ``metrics.jsonl``: one flat JSON object per call, appended by every producer of the run to the same file."""

import math
from collections.abc import Mapping
from typing import Any

RESERVED = frozenset({"step", "time", "producer", "schema_version"})


def metrics_row(
    metrics: Mapping[str, float], *, step: int | None, time: float, producer: str
) -> tuple[dict[str, Any], list[str]]:
    """The row of these metrics, and the names of the values left out because they are not finite numbers.

    ``time``: Unix seconds. ``step`` None: the row is keyed by time. Scalars of numpy and torch become plain numbers.
    A metric cannot take one of the reserved names.
    """
    row: dict[str, Any] = {"step": step, "time": time}
    dropped = []
    for name, value in metrics.items():
        if name in RESERVED:
            continue
        number = _finite(value)
        if number is None:
            dropped.append(name)
        else:
            row[name] = number
    row["producer"] = producer
    return row, dropped


def _finite(value: Any) -> float | None:
    if isinstance(value, int):
        return int(value)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # the last: a tensor of several elements
        return None
    return number if math.isfinite(number) else None
