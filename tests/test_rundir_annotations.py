"""Trace updates: the files as the contract has them, and folding."""

import json
import math
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from prl.rundir.annotations.reader import fold_episode, iter_updates, producers, read_index, read_updates
from prl.rundir.annotations.update import fold_updates, ship_step, stored_update
from prl.rundir.annotations.writer import AnnotationWriter
from sample_episodes import make_episode, make_node


def update(trace_id: str, info: dict[str, Any] | None = None, *branches: dict[str, Any]) -> dict[str, Any]:
    return {"version": 1, "trace_id": trace_id, "info": info or {}, "branches": list(branches)}


def make_trace() -> dict[str, Any]:
    """Two branches, 0-1-2-3 and 0-1-4. Each node has two tokens, all sampled in an assistant's."""
    nodes = [
        make_node(role, "x", parent, 2)
        for role, parent in (("user", None), ("assistant", 0), ("user", 1), ("assistant", 2), ("assistant", 1))
    ]
    for node in nodes:
        node["mask"] = [node["sampled"]] * 2
    return {"id": "t", "nodes": nodes}


def test_files_as_the_contract_has_them(tmp_path: Path) -> None:
    writer = AnnotationWriter(tmp_path, "trainer", chunk_bytes=10_000)
    info = {"effective": True, "ship": {"step": 12, "time": 5.0}, "advantage": 0.5}
    writer.append(update("t1", info, {"index": 0, "advantages": [0.0, 0.123456]}))
    streams = {"trainer_logprobs": [None, -0.21014], "mismatch_kl": [None, 0.00000123456], "is_masked": [None, False]}
    writer.append(update("t1", None, {"index": 0, **streams}))
    writer.close(clean=False)
    lines = (tmp_path / "annotations" / "trainer" / "00000.jsonl").read_bytes().splitlines(keepends=True)
    assert json.loads(lines[0]) == update("t1", info, {"index": 0, "advantages": [0.0, 0.1235]})
    assert json.loads(lines[1])["branches"] == [
        {"index": 0, "trainer_logprobs": [None, -0.2101], "mismatch_kl": [None, 1e-06], "is_masked": [None, False]}
    ]
    rows = [json.loads(line) for line in (tmp_path / "annotations" / "trainer.index.jsonl").read_bytes().splitlines()]
    assert rows == [
        {"trace_id": "t1", "chunk": 0, "offset": 0, "info": info},
        {"trace_id": "t1", "chunk": 0, "offset": len(lines[0]), "info": {}},
    ]


def test_values_that_are_not_finite_are_null() -> None:
    stored = stored_update(update("t", None, {"index": 0, "entropies": [None, math.nan, 0.25]}), 4)
    assert stored["branches"][0]["entropies"] == [None, None, 0.25]


def test_a_lost_index_row_is_made_again(tmp_path: Path) -> None:
    for trace_id in ("a", "b"):
        writer = AnnotationWriter(tmp_path, "orch", chunk_bytes=10_000)
        writer.append(update(trace_id))
        writer.close(clean=False)
        index = tmp_path / "annotations" / "orch.index.jsonl"
        index.write_bytes(index.read_bytes()[:-5])
    assert [row["trace_id"] for row in read_index(tmp_path, "orch")] == ["a"]
    AnnotationWriter(tmp_path, "orch", chunk_bytes=10_000).close(clean=False)
    assert [row["trace_id"] for row in read_index(tmp_path, "orch")] == ["a", "b"]
    index.unlink()
    assert [row["trace_id"] for row in read_index(tmp_path, "orch")] == ["a", "b"], "readers make it themselves"


def test_updates_of_all_producers_fold_onto_an_episode(tmp_path: Path) -> None:
    episode = make_episode()
    trace_id = episode["traces"][0]["id"]
    for producer, stream, value in (("orch", "advantages", 0.5), ("trainer", "entropies", 0.25)):
        writer = AnnotationWriter(tmp_path, producer, chunk_bytes=10_000)
        writer.append(update("another"))
        writer.append(update(trace_id, {"by": {producer: 1}}, {"index": 0, stream: [value] * 12}))
        writer.close(clean=False)
    assert producers(tmp_path) == ["orch", "trainer"]
    assert [producer for producer, _ in iter_updates(tmp_path)] == ["orch", "orch", "trainer", "trainer"]
    trace = fold_episode(tmp_path, episode)["traces"][0]
    assert trace["info"]["by"] == {"orch": 1, "trainer": 1}
    assert trace["nodes"][3]["advantages"] == [0.5, 0.5]
    assert trace["nodes"][3]["entropies"] == [0.25, 0.25]
    assert "entropies" not in trace["nodes"][0], "a node without sampled tokens has no streams"
    (tmp_path / "annotations" / "orch" / "00000.jsonl").unlink()
    assert set(read_updates(tmp_path, [trace_id])) == {trace_id}, "rows that outlived their records are passed over"


def test_later_updates_win_and_info_is_merged_deeply() -> None:
    trace = {**make_trace(), "info": {"ship": {"step": 1}, "kept": 1}}
    branch = {"index": 0, "advantages": [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0]}
    other = {"index": 1, "advantages": [0.0, 0.0, 2.0, 2.0, 2.0, 2.0]}
    fold_updates(trace, [update("t", {"ship": {"time": 2.0}}, branch, other), update("t", {"kept": 2})])
    assert trace["info"] == {"ship": {"step": 1, "time": 2.0}, "kept": 2}
    assert [node.get("advantages") for node in trace["nodes"]] == [None, [2.0, 2.0], None, [1.0, 1.0], [2.0, 2.0]]


def test_a_stream_that_is_too_short_fills_the_nodes_it_reaches() -> None:
    trace = make_trace()
    fold_updates(trace, [update("t", None, {"index": 0, "entropies": [0.0] * 7}, {"index": 9, "entropies": [1.0] * 9})])
    assert [node.get("entropies") for node in trace["nodes"]] == [None, [0.0, 0.0], None, None, None]


def test_nulls_at_sampled_tokens() -> None:
    trace = make_trace()
    holes = [None, None, None, 1.0, None, None, None, None]
    fold_updates(trace, [update("t", None, {"index": 0, "trainer_logprobs": holes, "mismatch_kl": holes})])
    assert trace["nodes"][1].get("trainer_logprobs") is None, "whole or not at all"
    assert trace["nodes"][1]["mismatch_kl"] == [None, 1.0], "may be partial"
    assert "mismatch_kl" not in trace["nodes"][3], "nothing but nulls"


def test_the_step_of_an_episode_is_the_smallest_effective_ship() -> None:
    def shipped(step: int, effective: bool) -> dict[str, Any]:
        return update("t", {"effective": effective, "ship": {"step": step, "time": 1.0}})

    assert ship_step([shipped(3, False), shipped(7, True), shipped(5, True)]) == 5
    assert ship_step([shipped(3, False), update("t")]) is None


@given(
    st.recursive(
        st.none() | st.integers(-2, 3) | st.text(max_size=2),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["info", "branches", "index", "advantages", "ship"]), inner, max_size=3)
        ),
        max_leaves=12,
    )
)
def test_updates_of_any_shape_are_ignored_where_they_do_not_fit(value: Any) -> None:
    fold_updates(make_trace(), [{"info": value, "branches": value}] if not isinstance(value, dict) else [value])
    ship_step([value] if isinstance(value, dict) else [])
