"""The document names everything that its page needs, under addresses that may be kept for good."""

import re
import shutil
from pathlib import Path

from dashboard_client import Client
from prl.dashboard.app import STATIC, create_app
from prl.dashboard.front import FrontPage, imports
from prl.dashboard.workspace import Workspace


def served(page: str, static: Path = STATIC) -> str:
    return FrontPage(static).get(page).unpacked().decode()


def test_every_module_of_a_page_is_named_beforehand() -> None:
    """Follow the imports from the page itself: each is among the links, so that none waits for another."""
    text = served("overview")
    named = set(re.findall(r'modulepreload" href="static/v[0-9a-f]{12}/([^"]+)"', text))
    assert {"js/main.js", "js/pages/overview/page.js", "vendor/preact.mjs", "vendor/uplot.mjs"} <= named
    for name in named:
        for to in imports((STATIC / name).read_text()):
            assert (STATIC / name).parent.joinpath(to).resolve().relative_to(STATIC).as_posix() in named
    assert "css/overview.css" in text and "js/pages/logs" not in text


def test_a_page_that_does_not_exist_gets_the_frame() -> None:
    for page in ("nowhere", "../../x", "", 'x"><script>', "a" * 5000):
        text = served(page)
        assert "js/main.js" in text and "<script>" not in text and "nowhere" not in text


def test_another_file_is_another_address(tmp_path: Path) -> None:
    static = shutil.copytree(STATIC, tmp_path / "static")
    before = re.findall(r"static/(v[0-9a-f]{12})/", served("runs", static))
    (static / "js/lib/format.js").write_text("export const changed = true;\n")
    after = re.findall(r"static/(v[0-9a-f]{12})/", served("runs", static))
    assert len(set(before)) == len(set(after)) == 1 and before[0] != after[0]


def test_files_under_their_version_are_kept_and_others_asked_for_again(tmp_path: Path) -> None:
    client = Client(create_app(Workspace([tmp_path])))
    version = re.findall(r"static/(v[0-9a-f]{12})/", client.get("/").text)[0]
    kept = client.get(f"/static/{version}/js/main.js")
    asked = client.get("/static/js/main.js")
    assert kept.status == asked.status == 200
    assert "immutable" in kept.headers["cache-control"] and asked.headers["cache-control"] == "no-cache"
    other = client.get("/static/v000000000000/js/main.js")
    assert other.status == 200 and other.headers["cache-control"] == "no-cache", "an older document's name is kept"
    assert client.get(f"/static/{version}/../app.py").status == 404
    assert client.get(f"/static/{version}/{version}/js/main.js").status == 404


def test_no_page_says_anew_what_is_on_every_page() -> None:
    """Stylesheets of all pages share names with each other, never with those that the document always has."""
    text = (STATIC / "index.html").read_text()
    always = [name for name in re.findall(r'href="static/css/(\w+)\.css"', text) if name != "tokens"]
    base = {name for sheet in always for name in bare(f"css/{sheet}.css")}
    for path in sorted((STATIC / "css").glob("*.css")):
        if path.stem not in (*always, "tokens"):
            assert not base & set(bare(f"css/{path.name}")), path.name


def bare(name: str) -> list[str]:
    """The classes that a stylesheet gives a look by their name alone."""
    text = re.sub(r"/\*.*?\*/|@media[^{]*\{", "", (STATIC / name).read_text(), flags=re.S)
    selectors = [one.strip() for group in re.findall(r"([^{}]+)\{", text) for one in group.split(",")]
    return [one for one in selectors if re.fullmatch(r"\.[\w-]+", one)]
