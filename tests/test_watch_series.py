"""Series and clocks from the ends of the recorded files."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prl.watch import ends
from prl.watch.facts import Clock
from prl.watch.keys import LAST, REPLAYED
from prl.watch.series import episodes_clock, read_metrics_end
from sample_runs import T0, SampleRun, running


def test_last_points_and_clocks(tmp_path: Path) -> None:
    run, _ = running(tmp_path, steps=130)
    found = read_metrics_end(run.layout.metrics, "m", 0.0)
    by_key = {one.key: one for one in found.series if one.producer == "trainer" or one.key != "time/step"}
    entropy, usage = by_key["entropy/all/mean"], by_key["inference/agg/kv_cache_usage_perc/max"]
    assert (entropy.steps, entropy.values) == (list(range(11, 131)), [1.5] * REPLAYED)
    assert len(usage.values) == LAST
    assert found.trainer == Clock(130, T0 + 266, "m")
    assert found.orchestrator == Clock(130, T0 + 265, "m")
    assert (found.policy.value, found.policy.time, found.policy.seen) == (129, T0 + 265.5, T0 + 265.5)
    assert (found.median_step, found.trainer_median, found.orchestrator_median) == (2.0, 2.0, 2.0)


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
    assert [one.key for one in found.series] == [
        "dispatcher/inflight/train",
        "eval/gsm/effective/agent/avg@4",
        "time/step",
    ]


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
    monkeypatch.setattr(ends, "READ", 3000)
    found = read_metrics_end(run.layout.metrics, "m", 0.0)
    assert (found.trainer.value, found.unknown) == (30, [])  # the line that the window cuts is not damage


def test_a_version_that_came_long_ago_is_found_among_rows_that_are_not_decoded(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    run.metrics("trainer", 4, T0, **{"time/step": 1.0})
    for second, version in enumerate([3] * 5 + [4] * 500):
        run.metrics("orch", None, T0 + second, **{"watcher/policy_version": version})
    found = read_metrics_end(run.layout.metrics, "m", 0.0)
    assert (found.policy.value, found.policy.time, found.policy.seen) == (4, T0 + 5, T0 + 504)
    assert found.trainer.value == 4  # however many rows by the clock came after it


def test_what_engines_recorded_last(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    usage = {"inference/server0.0/kv_cache_usage_perc": 0.5, "inference/agg/kv_cache_usage_perc/max": 0.5}
    run.metrics("orch", None, T0, **usage, **{"inference/server1.0/gpu_cache_usage_perc": 0.25})
    run.metrics("orch", None, T0 + 5, **{"inference/server0.0/kv_cache_usage_perc": 0.75})
    found = read_metrics_end(run.layout.metrics, "m", 0.0)
    assert {name: (one.time, one.values) for name, one in found.engines.items()} == {
        "server0.0": (T0 + 5, {"kv_cache_usage_perc": 0.75}),
        "server1.0": (T0, {"gpu_cache_usage_perc": 0.25}),
    }
    assert found.inference == Clock(1, T0 + 5, "m")


@settings(max_examples=60, deadline=None)
@given(lines=st.lists(st.binary(max_size=40), max_size=30), block=st.integers(1, 50), tail=st.binary(max_size=20))
def test_lines_from_the_end_are_the_lines(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], block: int, tail: bytes
) -> None:
    lines, tail = [line.replace(b"\n", b"") for line in lines], tail.replace(b"\n", b"")
    path = tmp_path_factory.mktemp("ends") / "m"
    path.write_bytes(b"".join(line + b"\n" for line in lines) + tail)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ends, "_BLOCK", block)
        patch.setattr(ends, "TIMED", 1000)
        found = ends.read_end(path, 1000)
    offsets = [sum(len(line) + 1 for line in lines[:index]) for index in range(len(lines))]
    assert found.lines == list(zip(offsets, lines, strict=True))


def test_episodes(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    assert episodes_clock(run.layout.traces, "i", 0.0) == Clock()
    run.episode(1, T0)
    run.episode(2, T0 + 5)
    with (run.layout.traces / "stream.index.jsonl").open("a") as file:
        file.write('{"line": 3, "arri')
    assert episodes_clock(run.layout.traces, "i", 0.0) == Clock(2, T0 + 5, "i")
    assert episodes_clock(run.layout.traces, "i", T0 + 100) == Clock(2, None, "i")
