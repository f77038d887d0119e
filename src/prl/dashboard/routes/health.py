"""Whether this server is there. The cheapest route, for whoever looks for a dashboard."""

import os
from typing import Any

from prl.dashboard.routing import Call, Route, head


def health(call: Call) -> dict[str, Any]:
    return head(
        service="prl dashboard",
        pid=os.getpid(),
        host=os.uname().nodename,
        url=call.workspace.url,
        dirs=[str(directory) for directory in call.workspace.dirs],
    )


ROUTES = (
    Route(
        "/api/health",
        health,
        "Whether the server is there",
        "`service`, `pid`, `host`, `url` (null: not told to the server), `dirs`: the tracked directories.",
        quick=True,
    ),
)
