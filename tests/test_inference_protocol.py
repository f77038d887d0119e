"""Requests as they are checked: defaults, bounds, and that nothing that could matter is ignored."""

from typing import Any

import pytest

from prl.inference import protocol
from prl.inference.errors import ApiError
from prl.inference.protocol import Limits
from prl.inference.requests import SamplingParams

LIMITS = Limits(max_model_len=100, vocab_size=265, stop_token_ids=frozenset({258}))


def sampling(body: dict[str, Any], prompt_length: int = 10, *, cap: bool = True) -> SamplingParams:
    protocol.check_keys(body, protocol.SAMPLING)
    return protocol.parse_sampling(body, LIMITS, prompt_length, cap_max_tokens=cap, default_max_tokens=None)


def test_defaults_are_the_whole_distribution_and_the_remaining_context() -> None:
    assert sampling({}) == SamplingParams(max_tokens=90, temperature=1.0, stop_token_ids=frozenset({258}))


def test_what_a_training_client_sends_is_understood() -> None:
    body = {
        "temperature": 0.8,
        "max_tokens": 64,
        "top_k": -1,
        "top_p": 1.0,
        "min_p": 0.0,
        "seed": -3,
        "stop_token_ids": [256],
        "skip_special_tokens": False,
        "routed_experts_prompt_start": 4,
        "min_tokens": None,
        "repetition_penalty": 1.0,
    }
    params = sampling(body)
    assert params == SamplingParams(64, 0.8, seed=-3, stop_token_ids=frozenset({256, 258}))
    protocol.refuse_restrictions(params)
    assert sampling({"ignore_eos": True}).stop_token_ids == set()


def test_max_tokens_beyond_the_context_is_cut_or_refused() -> None:
    assert sampling({"max_tokens": 500}, cap=True).max_tokens == 90
    with pytest.raises(ApiError, match="maximum context length is 100 tokens"):
        sampling({"max_tokens": 91}, cap=False)
    assert sampling({"max_tokens": 90}, cap=False).max_tokens == 90


def test_a_temperature_too_small_to_divide_by_is_greedy() -> None:
    assert sampling({"temperature": 1e-9}).temperature == 0.0
    assert sampling({"temperature": 0}).temperature == 0.0


@pytest.mark.parametrize(
    "body",
    [
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"temperature": "hot"},
        {"temperature": True},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"top_k": -2},
        {"top_k": 1.5},
        {"min_p": 1.5},
        {"seed": "x"},
        {"max_tokens": 0},
        {"max_tokens": 1.5},
        {"stop_token_ids": "258"},
        {"stop": ["\n"]},
        {"presence_penalty": 0.5},
        {"repetition_penalty": 1.1},
        {"logit_bias": {"5": 1}},
        {"min_tokens": 4},
        {"response_format": {"type": "json_object"}},
        {"tools": [{"type": "function"}]},
        {"stream": True},
        {"temprature": 0.5},
    ],
)
def test_wrong_and_unsupported_values_are_refused_with_their_key(body: dict[str, Any]) -> None:
    with pytest.raises(ApiError, match=next(iter(body))) as caught:
        sampling(body)
    assert caught.value.status == 400
    assert caught.value.param == next(iter(body))
    assert caught.value.body()["error"]["type"] == "BadRequestError"  # type: ignore[index]


@pytest.mark.parametrize("body", [{"top_p": 0.9}, {"top_k": 5}, {"min_p": 0.1}])
def test_training_refuses_restrictions(body: dict[str, Any]) -> None:
    with pytest.raises(ApiError, match="top_p, top_k and min_p are refused"):
        protocol.refuse_restrictions(sampling(body))


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ([], "is empty"),
        ("text", "list of token ids"),
        ([1, True], "list of token ids"),
        ([1, 265], "Token id 265 is out of vocabulary"),
        ([-1], "Token id -1 is out of vocabulary"),
        ([1] * 100, "maximum context length is 100 tokens"),
    ],
)
def test_prompts_that_cannot_be_served_are_refused(prompt: Any, message: str) -> None:
    with pytest.raises(ApiError, match=message):
        protocol.check_prompt(prompt, LIMITS, "token_ids")


def test_a_prompt_may_leave_room_for_a_single_token() -> None:
    assert protocol.check_prompt([1] * 99, LIMITS, "token_ids") == [1] * 99


def test_choices_and_log_probabilities() -> None:
    assert protocol.parse_choices({}) == 1
    assert protocol.parse_choices({"n": 8}) == 8
    for n in (0, 1000, "2"):
        with pytest.raises(ApiError, match="n = "):
            protocol.parse_choices({"n": n})
    assert [protocol.parse_logprobs({"logprobs": v}) for v in (None, False, 0, 1, True)] == [
        False,
        False,
        True,
        True,
        True,
    ]
    with pytest.raises(ApiError, match="logprobs = 5"):
        protocol.parse_logprobs({"logprobs": 5})


def test_message_parts_become_text_and_images_are_refused() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert protocol.parse_messages([{"role": "user", "content": parts, "name": "x"}]) == [
        {"role": "user", "content": "a\nb", "name": "x"}
    ]
    bad: list[Any] = [None, [], ["hello"], [{"content": "x"}], [{"role": "user", "content": 5}]]
    bad.append([{"role": "user", "content": [{"type": "image_url"}]}])
    for messages in bad:
        with pytest.raises(ApiError, match="messages"):
            protocol.parse_messages(messages)
