"""Console lines parsed into values."""

import math

import pytest

from prl.rundir.logs.catalogue import load_catalogue, parse_duration
from prl.rundir.logs.entries import parse_line

CATALOGUE = load_catalogue()


@pytest.mark.parametrize("pattern_id", CATALOGUE.patterns)
def test_every_pattern_knows_its_example(pattern_id: str) -> None:
    pattern = CATALOGUE.patterns[pattern_id]
    parsed = CATALOGUE.parse(parse_line(pattern.example).message)
    assert parsed is not None
    assert parsed.id == pattern_id
    assert set(pattern.values) <= set(pattern.compiled.groupindex)
    kinds = {"integer": int, "number": float, "duration": float, "percent": float, "quantity": float, "counts": dict}
    for name, value in parsed.values.items():
        assert isinstance(value, kinds.get(pattern.values.get(name, ""), str))


def test_values_are_converted() -> None:
    parsed = CATALOGUE.parse(CATALOGUE.patterns["orch_step"].example)
    assert parsed is not None
    assert (parsed.values["step"], parsed.values["time"], parsed.values["tp"]) == (38, 72.0, pytest.approx(0.922))
    pipeline = CATALOGUE.parse(CATALOGUE.patterns["pipeline"].example)
    assert pipeline is not None
    assert pipeline.values["byenv"] == {"word-sort": 50, "gsm": 46}
    initial = CATALOGUE.parse(CATALOGUE.patterns["concurrency_init"].example)
    assert initial is not None
    assert (initial.values["kv"], initial.values["c"]) == (1e6, 16_400)


def test_what_was_not_measured_is_absent_or_not_a_number() -> None:
    line = (
        "Step 3 | 980ms | Loss nan | Entropy inf | LR 1.00e-06 | Throughput 9 tokens/s | MFU 0.1% | Peak Mem. 1.0 GiB"
    )
    parsed = CATALOGUE.parse(line)
    assert parsed is not None
    loss, entropy = parsed.values["loss"], parsed.values["entropy"]
    assert isinstance(loss, float)
    assert math.isnan(loss)
    assert entropy == math.inf
    assert "mkl" not in parsed.values


def test_the_lines_below_a_step_are_parsed_with_it() -> None:
    entry = parse_line("10:00:00 SUCCESS " + CATALOGUE.patterns["orch_step"].example)
    entry.more = [CATALOGUE.patterns["orch_env_line"].example, "something else"]
    assert [parsed.id for parsed in CATALOGUE.parse_entry(entry)] == ["orch_step", "orch_env_line"]


@pytest.mark.parametrize("text", ["", " ", "Step", "Step x | y", "Anything else", "Starting evals"])
def test_other_lines_are_none(text: str) -> None:
    assert CATALOGUE.parse(text) is None


def test_durations() -> None:
    assert [parse_duration(text) for text in ("980ms", "3s", "1m 12s", "1m", "2h 5m", "1d 3h")] == [
        0.98, 3, 72, 60, 7500, 97200,
    ]  # fmt: skip
