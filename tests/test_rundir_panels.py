"""The curated charts: every one of the contract's, in its form, for every writer's runs."""

import re
from typing import Any

import pytest

from prl.rundir.panels import FORMATS, KINDS, MAX_LINES, Panel, band_of, charts, load_panels, parse_panels
from prl.watch.thresholds import DEFAULT

PANELS = load_panels()
ALL = [(kind, section, panel) for kind in KINDS for section in PANELS.kinds[kind] for panel in section.panels]
MEAN = "train/gsm/effective/agent/reward"


def drawn(kind: str, names: list[tuple[str, str]]) -> dict[str, list[tuple[str, str, str]]]:
    """Label, producer and key of the lines by panel."""
    return {
        chart.panel.id: [(line.label, *line.name) for line in chart.lines]
        for section in PANELS.sections(kind)
        for chart in charts(section, names)
    }


@pytest.mark.parametrize(("kind", "panel"), [(kind, panel) for kind, _, panel in ALL])
def test_every_panel_says_what_it_shows(kind: str, panel: Panel) -> None:
    assert panel.title and panel.about and panel.format in FORMATS
    assert bool(panel.metrics) != (panel.regex is not None)
    assert panel.bands in ("auto", "max", "none")
    assert not panel.labels or len(panel.labels) == len(panel.metrics)


def test_ids_are_unique_and_examples_fit() -> None:
    for kind in KINDS:
        ids = [panel.id for name, _, panel in ALL if name == kind]
        assert len(ids) == len(set(ids))
    for kind in KINDS:
        for entries in PANELS.document[kind].values():
            assert all(re.fullmatch(entry["regex"], entry["example"]) for entry in entries if "regex" in entry)


def test_every_limit_is_a_threshold_of_the_watch_side() -> None:
    limits = [meaning.limit for meaning in PANELS.meanings if meaning.limit is not None]
    assert limits
    for limit in limits:
        area, name = limit.threshold.split(".")
        assert getattr(getattr(DEFAULT, area), name) > 0
        assert limit.of in (None, "median", "beginning")


def test_the_form_of_the_reference() -> None:
    document = PANELS.document
    assert {"common_metrics", "common_regexes", "rl", "sft"} <= document.keys()
    assert all(isinstance(name, str) for name in document["common_metrics"] + document["common_regexes"])
    for kind in ("rl", "sft", "eval"):
        for entries in document[kind].values():
            assert all(sum(form in entry for form in ("metric", "metrics", "regex")) == 1 for entry in entries)


@pytest.mark.parametrize(
    ("kind", "section", "key"),
    [
        *(("rl", "stability", key) for key in ("optim/grad_norm", "entropy/all/mean", "mismatch_kl/all/mean")),
        ("rl", "stability", "kl_ent_ratio/mean"),
        *(("rl", "inference", f"inference/agg/kv_cache_usage_perc/{how}") for how in ("mean", "min", "max")),
        *(("rl", "inference", f"inference/agg/num_preemptions_total:rate/{how}") for how in ("sum", "max")),
        *(("rl", "inference", f"inference/agg/num_requests_{what}/mean") for what in ("running", "waiting")),
        *(("rl", "inference", f"inference/agg/prefix_cache_hit_rate/{how}") for how in ("pooled", "min")),
        ("rl", "inference", "inference/agg/generation_tokens_total:rate/sum"),
        ("rl", "inference", "inference/agg/prompt_tokens_total:rate/sum"),
        *(("rl", "inference", key) for key in ("dispatcher/inflight/train", "dispatcher/inflight/eval")),
        ("rl", "inference", "concurrency/max_inflight"),
        *(("rl", "performance", key) for key in ("perf/mfu", "time/step", "time/wait_for_batch")),
        ("rl", "performance", "time/wait_for_policy"),
        *(("sft", "train", key) for key in ("loss/mean", "loss/perplexity", "val/loss", "val/perplexity")),
        ("sft", "train", "progress/epoch"),
        *(("sft", "stability", key) for key in ("optim/grad_norm", "optim/lr", "loss/nan_count", "max_vio/mean")),
        *(("sft", "performance", f"perf/{name}") for name in ("mfu", "throughput", "peak_memory")),
        *(("sft", "performance", f"time/{name}") for name in ("step", "forward_backward", "save_ckpt")),
    ],
)
def test_nothing_of_the_reference_is_left_out(kind: str, section: str, key: str) -> None:
    found = next(one for one in PANELS.sections(kind) if one.id == section)
    names = [("orch", key), *(("orch", f"{key.rpartition('/')[0]}/{how}") for how in ("mean", "min", "max"))]
    shown = {
        edge
        for chart in charts(found, names)
        for line in chart.lines
        for edge in (line.name, line.low, line.high)
        if edge is not None
    }
    assert ("orch", key) in shown


def test_lines_by_environment_without_the_sum_of_all() -> None:
    names = [("orch", f"train/{env}/effective/agent/reward/mean") for env in ("agg", "gsm", "word sort+hint")]
    found = drawn("rl", names)
    assert [label for label, *_ in found["reward_by_env"]] == ["gsm", "word sort+hint"]
    assert found["reward"] == [("", "orch", "train/agg/effective/agent/reward/mean")]


def test_of_one_environment_its_reward_is_drawn_once() -> None:
    names = [("orch", f"train/{env}/effective/agent/reward/mean") for env in ("agg", "gsm")]
    assert "reward_by_env" not in drawn("rl", names)


def test_agents_and_attempts_tell_lines_apart() -> None:
    names = [("orch", f"eval/gsm/effective/{agent}/avg@{k}") for agent in ("judge", "solver") for k in (1, 4)]
    labels = [label for label, *_ in drawn("rl", names)["eval_score"]]
    assert labels == ["judge, avg@1", "judge, avg@4", "solver, avg@1", "solver, avg@4"]


def test_a_key_of_two_producers_is_two_lines_and_the_meant_one_is_chosen() -> None:
    both = [("orch", "time/step"), ("trainer", "time/step")]
    assert drawn("rl", both)["step_time"] == [("trainer", *both[1]), ("orchestrator", *both[0])]
    assert drawn("sft", both)["time/step"] == [("", *both[1])]
    assert drawn("rl", both[:1])["step_time"] == [("trainer", *both[0])]


def test_runs_of_older_writers_are_drawn() -> None:
    old = [("orch", f"inference/agg/gpu_cache_usage_perc/{how}") for how in ("mean", "min", "max")]
    assert drawn("rl", old)["kv_cache"] == [("", *old[0])]
    assert drawn("rl", [("orch", "event_loop_lag/p99")])["loop_lag"] == [("p99", "orch", "event_loop_lag/p99")]


def test_a_chart_has_a_bound_and_says_what_it_leaves_out() -> None:
    names = [("orch", f"train/env{number:02d}/effective/agent/reward/mean") for number in range(30)]
    section = next(one for one in PANELS.sections("rl") if one.id == "train")
    chart = next(one for one in charts(section, names) if one.panel.id == "reward_by_env")
    assert (len(chart.lines), chart.left_out) == (MAX_LINES, 30 - MAX_LINES)


@pytest.mark.parametrize(
    ("siblings", "bands", "expected"),
    [
        (("p10", "p90", "min", "max"), "auto", ("p10", "p90")),
        (("min", "max"), "auto", ("min", "max")),
        (("p10", "max"), "auto", (None, None)),
        (("max",), "max", (None, "max")),
        (("p10", "p90"), "none", (None, None)),
    ],
)
def test_bands(siblings: tuple[str, ...], bands: str, expected: tuple[str | None, str | None]) -> None:
    names = {("orch", f"{MEAN}/{one}") for one in ("mean", *siblings)}
    wanted = tuple(None if one is None else ("orch", f"{MEAN}/{one}") for one in expected)
    assert band_of(("orch", f"{MEAN}/mean"), names, bands) == wanted
    assert band_of(("orch", f"{MEAN}/p10"), names, bands) == (None, None)


@pytest.mark.parametrize(
    ("key", "title", "form"),
    [
        ("train/gsm/effective/agent/reward/mean", "Reward", "number"),
        ("inference/server0.0/gpu_cache_usage_perc", "KV cache in use", "percent"),
        ("time/step", "Step time", "seconds"),
        ("perf/throughput", "Trainer throughput", "rate"),
    ],
)
def test_meanings(key: str, title: str, form: str) -> None:
    meaning = PANELS.meaning(key)
    assert meaning is not None
    assert (meaning.title, meaning.format) == (title, form)


def test_a_document_that_only_has_the_references_fields_is_read() -> None:
    document: dict[str, Any] = {
        "common_metrics": ["effective/num_turns/mean"],
        "common_regexes": [],
        "rl": {"stability": [{"metric": "optim/grad_norm"}, {"metrics": ["a", "b"]}, {"regex": "max_vio/(mean|max)"}]},
        "sft": {},
    }
    (section,) = parse_panels(document).sections("rl")
    assert [panel.id for panel in section.panels] == ["optim/grad_norm", "a", "max_vio/(mean|max)"]
    names = [("trainer", key) for key in ("optim/grad_norm", "b", "max_vio/max", "max_vio/mean")]
    assert [len(chart.lines) for chart in charts(section, names)] == [1, 1, 2]


@pytest.mark.parametrize("entry", [{}, {"metric": "a", "regex": "b"}])
def test_a_panel_without_one_form_is_refused(entry: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="metrics or a regex"):
        parse_panels({"rl": {"stability": [entry]}})


def test_hostile_keys_match_nothing_and_take_no_time() -> None:
    names = [("orch", "train/" + "a/" * 5000 + "reward/mean"), ("orch", "__proto__"), ("orch", "../x"), ("orch", "")]
    assert drawn("rl", names) == {}
