"""Traces in a real browser: the list, groups, search, and the viewer with its overlays against values computed here."""

import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import prl
from browser import Tab, named, require_axe, tab
from prl.synth import RunShape, write_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FIXED = {
    "mismatch_kl": ("k", 1, [1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 1]),
    "entropy": ("e", 1, [0.05, 0.1, 0.2, 0.4, 0.8, 1.2, 2, 3]),
    "trainer_logprob": ("e", -1, [0.01, 0.05, 0.1, 0.3, 0.7, 1.5, 3, 6]),
}
"""The fixed scales as they are documented: prefix of the classes, sign, bounds."""
STABLE = {0.0: "m-in", 1.0: "m-hi", -1.0: "m-lo", 2.0: "m-un"}
EVIL = "<script>document.title='x'</script><img src=x onerror=\"document.title='x'\"> \u202ertl \x1b[2J \u200b \u2028"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("outputs")
    write_run(root / "steady", RunShape(steps=8, rollouts=32, group_size=8, seed=1))
    write_run(root / "long", RunShape(steps=1, rollouts=2, group_size=2, answer_tokens=12_000, seed=2))
    write_run(root / "evil", RunShape(state="running", steps=1, rollouts=4, group_size=4, seed=3))
    _poison(root / "evil")
    return root


def _poison(run: Path) -> None:
    """Put hostile text wherever a model, a task or an environment may have written; readers make the index anew."""
    traces = run / "monitors/file/traces"
    for chunk in (traces / "stream").glob("*.jsonl"):
        lines = []
        for line in chunk.read_text().splitlines():
            record = json.loads(line)
            record["task"]["key"] = record["env"]["name"] = EVIL
            record["errors"] = [{"type": EVIL, "message": EVIL, "traceback": EVIL}]
            for trace in record["traces"]:
                trace["stop_condition"] = trace["agent"]["name"] = EVIL
                for node in trace["nodes"]:
                    node["message"]["content"] = EVIL
            lines.append(json.dumps(record))
        chunk.write_text("\n".join(lines) + "\n")
    (traces / "stream.index.jsonl").unlink()


def a_trained_episode(runs: Path, name: str = "steady", **filters: Any) -> Any:
    run = prl.open_run(runs / name, cached=False)
    rows = run.episodes.page(prl.Filters(kind="train", outcome="ok", **filters), limit=200).rows
    row = next(row for row in rows if row["ship_step"] is not None and row["branches"] == 1)
    return run.episode(row["id"])


def classes(opened: Tab) -> dict[int, str]:
    """The class of each token that is drawn, by its position."""
    drawn = opened.page.evaluate(
        "[...document.querySelectorAll('[data-p]')].map((span) => [+span.dataset.p, span.className])"
    )
    kept = {position: set(name.split()) - {"tk", "bare", "sp", "on", "qt"} for position, name in drawn}
    return {position: " ".join(names) for position, names in kept.items()}


def scaled(overlay: str, value: float) -> str:
    if overlay == "advantage":
        size = sum(abs(value) >= bound for bound in (0.1, 0.5, 1)) + 1
        return "z0" if value == 0 else f"{'p' if value > 0 else 'n'}{size}"
    if overlay == "stable":
        return STABLE[value]
    if overlay in ("loss_mask", "content_mask"):
        return "m-in" if value else "m-out"
    prefix, sign, bounds = FIXED[overlay]
    return f"{prefix}{sum(value * sign >= bound for bound in bounds)}"


def test_each_overlay_shows_the_values_of_the_run(browser: "Browser", base: str, runs: Path) -> None:
    episode = a_trained_episode(runs)
    tokens = episode.traces[0].branch_tokens(0)
    with tab(browser, base, width=1600, height=1400) as opened:
        opened.open(page="traces", run=named(runs, "steady"), episode=episode.row["id"], overlay="mismatch_kl")
        for overlay, label in (
            ("mismatch_kl", "Mismatch KL"),
            ("entropy", "Entropy"),
            ("trainer_logprob", "Trainer log-prob"),
            ("advantage", "Advantage"),
            ("stable", "Stable mask"),
            ("loss_mask", "Loss mask"),
            ("content_mask", "Content"),
        ):
            button = opened.page.get_by_role("group", name="Token overlay").get_by_role("button", name=label)
            button.click()
            opened.page.locator(f".ovs [aria-pressed=true]:has-text('{label}')").wait_for()
            values = tokens.streams[overlay].values
            assert values is not None
            expected = {at: "" if math.isnan(value) else scaled(overlay, value) for at, value in enumerate(values)}
            opened.until("document.querySelectorAll('[data-p]').length > 0")
            opened.page.wait_for_function("() => true")
            drawn = classes(opened)
            assert drawn and {at: expected[at] for at in drawn} == drawn, overlay
            if overlay == "loss_mask":
                assert len(drawn) == len(tokens)


def test_the_read_out_tells_all_of_a_token_by_keys(browser: "Browser", base: str, runs: Path) -> None:
    episode = a_trained_episode(runs)
    tokens = episode.traces[0].branch_tokens(0)
    sampled = [at for at, there in enumerate(tokens.streams["loss_mask"].values) if there]
    at = sampled[3]
    with tab(browser, base, width=1600) as opened:
        opened.open(
            page="traces", run=named(runs, "steady"), episode=episode.row["id"], overlay="mismatch_kl", token=at - 1
        )
        opened.page.locator(f"[data-p='{at - 1}'][tabindex='0']").focus()
        opened.page.keyboard.press("ArrowRight")
        opened.page.wait_for_url(re.compile(f"token={at}"))
        opened.page.keyboard.press("Space")
        readout = opened.page.get_by_role("region", name="Token", exact=True)
        readout.get_by_text("pinned").wait_for()
        trainer, engine = (tokens.streams[name].values[at] for name in ("trainer_logprob", "inference_logprob"))
        said = readout.inner_text().replace("\u2212", "-")
        assert f"id {tokens.ids[at]}" in said
        told = dict(zip(readout.locator("dt").all_inner_texts(), readout.locator("dd").all_inner_texts(), strict=True))
        numbers = {name: float(value.replace("\u2212", "-").replace("+", "")) for name, value in told.items()}
        assert numbers["Trainer log-probability"] == pytest.approx(trainer, rel=0.01)
        assert numbers["Inference log-probability"] == pytest.approx(engine, rel=0.01)
        assert numbers["Ratio, trainer to inference"] == pytest.approx(math.exp(trainer - engine), rel=0.01)
        # Pinned: what the pointer passes over does not take its place.
        opened.page.hover("[data-p] >> nth=1")
        assert readout.get_by_text("pinned").count() == 1


def test_n_walks_the_masked_tokens(browser: "Browser", base: str, runs: Path) -> None:
    run = prl.open_run(runs / "steady", cached=False)
    for row in run.episodes.page(prl.Filters(kind="train", outcome="ok"), limit=200).rows:
        episode = run.episode(row["id"])
        stable = episode.traces[0].branch_tokens(0).streams["stable"].values
        masked = [] if stable is None else [at for at, value in enumerate(stable) if not math.isnan(value) and value]
        if len(masked) >= 2:
            break
    else:
        pytest.skip("no episode of the made-up run has two masked tokens")
    with tab(browser, base, width=1600) as opened:
        opened.open(page="traces", run=named(runs, "steady"), episode=row["id"], overlay="stable")
        opened.see(f"{len(masked)} tokens masked")
        for position in [*masked[:2], masked[0]]:
            opened.page.keyboard.press("n" if position != masked[0] or "token=" not in opened.page.url else "N")
            opened.until(f"document.activeElement.dataset.p === '{position}'")


def test_a_far_token_of_a_long_trace_is_gone_to(browser: "Browser", base: str, runs: Path) -> None:
    """Only what is near the screen is drawn, and a token at the end is there at once."""
    episode = a_trained_episode(runs, "long")
    total = len(episode.traces[0].branch_tokens(0))
    with tab(browser, base, width=1600) as opened:
        opened.open(page="traces", run=named(runs, "long"), episode=episode.row["id"], token=total - 5)
        opened.page.locator(f"[data-p='{total - 5}'].on").wait_for()
        opened.until(
            f"(() => {{ const seen = document.querySelector(\"[data-p='{total - 5}']\").getBoundingClientRect(); "
            "const box = document.querySelector('.ts').getBoundingClientRect(); "
            "return seen.top >= box.top && seen.bottom <= box.bottom })()"
        )
        drawn = opened.page.locator("[data-p]").count()
        assert 0 < drawn < 4000 < total


def test_a_group_by_keys_and_its_members_in_the_list(browser: "Browser", base: str, runs: Path) -> None:
    with tab(browser, base, width=1600, height=1100) as opened:
        opened.open(page="traces", run=named(runs, "steady"), kind="train")
        opened.page.locator("tr[data-index='0']").wait_for()
        opened.page.keyboard.press("j")
        opened.page.keyboard.press("x")
        opened.page.wait_for_url(re.compile("sel="))
        rows = opened.page.get_by_role("table", name="Rollouts of the group").get_by_role("row")
        rows.nth(8).wait_for()
        rewards = [float(text) for text in opened.page.locator(".parting .gr:not(.gth) .rwd .tn").all_inner_texts()]
        first = opened.page.locator(".parting .gr.nw")
        assert len(rewards) == 8 and rewards[0] == max(rewards) and first.count() >= 1
        shared = opened.page.url
        opened.page.goto(shared)
        rows.nth(8).wait_for()


def test_steps_are_walked_and_nothing_left_is_explained(browser: "Browser", base: str, runs: Path) -> None:
    with tab(browser, base) as opened:
        opened.open(page="traces", run=named(runs, "steady"), env="reverse-text")
        opened.page.locator("tr[data-index='0']").wait_for()
        opened.page.keyboard.press("[")
        opened.page.wait_for_url(re.compile("step=8"))
        opened.page.keyboard.press("[")
        opened.page.wait_for_url(re.compile("step=7"))
        opened.open(page="traces", run=named(runs, "steady"), env="reverse-text", reward="1000..")
        opened.see("Most is taken away by reward")
        opened.page.get_by_role("button", name="Clear reward").click()
        opened.page.locator("tr[data-index='0']").wait_for()
        assert "reward" not in opened.page.url and "env=reverse-text" in opened.page.url


def test_a_hit_opens_with_its_passage_marked(browser: "Browser", base: str, runs: Path) -> None:
    episode = a_trained_episode(runs)
    text = next(
        node["message"]["content"] for node in episode.traces[0].nodes if node["message"]["role"] == "assistant"
    )
    wanted = " ".join(text.split()[1:5])
    with tab(browser, base) as opened:
        opened.open(page="traces", run=named(runs, "steady"))
        opened.page.locator("tr[data-index='0']").wait_for()
        opened.page.keyboard.press("/")
        opened.page.keyboard.type(f'"{wanted}"')
        opened.page.keyboard.press("Enter")
        opened.page.locator(".hits li mark").first.wait_for()
        opened.page.keyboard.press("Escape")
        opened.page.locator(".hits li a").first.focus()
        opened.page.keyboard.press("Enter")
        opened.page.locator(".ts mark").first.wait_for()
        assert opened.page.locator(".ts mark").first.inner_text().split() == wanted.split()


@pytest.mark.parametrize(
    "place",
    [
        {},
        {"episode": "@1"},
        {"episode": "@1", "overlay": "loss_mask"},
        {"episode": "@1", "view": "timeline"},
        {"sel": "@1"},
    ],
)
def test_hostile_text_is_shown_and_does_nothing(
    browser: "Browser", base: str, runs: Path, place: dict[str, str]
) -> None:
    with tab(browser, base, width=1600) as opened:
        opened.open(page="traces", run=named(runs, "evil"), **place)
        opened.page.get_by_text("<script>").first.wait_for()
        assert opened.page.title() != "x"
        assert opened.page.locator("main script, main img").count() == 0
        hidden = opened.page.evaluate(
            "/[\\u202a-\\u202e\\u2028\\u001b]/.test(document.querySelector('main').innerText)"
        )
        assert not hidden and opened.overflows() == 0


def test_the_viewer_hinders_nobody(browser: "Browser", base: str, runs: Path) -> None:
    require_axe()
    episode = a_trained_episode(runs)
    with tab(browser, base, width=1600) as opened:
        opened.open(page="traces", run=named(runs, "steady"), episode=episode.row["id"], overlay="entropy")
        opened.page.locator("[data-p]").first.wait_for()
        opened.until("document.querySelectorAll('.waiting').length === 0")
        for theme in ("light", "dark"):
            opened.show(theme)
            assert opened.serious() == [], theme
