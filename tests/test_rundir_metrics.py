"""metrics.jsonl: rows are strict when written and forgiven when read; a resume supersedes what it repeats."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from prl.rundir.metrics.reader import MetricsHistory, Point, parse_row, read_metrics
from prl.rundir.metrics.writer import metrics_row


def write(path: Path, *rows: object) -> Path:
    with path.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def test_a_row_as_the_contract_has_it() -> None:
    row, dropped = metrics_row(
        {"train/agg/effective/agent/reward/mean": np.float32(0.5), "progress/tokens": 83211},
        step=12,
        time=1_795_926_725.1,
        producer="orch",
    )
    assert json.dumps(row) == (
        '{"step": 12, "time": 1795926725.1, "train/agg/effective/agent/reward/mean": 0.5,'
        ' "progress/tokens": 83211, "producer": "orch"}'
    )
    assert dropped == []


def test_what_is_no_finite_number_is_left_out_and_named() -> None:
    metrics = {"a": math.nan, "b": 1.0, "c": -math.inf, "d": "x", "e": np.arange(3), "step": 9.0, "f": True}
    row, dropped = metrics_row(metrics, step=None, time=1.0, producer="trainer")  # type: ignore[arg-type]
    assert row == {"step": None, "time": 1.0, "b": 1.0, "f": 1, "producer": "trainer"}
    assert dropped == ["a", "c", "d", "e"]


def test_series_by_producer_and_rows_of_a_step_merged(tmp_path: Path) -> None:
    history = read_metrics(
        write(
            tmp_path / "m.jsonl",
            {"step": 1, "time": 10.0, "time/step": 30, "producer": "trainer"},
            {"step": 1, "time": 11.0, "time/step": 12, "producer": "orch"},
            {"step": 1, "time": 12.0, "optim/lr": 1e-6, "producer": "trainer"},
            {"step": None, "time": 12.5, "dispatcher/inflight/train": 40, "producer": "orch"},
        )
    )
    assert history.names() == [
        ("orch", "dispatcher/inflight/train"),
        ("orch", "time/step"),
        ("trainer", "optim/lr"),
        ("trainer", "time/step"),
    ]
    assert history.series("trainer", "time/step") == [Point(1, 10.0, 30)]
    assert history.step_row("trainer", 1) == {"time/step": 30, "optim/lr": 1e-6}
    assert history.series("orch", "dispatcher/inflight/train") == [Point(None, 12.5, 40)]
    assert (history.rows, history.last_time) == (4, 12.5)
    assert history.last_values("orch") == {
        ("orch", "time/step"): Point(1, 11.0, 12),
        ("orch", "dispatcher/inflight/train"): Point(None, 12.5, 40),
    }
    assert history.last_step("trainer") == 1
    assert history.last_step("eval") is None


def test_a_resume_supersedes_what_it_repeats(tmp_path: Path) -> None:
    def row(step: int, time: float, loss: float) -> dict[str, object]:
        return {"step": step, "time": time, "loss/mean": loss, "producer": "trainer"}

    path = write(tmp_path / "m.jsonl", *(row(step, 10.0 * step, step) for step in range(1, 6)))
    write(path, {"step": 4, "time": 41.0, "eval/x/all/agent/reward/mean": 0.5, "producer": "trainer"})
    write(path, row(3, 60.0, 30))
    history = read_metrics(path)
    assert [(p.step, p.value) for p in history.series("trainer", "loss/mean")] == [(1, 1), (2, 2), (3, 30)]
    assert [p.value for p in history.superseded("trainer", "loss/mean")] == [3, 4, 5]
    assert history.series("trainer", "eval/x/all/agent/reward/mean") == [], "of the timeline that was given up"
    assert history.last_step("trainer") == 3
    write(path, row(4, 70.0, 40))
    history.refresh()
    assert [p.step for p in history.series("trainer", "loss/mean")] == [1, 2, 3, 4]


def test_an_evaluation_that_ends_late_supersedes_nothing(tmp_path: Path) -> None:
    path = write(
        tmp_path / "m.jsonl",
        {"step": 10, "time": 1.0, "time/step": 1, "producer": "orch"},
        {"step": 12, "time": 2.0, "time/step": 1, "eval_free": 1, "producer": "orch"},
        {"step": 10, "time": 3.0, "eval/a/all/agent/reward/mean": 0.5, "policy_version": 10, "producer": "orch"},
        {"step": 10, "time": 4.0, "eval/b/all/agent/reward/mean": 0.6, "policy_version": 10, "producer": "orch"},
    )
    history = read_metrics(path)
    assert [p.step for p in history.series("orch", "time/step")] == [10, 12]
    assert history.last_step("orch") == 12


@pytest.mark.parametrize(
    ("row", "producer"),
    [
        ({"step": 1, "perf/mfu": 3.0}, "trainer"),
        ({"step": 1, "time/forward_backward": 3.0}, "trainer"),
        ({"step": 1, "train/agg/all/agent/reward/mean": 0.5}, "orch"),
        ({"step": None, "inference/agg/x": 1}, "orch"),
        ({"step": 1, "perf/mfu": 3.0, "producer": "online-eval"}, "online-eval"),
    ],
)
def test_who_wrote_a_row(row: dict[str, object], producer: str) -> None:
    assert parse_row(row).producer == producer


def test_rows_of_other_writers_are_read(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(
        b'{"step": 1, "time": 1, "loss": NaN, "grad": "-Infinity", "none": null, "flag": true, "text": "x"}\n'
        b'{"step": true, "time": "soon", "a": 1, "timing/train": 2, "timing/train/x": 3, "__proto__": 4}\n'
        b'{"schema_version": 99, "kind": "metric", "data": {}}\n'
        b'{"step": 2, "torn'
    )
    history = read_metrics(path)
    assert math.isnan(history.series("orch", "loss")[0].value)
    assert history.series("orch", "grad")[0].value == -math.inf
    assert history.series("orch", "flag") == [Point(1, 1, 1.0)]
    assert ("orch", "none") not in history.names()
    assert history.series("orch", "timing/train/x") == [Point(None, None, 3)]
    assert history.rows == 3
    assert history.damage.lines == 0


def test_a_replaced_file_begins_a_new_history(tmp_path: Path) -> None:
    path = write(tmp_path / "m.jsonl", {"step": 1, "time": 1.0, "a": 1, "producer": "orch"})
    history = MetricsHistory(path)
    history.refresh()
    path.unlink()
    write(path, {"step": 1, "time": 2.0, "b": 1, "producer": "orch"}, {"step": 2, "time": 3.0, "b": 1})
    history.refresh()
    assert history.names() == [("orch", "b")]
    assert history.superseded("orch", "b") == []
