"""What a list of series says of each, beside the clock of the steps, against the simple reader."""

import json
import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prl.rundir.metrics.reader import MetricsHistory
from prl.rundir.metrics.store import MetricsStore

VALUES = st.sampled_from([0.0, 1.0, -2.5, math.nan, math.inf])
KEYS = st.sampled_from(["loss/mean", "time/step", "eval/gsm/avg@1", "eval/gsm/has_error/mean", "x"])
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "step": st.none() | st.integers(0, 6),
            "producer": st.sampled_from(["orch", "trainer"]),
            "values": st.dictionaries(KEYS, VALUES, min_size=1, max_size=3),
        }
    ),
    max_size=25,
)


def written(directory: Path, rows: list[dict[str, Any]]) -> Path:
    lines = [
        {"step": row["step"], "time": 100.0 + index, **row["values"], "producer": row["producer"]}
        for index, row in enumerate(rows)
    ]
    path = directory / "metrics.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@given(ROWS)
def test_summaries_agree_with_the_simple_reader(rows: list[dict[str, Any]]) -> None:
    with TemporaryDirectory() as directory:
        path = written(Path(directory), rows)
        store, history = MetricsStore(path, cached=False), MetricsHistory(path)
        store.refresh()
        history.refresh()
        found = store.summaries()
        assert [(one.producer, one.key) for one in found] == history.names()
        for one in found:
            points = history.series(one.producer, one.key)
            assert one.points == len(points)
            assert one.nonfinite == sum(not math.isfinite(point.value) for point in points)
            if points and all(point.step is not None for point in points):
                assert one.first == points[0].value or (one.first is not None and math.isnan(points[0].value))
            assert (one.last is None) == (not points)


@given(ROWS)
def test_the_clock_never_goes_back(rows: list[dict[str, Any]]) -> None:
    with TemporaryDirectory() as directory:
        store = MetricsStore(written(Path(directory), rows), cached=False)
        store.refresh()
        steps, times = store.clock()
        assert (np.diff(steps) > 0).all() and (np.diff(times) >= 0).all()
        standing: set[int] = set()
        for producer, key in store.names():
            data = store.series(producer, key)
            if data.axis == "step" and not key.startswith("eval/"):
                standing |= {int(step) for step in data.x}
        assert standing <= set(steps.tolist())


def test_the_first_step_of_a_time(tmp_path: Path) -> None:
    path = written(tmp_path, [{"step": step, "producer": "orch", "values": {"x": 1.0}} for step in (1, 2, 2, 3)])
    store = MetricsStore(path, cached=False)
    store.refresh()
    assert (store.first_step(0.0, 102.0), store.first_step(102.0, math.inf), store.first_step(200.0, 300.0)) == (
        1,
        2,
        None,
    )
    assert store.first_time == 100.0
