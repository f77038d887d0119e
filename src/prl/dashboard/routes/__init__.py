"""The routes of the API, one module an area. ``ROUTES`` is all of them."""

from typing import Any

from prl.dashboard.openapi import document
from prl.dashboard.routes import (
    compare,
    configs,
    episode,
    episodes,
    export,
    groups,
    health,
    live,
    logs,
    metrics,
    overview,
    pulse,
    reports,
    runs,
    search,
    verdict,
    view,
)
from prl.dashboard.routing import Call, Route


def openapi(call: Call) -> dict[str, Any]:
    return document(ROUTES)


ROUTES: tuple[Route, ...] = (
    *health.ROUTES,
    *runs.ROUTES,
    *verdict.ROUTES,
    *reports.ROUTES,
    *overview.ROUTES,
    *metrics.ROUTES,
    *compare.ROUTES,
    *configs.ROUTES,
    *episodes.ROUTES,
    *groups.ROUTES,
    *search.ROUTES,
    *export.ROUTES,
    *episode.ROUTES,  # behind the others, as its path takes any id
    *live.ROUTES,
    *logs.ROUTES,
    *pulse.ROUTES,
    *view.ROUTES,
    Route(
        "/api/v1/openapi.json",
        openapi,
        "This description of the API, in OpenAPI 3.1",
        version=lambda _: "1",
        has_head=False,
    ),
)
