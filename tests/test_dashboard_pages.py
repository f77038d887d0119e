"""Every page in a real browser: it shows what the files hold, in both themes and at every width, to everybody."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import prl
from browser import Tab, named, require_axe, serving, tab
from prl.synth import RunShape, write_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PAGES = ("overview", "metrics", "traces", "logs", "configs", "reports")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("outputs")
    write_run(root / "steady", RunShape(steps=24, rollouts=16, group_size=4, attempts=2, eval_interval=6, seed=1))
    write_run(root / "broken", RunShape(state="failed", steps=12, rollouts=8, group_size=4, seed=2))
    write_run(root / "theirs", RunShape(writer="prime-rl", steps=10, rollouts=8, group_size=4, seed=3))
    write_run(root / "oldest", RunShape(layout="A", writer="prime-rl", steps=6, rollouts=8, group_size=4, seed=4))
    return root


def settled(page: Tab) -> None:
    """Until nothing on the page is on its way any more."""
    page.until("document.querySelector('main').innerText.trim() !== ''")
    page.until("document.querySelectorAll('.waiting').length === 0")


@pytest.mark.parametrize("name", ["steady", "theirs", "oldest"])
def test_every_page_of_every_kind_of_run(browser: "Browser", base: str, runs: Path, name: str) -> None:
    """Shown without a complaint of the browser, whoever wrote the run and in whichever layout."""
    with tab(browser, base) as opened:
        for page in PAGES:
            opened.open(page=page, run=named(runs, name))
            settled(opened)
            assert opened.page.locator(".tabs [aria-current=page]").inner_text().lower() == page
            assert opened.page.title() == f"{name} · {page}"
            assert opened.complaints == [], page


@pytest.mark.parametrize("page", ["runs", *PAGES])
def test_everybody_can_read_every_page(browser: "Browser", base: str, runs: Path, page: str) -> None:
    """At each width nothing lies beyond the window; no letter is smaller than 12 pixels; and axe-core (names, roles,
    contrast) finds nothing serious in either theme."""
    require_axe()
    with tab(browser, base) as opened:
        opened.open(page=page, **({} if page == "runs" else {"run": named(runs, "steady")}))
        settled(opened)
        for theme in ("light", "dark"):
            opened.show(theme)
            assert opened.serious() == [], theme
        assert small_letters(opened) == []
        for width in (1920, 400):
            opened.page.set_viewport_size({"width": width, "height": 900})
            opened.until("document.documentElement.scrollWidth <= window.innerWidth")
            assert small_letters(opened) == [], width


def small_letters(opened: Tab) -> list[str]:
    """What is written in less than 12 pixels."""
    found: list[str] = opened.page.evaluate(
        """[...document.querySelectorAll('main *')].filter((element) => element.checkVisibility() &&
        [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()) &&
        parseFloat(getComputedStyle(element).fontSize) < 12).map((element) => element.outerHTML.slice(0, 80))"""
    )
    return found


def test_the_list_says_how_each_run_does(browser: "Browser", base: str, runs: Path) -> None:
    with tab(browser, base) as opened:
        opened.open()
        for name in ("steady", "broken", "theirs", "oldest"):
            opened.see(name, exact=True)
        row = opened.page.locator("tr", has_text="broken").first
        row.locator("text=Down").wait_for()
        opened.see("The run failed")
        row.get_by_role("link", name="broken").click()
        opened.page.wait_for_url(re.compile("run=broken"))
        opened.page.locator(".tabs").wait_for()


def test_a_theme_in_the_address_is_shown(browser: "Browser", base: str, runs: Path) -> None:
    with tab(browser, base, theme="light") as opened:
        opened.open(page="overview", run=named(runs, "steady"), theme="dark")
        assert opened.page.locator("html").get_attribute("data-theme") == "dark"
        opened.page.get_by_role("button", name="light theme").click()
        opened.until("document.documentElement.dataset.theme === 'light'")
        opened.page.wait_for_url(re.compile("theme=light"))


def test_pages_by_keys_alone(browser: "Browser", base: str, runs: Path) -> None:
    with tab(browser, base) as opened:
        opened.open(page="overview", run=named(runs, "steady"))
        opened.page.locator(".tabs").wait_for()
        for keys, page in (("gl", "logs"), ("gm", "metrics"), ("gt", "traces"), ("gc", "configs"), ("go", "overview")):
            for key in keys:
                opened.page.keyboard.press(key)
            opened.page.wait_for_url(re.compile(f"page={page}"))
        opened.page.keyboard.press("?")
        opened.page.get_by_role("dialog", name="Keys").wait_for()
        opened.page.keyboard.press("Escape")
        assert opened.page.get_by_role("dialog", name="Keys").count() == 0
        opened.page.keyboard.press("g")
        opened.page.keyboard.press("r")
        opened.page.wait_for_url(re.compile("page=runs"))


def test_logs_show_the_incident_and_find_text(browser: "Browser", base: str, runs: Path) -> None:
    run = prl.open_run(runs / "broken", cached=False)
    wanted = [hit.line.text for hit in run.search_logs("out of memory").hits]
    with tab(browser, base) as opened:
        opened.open(page="logs", run=named(runs, "broken"))
        opened.see("Incident starts here")
        opened.page.keyboard.press("/")
        opened.page.keyboard.type("out of memory")
        opened.page.locator(".hits li").nth(len(wanted) - 1).wait_for()
        assert opened.page.locator(".hits li").count() == len(wanted)
        opened.page.locator(".hits li button").first.click()
        opened.page.wait_for_url(re.compile("offset="))
        opened.page.locator(".line.chosen").wait_for()
        shared = opened.page.url
        opened.page.goto(shared)
        opened.page.locator(".line.chosen mark").first.wait_for()


def test_logs_of_one_level_and_component(browser: "Browser", base: str, runs: Path) -> None:
    with tab(browser, base) as opened:
        opened.open(page="logs", run=named(runs, "broken"), level="ERROR", component="launcher")
        opened.page.locator(".line").first.wait_for()
        assert set(opened.page.locator(".line .lv").all_inner_texts()) <= {"error", "critical"}
        assert set(opened.page.locator(".line .co").all_inner_texts()) == {"launcher"}


def test_configs_are_searched_and_compared(browser: "Browser", base: str, runs: Path) -> None:
    with tab(browser, base) as opened:
        opened.open(page="configs", run=named(runs, "steady"))
        opened.page.get_by_role("treeitem", name=re.compile("max_steps")).first.wait_for()
        opened.page.keyboard.press("/")
        opened.page.keyboard.type("group_size")
        opened.page.wait_for_url(re.compile("q=group_size"))
        names = opened.page.locator("[role=treeitem] .name").all_inner_texts()
        assert "group_size" in names and "max_steps" not in names
        opened.page.get_by_role("button", name="Differences").click()
        # The second attempt resumed from a checkpoint, which the first did not.
        opened.see("trainer.resume")


def test_a_report_shows_which_citations_hold(browser: "Browser", base: str, runs: Path) -> None:
    reports = runs / "steady" / "reports"
    episode = prl.open_run(runs / "steady", cached=False).episodes.page(limit=1).rows[0]["id"]
    note = {"episode": episode, "quote": "what nobody ever said", "note": "made up"}
    (reports / "doubtful.md").write_text(f"# Doubtful\n\nIt said so[^1]. <b>bold</b>\n\n[^1]: {json.dumps(note)}\n")
    with tab(browser, base) as opened:
        opened.open(page="reports", run=named(runs, "steady"), report="reports/doubtful.md")
        opened.see("not in the trace")
        opened.see("<b>bold</b>")
        opened.open(page="reports", run=named(runs, "steady"), report="reports/first-look.md")
        opened.see("found in the trace")


def test_an_agent_moves_the_page(browser: "Browser", base: str, runs: Path) -> None:
    with tab(browser, base) as opened:
        opened.open(page="overview", run=named(runs, "steady"))
        opened.page.locator(".tabs").wait_for()
        opened.until("document.querySelector('.fresh')?.innerText.includes('Live')")
        command = {"run": named(runs, "broken"), "page": "logs"}
        said = opened.page.request.post(f"{base}/api/v1/view", data=command)
        assert said.status == 200 and said.json()["tabs"] >= 1
        opened.page.wait_for_url(re.compile("page=logs.*run=broken|run=broken.*page=logs"))


def test_a_server_that_went_away_is_said(browser: "Browser", runs: Path) -> None:
    with serving(runs) as base, tab(browser, base) as opened:
        # Of all pages this one asks most often.
        opened.open(page="traces", run=named(runs, "steady"))
        settled(opened)
        opened.page.route("**/api/**", lambda route: route.abort())
        opened.page.locator(".fresh.warn", has_text="Stale").wait_for()
        assert "steady" in opened.page.locator("header").first.inner_text()
        opened.complaints.clear()
