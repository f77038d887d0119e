"""Counters decide how far a run is; what is written while it stands still does not."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from made_up_runs import LONG_AGO, aged, rl_files, write
from prl.rundir.layout import EPISODE_INDEX, METRICS
from prl.rundir.progress import Counter, read_progress
from prl.rundir.tree import RunTree

METRICS_C, METRICS_A = METRICS


def test_newest_counter_is_the_last_progress(tmp_path: Path) -> None:
    progress = read_progress(RunTree(aged(write(tmp_path, rl_files(step=12)))))
    assert progress.orchestrator == Counter(13, LONG_AGO + 60, METRICS_C)
    assert progress.trainer == Counter(12, LONG_AGO + 61, METRICS_C)
    assert progress.episodes == Counter(96, LONG_AGO + 59, EPISODE_INDEX)
    assert (progress.step, progress.last) == (12, progress.trainer)


def test_rows_without_a_step_are_no_progress_however_many(tmp_path: Path) -> None:
    polled: list[dict[str, Any]] = [
        {"step": None, "time": LONG_AGO + n, "inference/agg/running": 0.0, "text": "x" * 1000} for n in range(200)
    ]
    rows = [{"step": 3, "time": LONG_AGO, "loss/mean": 1.0, "producer": "trainer"}, *polled]
    progress = read_progress(RunTree(write(tmp_path, {METRICS_C: rows})))
    assert progress.last == Counter(3, LONG_AGO, METRICS_C)


def test_step_file_that_is_newer_than_the_metrics_wins(tmp_path: Path) -> None:
    run = aged(write(tmp_path, rl_files(step=80)), LONG_AGO + 500)
    (run / "trainer_step").write_text("50\n")
    progress = read_progress(RunTree(run))
    assert progress.trainer is not None
    assert (progress.step, progress.trainer.source) == (50, "trainer_step")


def test_a_copied_run_is_as_old_as_what_it_recorded(tmp_path: Path) -> None:
    run = write(tmp_path, {**rl_files(step=12), "trainer_step": "12\n"})
    last = read_progress(RunTree(run)).last
    assert last is not None
    assert (last.source, last.value) == (METRICS_C, 12)
    assert last.time is not None
    assert last.time < LONG_AGO + 1e6, "not the moment at which the file with the step was copied"
    (run / METRICS_C).unlink()
    (run / EPISODE_INDEX).unlink()
    alone = read_progress(RunTree(run)).last
    assert alone is not None
    assert alone.source == "trainer_step"


def test_rows_of_old_writers_tell_their_producer_by_their_keys(tmp_path: Path) -> None:
    rows = [{"step": 7, "time": 5.0, "optim/grad_norm": 1.0}, {"step": 9, "time": 6.0, "progress/tokens": 3}]
    progress = read_progress(RunTree(write(tmp_path, {METRICS_A: rows})))
    assert (progress.trainer, progress.orchestrator) == (Counter(7, 5.0, METRICS_A), Counter(9, 6.0, METRICS_A))


def test_torn_and_damaged_ends_cost_nothing_before_them(tmp_path: Path) -> None:
    good = b'{"step": 4, "time": 9.0, "loss/mean": 1, "producer": "trainer"}\n'
    data = good + b"\x00" * 64 + b"\n[1]\n" + b'{"step": 5, "time": 10.0'
    progress = read_progress(RunTree(write(tmp_path, {METRICS_C: data, EPISODE_INDEX: b'{"line": 3}\n{"li'})))
    assert progress.trainer == Counter(4, 9.0, METRICS_C)
    assert progress.episodes == Counter(3, None, EPISODE_INDEX)


def test_episodes_are_the_highest_of_the_last_rows(tmp_path: Path) -> None:
    """Rows without their order, or one of something else behind them, hide none of the episodes."""
    rows: list[dict[str, Any]] = [{"line": n, "arrival": 100.0 + n} for n in (7, 9, 8, 3)]
    progress = read_progress(RunTree(write(tmp_path, {EPISODE_INDEX: [*rows, {"foreign": True}]})))
    assert progress.episodes == Counter(9, 109.0, EPISODE_INDEX)


@pytest.mark.parametrize(
    ("row", "counter"),
    [
        ({"step": True, "time": 1.0, "loss/mean": 1}, None),
        ({"step": -1, "time": 1.0, "loss/mean": 1}, None),
        ({"step": 10**30, "time": 1.0, "loss/mean": 1}, None),
        ({"step": "12", "time": 1.0, "loss/mean": 1}, None),
        ({"step": 12.0, "time": "soon", "loss/mean": 1}, Counter(12, None, METRICS_C)),
        ({"step": 12, "time": 1e300, "loss/mean": 1}, Counter(12, None, METRICS_C)),
        ({"step": 12, "time": True, "loss/mean": 1}, Counter(12, None, METRICS_C)),
    ],
)
def test_value_of_a_wrong_type_is_not_told(tmp_path: Path, row: dict[str, Any], counter: Counter | None) -> None:
    progress = read_progress(RunTree(write(tmp_path, {METRICS_C: [row]})))
    assert (progress.trainer, progress.last) == (counter, None)


@pytest.mark.parametrize("content", ["", "twelve", "-3", "1" * 60, "9" * 200, "\u0663"])
def test_step_file_that_holds_no_number_is_nothing(tmp_path: Path, content: str) -> None:
    assert read_progress(RunTree(write(tmp_path, {"trainer_step": content}))).step is None


def test_form_of_the_rows_is_told(tmp_path: Path) -> None:
    rows = [{"schema_version": 99, "kind": "metric", "data": {}}]
    progress = read_progress(RunTree(write(tmp_path, {METRICS_A: rows})))
    assert (progress.schema_version, progress.step) == (99, None)


@given(data=st.binary(max_size=400))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_survived(tmp_path: Path, data: bytes) -> None:
    good = b'{"step": 4, "time": 9.0, "loss/mean": 1, "producer": "trainer"}\n'
    files = {METRICS_C: data + b"\n" + good, EPISODE_INDEX: data, "trainer_step": data}
    trainer = read_progress(RunTree(aged(write(tmp_path, files), 8.0))).trainer
    assert trainer == Counter(4, 9.0, METRICS_C)
