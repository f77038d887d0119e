"""Names of metrics are opaque: chosen, cut into a tree and resolved without any character meaning something else."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.rundir.metrics.names import MEANINGS, fits, key_tree, match, resolve

AWKWARD = [
    "val/acc/mean@1",
    "timing//gen",
    "huber_loss[delta=1.3]",
    "env(a+b)/x",
    "timing/train",
    "timing/train/x",
    "",
    "a b",
]
NAMES = [("orch", key) for key in AWKWARD]


@pytest.mark.parametrize("key", AWKWARD)
def test_a_key_is_found_by_itself_and_nothing_in_it_is_special(key: str) -> None:
    assert ("orch", key) in match(NAMES, key)
    assert resolve(key, NAMES) == [("orch", key)]
    assert match(NAMES, f"{key}*") == [name for name in NAMES if name[1].startswith(key)]


def test_text_is_found_anywhere_and_a_pattern_fits_the_whole() -> None:
    assert match(NAMES, "TRAIN") == [("orch", "timing/train"), ("orch", "timing/train/x")]
    assert match(NAMES, "timing/*") == [("orch", "timing//gen"), ("orch", "timing/train"), ("orch", "timing/train/x")]
    assert match(NAMES, "?????/train") == []
    assert match(NAMES, "*[delta=1.3]") == [("orch", "huber_loss[delta=1.3]")]


@given(st.text("ab", max_size=8), st.text("ab*?", max_size=8))
def test_a_pattern_fits_as_in_a_shell(text: str, pattern: str) -> None:
    assert fits(text, pattern) == fnmatchcase(text, pattern)


def test_a_pattern_of_many_stars_is_no_trap() -> None:
    assert not fits("a" * 2000, "*a" * 200 + "b")


def test_a_tree_in_which_a_key_is_leaf_and_beginning_at_once() -> None:
    tree = key_tree([*NAMES, ("trainer", "timing/train")])
    timing = tree.children["timing"]
    assert timing.series == 4
    train = timing.children["train"]
    assert (train.path, train.producers, list(train.children)) == ("timing/train", ["orch", "trainer"], ["x"])
    assert timing.children[""].children["gen"].path == "timing//gen"
    assert tree.children[""].producers == ["orch"], "the empty key"
    assert tree.series == len(NAMES) + 1


def test_a_key_of_thousands_of_parts_makes_a_tree_that_can_be_walked() -> None:
    key = "/".join("x" * 5000)
    node = key_tree([("orch", key)])
    while node.children:
        (node,) = node.children.values()
    assert node.path == key


def test_both_producers_of_a_key_unless_one_is_named() -> None:
    names = [("orch", "time/step"), ("trainer", "time/step")]
    assert resolve("time/step", names) == names
    assert resolve("trainer:time/step", names) == names[1:]
    assert resolve("eval:time/step", names) == []


@pytest.mark.parametrize(
    ("wanted", "there"),
    [
        ("inference/agg/kv_cache_usage_perc/max", "inference/agg/gpu_cache_usage_perc/max"),
        ("inference/agg/gpu_cache_usage_perc/max", "inference/agg/kv_cache_usage_perc/max"),
        ("event_loop_lag/median", "event_loop_lag/med"),
        ("batch/gsm", "rollout/env_share/gsm"),
        ("kv_cache", "inference/agg/gpu_cache_usage_perc/max"),
        ("loop_lag", "event_loop_lag/med"),
        ("reward", "train/agg/effective/solver/reward/mean"),
    ],
)
def test_older_and_newer_names_and_meanings(wanted: str, there: str) -> None:
    assert resolve(wanted, [("orch", "other"), ("orch", there)]) == [("orch", there)]


def test_a_meaning_that_a_run_has_several_series_of() -> None:
    names = [("orch", f"train/agg/effective/{agent}/reward/mean") for agent in ("judge", "solver")]
    assert resolve("reward", [*names, ("orch", "train/gsm/effective/solver/reward/mean")]) == names
    assert resolve("loss", names) == []


def test_every_meaning_has_patterns() -> None:
    assert all(patterns for patterns in MEANINGS.values())
