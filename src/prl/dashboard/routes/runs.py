"""The run list."""

from typing import Any

from prl.dashboard.routing import Call, Route, head


def runs(call: Call) -> dict[str, Any]:
    found = call.workspace.runs()
    return head(
        dirs=[str(directory) for directory in found.dirs],
        counts={"runs": len(found.runs)},
        rows=[info.to_json() for info in found.runs],
        problems=list(found.problems),
        truncated=False,
    )


ROUTES = (Route("/api/v1/runs", runs, "All runs below the tracked directories", "`rows`: a run each"),)
