"""Rollouts in flight as rows: by what was added, through damage, replaced and vanished files."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prl.rundir.live import rows as module
from prl.rundir.live.reader import read_trace
from prl.rundir.live.rows import LiveRow, LiveTraces, message_text
from prl.rundir.live.writer import LiveWriter
from sample_episodes import make_node

DISPATCH = {"id": "d3", "kind": "train", "env": "wordle", "group": "g5", "task": "w-18", "step": 13, "started": 100.0}
OPEN = {"trace": "t9", "open": {"version": 1, "id": "t9", "agent": {"name": "player"}}}


def timing(**stages: float) -> dict[str, Any]:
    return {"timing": {"start": 101.0, **{name: {"start": start, "end": 0.0} for name, start in stages.items()}}}


def one(live: LiveTraces) -> LiveRow:
    (row,) = live.refresh(now=110.0)
    return row


def test_a_rollout_from_its_dispatch_to_its_end(tmp_path: Path) -> None:
    writer = LiveWriter(tmp_path / "live")
    live = LiveTraces(tmp_path)
    assert live.refresh() == []
    writer.pending(DISPATCH)
    assert one(live) == LiveRow(None, DISPATCH, "pending", elapsed=10.0)
    for delta, stage in (
        (OPEN, "boot"),
        ({"set": timing(boot=101.0)}, "boot"),
        ({"set": timing(boot=101.0, setup=102.0)}, "setup"),
        ({"set": timing(boot=101.0, setup=102.0, agent=103.0)}, "running"),
    ):
        writer.deltas(DISPATCH, [{"trace": "t9", **delta}])
        assert one(live).stage == stage
    nodes = [make_node("user", "guess"), make_node("assistant", "slate", 0), make_node("assistant", "crane", 0)]
    usage = {"prompt_tokens": 3, "cached_input_tokens": 4, "completion_tokens": 2, "cost": 0.5}
    call = {"node": 1, "usage": usage}
    writer.deltas(DISPATCH, [{"trace": "t9", "nodes": nodes, "calls": [call, {"node": 2, "usage": usage}]}])
    row = one(live)
    assert (row.trace, row.agent, row.turns, row.branches) == ("t9", "player", 2, 2)
    assert (row.input_tokens, row.output_tokens, row.cost) == (14, 4, 1.0)
    assert (row.last, row.pending, row.dispatch) == ("crane", 0, DISPATCH)
    writer.deltas(DISPATCH, [{"trace": "t9", "pending": [{"role": "user", "content": "x" * 500 + "end"}]}])
    row = one(live)
    assert (row.pending, len(row.last), row.last[-4:]) == (1, 160, "xend")
    for stages, done, stage in (
        (timing(finalize=1.0), {}, "finalize"),
        (timing(finalize=1.0, scoring=2.0), {}, "scoring"),
        (timing(), {"is_completed": True, "ok": True, "stop_condition": "max_turns"}, "done"),
        (timing(), {"is_completed": True, "ok": False}, "error"),
    ):
        writer.deltas(DISPATCH, [{"trace": "t9", "set": {**stages, **done}}])
        assert one(live).stage == stage
    assert one(live).stop_condition == "max_turns"
    whole = read_trace(tmp_path, "t9")
    assert whole is not None
    assert [node["message"]["content"] for node in whole.trace["nodes"]] == ["guess", "slate", "crane"]
    writer.done("d3")
    assert live.refresh() == []
    assert read_trace(tmp_path, "t9") is None


def test_only_what_was_added_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = LiveWriter(tmp_path / "live")
    live = LiveTraces(tmp_path)
    folded: list[bytes] = []
    fold = module._LiveFile._fold
    monkeypatch.setattr(module._LiveFile, "_fold", lambda self, data: folded.append(data) or fold(self, data))
    writer.deltas(DISPATCH, [OPEN])
    live.refresh()
    writer.deltas(DISPATCH, [{"trace": "t9", "nodes": [make_node("assistant", "one")]}])
    live.refresh()
    live.refresh()
    assert [data.count(b"\n") for data in folded] == [1, 1]


def test_a_refresh_is_bounded_and_the_next_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_POLL", 100)
    writer = LiveWriter(tmp_path / "live")
    for name in ("a", "b"):
        nodes = [make_node("assistant", f"{n}") for n in range(30)]
        writer.deltas({"id": name}, [{"trace": name, "open": {"id": name}}, {"trace": name, "nodes": nodes}])
    live = LiveTraces(tmp_path)
    turns = []
    while not turns or not live.at_end:
        turns.append(sum(row.turns for row in live.refresh(max_bytes=200)))
    assert turns[-1] == 60
    assert len(turns) > 10
    monkeypatch.setattr(module, "MAX_TRACES", 1)
    assert ([row.trace for row in live.refresh()], live.left_out) == (["a"], 1)


def test_a_line_that_is_not_complete_waits(tmp_path: Path) -> None:
    path = tmp_path / "live" / "t9.jsonl"
    path.parent.mkdir()
    opening = json.dumps({**OPEN, "dispatch": DISPATCH}).encode() + b"\n"
    delta = json.dumps({"trace": "t9", "nodes": [make_node("assistant", "one")]}, default=str).encode() + b"\n"
    live = LiveTraces(tmp_path)
    for cut in range(0, len(delta), 40):
        path.write_bytes(opening + delta[:cut])
        assert [(row.turns, row.stage) for row in live.refresh()] == [(0, "boot")]
    path.write_bytes(opening + delta)
    assert [(row.turns, row.last) for row in live.refresh()] == [(1, "one")]


@pytest.mark.parametrize("damage", [b"\0\0\n", b'{"trace":"t9","links":{"7":[]}}\n', b'{"trace":"other","nodes":[]}\n'])
def test_a_damaged_file_is_dropped_and_begun_again(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "live" / "t9.jsonl"
    path.parent.mkdir()
    opening = json.dumps({**OPEN, "dispatch": DISPATCH}).encode() + b"\n"
    path.write_bytes(opening)
    live = LiveTraces(tmp_path)
    assert len(live.refresh()) == 1
    path.write_bytes(opening + damage)
    for _ in range(2):
        assert live.refresh() == [], "what was folded would go on wrongly"
        assert live.damaged == 1
    path.write_bytes(opening)
    assert [row.trace for row in live.refresh()] == ["t9"]
    assert live.damaged == 0
    path.unlink()
    assert live.refresh() == []


def test_links_and_other_names_are_no_traces(tmp_path: Path) -> None:
    directory = tmp_path / "live"
    directory.mkdir()
    outside = tmp_path / "outside.jsonl"
    outside.write_text(json.dumps(OPEN) + "\n")
    (directory / "link.jsonl").symlink_to(outside)
    (directory / ".nfs0001.jsonl").write_text(json.dumps(OPEN) + "\n")
    (directory / "directory.jsonl").mkdir()
    assert LiveTraces(tmp_path).refresh() == []


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.recursive(
        st.none() | st.integers(-2, 3) | st.text(max_size=2),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["trace", "nodes", "set", "pending", "calls", "errors", "message", "timing", "usage", "dispatch"]
                ),
                inner,
                max_size=3,
            )
        ),
        max_leaves=14,
    )
)
def test_files_of_any_content_never_raise(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "live" / "t9.jsonl"
    path.parent.mkdir(exist_ok=True)
    delta = {"trace": "t9", **(value if isinstance(value, dict) else {"nodes": value, "set": {"calls": value}})}
    path.write_text(json.dumps({**OPEN, "set": value}) + "\n" + json.dumps(delta) + "\n")
    LiveTraces(tmp_path).refresh()


def test_the_text_of_a_message() -> None:
    assert message_text({"content": [{"type": "text", "text": "a"}, {"type": "image_url"}, {"text": "b"}]}) == "ab"
    assert message_text({"content": None, "reasoning_content": "hm"}) == "hm"
    assert message_text({"content": "", "tool_calls": [{"name": "look"}, {"name": "go"}, 3]}) == "look, go"
    assert message_text(None) == message_text({"content": 3}) == ""
