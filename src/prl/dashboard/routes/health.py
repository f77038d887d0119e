"""Whether this server is there. The cheapest route, for whoever looks for a dashboard."""

import os
import platform
from typing import Any

from prl.dashboard.routing import Call, Route, head


def health(call: Call) -> dict[str, Any]:
    return head(
        service="prl dashboard", pid=os.getpid(), host=platform.node(), dirs=[str(d) for d in call.workspace.dirs]
    )


ROUTES = (Route("/api/health", health, "Whether the server is there", "`service`, `pid`, `host`, `dirs`"),)
