"""Why did it go wrong? From the list of runs to the token and the log line, by keys and links alone."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from browser import Tab, tab
from prl.rundir.recognition import run_id
from prl.synth import RunShape, write_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser

BROKE = 12


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that ended with a loss that is not a number, and one that broke."""
    root = tmp_path_factory.mktemp("outputs")
    write_run(root / "diverged", RunShape(steps=BROKE, rollouts=8, group_size=4, nonfinite_steps=(BROKE,), seed=1))
    write_run(root / "broken", RunShape(state="failed", steps=6, rollouts=8, group_size=4, seed=2))
    return root


def focus(opened: Tab, text: str, *, most: int = 120) -> None:
    """Press Tab until what has the focus says a text: nothing on the way may hold it."""
    for _ in range(most):
        opened.page.keyboard.press("Tab")
        if text in opened.page.evaluate(
            "document.activeElement === document.body ? '' : document.activeElement.innerText"
        ):
            return
    raise AssertionError(f"no Tab leads to {text!r}")


def go(opened: Tab, text: str, page: str) -> None:
    """Follow the link of a text by the keyboard."""
    opened.page.get_by_role("link", name=text).first.wait_for()
    focus(opened, text)
    opened.page.keyboard.press("Enter")
    opened.until(f"new URLSearchParams(location.search).get('page') === '{page}'")


def open_run(opened: Tab, name: str) -> None:
    """Find a run in the list and open it."""
    opened.page.locator("tr[data-index]").first.wait_for()
    opened.page.keyboard.press("/")
    opened.page.keyboard.type(name)
    opened.until("document.querySelectorAll('tr[data-index]').length === 1")
    focus(opened, name)
    opened.page.keyboard.press("Enter")
    opened.until("new URLSearchParams(location.search).get('page') === 'overview'")


def parameter(opened: Tab, name: str) -> str | None:
    found: str | None = opened.page.evaluate(f"new URLSearchParams(location.search).get('{name}')")
    return found


def test_from_the_list_to_the_token_and_the_log_by_keys(browser: "Browser", base: str) -> None:
    with tab(browser, base) as opened:
        opened.open()
        opened.see("not a number")
        open_run(opened, "diverged")

        go(opened, f"loss/mean at step {BROKE}", "metrics")
        assert parameter(opened, "at") == str(BROKE)
        opened.see(f"Rollouts of step {BROKE}")
        opened.page.locator(".chart canvas").first.wait_for()
        opened.page.keyboard.press("ArrowLeft")
        opened.see(f"Rollouts of step {BROKE - 1}")
        opened.page.keyboard.press("ArrowRight")
        opened.see(f"Rollouts of step {BROKE}")
        opened.page.keyboard.press("Enter")
        opened.until("new URLSearchParams(location.search).get('page') === 'traces'")
        assert parameter(opened, "step") == str(BROKE)

        opened.page.locator("tr[data-index]").first.wait_for()
        focus(opened, "agent completed")
        opened.page.keyboard.press("ArrowDown")
        opened.page.keyboard.press("Enter")
        opened.page.locator("[data-p], .m").first.wait_for()
        focus(opened, "Mismatch KL")
        opened.page.keyboard.press("Enter")
        opened.page.locator("[data-p]").first.wait_for()
        opened.page.locator("button:not([aria-disabled])", has_text="Largest").wait_for()
        opened.page.keyboard.press("w")
        opened.until("document.activeElement.hasAttribute('data-p')")
        opened.page.locator(".ro .tokn").wait_for()

        go(opened, "Logs at its end", "logs")
        opened.page.locator(".line").first.wait_for()
        assert parameter(opened, "at") is not None


def test_an_incident_in_the_log_leads_to_findings_and_rollouts(browser: "Browser", base: str) -> None:
    with tab(browser, base) as opened:
        opened.open()
        open_run(opened, "broken")
        opened.see("ended with exit code")
        opened.page.keyboard.press("g")
        opened.page.keyboard.press("l")
        opened.see("Incident starts here")
        opened.page.locator(".incident a", has_text="Findings").click()
        opened.page.locator(".health-details .finding").first.wait_for()
        opened.page.keyboard.press("Escape")
        opened.page.locator(".incident a", has_text="Rollouts").click()
        opened.until("new URLSearchParams(location.search).get('page') === 'traces'")
        opened.page.locator("tr[data-index]").first.wait_for()


def test_a_chosen_line_is_shown_whole_and_left_again(browser: "Browser", base: str, runs: Path) -> None:
    """A line in the list has one row: what is longer is below it."""
    with tab(browser, base, width=1280) as opened:
        opened.open()
        open_run(opened, "broken")
        opened.page.keyboard.press("g")
        opened.page.keyboard.press("l")
        line = opened.page.locator(".line", has_text="Grad. Norm").last
        line.locator(".tx").click()
        whole = opened.page.locator(".chosen-line pre").inner_text()
        assert whole in (runs / "broken/logs/attempt_1/trainer.log").read_text()
        assert "Peak Mem." in whole
        opened.page.keyboard.press("Escape")
        opened.page.locator(".chosen-line").wait_for(state="detached")


def test_the_overlay_stays_for_the_next_episode(browser: "Browser", base: str) -> None:
    with tab(browser, base) as opened:
        opened.open()
        open_run(opened, "diverged")
        opened.page.keyboard.press("g")
        opened.page.keyboard.press("t")
        opened.page.locator("tr[data-index] a").first.click()
        opened.page.get_by_role("button", name="Entropy").first.click()
        opened.page.get_by_role("link", name="All episodes").first.click()
        opened.page.locator("tr[data-index] a").nth(3).click()
        opened.page.locator(".seg button[aria-pressed=true]", has_text="Entropy").wait_for()


def test_what_could_not_be_asked_is_not_0(browser: "Browser", base: str, runs: Path) -> None:
    """A server that answers with errors: the page says so, and no count stands in place of what is not known."""
    failing: dict[str, Any] = {"status": 503, "content_type": "application/json"}
    failing["body"] = '{"error": {"kind": "unreadable", "message": "the file cannot be read"}}'
    context = browser.new_context()
    try:
        page = context.new_page()
        page.route("**/api/v1/**", lambda route: route.fulfill(**failing))
        page.goto(base)
        page.get_by_text("The file cannot be read.").first.wait_for()
        assert "0" not in page.locator(".runs-bar").inner_text()
        page.goto(f"{base}/?page=traces&run={run_id(str((runs / 'broken').resolve()))}")
        page.get_by_text("In flight, n/a").wait_for()
    finally:
        context.close()
