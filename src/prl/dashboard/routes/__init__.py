"""The routes of the API, one module an area. ``ROUTES`` is all of them."""

from prl.dashboard.routes import health, runs
from prl.dashboard.routing import Route

ROUTES: tuple[Route, ...] = (*health.ROUTES, *runs.ROUTES)
