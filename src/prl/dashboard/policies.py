"""Which versions of the policy came while an episode went on.

A record says the first and the last version that had a part in it; when each came, the orchestrator's metrics tell.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prl.dashboard.open_runs import OpenRun

_SERIES = ("orch", "watcher/policy_version")
_MAX = 1000


def policy_changes(run: "OpenRun", row: Mapping[str, Any]) -> dict[str, Any]:
    """The version that stood at the episode's dispatch and those that came until its arrival, oldest first, each with
    the moment from which on the metrics tell of it."""
    start, end = row.get("dispatch"), row.get("arrival")
    span = {"start": row.get("policy_start"), "end": row.get("policy_end")}
    if start is None or end is None:
        return {"policies": [], "span": span, "reason": "the record does not say when it was sent out and came back"}
    with run.metrics() as store:
        if _SERIES not in store.names():
            return {"policies": [], "span": span, "reason": f"the metrics hold no {_SERIES[1]}"}
        series = store.series(*_SERIES, axis="time", end=end)
    changes: list[dict[str, float]] = []
    for time, version in zip(series.x.tolist(), series.y.tolist(), strict=True):
        if math.isfinite(version) and (not changes or changes[-1]["version"] != int(version)):
            changes.append({"version": int(version), "time": time})
    before = [change for change in changes if change["time"] <= start]
    during = [change for change in changes if change["time"] > start]
    return {"policies": [*before[-1:], *during][:_MAX], "span": span, "reason": None}
