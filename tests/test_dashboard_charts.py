"""The pages of charts and the list of runs in a real browser: what is drawn is what the files hold, at every cursor."""

import json
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

import prl
from browser import Tab, named, tab
from prl.synth import RunShape, write_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

GRAD_NORM = "optim/grad_norm"
BROKEN_STEP = 9


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("outputs")
    for name, seed in (("sort-r1", 1), ("sort-r2", 2)):
        write_run(root / name, RunShape(steps=20, rollouts=8, group_size=4, attempts=seed, seed=seed))
    _break(root / "sort-r1")
    return root


def _break(run: Path) -> None:
    """Let the gradient norm of one step be no number."""
    metrics = run / "monitors/file/metrics.jsonl"
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    for row in rows:
        if row.get("step") == BROKEN_STEP and GRAD_NORM in row.get("metrics", row):
            row.get("metrics", row)[GRAD_NORM] = float("nan")
    metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))


def parameter(page: Tab, name: str) -> str | None:
    """What the address holds."""
    return parse_qs(urlsplit(page.page.url).query).get(name, [None])[0]


def in_address(page: Tab, name: str, value: str | None) -> None:
    """Wait until the address says so."""
    wanted = "null" if value is None else json.dumps(value)
    page.until(f"new URLSearchParams(location.search).get({json.dumps(name)}) === {wanted}")


def chart(page: Tab, title: str) -> "Locator":
    """A chart that is drawn."""
    found = page.page.locator("figure.chart").filter(has=page.page.get_by_text(title, exact=True)).first
    found.scroll_into_view_if_needed()
    found.locator("canvas").wait_for()
    return found


def test_a_chart_says_what_the_file_holds_at_the_cursor(browser: "Browser", base: str, runs: Path) -> None:
    series = prl.open_run(runs / "sort-r1").metrics.series("trainer", GRAD_NORM)
    value = dict(zip(series.x, series.y, strict=True))[5]
    with tab(browser, base) as page:
        page.open(page="overview", run=named(runs, "sort-r1"), at=5, smooth=0)
        said = chart(page, "Gradient norm").locator(".r").inner_text()
        assert float(said) == pytest.approx(value, rel=0.005)


def test_a_value_that_is_not_finite_is_told(browser: "Browser", base: str, runs: Path) -> None:
    with tab(browser, base) as page:
        page.open(page="metrics", run=named(runs, "sort-r1"), key=f"trainer:{GRAD_NORM}", at=BROKEN_STEP)
        assert chart(page, GRAD_NORM).locator(".r").inner_text().strip() == "NaN"


def test_the_cursor_is_pinned_moved_by_keys_and_opens_the_rollouts(browser: "Browser", base: str, runs: Path) -> None:
    with tab(browser, base) as page:
        page.open(page="overview", run=named(runs, "sort-r1"))
        over = chart(page, "Gradient norm").locator(".u-over")
        box = over.bounding_box()
        assert box is not None
        over.click(position={"x": box["width"] / 2, "y": 20})
        slider = page.page.get_by_role("slider")
        page.until("document.activeElement.getAttribute('role') === 'slider'")
        page.until("new URLSearchParams(location.search).get('at') !== null")
        at = int(parameter(page, "at") or "")
        page.page.keyboard.press("ArrowLeft")
        in_address(page, "at", str(at - 1))
        assert slider.inner_text() == f"Step {at - 1}"
        page.page.keyboard.press("Enter")
        in_address(page, "page", "traces")
        assert parameter(page, "step") == str(at - 1)


def test_a_drag_zooms_all_charts_and_a_double_click_resets(browser: "Browser", base: str, runs: Path) -> None:
    with tab(browser, base) as page:
        page.open(page="overview", run=named(runs, "sort-r1"))
        over = chart(page, "Gradient norm").locator(".u-over")
        box = over.bounding_box()
        assert box is not None
        y = box["y"] + 20
        page.page.mouse.move(box["x"] + box["width"] * 0.25, y)
        page.page.mouse.down()
        page.page.mouse.move(box["x"] + box["width"] * 0.75, y, steps=4)
        page.page.mouse.up()
        page.until("new URLSearchParams(location.search).get('zoom') !== null")
        first, last = (float(end) for end in (parameter(page, "zoom") or "").split(".."))
        assert (first, last) == pytest.approx((5, 15), abs=1.5)
        over.dblclick(position={"x": box["width"] / 2, "y": 20})
        in_address(page, "zoom", None)


def test_the_address_holds_what_is_set(browser: "Browser", base: str, runs: Path) -> None:
    with tab(browser, base) as page:
        page.open(page="overview", run=named(runs, "sort-r1"))
        chart(page, "Gradient norm")
        page.page.get_by_role("button", name="Time", exact=True).click()
        in_address(page, "axis", "time")
        page.page.get_by_role("button", name="Smoothing").click()
        page.page.get_by_role("button", name="0.95").click()
        in_address(page, "smooth", "0.95")
        page.page.get_by_role("button", name="Compare").click()
        page.page.locator(".run-choice").get_by_text("sort-r2").click()
        in_address(page, "compare", named(runs, "sort-r2"))
        page.page.reload()
        page.page.get_by_label("Compared runs").get_by_text("r2").wait_for()
        page.page.get_by_role("button", name="Smoothing 0.95, raw kept").wait_for()
        assert chart(page, "Gradient norm").locator(".ends li").count() == 2


def test_keys_are_found_by_search_and_walked_in_the_tree(browser: "Browser", base: str, runs: Path) -> None:
    with tab(browser, base) as page:
        page.open(page="metrics", run=named(runs, "sort-r1"))
        page.page.get_by_role("treeitem", name="optim", exact=True).focus()
        page.page.keyboard.press("ArrowRight")
        page.page.keyboard.press("ArrowRight")
        page.until("document.activeElement.textContent === 'grad_norm'")
        page.page.keyboard.press("Enter")
        in_address(page, "key", GRAD_NORM)
        page.page.get_by_label("Find keys").fill("mismatch* mean")
        in_address(page, "q", "mismatch* mean")
        page.page.get_by_role("link", name="Show all keys").click()
        page.until("document.querySelectorAll('[role=treeitem]').length > 0")
        found = page.page.locator("figure.chart .t").all_inner_texts()
        assert found and all("mean" in title for title in found)


def test_runs_are_selected_and_compared_by_keys(browser: "Browser", base: str, runs: Path) -> None:
    with tab(browser, base, width=1600) as page:
        page.open(page="runs", sort="name")
        page.page.locator("tr[data-index='1']").wait_for()
        for key in ("k", "x", "j", "x", "c"):
            page.page.keyboard.press(key)
        panel = page.page.get_by_label("Comparison")
        panel.get_by_text("config keys differ").wait_for()
        panel.get_by_text("At step 20").wait_for()
        assert parse_qs(urlsplit(page.page.url).query)["select"] == [
            named(runs, name) for name in ("sort-r1", "sort-r2")
        ]


def test_a_filter_that_leaves_nothing_is_named_and_cleared(browser: "Browser", base: str) -> None:
    with tab(browser, base) as page:
        page.open(page="runs", q="no such run")
        page.page.get_by_role("button", name="Clear the search").click()
        page.page.locator("tr[data-index='0']").wait_for()
        in_address(page, "q", None)


def test_the_health_opens_findings_and_the_restart_plan(browser: "Browser", base: str, runs: Path) -> None:
    with tab(browser, base) as page:
        page.open(page="logs", run=named(runs, "sort-r2"))
        page.page.locator("button.health").click()
        in_address(page, "health", "findings")
        page.page.get_by_role("button", name="Restart plan").click()
        page.page.get_by_text("What must hold first").wait_for()
        page.page.keyboard.press("Escape")
        in_address(page, "health", None)
