"""Whether this server is there. The cheapest route, for whoever looks for a dashboard."""

import os
from typing import Any

from prl.dashboard import registry
from prl.dashboard.routing import Call, Route, head


def health(call: Call) -> dict[str, Any]:
    return head(
        service=registry.SERVICE,
        pid=os.getpid(),
        host=registry.this_host(),
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
