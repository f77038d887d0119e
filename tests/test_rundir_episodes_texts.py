"""The texts of a record: all that a reader sees, nothing else, whatever shape it has."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from prl.rundir.episodes.texts import FIELDS, Text, texts

RECORD: dict[str, Any] = {
    "id": "e1",
    "group": {"id": "g1"},
    "task": {"type": "WordTask", "key": "w-17", "data": {"answer": "crane", "hints": ["a bird", 3]}},
    "errors": [{"type": "TimeoutError", "message": "too late", "traceback": "line 1"}],
    "traces": [
        {
            "id": "t1",
            "task": {"key": "w-17", "data": {"answer": "crane", "hints": ["a bird", 3]}},
            "tools": [{"name": "look", "description": "looks"}],
            "nodes": [
                {
                    "message": {
                        "role": "user",
                        "content": [{"type": "text", "text": "see"}, {"image_url": {"url": "data:"}}],
                    }
                },
                {
                    "message": {
                        "role": "assistant",
                        "content": "slate",
                        "reasoning_content": "hm",
                        "tool_calls": [{"id": "c1", "name": "look", "arguments": '{"at": "x"}'}],
                    },
                    "token_ids": [5, 81],
                },
            ],
            "calls": [{"node": 1, "model": "tiny", "error": {"type": "Overloaded", "message": "busy"}}],
            "info": {"kind": "train", "judge_calls": [{"text": "good"}]},
            "stop_condition": "agent_completed",
        }
    ],
}


def found(*fields: Any) -> list[Text]:
    return list(texts(RECORD, fields))


def test_texts_by_field() -> None:
    assert found("content") == [Text("content", "see", "t1", 0, "user"), Text("content", "slate", "t1", 1, "assistant")]
    assert found("reasoning") == [Text("reasoning", "hm", "t1", 1, "assistant")]
    assert [text.text for text in found("tool_calls")] == ["look", '{"at": "x"}']
    assert [text.text for text in found("task")] == ["crane", "a bird"], "once, though the trace holds it again"
    assert [text.text for text in found("errors")] == ["TimeoutError", "too late", "line 1", "Overloaded", "busy"]
    assert found("errors")[-1] == Text("errors", "busy", "t1", 1)
    assert [text.text for text in found("info")] == ["train", "good"]
    assert [text.text for text in found("tools")] == ["look", "looks"]
    assert [text.text for text in found("ids")] == ["e1", "g1", "w-17", "t1"]
    assert {text.field for text in texts(RECORD)} == set(FIELDS) - {"tools", "ids"}


SHAPES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "traces", "nodes", "message", "content", "task", "data", "errors"]), inner
        )
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["id", "traces", "task", "group", "errors"]), SHAPES))
def test_any_shape_is_read(record: dict[str, Any]) -> None:
    assert all(isinstance(text.text, str) for text in texts(record, FIELDS))


def test_no_depth_exhausts_the_stack() -> None:
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    assert list(texts({"task": {"data": deep}})) == []
