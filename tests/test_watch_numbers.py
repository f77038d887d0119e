"""Key numbers, picked by name and put in words."""

import pytest

from prl.watch.facts import Facts, RunIdentity, Series
from prl.watch.keys import kept_points
from prl.watch.numbers import key_numbers
from prl.watch.verdict import Number
from prl.watch.words import number_words, step_words, utc_words, value_words


def facts(*series: Series) -> Facts:
    return Facts(0.0, "here", RunIdentity("r", "/r", "rl", "C"), series=list(series))


def one(key: str, *values: float | None, producer: str = "orch") -> Series:
    count = len(values)
    return Series(producer, key, list(range(1, count + 1)), [float(n) for n in range(count)], list(values))


PROGRESS = {
    "train/agg/effective/agent/reward/mean": "reward",
    "train/agg/effective/solver/reward/mean": "reward solver",
    "train/agg/all/agent/reward/mean": "reward of all",
    "train/gsm/effective/agent/reward/mean": "reward gsm",
    "train/agg/effective/num_total_tokens/mean": "seq_len",
    "train/agg/effective/agent/is_truncated/mean": "truncated",
    "train/agg/all/has_error/mean": "errors",
    "eval/gsm/effective/agent/avg@4": "eval gsm avg@4",
    "eval/gsm/effective/agent/pass@2": "eval gsm pass@2",
    "train/gsm/effective/agent/metrics/exact/match/mean": "gsm exact/match",
}


@pytest.mark.parametrize("key", PROGRESS)
def test_progress_family(key: str) -> None:
    assert kept_points("orch", key)
    assert [number.label for number in key_numbers(facts(one(key, 0.5))).progress] == [PROGRESS[key]]


@pytest.mark.parametrize(
    "key",
    [
        "train/gsm/all/agent/metrics/x/mean",
        "train/gsm/effective/agent/reward/p90",
        "a[b](c/reward/mean",
        "",
        "//",
        "train",
    ],
)
def test_other_names_are_no_key_numbers(key: str) -> None:
    assert key_numbers(facts(one(key, 0.5))).progress == []


def test_same_key_of_two_producers_is_two_numbers() -> None:
    numbers = key_numbers(facts(one("time/step", 2.0), one("time/step", 3.0, producer="trainer"))).performance
    assert [(number.label, number.value) for number in numbers] == [("trainer step", 3.0), ("orchestrator step", 2.0)]


def test_performance_has_env_lag_and_inference_pressure_under_either_name() -> None:
    keys = (
        "env_server/gsm/event_loop_lag/p99",
        "inference/agg/gpu_cache_usage_perc/max",
        "inference/agg/num_requests_running/sum",
        "inference/agg/num_requests_waiting/sum",
    )
    assert all(kept_points("orch", key) for key in keys)
    numbers = key_numbers(facts(*(one(key, 0.5) for key in keys))).performance
    assert [number.label for number in numbers] == ["env lag p99 gsm", "KV cache", "running", "waiting"]


def test_usual_needs_five_values_before() -> None:
    def usual(*values: float | None) -> float | None:
        return key_numbers(facts(one("loss/mean", *values, producer="trainer"))).stability[0].usual

    assert usual(1, 2, 3, 4, 9) is None
    assert usual(1, 2, 3, 4, 5, 9) == 3
    assert usual(1, None, 2, 3, 4, 5, None) == 3


@pytest.mark.parametrize(
    ("key", "value", "usual", "words"),
    [
        ("optim/grad_norm", 4.1, 0.21, "x 4.1 (spike: usually 0.21)"),
        ("optim/grad_norm", 2.0, 0.21, "x 2"),
        ("entropy/all/mean", 40.0, 1.0, "x 40"),
        ("loss/mean", None, 0.1, "x not a number (step 12)"),
        ("train/agg/effective/agent/is_truncated/mean", 0.047, None, "x 4.7%"),
        ("time/step", 72.0, None, "x 1m 12s"),
    ],
)
def test_words(key: str, value: float | None, usual: float | None, words: str) -> None:
    assert number_words(Number("x", value, 12, "trainer", key, usual)) == words


def test_values_steps_and_moments() -> None:
    assert [value_words("k", value) for value in (0.00123456, 0.5, 12.0, 21877.4, 1.5e-7)] == [
        "0.001235",
        "0.5",
        "12",
        "21877",
        "1.5e-07",
    ]
    assert (step_words(None, None), step_words(3, 40), step_words(3, None, endless=True)) == (
        "? / ?",
        "3 / 40",
        "3 / ∞",
    )
    assert utc_words(0.0) == "1970-01-01 00:00 UTC"
