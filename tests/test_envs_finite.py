"""Numbers that are none: refused as rewards, dropped as metrics, never sent."""

import math
from typing import Any

import pytest
from verifiers.v1 import Reward
from verifiers.v1.configs.agent import AgentConfig
from verifiers.v1.errors import TaskError
from verifiers.v1.task import TaskData
from verifiers.v1.trace import AgentInfo, Trace, TraceTask

from prl.envs import finite


@pytest.fixture
def trace() -> Trace:
    return Trace(task=TraceTask(type="T", data=TaskData()), agent=AgentInfo(config=AgentConfig()))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_no_number_is_refused_by_name(trace: Trace, value: float) -> None:
    with pytest.raises(TaskError, match=rf"reward 'speed': its score is {value}"):
        finite.record_reward(trace, "speed", value)
    with pytest.raises(TaskError, match=rf"reward 'speed': its weight is {value}"):
        finite.record_reward(trace, "speed", 1.0, value)

    assert trace.rewards == {}


def test_numbers_are_recorded_as_ever(trace: Trace) -> None:
    finite.record_reward(trace, "right", True, 2)
    finite.record_metric(trace, "length", 3)
    finite.record_metric(trace, "ratio", math.nan)

    assert trace.rewards == {"right": Reward(score=1.0, weight=2.0)}
    assert trace.metrics == {"length": 3.0, "ratio": None}


@pytest.mark.parametrize("key", ["rewards", "metrics"])
def test_a_delta_is_sent_without_them(key: str) -> None:
    good: dict[str, Any] = {"score": 1.0, "weight": 1.0} if key == "rewards" else 1.0
    bad: dict[str, Any] = {"score": math.nan, "weight": 1.0} if key == "rewards" else math.inf
    delta = {"trace": "t", "set": {"ok": True, key: {"a": good, "b": bad, "c": None}}}

    assert finite.finite_delta(delta) == {"trace": "t", "set": {"ok": True, key: {"a": good, "b": None, "c": None}}}
    assert delta["set"][key]["b"] is bad, "what verifiers compares the next change with stays as it was"
    clean = {"trace": "t", "set": {key: {"a": good}}}
    assert finite.finite_delta(clean) is clean
    assert finite.finite_delta({"trace": "t"}) == {"trace": "t"}


def test_assigned_rewards_become_errors(trace: Trace) -> None:
    trace.ok = True
    trace.rewards.update(a=Reward(score=1.0), b=Reward(score=math.nan), c=Reward(score=1e308, weight=1e308))
    trace.metrics["m"] = math.inf

    assert finite.settle(trace)
    assert (trace.rewards["b"], trace.rewards["c"], trace.metrics["m"]) == (None, None, None)
    assert (trace.ok, trace.stop_condition) == (False, "task_error")
    assert [error.type for error in trace.errors] == ["TaskError", "TaskError"]
    assert not finite.settle(trace)
