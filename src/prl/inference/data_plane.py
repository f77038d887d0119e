"""The data plane: ``/health``, ``/v1/models`` and the three routes that generate, in the forms of vLLM.

``/inference/v1/generate`` takes and gives token ids: it is what training uses. The OpenAI routes serve people and
evaluations. Streaming is left out: rollouts read whole answers, and a request that asks for it is refused.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from aiohttp import web

from prl.inference import protocol
from prl.inference.engine import Engine
from prl.inference.errors import ApiError
from prl.inference.protocol import Limits
from prl.inference.requests import Completion, SamplingParams
from prl.inference.tokenizer import ChatTemplateError, Tokenizer
from prl.inference.wire import read_object, reply

logger = logging.getLogger(__name__)

T = TypeVar("T")

GENERATE_KEYS = {"model", "token_ids", "sampling_params"}
TEXT_KEYS = protocol.SAMPLING | {"model", "n", "logprobs", "return_token_ids", "return_tokens_as_token_ids"}
COMPLETION_KEYS = TEXT_KEYS | {"prompt", "add_special_tokens"}
CHAT_KEYS = TEXT_KEYS | {
    "messages",
    "max_completion_tokens",
    "top_logprobs",
    "add_generation_prompt",
    "chat_template_kwargs",
}
DEFAULT_COMPLETION_TOKENS = 16
"""``max_tokens`` of ``/v1/completions`` when a client gives none, as OpenAI and vLLM have it."""


@dataclass(frozen=True)
class ServedModel:
    """What clients may call the model, and its tokenizer and limits."""

    names: tuple[str, ...]
    tokenizer: Tokenizer
    limits: Limits


class DataPlane:
    """Handlers over one engine."""

    def __init__(self, engine: Engine, model: ServedModel) -> None:
        self._engine = engine
        self._model = model
        self._created = int(time.time())

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/health", self.health),
            web.get("/v1/models", self.models),
            web.post("/v1/chat/completions", self.chat),
            web.post("/v1/completions", self.completions),
            web.post("/inference/v1/generate", self.generate),
        ]

    async def health(self, _: web.Request) -> web.Response:
        """200 while the engine turns, else 503."""
        return web.Response(status=200 if self._engine.healthy else 503)

    async def models(self, _: web.Request) -> web.Response:
        cards = [
            {
                "id": name,
                "object": "model",
                "created": self._created,
                "owned_by": "prl",
                "root": self._model.names[0],
                "parent": None,
                "max_model_len": self._model.limits.max_model_len,
            }
            for name in self._model.names
        ]
        return reply({"object": "list", "data": cards})

    async def generate(self, request: web.Request) -> web.Response:
        """Token ids in; token ids, log-probabilities and weight versions out."""
        body = await read_object(request)
        self._check_model(body)
        protocol.check_keys(body, GENERATE_KEYS)
        sampling = body.get("sampling_params")
        if not isinstance(sampling, dict):
            raise ApiError(400, "sampling_params: must be an object", "sampling_params")
        protocol.check_keys(sampling, protocol.SAMPLING | {"n", "logprobs"})
        limits = self._model.limits
        prompt = protocol.check_prompt(body.get("token_ids"), limits, "token_ids")
        params = protocol.parse_sampling(sampling, limits, len(prompt), cap_max_tokens=True, default_max_tokens=None)
        protocol.refuse_restrictions(params)
        with_logprobs = protocol.parse_logprobs(sampling)
        logger.debug("generate: session %s, %d prompt tokens", request.headers.get("X-Session-ID"), len(prompt))
        completions = await self._complete(prompt, params, protocol.parse_choices(sampling))
        choices = [
            {
                "index": index,
                "token_ids": completion.token_ids,
                "finish_reason": completion.finish_reason,
                "logprobs": _token_id_logprobs(completion) if with_logprobs else None,
                "weight_versions": _versions(completion),
            }
            for index, completion in enumerate(completions)
        ]
        return reply({"request_id": str(body.get("request_id") or f"generate-{uuid.uuid4().hex}"), "choices": choices})

    async def chat(self, request: web.Request) -> web.Response:
        body = await read_object(request)
        name = self._check_model(body)
        protocol.check_keys(body, CHAT_KEYS)
        if body.get("top_logprobs"):
            raise ApiError(400, "top_logprobs: only the sampled token's log-probability is reported", "top_logprobs")
        limits = self._model.limits
        prompt = protocol.check_prompt(self._chat_prompt(body), limits, "messages")
        if body.get("max_tokens") is None:
            body["max_tokens"] = body.get("max_completion_tokens")
        params = protocol.parse_sampling(body, limits, len(prompt), cap_max_tokens=False, default_max_tokens=None)
        completions = await self._complete(prompt, params, protocol.parse_choices(body))
        choices: list[dict[str, Any]] = []
        for index, completion in enumerate(completions):
            message = {"role": "assistant", "content": self._text(completion, body)}
            logprobs = {"content": self._chat_logprobs(completion, body)} if body.get("logprobs") else None
            choices.append(_choice(index, completion, body) | {"message": message, "logprobs": logprobs})
        answer: dict[str, Any] = {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": name,
            "choices": choices,
            "usage": _usage([prompt], completions),
        }
        if body.get("return_token_ids"):
            answer["prompt_token_ids"] = prompt
        return reply(answer)

    async def completions(self, request: web.Request) -> web.Response:
        body = await read_object(request)
        name = self._check_model(body)
        protocol.check_keys(body, COMPLETION_KEYS)
        limits = self._model.limits
        prompts = [protocol.check_prompt(p, limits, "prompt") for p in self._completion_prompts(body)]
        parsed = [
            protocol.parse_sampling(
                body, limits, len(p), cap_max_tokens=False, default_max_tokens=DEFAULT_COMPLETION_TOKENS
            )
            for p in prompts
        ]
        with_logprobs = protocol.parse_logprobs(body)
        count = protocol.parse_choices(body)
        groups = await _together([self._complete(p, params, count) for p, params in zip(prompts, parsed, strict=True)])
        choices: list[dict[str, Any]] = []
        for prompt, group in zip(prompts, groups, strict=True):
            for completion in group:
                choice = _choice(len(choices), completion, body)
                choice["text"] = self._text(completion, body)
                choice["logprobs"] = self._completion_logprobs(completion, body) if with_logprobs else None
                if body.get("return_token_ids"):
                    choice["prompt_token_ids"] = prompt
                choices.append(choice)
        return reply(
            {
                "id": f"cmpl-{uuid.uuid4().hex}",
                "object": "text_completion",
                "created": int(time.time()),
                "model": name,
                "choices": choices,
                "usage": _usage(prompts, [completion for group in groups for completion in group]),
            }
        )

    def _check_model(self, body: dict[str, Any]) -> str:
        name = body.get("model")
        if name is None:
            return self._model.names[0]
        if name not in self._model.names:
            known = ", ".join(self._model.names)
            raise ApiError(404, f"The model `{name}` does not exist. Served here: {known}", "model")
        return str(name)

    async def _complete(self, prompt: list[int], params: SamplingParams, count: int) -> list[Completion]:
        """``count`` completions of one prompt; a given seed is followed by its successors."""
        each = [
            params if index == 0 or params.seed is None else replace(params, seed=params.seed + index)
            for index in range(count)
        ]
        completions = await _together([self._engine.generate(prompt, p) for p in each])
        for completion in completions:
            if completion.error is not None:
                raise ApiError(500, completion.error)
        return completions

    def _chat_prompt(self, body: dict[str, Any]) -> list[int]:
        variables = body.get("chat_template_kwargs") or {}
        if not isinstance(variables, dict):
            raise ApiError(400, "chat_template_kwargs: must be an object", "chat_template_kwargs")
        if body.get("reasoning_effort") is not None:
            variables = {"reasoning_effort": body["reasoning_effort"], **variables}
        messages = protocol.parse_messages(body.get("messages"))
        add_generation_prompt = body.get("add_generation_prompt", True) is not False
        try:
            return self._model.tokenizer.encode_chat(
                messages, add_generation_prompt=add_generation_prompt, variables=variables
            )
        except ChatTemplateError as error:
            raise ApiError(400, str(error), "messages") from error

    def _completion_prompts(self, body: dict[str, Any]) -> list[list[int]]:
        prompt = body.get("prompt")
        special = body.get("add_special_tokens", True) is not False
        prompts: list[Any] = [prompt]
        if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
            prompts = prompt
        if len(prompts) > protocol.MAX_CHOICES:
            raise ApiError(
                400, f"prompt: {len(prompts)} prompts, at most {protocol.MAX_CHOICES} in one request", "prompt"
            )
        return [
            self._model.tokenizer.encode(p, add_special_tokens=special) if isinstance(p, str) else p for p in prompts
        ]

    def _text(self, completion: Completion, body: dict[str, Any]) -> str:
        """What was said: a sampled stop token ends the text and is no part of it."""
        ids = completion.token_ids
        if completion.finish_reason == "stop":
            ids = ids[:-1]
        skip = body.get("skip_special_tokens", True) is not False
        return self._model.tokenizer.decode(ids, skip_special_tokens=skip)

    def _label(self, token: int, body: dict[str, Any]) -> str:
        if body.get("return_tokens_as_token_ids"):
            return f"token_id:{token}"
        return self._model.tokenizer.decode([token], skip_special_tokens=False)

    def _chat_logprobs(self, completion: Completion, body: dict[str, Any]) -> list[dict[str, Any]]:
        entries = []
        for token, logprob in zip(completion.token_ids, completion.logprobs, strict=True):
            label = self._label(token, body)
            entries.append({"token": label, "logprob": logprob, "bytes": list(label.encode()), "top_logprobs": []})
        return entries

    def _completion_logprobs(self, completion: Completion, body: dict[str, Any]) -> dict[str, Any]:
        labels = [self._label(token, body) for token in completion.token_ids]
        offsets, offset = [], 0
        for label in labels:
            offsets.append(offset)
            offset += len(label)
        return {
            "tokens": labels,
            "token_logprobs": completion.logprobs,
            "top_logprobs": [{label: value} for label, value in zip(labels, completion.logprobs, strict=True)],
            "text_offset": offsets,
        }


async def _together(coroutines: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Await all; when one fails the others are cancelled. A single one needs no task of its own."""
    if len(coroutines) == 1:
        return [await coroutines[0]]
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def _token_id_logprobs(completion: Completion) -> dict[str, Any]:
    pairs = zip(completion.token_ids, completion.logprobs, strict=True)
    return {"content": [{"token": f"token_id:{token}", "logprob": logprob} for token, logprob in pairs]}


def _versions(completion: Completion) -> list[dict[str, Any]]:
    return [{"version": str(span.version), "start": span.start, "end": span.end} for span in completion.weight_versions]


def _choice(index: int, completion: Completion, body: dict[str, Any]) -> dict[str, Any]:
    choice: dict[str, Any] = {
        "index": index,
        "finish_reason": completion.finish_reason,
        "weight_versions": _versions(completion),
    }
    if body.get("return_token_ids"):
        choice["token_ids"] = completion.token_ids
    return choice


def _usage(prompts: Sequence[list[int]], completions: Sequence[Completion]) -> dict[str, int]:
    prompt_tokens = sum(map(len, prompts))
    completion_tokens = sum(len(completion.token_ids) for completion in completions)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }
