"""Lines of charts: what thinning keeps, where points lie on each axis, what is marked."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard_metrics import START, row, write_rows
from prl.dashboard.axes import Axes, Points
from prl.dashboard.lines import Lines, Window, dropped_steps, plain, rounded
from prl.rundir.metrics.store import MetricsStore

REWARD = "train/agg/effective/agent/reward"


class FewPoints(Axes):
    """Axes over given points."""

    def __init__(self, found: dict[str, tuple[list[float], list[float]]]) -> None:
        self.given = found

    def points(self, name: tuple[str, str], axis: str) -> Points:
        x, y = self.given[name[1]]
        return Points("step", np.array(x, np.float64), np.array(y, np.float64))


def store_of(tmp_path: Path, *rows: dict[str, object]) -> MetricsStore:
    run = write_rows(tmp_path / "run", rows)
    store = MetricsStore(run / "monitors" / "file" / "metrics.jsonl", cached=False)
    store.refresh()
    return store


VALUES = st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32) | st.floats(-1, 1), min_size=1, max_size=400)


@given(VALUES, st.integers(2, 60), st.randoms(use_true_random=False))
def test_extremes_of_line_and_band_survive(values: list[float], points: int, random: object) -> None:
    y = np.array(values)
    spread = np.abs(np.array([random.gauss(0, 1) for _ in values]))  # type: ignore[attr-defined]
    x = np.arange(len(y), dtype=np.float64)
    low, high = np.where(np.isfinite(y), y, 0.0) - spread, np.where(np.isfinite(y), y, 0.0) + spread
    axes = FewPoints({"y": (list(x), values), "low": (list(x), list(low)), "high": (list(x), list(high))})
    band = (("trainer", "low"), ("trainer", "high"))
    line = Lines(MetricsStore(Path("none"), cached=False), axes).line(
        ("trainer", "y"), Window(points=points, digits=17), band
    )
    kept = np.array(line["x"])
    assert (np.diff(kept) > 0).all()
    assert len(kept) <= 2 * points + 2
    assert np.array_equal(line["y"], y[kept.astype(int)], equal_nan=True)
    finite = y[np.isfinite(y)]
    if len(finite):
        shown = np.array(line["y"])[np.isfinite(line["y"])]
        assert (shown.min(), shown.max()) == (finite.min(), finite.max())
        assert (shown[0], shown[-1]) == (finite[0], finite[-1])
    assert np.min(line["low"]) == low.min()
    assert np.max(line["high"]) == high.max()
    assert [x for x, _ in line["nonfinite"]] == list(kept[~np.isfinite(line["y"])])
    assert line["total"] == len(y)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=50), st.integers(3, 12))
def test_rounding_keeps_significant_digits(values: list[float], digits: int) -> None:
    for given_value, short in zip(values, rounded(np.array(values, np.float64), digits).tolist(), strict=True):
        if math.isfinite(given_value):
            assert short == pytest.approx(given_value, rel=10.0 ** (1 - digits), abs=0.0)
        else:
            assert short == given_value or (math.isnan(short) and math.isnan(given_value))


def test_whole_places_are_whole_numbers() -> None:
    assert plain(np.array([1.0, 2.0]), "step").dtype == np.int64
    assert plain(np.array([1.0, 2.5]), "step").tolist() == [1.0, 2.5]
    assert plain(np.array([START + 0.12345]), "time").tolist() == [START + 0.123]
    assert plain(np.array([]), "step").tolist() == []


def test_windows_are_closed_on_both_sides(tmp_path: Path) -> None:
    store = store_of(tmp_path, *(row(step, START + step, loss__mean=step / 10) for step in range(1, 11)))
    lines = Lines(store)
    assert lines.line(("trainer", "loss/mean"), Window("step", 3, 5))["x"].tolist() == [3, 4, 5]
    assert lines.line(("trainer", "loss/mean"), Window("step", 11, 12))["total"] == 0
    assert lines.line(("trainer", "loss/mean"), Window("step", 5, 3))["x"].tolist() == []
    inside = lines.line(("trainer", "loss/mean"), Window("time", START + 9, None))
    assert (inside["axis"], inside["x"].tolist(), inside["y"].tolist()) == ("time", [START + 9, START + 10], [0.9, 1.0])


def test_what_has_only_a_time_lies_between_the_steps(tmp_path: Path) -> None:
    # Steps end at 10, 20 and 30 s; before the first the run began at 5 s, and the next would end at 40 s.
    rows = [row(None, START + 5, "orch", inference__agg__x=0.0)]
    rows += [row(step, START + 10 * step, time__step=10.0) for step in (1, 2, 3)]
    rows += [row(None, START + time, "orch", inference__agg__x=time) for time in (15.0, 20.0, 33.0, 70.0)]
    axes = Axes(store_of(tmp_path, *rows))
    points = axes.points(("orch", "inference/agg/x"), "step")
    assert points.axis == "step"
    assert points.x.tolist() == pytest.approx([0.0, 1.5, 2.0, 3.3, 4.0])
    assert axes.points(("orch", "inference/agg/x"), "time").x[-1] == START + 70


def test_without_any_step_time_is_all_there_is(tmp_path: Path) -> None:
    axes = Axes(store_of(tmp_path, row(None, START, "orch", dispatcher__mode=0.0)))
    assert axes.points(("orch", "dispatcher/mode"), "step").axis == "time"
    assert axes.points(("orch", "dispatcher/mode"), "tokens").axis == "time"


@pytest.mark.parametrize("totals", [True, False])
def test_tokens_so_far(tmp_path: Path, totals: bool) -> None:
    # 100, 200 and 300 tokens: the totals that are recorded are those before a step.
    rows = []
    for step, before in ((1, 0.0), (2, 100.0), (3, 300.0)):
        counts = {"progress/tokens": 100.0 * step} | ({"progress/total_tokens": before} if totals else {})
        rows.append(row(step, START + step, "orch", **counts))
        rows.append(row(step, START + step, loss__mean=float(step)))
    axes = Axes(store_of(tmp_path, *rows))
    points = axes.points(("trainer", "loss/mean"), "tokens")
    assert (points.axis, points.x.tolist(), points.y.tolist()) == ("tokens", [100.0, 300.0, 600.0], [1.0, 2.0, 3.0])


def test_tokens_of_a_warm_start_and_of_nothing(tmp_path: Path) -> None:
    sft = store_of(tmp_path, *(row(step, START, loss__mean=1.0, progress__num_tokens=50.0 * step) for step in (1, 2)))
    assert Axes(sft).points(("trainer", "loss/mean"), "tokens").x.tolist() == [50.0, 100.0]
    none = store_of(tmp_path, row(1, START, loss__mean=1.0))
    assert Axes(none).points(("trainer", "loss/mean"), "tokens").axis == "step"


def test_not_finite_values_are_marked_by_what_they_are(tmp_path: Path) -> None:
    values = [1.0, math.nan, math.inf, -math.inf, 2.0]
    store = store_of(tmp_path, *(row(n + 1, START + n, some__key=value) for n, value in enumerate(values)))
    line = Lines(store).line(("trainer", "some/key"), Window())
    assert line["nonfinite"] == [[2.0, "nan"], [3.0, "inf"], [4.0, "-inf"]]
    assert line["y"][[0, 4]].tolist() == [1.0, 2.0]


def test_a_value_that_its_writer_left_out_is_a_mark(tmp_path: Path) -> None:
    # The trainer writes the gradient norm at every step; at step 3 it was not finite, so the row has everything else.
    rows = []
    for step in range(1, 5):
        rows += [row(step, START + step, optim__grad_norm=0.5)] if step != 3 else []
        rows.append(row(step, START + step, time__step=1.0))
    store = store_of(tmp_path, *rows)
    assert dropped_steps(store, ("trainer", "optim/grad_norm")).tolist() == [3.0]
    line = Lines(store).line(("trainer", "optim/grad_norm"), Window())
    assert (line["x"].tolist(), line["nonfinite"], line["total"]) == ([1, 2, 3, 4], [[3.0, "dropped"]], 4)
    timed = Lines(store).line(("trainer", "optim/grad_norm"), Window("time"))
    assert timed["nonfinite"] == [[START + 3, "dropped"]]


def test_a_key_that_began_later_was_not_left_out_before(tmp_path: Path) -> None:
    rows = [row(step, START + step, time__step=1.0) for step in (1, 2, 3)]
    rows.insert(1, row(2, START + 2, entropy__all__mean=0.3))
    assert dropped_steps(store_of(tmp_path, *rows), ("trainer", "entropy/all/mean")).tolist() == [3.0]
    assert dropped_steps(store_of(tmp_path, *rows), ("trainer", "loss/mean")).tolist() == []


def test_a_band_with_gaps_is_put_where_it_belongs(tmp_path: Path) -> None:
    rows = [row(1, START, "orch", **{f"{REWARD}/mean": 0.5, f"{REWARD}/p10": 0.1, f"{REWARD}/p90": 0.9})]
    rows.append(row(2, START, "orch", **{f"{REWARD}/mean": 0.6}))
    rows.append(row(3, START, "orch", **{f"{REWARD}/mean": 0.7, f"{REWARD}/p10": 0.2, f"{REWARD}/p90": 1.0}))
    band = (("orch", f"{REWARD}/p10"), ("orch", f"{REWARD}/p90"))
    line = Lines(store_of(tmp_path, *rows)).line(("orch", f"{REWARD}/mean"), Window(), band)
    assert np.array_equal(line["low"], [0.1, math.nan, 0.2], equal_nan=True)
    assert np.array_equal(line["high"], [0.9, math.nan, 1.0], equal_nan=True)
