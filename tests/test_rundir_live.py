"""Rollouts in flight: deltas fold into traces, on disk as on the wire."""

import copy
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from prl.rundir.live.fold import apply_delta
from prl.rundir.live.reader import read_live, read_pending
from prl.rundir.live.writer import LiveWriter
from sample_episodes import make_node

DISPATCH = {
    "id": "d3",
    "kind": "train",
    "env": "wordle",
    "group": "g5",
    "task": "w-18",
    "policy_version": 12,
    "step": 13,
}
OPEN = {"trace": "t9", "open": {"version": 1, "id": "t9"}, "set": {"timing": {"start": 5.0}}}


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def deltas() -> list[dict[str, Any]]:
    return [
        OPEN,
        {"trace": "t9", "pending": [{"role": "user", "content": "guess"}]},
        {
            "trace": "t9",
            "nodes": [make_node("user", "guess"), make_node("assistant", "slate", 0)],
            "calls": [{"node": 1}],
        },
        {"trace": "t9", "links": {1: [{"node": 0, "type": "spawn"}]}, "set": {"timing": {"start": 6.0}, "ok": True}},
    ]


def test_deltas_fold_in_their_order() -> None:
    traces: dict[str, dict[str, Any]] = {}
    stream = deltas()
    untouched = copy.deepcopy(stream)
    assert all(apply_delta(traces, delta) for delta in stream[:2])
    assert traces["t9"]["pending"] == [{"role": "user", "content": "guess"}]
    assert all(apply_delta(traces, delta) for delta in stream[2:])
    trace = traces["t9"]
    assert trace["pending"] == [], "a turn that was committed takes the preview with it"
    assert trace["nodes"][1]["semantic_parents"] == [{"node": 0, "type": "spawn"}]
    assert (trace["version"], trace["timing"], trace["ok"]) == (1, {"start": 6.0}, True)
    assert (len(trace["calls"]), trace["errors"]) == (1, [])
    assert stream == untouched, "the caller's deltas stay as they were"
    assert apply_delta(traces, {"trace": "t9", "nodes": [], "pending": [{"role": "tool"}]})
    assert traces["t9"]["pending"] == [{"role": "tool"}]
    assert apply_delta(traces, {"trace": "t9", "discard": True, "nodes": 3})
    assert traces == {}


def test_a_delta_that_does_not_fit_is_dropped() -> None:
    traces: dict[str, dict[str, Any]] = {}
    assert not apply_delta(traces, {"trace": "t9", "nodes": []}), "its beginning was not seen"
    assert not apply_delta(traces, {"nodes": []})
    assert apply_delta(traces, OPEN)
    assert not apply_delta(traces, {"trace": "t9", "links": {"7": []}})
    assert traces == {}, "what came before the damage would be continued wrongly"


@given(
    st.recursive(
        st.none() | st.integers(-2, 3) | st.text(max_size=2),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["0", "nodes", "links", "set", "pending", "calls"]), inner, max_size=3)
        ),
        max_leaves=12,
    )
)
def test_deltas_of_any_shape_never_raise(value: Any) -> None:
    traces: dict[str, dict[str, Any]] = {}
    apply_delta(traces, OPEN)
    apply_delta(traces, {"trace": "t9", **(value if isinstance(value, dict) else {"nodes": value, "set": value})})


def test_files_come_and_go_with_the_dispatch(tmp_path: Path) -> None:
    live = tmp_path / "live"
    (live / "pending").mkdir(parents=True)
    (live / "left-over.jsonl").write_text("{}")
    writer = LiveWriter(live)
    writer.pending(DISPATCH)
    assert read_pending(tmp_path) == [DISPATCH]
    assert names(live) == ["pending"], "what an earlier process left is gone"
    writer.deltas(DISPATCH, deltas()[:2])
    writer.deltas(DISPATCH, deltas()[2:])
    assert read_pending(tmp_path) == []
    found = read_live(tmp_path)
    assert [entry.dispatch for entry in found] == [DISPATCH]
    assert [node["message"]["content"] for node in found[0].trace["nodes"]] == ["guess", "slate"]
    assert "routed_experts" not in found[0].trace["nodes"][0]
    lines = (live / "t9.jsonl").read_bytes().splitlines()
    assert len(lines) == 4
    assert b'"dispatch"' in lines[0]
    assert all(b'"dispatch"' not in line for line in lines[1:])
    writer.done("d3")
    assert names(live) == ["pending"]
    writer.deltas(DISPATCH, deltas())
    writer.pending(DISPATCH)
    assert names(live) == ["pending"], "what arrives after the end is ignored"


def test_a_trace_of_which_something_was_lost_is_given_up(tmp_path: Path) -> None:
    writer = LiveWriter(tmp_path / "live")
    writer.deltas(DISPATCH, [{"trace": "late", "nodes": []}, OPEN])
    assert [entry.trace["id"] for entry in read_live(tmp_path)] == ["t9"]
    writer.give_up("d3", "t9")
    writer.deltas(DISPATCH, [{"trace": "t9", "nodes": []}, OPEN])
    assert read_live(tmp_path) == []


def test_a_discarded_attempt_goes_and_a_new_one_comes(tmp_path: Path) -> None:
    writer = LiveWriter(tmp_path / "live")
    writer.deltas(DISPATCH, [OPEN, {"trace": "t9", "discard": True}, {"trace": "t10", "open": {"id": "t10"}}])
    assert [entry.trace["id"] for entry in read_live(tmp_path)] == ["t10"]
    writer.close()
    assert read_live(tmp_path) == []


def test_ids_of_others_stay_inside_the_directory(tmp_path: Path) -> None:
    writer = LiveWriter(tmp_path / "live")
    hostile = {**DISPATCH, "id": "../../d"}
    writer.pending(hostile)
    writer.deltas({**DISPATCH, "id": "x"}, [{"trace": "../t", "open": {"id": "../t"}}])
    assert read_pending(tmp_path) == [hostile]
    assert [entry.trace["id"] for entry in read_live(tmp_path)] == ["../t"]
    assert names(tmp_path) == ["live"]
