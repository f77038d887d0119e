"""The metrics row of a step, against values worked out by hand."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.orchestrator.batcher import Batch, QueuedTrace, Window
from prl.orchestrator.episodes import Episode, Outcome, TraceFacts
from prl.orchestrator.groups import Group
from prl.orchestrator.metrics import batch_metrics, spread


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30))
def test_distributions_are_those_of_numpy_with_linear_interpolation(values: list[float]) -> None:
    stats = spread("p", {"x": values, "empty": []})
    assert set(stats) == {f"p/x/{name}" for name in ("mean", "max", "min", "p10", "p90")}
    ordered = sorted(values)
    for name, q in (("p10", 0.1), ("p90", 0.9)):
        rank = q * (len(ordered) - 1)
        below, above = ordered[int(rank)], ordered[min(int(rank) + 1, len(ordered) - 1)]
        assert stats[f"p/x/{name}"] == pytest.approx(below + (rank - int(rank)) * (above - below), abs=1e-6)
    assert stats["p/x/mean"] == pytest.approx(float(np.mean(values)), abs=1e-6)


def facts(name: str, reward: float, advantage: float = 0.0, **other: Any) -> TraceFacts:
    values: dict[str, Any] = {
        "id": name, "agent": "agent", "trainable": True, "reward": reward, "rewards": {"r": reward},
        "metrics": {"m": 2.0}, "timing": {"setup": 0.5, "total": 1.5}, "total_tokens": 11, "input_tokens": 8,
        "output_tokens": 3, "turns": 2, "branches": 1, "truncated": False, "completed": True, "timeout": False,
        "stop_condition": "agent_completed", "length_stopped": False, "error": None,
        "samples": [object()] if advantage else [], "advantage": advantage,
    }  # fmt: skip
    return TraceFacts(**{**values, **other})


def group(source: str, episodes: list[Episode], *, voided: bool = False) -> Group:
    made = Group("g", cast(Any, SimpleNamespace(name=source)), 0, cast(Any, b""), 0, len(episodes), 0)
    made.episodes, made.voided, made.admitted = episodes, voided, not voided
    return made


def episode(
    source: str, outcome: Outcome, traces: list[TraceFacts], error: str | None = None, start: int = 3
) -> Episode:
    return Episode(source, outcome, start, start + 1, error, traces)


@pytest.fixture
def batch() -> Batch:
    good = episode("a", Outcome.CLEAN, [facts("t1", 1.0, 0.5)])
    bad = episode("a", Outcome.CLEAN, [facts("t2", 0.0, -0.5, metrics={})])
    errored = episode("a", Outcome.ERRORED, [facts("t3", 0.0, error="TaskError", timeout=True)], "TaskError")
    failed = episode("a", Outcome.FAILED, [], "EnvWorkerDied")
    voided = episode("b", Outcome.CANCELLED, [facts("t4", 1.0)])
    aborted = episode("b", Outcome.CANCELLED, [])
    solved = [episode("b", Outcome.CLEAN, [facts("t5", 1.0)]), episode("b", Outcome.CLEAN, [facts("t6", 1.0)])]
    window = Window(
        [group("a", [good, bad, errored, failed]), group("b", [voided, aborted], voided=True), group("b", solved)],
        dropped=2,
    )
    return Batch(6, [QueuedTrace(good.traces[0], good), QueuedTrace(bad.traces[0], bad)], 2, window)


def test_shares_over_the_window(batch: Batch) -> None:
    row = batch_metrics(batch)
    assert row["train/agg/all/has_error/mean"] == pytest.approx(1 / 7)  # episodes that arrived: all but the failed one
    assert row["train/agg/all/cancelled/mean"] == pytest.approx(2 / 7)
    assert row["train/agg/all/dispatch_failure/mean"] == pytest.approx(1 / 8)  # of all attempts
    assert row["train/agg/all/dispatch_failure/EnvWorkerDied"] == 1
    assert row["train/agg/all/agent/error/TaskError"] == 1
    assert row["train/agg/all/agent/has_error/mean"] == pytest.approx(1 / 6)
    assert row["train/agg/all/agent/cancelled/mean"] == pytest.approx(1 / 6)
    assert row["train/agg/all/agent/is_timeout/mean"] == pytest.approx(1 / 6)
    assert row["train/agg/all/agent/is_trainable/mean"] == pytest.approx(2 / 6)
    assert row["train/agg/all/agent/is_admitted/mean"] == pytest.approx(5 / 6)
    # two groups have clean traces: a scored 1 and 0, b scored 1 twice
    assert [row[f"train/agg/all/agent/solved_{name}"] for name in ("none", "all", "some")] == [0.0, 0.5, 0.5]
    assert row["train/b/all/agent/solved_all"] == 1.0


def test_effective_is_exactly_what_was_shipped(batch: Batch) -> None:
    row = batch_metrics(batch)
    assert row["train/agg/effective/agent/reward/mean"] == 0.5
    assert row["train/agg/effective/num_total_tokens/mean"] == 11
    assert row["train/a/effective/agent/reward/mean"] == 0.5
    assert row["train/agg/all/agent/reward/mean"] == pytest.approx(4 / 6)
    assert not any(key.startswith("train/b/effective/agent") for key in row)
    assert "train/agg/effective/has_error/mean" not in row


def test_a_missing_metric_is_left_out_and_a_missing_reward_counts_zero(batch: Batch) -> None:
    row = batch_metrics(batch)
    assert row["train/a/effective/agent/metrics/m/mean"] == 2.0
    batch.traces[1].trace.rewards = {}
    assert batch_metrics(batch)["train/a/effective/agent/rewards/r/mean"] == 0.5
    assert row["train/a/effective/agent/timing/setup/p90"] == 0.5
    assert row["train/a/effective/agent/stop_condition/agent_completed"] == 1.0
    assert row["train/a/effective/agent/stop_condition/generation_truncated"] == 0.0


def test_staleness_divides_into_flight_and_queue(batch: Batch) -> None:
    row = batch_metrics(batch)
    # batch 6 trains v5; both episodes began at v3 and ended at v4
    assert (row["off_policy/mean"], row["off_policy/max"]) == (2.0, 2.0)
    assert (row["off_policy/in_flight/mean"], row["off_policy/in_queue/mean"]) == (1.0, 1.0)
    assert row["off_policy/dropped"] == 2


def test_each_environment_has_its_share(batch: Batch) -> None:
    row = batch_metrics(batch)
    assert (row["batch/a"], row["batch/b"]) == (0.5, 0.5)
    assert row["curriculum/b/admission_rate"] == 1.0


def test_one_environment_alone_equals_the_sum(batch: Batch) -> None:
    alone = Batch(6, batch.traces, 2, Window(batch.window.groups[:1]))
    row = batch_metrics(alone)
    agg = {key.removeprefix("train/agg"): value for key, value in row.items() if key.startswith("train/agg/")}
    assert agg == {key.removeprefix("train/a"): value for key, value in row.items() if key.startswith("train/a/")}
