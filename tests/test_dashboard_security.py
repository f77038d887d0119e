"""Who may ask the dashboard, and what a browser may do with its answers."""

import asyncio
from pathlib import Path

import pytest

from dashboard_client import Client
from prl.dashboard.app import create_app
from prl.dashboard.workspace import Workspace

TOKEN = "c0ffee-and-more"


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(create_app(Workspace([tmp_path])))


@pytest.fixture
def remote(tmp_path: Path) -> Client:
    app = create_app(Workspace([tmp_path]), allow_hosts=["box.example"], token=TOKEN)
    return Client(app, {"host": "box.example:7788"})


@pytest.mark.parametrize("host", ["localhost", "localhost:9", "LOCALHOST:7788", "127.0.0.1:1", "[::1]:7788", "[::1]"])
def test_own_names_are_served_on_any_port(client: Client, host: str) -> None:
    assert client.get("/api/health", {"host": host}).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "localhost.evil.example",
        "evil@localhost",
        "localhost@evil.example",
        "127.0.0.1.nip.io",
        "localhost:x",
        "[::1",
        "localhost/",
        "192.168.0.3:7788",
        "local\x7fhost",
        "::1",
    ],
)
def test_foreign_hosts_are_refused_whatever_is_asked(client: Client, host: str) -> None:
    for path in ("/api/health", "/", "/static/js/main.js", "/api/v1/runs"):
        answer = client.get(path, {"host": host})
        assert (answer.status, answer.error) == (403, "forbidden")


@pytest.mark.parametrize("sent", [["host", "host"], ["host", "origin", "origin"]])
def test_a_header_that_stands_twice_is_not_what_it_says_first(client: Client, sent: list[str]) -> None:
    """Whatever stands between a browser and the server may have gone by the other."""
    good, bad = {"host": b"localhost", "origin": b"http://localhost"}, b"http://evil.example"
    headers = [(name.encode(), good[name]) for name in sent[:-1]] + [(sent[-1].encode(), bad)]
    scope = {"type": "http", "method": "GET", "path": "/api/health", "query_string": b"", "headers": headers}
    statuses: list[int] = []

    async def receive() -> dict[str, str]:
        return {"type": "http.request"}

    async def send(message: dict[str, int]) -> None:
        statuses.append(message.get("status", 0))

    asyncio.run(client.app(scope, receive, send))
    assert statuses[0] == 403


def test_a_name_can_be_allowed(tmp_path: Path) -> None:
    client = Client(create_app(Workspace([tmp_path]), allow_hosts=["Gpu7.Lab.Example"]))
    assert client.get("/api/health", {"host": "gpu7.lab.example:1234"}).status == 200
    assert client.get("/api/health", {"host": "gpu8.lab.example"}).status == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "", "http://localhost:1", "file://", "http://["])
def test_foreign_origins_are_refused_for_reading_and_posting(client: Client, origin: str) -> None:
    assert client.get("/api/v1/runs", {"origin": origin}).status == 403
    assert client.post("/api/v1/view", {}, {"origin": origin}).status == 403


@pytest.mark.parametrize("host", ["localhost:7788", "127.0.0.1:40000"])
def test_the_own_origin_is_served_through_a_tunnel_too(client: Client, host: str) -> None:
    for scheme in ("http", "https"):
        assert client.get("/api/health", {"host": host, "origin": f"{scheme}://{host}"}).status == 200


def test_every_answer_carries_the_policy(client: Client) -> None:
    for path in ("/", "/api/health", "/nothing", "/api/v1/runs?x", "/static/none.js"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self';" in policy and "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy and "base-uri 'none'" in policy and "form-action 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "content-security-policy" in client.get("/", {"host": "evil.example"}).headers


def test_beyond_loopback_everything_asks_for_the_token(remote: Client) -> None:
    for path in ("/", "/api/health", "/api/runs", "/static/js/main.js"):
        answer = remote.get(path)
        assert (answer.status, answer.error) == (401, "unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"


def test_the_token_comes_in_a_header(remote: Client) -> None:
    assert remote.get("/api/health", {"authorization": f"Bearer {TOKEN}"}).status == 200
    for wrong in (f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer", "Bearer é"):
        assert remote.get("/api/health", {"authorization": wrong}).status == 401


def test_the_printed_address_gives_a_strict_cookie_and_goes_on_without_the_token(remote: Client) -> None:
    answer = remote.get("/", token=TOKEN, run="a b~1", page="logs")
    assert answer.status == 200 and answer.headers["cache-control"] == "no-store"
    assert 'url=/?run=a+b~1&amp;page=logs"' in answer.text and TOKEN not in answer.text
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie
    pair = cookie.partition(";")[0]
    assert remote.get("/api/health", {"cookie": pair}).status == 200
    assert remote.get("/api/health", {"cookie": f"other=1; {pair}"}).status == 200
    assert remote.get("/api/health", {"cookie": pair + "x"}).status == 401
    assert remote.get("/api/health", {"cookie": "\x00=;;"}).status == 401


@pytest.mark.parametrize("others", ['state={"a":"b"}', "a,b=1; c d=2", "=; ;; x", "e=\xe9\x80", "last=@/?"])
def test_cookies_of_whatever_else_is_served_on_this_host_do_no_harm(remote: Client, others: str) -> None:
    """All ports of a host share cookies, and many programs put JSON into theirs."""
    pair = remote.get("/", token=TOKEN).headers["set-cookie"].partition(";")[0]
    assert remote.get("/api/health", {"cookie": f"{others}; {pair}"}).status == 200
    assert remote.get("/api/health", {"cookie": f"{pair}; {others}"}).status == 200


def test_a_wrong_token_in_the_address_gives_nothing(remote: Client) -> None:
    answer = remote.get("/", token="guess")
    assert answer.status == 401 and "set-cookie" not in answer.headers


def test_the_page_that_goes_on_holds_nothing_that_was_asked_as_markup(remote: Client) -> None:
    answer = remote.get('/"><script>x</script>', token=TOKEN, q='"><script>')
    assert "<script" not in answer.text
    assert "url=/" in remote.get("//evil.example/", token=TOKEN).text
    assert "url=//" not in remote.get("//evil.example/", token=TOKEN).text


def test_with_a_token_an_address_is_a_host(remote: Client) -> None:
    headers = {"host": "10.1.2.3:7788", "authorization": f"Bearer {TOKEN}"}
    assert remote.get("/api/health", headers).status == 200
    assert remote.get("/api/health", {**headers, "host": "evil.example"}).status == 403


@pytest.mark.parametrize(
    "name",
    [
        "../app.py",
        "..%2fapp.py",
        "js/../../app.py",
        "/etc/passwd",
        "js/",
        "",
        ".hidden.js",
        "js//main.js",
        "a\x00.js",
        "vendor/preact.LICENSE",
        "js\\..\\..\\app.py",
        "index.html/",
        "js/none.js",
        "%2e%2e/app.py",
    ],
)
def test_nothing_but_the_pages_files_is_served(client: Client, name: str) -> None:
    assert client.get(f"/static/{name}").status == 404


def test_static_files_are_compressed_and_known_again(client: Client) -> None:
    answer = client.get("/static/vendor/uplot.mjs")
    assert answer.status == 200 and answer.headers["content-type"].startswith("text/javascript")
    assert answer.headers["content-encoding"] == "gzip" and answer.headers["cache-control"] == "no-cache"
    assert len(answer.body) < len(answer.content) / 2
    assert client.again("/static/vendor/uplot.mjs", answer.etag).status == 304
    plain = client.get("/static/vendor/uplot.mjs", {"accept-encoding": "identity"})
    assert plain.body == answer.content and "content-encoding" not in plain.headers


def test_a_link_out_of_the_pages_is_not_served(tmp_path: Path) -> None:
    from prl.dashboard.static_files import StaticFiles

    (tmp_path / "secret.js").write_text("secret")
    served = tmp_path / "served"
    served.mkdir()
    (served / "own.js").write_text("own")
    (served / "link.js").symlink_to(tmp_path / "secret.js")
    (served / "dir").symlink_to(tmp_path)
    files = StaticFiles(served)
    assert files.get("own.js") is not None
    assert files.get("link.js") is None and files.get("dir/secret.js") is None
    (served / "own.js").write_text("changed")
    changed = files.get("own.js")
    assert changed is not None and changed.unpacked() == b"changed"
