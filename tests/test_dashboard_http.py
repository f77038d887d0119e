"""What HTTP asks of every route: methods, media types, compression, caches, clients that go away."""

import asyncio
import logging
import os
import shutil
from pathlib import Path

import pytest

from dashboard_client import Client
from prl.dashboard.app import create_app, takes_gzip
from prl.dashboard.workspace import Workspace
from prl.rundir.recognition import run_id
from prl.synth import RunShape, write_run


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(create_app(Workspace([tmp_path])))


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [
        ("gzip", True),
        ("br, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.0, br", False),
        ("br", False),
        ("", False),
    ],
)
def test_gzip_is_sent_to_those_who_take_it(client: Client, accepted: str, packed: bool) -> None:
    answer = client.get("/api/v1/openapi.json", {"accept-encoding": accepted})
    assert (answer.headers.get("content-encoding") == "gzip") == packed == takes_gzip(accepted)
    assert answer.headers["vary"] == "Accept-Encoding" and answer.json["openapi"]


def test_a_media_type_is_the_same_in_any_case(client: Client) -> None:
    answer = client.post("/api/view", {"page": "runs"}, {"content-type": "Application/JSON; charset=UTF-8"})
    assert answer.error == "conflict"  # understood: there is no tab to move


@pytest.mark.parametrize(("path", "allowed"), [("/api/view", "POST"), ("/api/v1/runs", "GET"), ("/", "GET")])
def test_a_wrong_method_is_told_the_right_one(client: Client, path: str, allowed: str) -> None:
    answer = client.call("PUT", path)
    assert (answer.status, answer.error) == (405, "method") and allowed in answer.headers["allow"]


def test_a_slash_too_many_is_no_redirect(client: Client) -> None:
    """It would lead to a Host and a scheme that are not those of the browser, where a proxy stands between."""
    assert client.get("/api/v1/runs/").status == 404


def test_no_error_is_kept_by_a_browser(tmp_path: Path) -> None:
    """Browsers keep a 410 for good when nothing is said; the directory may be there again a minute later."""
    outputs = tmp_path / "outputs"
    root = write_run(outputs / "run", RunShape(steps=1, rollouts=8))
    client = Client(create_app(Workspace([outputs])))
    address = f"/api/v1/runs/{run_id(str(root.resolve()))}"
    assert client.get(address).status == 200
    shutil.rmtree(root)
    gone, unknown, wrong = client.get(address), client.get("/nothing"), client.get("/api/v1/runs", x=1)
    assert [answer.status for answer in (gone, unknown, wrong)] == [410, 404, 400]
    assert {answer.headers["cache-control"] for answer in (gone, unknown, wrong)} == {"no-store"}


def test_an_error_tells_of_a_path_that_is_no_text(tmp_path: Path) -> None:
    """A directory's name is bytes. What stands in an answer must be text all the same."""
    root = tmp_path / os.fsdecode(b"bad\xff\xfename")
    (root / "monitors/file").mkdir(parents=True)
    (root / "monitors/file/metrics.jsonl").write_text('{"step": 1, "reward": 1.0}\n')
    client = Client(create_app(Workspace([tmp_path])))
    (row,) = client.get("/api/v1/runs").json["rows"]
    answer = client.get(f"/api/v1/runs/{row['id']}/episodes/none")
    assert (answer.status, answer.error) == (404, "not_found") and "bad??name" in answer.json["error"]["message"]


def test_a_client_that_goes_away_while_it_posts_is_no_failure(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    """The log of a daemon is read when something is wrong: a closed browser is not."""
    heard: list[dict[str, object]] = [
        {"type": "http.request", "body": b'{"page":', "more_body": True},
        {"type": "http.disconnect"},
    ]
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/view",
        "raw_path": b"/api/view",
        "query_string": b"",
        "headers": headers,
        "scheme": "http",
        "http_version": "1.1",
    }

    async def receive() -> dict[str, object]:
        return heard.pop(0)

    async def send(message: object) -> None:
        pass

    with caplog.at_level(logging.WARNING):
        asyncio.run(client.app(scope, receive, send))
    assert not caplog.records
