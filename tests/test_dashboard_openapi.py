"""The description of the API, the page of the documentation and the routes say the same."""

import importlib
import re
from pathlib import Path

import pytest

from dashboard_client import Client
from prl.dashboard.app import create_app
from prl.dashboard.openapi import document, plain_path
from prl.dashboard.routes import ROUTES
from prl.dashboard.routing import Route
from prl.dashboard.workspace import Workspace

ROOT = Path(__file__).parent.parent
DOCUMENT = document(ROUTES)


def operation(route: Route) -> dict[str, object]:
    found: dict[str, object] = DOCUMENT["paths"][plain_path(route.path)][route.method.lower()]
    return found


def test_it_is_served_and_the_same_for_everybody(tmp_path: Path) -> None:
    client = Client(create_app(Workspace([tmp_path])))
    answer = client.get("/api/v1/openapi.json")
    assert answer.json == DOCUMENT and answer.json["openapi"].startswith("3.1")
    assert client.again("/api/v1/openapi.json", answer.etag).status == 304


def test_every_route_is_described_and_no_other() -> None:
    described = {(path, method) for path, operations in DOCUMENT["paths"].items() for method in operations}
    assert described == {(plain_path(route.path), route.method.lower()) for route in ROUTES}
    assert len(described) == len(ROUTES), "two routes of one path and method"


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_parameter_is_described_and_no_other(route: Route) -> None:
    parameters: list[dict[str, str]] = operation(route)["parameters"]  # type: ignore[assignment]
    in_query = [one["name"] for one in parameters if one["in"] == "query"]
    in_path = [one["name"] for one in parameters if one["in"] == "path"]
    assert in_query == [parameter.name for parameter in route.parameters]
    assert in_path == re.findall(r"{(\w+)", route.path)
    assert all(one["description"] for one in parameters), "a parameter without a word about it"


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_says_what_it_answers(route: Route) -> None:
    described = operation(route)
    assert described["summary"]
    assert route.answer or route.path.endswith("openapi.json")
    assert ("requestBody" in described) == (route.method == "POST")


def test_a_download_is_described_as_what_it_is() -> None:
    """A client made from the description would parse a table as JSON, and expect the fields that no file has."""
    export = next(route for route in ROUTES if route.path.endswith("/export"))
    responses: dict[str, dict[str, dict[str, object]]] = operation(export)["responses"]  # type: ignore[assignment]
    assert set(responses["200"]["content"]) == {"application/x-ndjson", "text/csv; charset=utf-8"}
    assert "304" not in responses


def test_operations_have_names_of_their_own() -> None:
    names = [one["operationId"] for operations in DOCUMENT["paths"].values() for one in operations.values()]
    assert len(set(names)) == len(names)


def test_the_page_is_made_from_the_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make docs` writes the page; it was forgotten when this fails."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    page = importlib.import_module("api_reference").page()
    assert (ROOT / "docs" / "dashboard-api.md").read_text() == page


def test_routes_that_the_guide_names_exist() -> None:
    text = (ROOT / "docs" / "dashboard.md").read_text()
    patterns = [re.compile(re.sub(r"{\w+(?::path)?}", "[^/?]+", route.path) + "$") for route in ROUTES]
    for path in re.findall(r"/api/[\w/~.-]+", text):
        assert any(pattern.match(path) for pattern in patterns), path
