"""The stored form of an episode, its index row and its values row."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.rundir.episodes.record import (
    finite_floats,
    index_row,
    is_truncated,
    stored_record,
    trace_reward,
    values_row,
)
from sample_episodes import make_episode, make_failure, make_node, make_trace


def test_fields_without_value_go_but_nulls_that_say_something_stay() -> None:
    stored = stored_record(make_episode(), 4)
    trace = stored["traces"][0]
    assert "name" not in stored["run"]
    assert trace["task"] == {"type": "WordTask", "key": "w-17", "data": {"answer": "crane"}}
    assert trace["verifiers"] == {"version": "0.4.0"}
    assert trace["agent"]["config"] == {"model": "tiny", "sampling": {"temperature": 1.0, "top_p": None}}
    assert trace["metrics"] == {"guesses": 2.0, "late": None}
    assert trace["info"]["note"] is None
    assert trace["tools"][0] == {"name": "look", "parameters": {"properties": {"x": {"default": None}}}}
    assert "root_reply" not in trace


def test_a_node_is_stored_without_tensors_and_with_rounded_floats() -> None:
    stored = stored_record(make_episode(), 4)["traces"][0]["nodes"][1]
    assert stored == {
        "parent": 0,
        "semantic_parents": [],
        "message": {"role": "assistant", "content": "slate"},
        "sampled": True,
        "timestamp": 1_790_000_001.5,
        "token_ids": [5, 6, 7],
        "mask": [False, True, True],
        "is_content": [False, True, True],
        "logprobs": [-0.1235, -0.1235],
    }
    full = stored_record(make_episode(), None)["traces"][0]["nodes"][1]
    assert full["logprobs"] == [-0.1234567, -0.1234567]


def test_images_are_kept_as_messages_but_not_as_tensors() -> None:
    episode = make_episode()
    episode["traces"][0]["nodes"][0]["message"]["multi_modal_data"] = {"pixels": b"\0" * 9}
    assert "multi_modal_data" not in stored_record(episode, 4)["traces"][0]["nodes"][0]["message"]


def test_the_callers_record_stays_as_it_was() -> None:
    episode, untouched = make_episode(score=math.nan), make_episode(score=math.nan)
    stored_record(episode, 2)
    assert repr(episode) == repr(untouched)


def test_what_is_not_finite_becomes_null_and_is_named() -> None:
    episode = make_episode(score=math.nan)
    trace = episode["traces"][0]
    trace["metrics"]["guesses"] = math.inf
    trace["nodes"][3]["logprobs"] = [-0.5, math.nan]
    stored = stored_record(episode, 4)["traces"][0]
    assert stored["rewards"] == {"win": None}, "a reward that is no number is like one that scoring did not reach"
    assert stored["metrics"]["guesses"] is None
    assert stored["nodes"][3]["logprobs"] == [-0.5, None]
    assert stored["info"]["nonfinite"] == ["nodes/3/logprobs", "rewards/win", "metrics/guesses"]
    json.dumps(stored, allow_nan=False)


def test_it_equals_what_the_environment_library_itself_stores() -> None:
    vf = pytest.importorskip("verifiers.v1.episode")
    episode = make_episode()
    for trace in episode["traces"]:
        trace["tools"] = []
        for node in trace["nodes"]:
            node["routed_experts"] = None
            node["message"] = {key: value for key, value in node["message"].items() if value is not None}
    record = vf.WireEpisode.model_validate(episode)
    raw = record.model_dump(mode="python", serialize_as_any=True)
    assert stored_record(raw, 4) == record.to_record(float_decimals=4)


@given(
    st.lists(st.one_of(st.floats(width=32), st.none(), st.integers(-3, 3)), max_size=8), st.sampled_from([None, 0, 4])
)
def test_floats_are_rounded_and_finite(values: list[Any], decimals: int | None) -> None:
    kept, finite = finite_floats(values, decimals)
    numbers = [value for value in values if value is not None]
    assert finite == all(math.isfinite(value) for value in numbers)
    for old, new in zip(values, kept, strict=True):
        if old is None or not math.isfinite(old):
            assert new is None
        else:
            assert new == (old if decimals is None else round(old, decimals))


def test_long_lists_are_rounded_like_short_ones() -> None:
    values = [-0.123456 * i for i in range(100)]
    assert finite_floats(values, 4) == ([round(value, 4) for value in values], True)
    assert finite_floats([*values, math.nan], 4) == ([*(round(value, 4) for value in values), None], False)
    assert finite_floats([*values, None, 1e300], 4) == ([*(round(value, 4) for value in values), None, 1e300], True)


def test_reward_is_the_weighted_sum_of_what_was_scored() -> None:
    rewards = {"a": {"score": 0.5, "weight": 2.0}, "b": {"score": 1.0}}
    assert trace_reward({"rewards": rewards}) == 2.0
    assert trace_reward({"rewards": {}}) is None
    assert trace_reward({}) is None
    assert trace_reward({"rewards": {**rewards, "c": None}}) is None, "scoring did not reach one of them"
    assert trace_reward({"rewards": {"a": {"score": math.nan}}}) is None
    assert trace_reward({"rewards": {"a": {"score": 1e308, "weight": 10.0}}}) is None


def test_truncation_is_a_limit_or_a_last_answer_cut_for_length() -> None:
    assert is_truncated({"stop_condition": "max_turns"})
    assert is_truncated({"calls": [{"finish_reason": "length"}, {"finish_reason": None, "error": {"type": "X"}}]})
    assert not is_truncated({"calls": [{"finish_reason": "length"}, {"finish_reason": "stop"}]})
    assert not is_truncated({"stop_condition": "agent_completed"})


def test_index_row() -> None:
    row = index_row(stored_record(make_episode(), 4), line=1, chunk=0, offset=0)
    assert row == {
        "cost": None, "line": 1, "offset": 0, "chunk": 0, "id": "e1", "kind": "train", "trace_ids": ["t-e1"],
        "env": "wordle", "group": "g4", "ok": True, "num_errors": 0, "reward": 0.75, "advantage": None,
        "input_tokens": 900, "output_tokens": 310, "turns": 2, "branches": 1, "stop_condition": "agent_completed",
        "truncated": False, "timeout": False, "dispatch": 1_790_000_000.0, "arrival": 1_790_000_041.5, "duration": 41.5,
    }  # fmt: skip
    assert list(row)[:8] == ["cost", "line", "offset", "chunk", "id", "kind", "trace_ids", "env"]


def test_index_row_of_several_traces_and_of_none() -> None:
    episode = make_episode()
    judge = make_trace("judge", score=None)
    judge["rewards"], judge["errors"] = {}, [{"type": "X", "message": "y"}]
    judge["calls"][0]["usage"]["cost"] = 0.25
    judge["nodes"].append(make_node("assistant", "again", 0))
    episode["traces"].append(judge)
    row = index_row(episode, line=2, chunk=1, offset=7)
    assert (row["reward"], row["cost"], row["num_errors"]) == (0.75, 0.25, 1), "only traces with a reward count"
    assert (row["turns"], row["branches"], row["trace_ids"]) == (5, 3, ["t-e1", "judge"])

    row = index_row(make_failure(), line=3, chunk=0, offset=0, arrival=5.0)
    assert (row["ok"], row["num_errors"], row["reward"], row["kind"]) == (False, 1, None, "train")
    assert (row["dispatch"], row["arrival"], row["duration"]) == (None, 5.0, None)


def test_values_row() -> None:
    row = values_row(stored_record(make_episode(), 4), line=1)
    assert row == {
        "line": 1,
        "id": "e1",
        "task": {"type": "WordTask", "key": "w-17", "hash": None},
        "dispatch_step": 12,
        "arrival_step": 12,
        "policy": {"start": 11, "end": 12},
        "traces": [
            {
                "id": "t-e1",
                "agent": "agent",
                "reward": 0.75,
                "rewards": {"win": {"score": 0.75, "weight": 1.0}},
                "metrics": {"guesses": 2.0, "late": None},
                "timing": {
                    "setup": 1.0,
                    "agent": 1.0,
                    "finalize": 0.25,
                    "agent/model": 0.75,
                    "agent/harness": 0.25,
                    "total": 1.75,
                },
            }
        ],
    }


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["id", "traces", "nodes", "calls", "rewards", "info", "timing", "message", "usage"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=20,
    )
)
def test_records_of_any_shape_give_rows(value: Any) -> None:
    record = {"id": "e", "traces": [value], "task": value, "env": value, "run": value}
    stored = stored_record(record, 4)
    index_row(stored, line=1, chunk=0, offset=0)
    values_row(stored, line=1)
