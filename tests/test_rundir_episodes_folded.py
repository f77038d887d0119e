"""Records of many episodes in one pass: the same as each opened alone, in every layout, whatever a file holds."""

from pathlib import Path
from typing import Any

import pytest

from prl.rundir import jsonl
from prl.rundir.annotations.locator import UpdateLocator
from prl.rundir.episodes import folded
from prl.rundir.episodes.detail import open_episode
from prl.rundir.episodes.folded import folded_records
from prl.rundir.run import Run
from prl.synth import RunShape, write_run
from prl.synth.shape import Layout


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRL_CACHE_DIR", str(tmp_path / "cache"))


def rows_of(root: Path) -> tuple[Path, list[dict[str, Any]]]:
    run = Run(root)
    run.episodes.refresh()
    return run.traces, run.episodes.rows(run.episodes.select().tolist())


@pytest.mark.parametrize("layout", ["A", "B", "C"])
@pytest.mark.parametrize("order", [1, -1])
def test_each_is_as_it_is_alone(tmp_path: Path, layout: Layout, order: int) -> None:
    """With updates of several producers folded, more records than are looked up together, chunks sealed and not."""
    shape = RunShape(layout=layout, writer="prl" if layout == "C" else "prime-rl", steps=3, rollouts=16)
    traces, rows = rows_of(write_run(tmp_path / "run", shape))
    chosen = rows[::order]
    found = list(folded_records(traces, chosen, UpdateLocator(traces)))
    assert [one.row for one in found] == chosen and len(found) > folded.TOGETHER
    assert [one.record for one in found] == [open_episode(traces, row).record for row in chosen]


def test_large_records_are_not_held_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is that of one record and of some small ones, whatever is asked for."""
    monkeypatch.setattr(folded, "TOGETHER_BYTES", 1)
    traces, rows = rows_of(write_run(tmp_path / "run", RunShape(steps=1, rollouts=8)))
    asked: list[int] = []

    class Counting(UpdateLocator):
        def updates(self, trace_ids: Any) -> Any:
            asked.append(len(trace_ids))
            return super().updates(trace_ids)

    assert all(one.record for one in folded_records(traces, rows, Counting(traces)))
    assert max(asked) == 1


def test_a_record_that_cannot_be_read_costs_no_other(tmp_path: Path) -> None:
    stream = tmp_path / "run/monitors/file/traces/stream/00000.jsonl"
    stream.parent.mkdir(parents=True)
    first, last = (jsonl.encode({"id": name, "traces": []}) for name in ("one", "two"))
    stream.write_bytes(first + b"\0\0\0\n" + last)
    places = [0, len(first), len(first) + 4, 10_000]
    rows: list[dict[str, Any]] = [{"chunk": 0, "offset": offset} for offset in places] + [
        {"chunk": 7, "offset": 0},
        {"chunk": "x"},
    ]
    traces = stream.parents[1]
    found = list(folded_records(traces, rows, UpdateLocator(traces)))
    assert [one.record and one.record["id"] for one in found] == ["one", None, "two", None, None, None]
    assert "is damaged" in found[1].problem and "cannot be read" in found[3].problem
