"""Requests as clients send them, checked and turned into prompts and sampling parameters.

Three routes share one set of sampling keys. What this engine cannot do is refused with the key's name, never dropped
in silence: a client that asked for a penalty or a stop string must not get samples without it. Keys that change
nothing about the tokens (labels, hints for caches, how text is detokenised) are accepted.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prl.inference.errors import ApiError
from prl.inference.requests import SamplingParams

MAX_CHOICES = 128
MIN_TEMPERATURE = 1e-5
"""Below it sampling is greedy: dividing by less loses the logits."""

SAMPLING = {"temperature", "top_p", "top_k", "min_p", "seed", "max_tokens", "stop_token_ids", "ignore_eos"}

NEUTRAL: dict[str, tuple[object, ...]] = {
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "length_penalty": (1,),
    "logit_bias": ({},),
    "stop": ([], ""),
    "bad_words": ([],),
    "min_tokens": (0,),
    "best_of": (1,),
    "use_beam_search": (False,),
    "prompt_logprobs": (),
    "echo": (False,),
    "suffix": ("",),
    "response_format": ({"type": "text"},),
    "structured_outputs": (),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "logits_processors": ([],),
    "allowed_token_ids": (),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none",),
    "continue_final_message": (False,),
    "documents": ([],),
    "kv_transfer_params": (),
    "logprob_token_ids": (),
    "return_routed_experts": (False,),
    "return_sampling_mask": (False,),
    "truncate_prompt_tokens": (),
    "prompt_embeds": (),
    "features": (),
    "content_parts": ([],),
    "lora_request": (),
    "thinking_token_budget": (),
    "modalities": (["text"],),
    "audio": (),
    "stream": (False,),
}
"""What is not implemented, each with the values (None aside) that ask for nothing."""

HARMLESS = {
    "cache_salt", "detokenize", "include_stop_str_in_output", "metadata", "output_kind", "parallel_tool_calls",
    "priority", "prompt_cache_key", "reasoning_effort", "request_id", "routed_experts_prompt_start",
    "safety_identifier", "service_tier", "skip_special_tokens", "spaces_between_special_tokens", "store",
    "stream_options", "user",
}  # fmt: skip
"""What cannot change a token of the answer."""


@dataclass(frozen=True)
class Limits:
    """What a request is checked against."""

    max_model_len: int
    vocab_size: int
    stop_token_ids: frozenset[int]
    """End-of-sequence ids of the model."""


def check_keys(body: Mapping[str, Any], known: set[str]) -> None:
    """Refuse what is neither known, nor harmless, nor neutral."""
    for key, value in body.items():
        if value is None or key in known or key in HARMLESS:
            continue
        if key not in NEUTRAL:
            raise ApiError(400, f"{key}: unknown to this engine, which ignores nothing that could matter", key)
        if value not in NEUTRAL[key]:
            raise ApiError(400, f"{key} = {value!r}: not supported by this engine", key)


def check_prompt(token_ids: Any, limits: Limits, param: str) -> list[int]:
    """A list of token ids that leaves room for one more."""
    if not isinstance(token_ids, list) or not all(type(token) is int for token in token_ids):
        raise ApiError(400, f"{param}: must be a list of token ids", param)
    if not token_ids:
        raise ApiError(400, f"{param}: is empty", param)
    if len(token_ids) >= limits.max_model_len:
        raise ApiError(
            400,
            f"This model's maximum context length is {limits.max_model_len} tokens, and the prompt has "
            f"{len(token_ids)}: no token can be generated. Shorten the prompt or raise engine.max_model_len",
            param,
        )
    low, high = min(token_ids), max(token_ids)
    if low < 0 or high >= limits.vocab_size:
        wrong = low if low < 0 else high
        raise ApiError(400, f"Token id {wrong} is out of vocabulary (0 to {limits.vocab_size - 1})", param)
    return token_ids


def parse_sampling(
    body: Mapping[str, Any], limits: Limits, prompt_length: int, *, cap_max_tokens: bool, default_max_tokens: int | None
) -> SamplingParams:
    """Sampling parameters of a request whose prompt has ``prompt_length`` tokens.

    ``max_tokens`` beyond the remaining context is cut to it with ``cap_max_tokens``, else refused, as vLLM does on its
    token and its text routes. Absent, it is ``default_max_tokens``, or all that remains.
    """
    remaining = limits.max_model_len - prompt_length
    max_tokens = body.get("max_tokens")
    if max_tokens is None:
        max_tokens = remaining if default_max_tokens is None else min(default_max_tokens, remaining)
    elif type(max_tokens) is not int or max_tokens < 1:
        raise ApiError(400, f"max_tokens = {max_tokens!r}: must be a whole number of at least 1", "max_tokens")
    elif max_tokens > remaining:
        if not cap_max_tokens:
            raise ApiError(
                400,
                f"max_tokens = {max_tokens}: This model's maximum context length is {limits.max_model_len} tokens, "
                f"and the prompt has {prompt_length}. Ask for at most {remaining}",
                "max_tokens",
            )
        max_tokens = remaining
    temperature = _number(body, "temperature", 1.0, low=0.0, high=math.inf)
    stop = body.get("stop_token_ids") or []
    if not isinstance(stop, list) or not all(type(token) is int for token in stop):
        raise ApiError(400, "stop_token_ids: must be a list of token ids", "stop_token_ids")
    return SamplingParams(
        max_tokens=max_tokens,
        temperature=temperature if temperature >= MIN_TEMPERATURE else 0.0,
        top_p=_number(body, "top_p", 1.0, low=0.0, high=1.0, open_low=True),
        top_k=max(_integer(body, "top_k", 0, low=-1), 0),
        min_p=_number(body, "min_p", 0.0, low=0.0, high=1.0),
        seed=None if body.get("seed") is None else _integer(body, "seed", 0),
        stop_token_ids=frozenset(stop) | (frozenset() if body.get("ignore_eos") else limits.stop_token_ids),
    )


def refuse_restrictions(params: SamplingParams) -> None:
    """For training: a log-probability of the whole distribution would not be that of what was sampled from."""
    if params.restricted:
        raise ApiError(
            400,
            "top_p, top_k and min_p are refused on this route: the trainer's log-probabilities are those of the whole "
            "distribution. Leave them out, or use /v1/completions",
        )


def parse_choices(body: Mapping[str, Any]) -> int:
    """``n``, the number of completions."""
    n = _integer(body, "n", 1, low=1)
    if n > MAX_CHOICES:
        raise ApiError(400, f"n = {n}: at most {MAX_CHOICES}", "n")
    return n


def _integer(body: Mapping[str, Any], key: str, default: int, *, low: int | None = None) -> int:
    value = body.get(key)
    if value is None:
        return default
    if type(value) is not int or (low is not None and value < low):
        bound = "" if low is None else f" of at least {low}"
        raise ApiError(400, f"{key} = {value!r}: must be a whole number{bound}", key)
    return value


def _number(
    body: Mapping[str, Any], key: str, default: float, *, low: float, high: float, open_low: bool = False
) -> float:
    value = body.get(key)
    if value is None:
        return default
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number or not low <= value <= high or (open_low and value == low):
        bound = "above" if open_low else "at least"
        raise ApiError(400, f"{key} = {value!r}: must be a number, {bound} {low:g} and at most {high:g}", key)
    return float(value)


def parse_logprobs(body: Mapping[str, Any]) -> bool:
    """``logprobs``: absent, or 0 or 1. Alternatives to the sampled token are not reported."""
    logprobs = body.get("logprobs")
    if logprobs is None or logprobs is False:
        return False
    if logprobs not in (0, 1):
        raise ApiError(
            400, f"logprobs = {logprobs!r}: only the sampled token's is reported; ask for 0 or 1", "logprobs"
        )
    return True


def parse_messages(messages: Any) -> list[dict[str, Any]]:
    """Chat messages with their content as text: templates of text models know no parts."""
    if not isinstance(messages, list) or not messages:
        raise ApiError(400, "messages: must be a list with at least one message", "messages")
    parsed = []
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise ApiError(400, "messages: each must be an object with a role", "messages")
        content = message.get("content")
        if isinstance(content, list):
            content = "\n".join(_text_part(part) for part in content)
        if content is not None and not isinstance(content, str):
            raise ApiError(400, "messages: content must be a string or a list of parts", "messages")
        parsed.append({**message, "content": content})
    return parsed


def _text_part(part: Any) -> str:
    if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    raise ApiError(400, "messages: this model reads text only; a part must be {type: text, text: ...}", "messages")
