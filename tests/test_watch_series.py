"""Series and clocks from the ends of the recorded files."""

from pathlib import Path

import pytest

from prl.watch import series
from prl.watch.facts import Clock
from prl.watch.series import KEPT_POINTS, episodes_clock, read_metrics_end
from sample_runs import T0, SampleRun, running


def test_last_points_and_clocks(tmp_path: Path) -> None:
    run, _ = running(tmp_path, steps=30)
    found = read_metrics_end(run.layout.metrics, "m", 0.0)
    entropy = next(one for one in found.series if one.key == "entropy/all/mean")
    assert (entropy.steps, entropy.values) == (list(range(11, 31)), [1.5] * KEPT_POINTS)
    assert found.trainer == Clock(30, T0 + 66, "m")
    assert found.orchestrator == Clock(30, T0 + 65, "m")
    assert (found.policy.value, found.policy.time, found.policy.seen) == (29, T0 + 65.5, T0 + 65.5)
    assert found.median_step == 2.0


def test_policy_clock_is_when_the_version_came_not_when_it_was_said_again(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    for second, version in enumerate((3, 4, 4, 4)):
        run.metrics("orch", None, T0 + second, **{"watcher/policy_version": version})
    policy = read_metrics_end(run.layout.metrics, "m", 0.0).policy
    assert (policy.value, policy.time, policy.seen) == (4, T0 + 1, T0 + 3)


def test_a_policy_version_that_is_no_number_is_not_known(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    run.metrics("orch", None, T0, **{"watcher/policy_version": 3.0})
    with run.layout.metrics.open("a") as file:  # this project drops such a value, other writers do not
        file.write(f'{{"producer": "orch", "step": null, "time": {T0 + 1}, "watcher/policy_version": NaN}}\n')
    policy = read_metrics_end(run.layout.metrics, "m", 0.0).policy
    assert (policy.value, policy.time) == (None, T0 + 1)


def test_time_keyed_rows_and_evaluations_are_no_steps(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    run.metrics("orch", 7, T0, **{"time/step": 1.0})
    run.metrics("orch", None, T0 + 1, **{"dispatcher/inflight/train": 4})
    run.metrics("orch", 20, T0 + 2, **{"eval/gsm/effective/agent/avg@4": 0.5})
    found = read_metrics_end(run.layout.metrics, "m", 0.0)
    assert (found.orchestrator.value, found.trainer.value) == (7, None)
    assert [one.key for one in found.series] == ["eval/gsm/effective/agent/avg@4", "time/step"]


def test_a_step_that_is_not_all_written_is_not_missing_a_value(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    run.metrics("trainer", 13, now, **{"perf/throughput": 9.0})
    loss = next(one for one in read_metrics_end(run.layout.metrics, "m", 0.0).series if one.key == "loss/mean")
    assert (loss.last_step, loss.last) == (12, 0.001)


def test_rows_of_an_earlier_attempt_are_left_out(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    run.metrics("trainer", 5, now + 100, **{"loss/mean": 0.5, "time/step": 9.0})
    found = read_metrics_end(run.layout.metrics, "m", now + 50)
    assert (found.trainer.value, found.median_step, len(found.series)) == (5, 9.0, 2)


def test_a_window_into_a_long_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = running(tmp_path, steps=30)
    monkeypatch.setattr(series, "WINDOW", 3000)
    found = read_metrics_end(run.layout.metrics, "m", 0.0)
    assert (found.trainer.value, found.unknown) == (30, [])  # the line that the window cuts is not damage


def test_episodes(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    assert episodes_clock(run.layout.traces, "i", 0.0) == Clock()
    run.episode(1, T0)
    run.episode(2, T0 + 5)
    with (run.layout.traces / "stream.index.jsonl").open("a") as file:
        file.write('{"line": 3, "arri')
    assert episodes_clock(run.layout.traces, "i", 0.0) == Clock(2, T0 + 5, "i")
    assert episodes_clock(run.layout.traces, "i", T0 + 100) == Clock(2, None, "i")
