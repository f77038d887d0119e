"""The gate before training: what is an error here although the environment let it pass."""

import hashlib
import math
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from orchestrator_fakes import Play, episode
from prl.orchestrator.env_client import EnvRequestError
from prl.orchestrator.episodes import failed_record, judge, last_error, read_traces
from prl.rundir.live.fold import apply_delta


def record(play: Play | None = None) -> dict[str, Any]:
    deltas, reply = episode(3, {"idx": 0}, play or Play())
    traces: dict[str, dict[str, Any]] = {}
    for delta in deltas:
        assert apply_delta(traces, delta)
    return {**reply["head"], "traces": list(traces.values())}


def test_a_clean_episode_stays_clean_and_trains() -> None:
    made = record(Play(reward=0.5, turns=2))
    judge(made)
    (facts,) = read_traces(made, "env", 1.0)
    assert made["ok"] and facts.error is None
    assert (facts.reward, facts.turns, facts.branches, facts.output_tokens) == (0.5, 2, 1, 6)
    assert facts.timing["total"] == pytest.approx(0.08, abs=1e-3)  # setup, agent, finalize and scoring
    (sample,) = facts.samples
    assert sample.loss_mask.sum() == 6


def no_turn(made: dict[str, Any]) -> None:
    made["traces"][0]["nodes"] = made["traces"][0]["nodes"][:1]


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (lambda made: made["traces"][0].update(is_timeout=True), "Timeout"),
        (lambda made: made.update(is_timeout=True), "Timeout"),
        (no_turn, "EmptyTrajectory"),
        (lambda made: made["traces"][0]["calls"][0].update(finish_reason=None), "AbortedGeneration"),
        (lambda made: made["traces"][0]["rewards"].update(made_up=None), "MissingReward"),
        (lambda made: made["traces"][0]["rewards"]["made_up"].update(score=math.nan), "NonFiniteReward"),
        (lambda made: made["traces"][0]["rewards"]["made_up"].update(weight=math.inf), "NonFiniteReward"),
        (lambda made: made["traces"][0]["nodes"][1]["logprobs"].pop(), "MalformedTrace"),
    ],
)
def test_what_must_not_train_is_an_error_with_a_type(spoil: Callable[[dict[str, Any]], Any], kind: str) -> None:
    made = record()
    spoil(made)
    judge(made)
    (facts,) = read_traces(made, "env", 1.0)
    assert (made["ok"], made["traces"][0]["ok"], facts.error) == (False, False, kind)
    assert last_error(made["traces"][0])[0] == kind  # type: ignore[index]
    assert facts.samples == [] and math.isfinite(facts.reward)


def test_an_errored_trace_keeps_its_own_error_and_spoils_its_siblings() -> None:
    made = record()
    other = record()["traces"][0]
    error = {"type": "ProviderError", "message": "made up"}
    made["traces"].append({**other, "id": "other", "ok": False, "errors": [error], "is_timeout": True})
    judge(made)
    clean, errored = read_traces(made, "env", 1.0)
    assert errored.error == "ProviderError" and len(made["traces"][1]["errors"]) == 1
    assert clean.error is None and clean.samples == []


def test_an_episode_without_a_trace_is_an_error() -> None:
    made = {"id": "e", "ok": True, "errors": [], "traces": []}
    judge(made)
    assert last_error(made) == ("EmptyEpisode", "the episode ended without a trace")


def test_a_frozen_agent_has_no_samples() -> None:
    made = record()
    made["traces"][0]["agent"]["trainable"] = False
    judge(made)
    assert read_traces(made, "env", 1.0)[0].samples == []


def test_a_failed_request_becomes_a_record_with_its_error_on_it() -> None:
    begun = record()["traces"][0]
    error = EnvRequestError("Timeout", "made up", [begun])
    task = msgspec.Raw(msgspec.msgpack.encode({"idx": 4, "text": "ä", "name": None}))
    made = failed_record(error, "MadeUpTask", task, "made-up")
    judge(made)
    assert (made["ok"], made["is_timeout"], made["errors"][0]["type"]) == (False, True, "Timeout")
    assert made["task"]["data"] == {"idx": 4, "text": "ä", "name": None}
    # the content identity that environments give their tasks
    content = hashlib.sha256(b'{"idx": 4, "text": "\\u00e4"}').hexdigest()
    assert made["task"]["hash"] == content
    assert last_error(made["traces"][0])[0] == "Timeout"  # type: ignore[index]
    assert begun["errors"] == []
