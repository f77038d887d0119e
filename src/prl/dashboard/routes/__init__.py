"""The routes of the API, one module an area. ``ROUTES`` is all of them."""

from typing import Any

from prl.dashboard.openapi import document
from prl.dashboard.routes import health, metrics, overview, pulse, reports, runs, verdict, view
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
    *pulse.ROUTES,
    *view.ROUTES,
    Route("/api/v1/openapi.json", openapi, "This description of the API, in OpenAPI 3.1", version=lambda _: "1"),
)
