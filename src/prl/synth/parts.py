"""The fixed parts of an episode's record, with holes for what differs. The shape is that of the environment library."""

import hashlib
from typing import Any

from prl.synth.shape import Environment, RunShape
from prl.synth.template import hole, text_hole

TOOL = "look_up"
VERIFIERS = "0.4.0"


def node(role: str, *, root: bool, calls_tool: bool = False) -> dict[str, Any]:
    """A message. Holes: parent (but of a root), tool call id (of a tool's answer), content, the id and the query of a
    tool call, timestamp, token_ids, mask, is_content, logprobs (of an assistant)."""
    message: dict[str, Any] = {"role": role}
    if role == "tool":
        message["tool_call_id"] = text_hole("tool_call")
    message["content"] = text_hole("content")
    if calls_tool:
        arguments = '{"query": "' + text_hole("query") + '"}'
        message["tool_calls"] = [
            {"id": text_hole("tool_call"), "type": "function", "name": TOOL, "arguments": arguments}
        ]
    return {
        **({} if root else {"parent": hole("parent")}),
        "message": message,
        "sampled": role == "assistant",
        "timestamp": hole("timestamp"),
        "token_ids": hole("token_ids"),
        "mask": hole("mask"),
        "is_content": hole("is_content"),
        "logprobs": hole("logprobs") if role == "assistant" else [],
        "semantic_parents": [],
    }


def call(shape: RunShape) -> dict[str, Any]:
    """A model call. Holes: node, finish reason, prompt and completion tokens, cost (of an evaluation), start, end."""
    usage = {"prompt_tokens": hole("prompt"), "completion_tokens": hole("completion")}
    if shape.kind == "eval":
        usage["cost"] = hole("cost")
    return {
        "node": hole("node"),
        "model": shape.model,
        "sampling": {"temperature": 1.0, "top_p": 1.0},
        "endpoint": "/chat/completions",
        "finish_reason": text_hole("reason"),
        "usage": usage,
        "time": {"start": hole("start"), "end": hole("end")},
    }


def failed_call(shape: RunShape) -> dict[str, Any]:
    """A model call that the engine refused. Holes: start, end."""
    return {
        "model": shape.model,
        "sampling": {"temperature": 1.0, "top_p": 1.0},
        "endpoint": "/chat/completions",
        "error": {"type": "ProviderError", "message": "503: no capacity", "status_code": 503},
        "time": {"start": hole("start"), "end": hole("end")},
    }


def trace(shape: RunShape, environment: Environment, agent: str) -> dict[str, Any]:
    """A trace. Holes: id, task, nodes, calls, rewards, metrics, info, is_completed, ok, stop condition, is_timeout,
    errors, timing, input, output and total tokens."""
    return {
        "version": 1,
        "id": text_hole("id"),
        "verifiers": {"version": VERIFIERS},
        "task": hole("task"),
        "agent": {
            "name": agent,
            "trainable": True,
            "config": {
                "harness": {"id": "chat"},
                "model": shape.model,
                "client": {"type": "train", "base_url": "http://127.0.0.1:8000/v1"},
                "sampling": {"temperature": 1.0, "max_tokens": 2 * shape.answer_tokens, "top_p": None},
                "max_turns": environment.turns[1],
            },
        },
        "tools": [_tool()] if environment.tools else [],
        "nodes": hole("nodes"),
        "calls": hole("calls"),
        "mm_token_type_id_map": {},
        "rewards": hole("rewards"),
        "metrics": hole("metrics"),
        "info": hole("info"),
        "extra_usage": [],
        "is_completed": hole("is_completed"),
        "ok": hole("ok"),
        "stop_condition": text_hole("stop_condition"),
        "is_timeout": hole("is_timeout"),
        "errors": hole("errors"),
        "timing": hole("timing"),
        "num_input_tokens": hole("input"),
        "num_output_tokens": hole("output"),
        "num_total_tokens": hole("total"),
    }


def episode(shape: RunShape, environment: Environment) -> dict[str, Any]:
    """An episode. Holes: id, task, group, work, ok, errors, traces, input, output and total tokens."""
    return {
        "id": text_hole("id"),
        "env": {"id": environment.name.replace(" ", "-"), "name": environment.name},
        "task": hole("task"),
        "group": {"id": text_hole("group")},
        "run": {"type": "train", "id": shape.digest, "name": shape.run_name, "work": hole("work")},
        "ok": hole("ok"),
        "is_timeout": False,
        "errors": hole("errors"),
        "traces": hole("traces"),
        "num_input_tokens": hole("input"),
        "num_output_tokens": hole("output"),
        "num_total_tokens": hole("total"),
    }


def task(environment: Environment, index: int, question: str, answer: str) -> dict[str, Any]:
    """One task of an environment."""
    name = environment.name
    kind = "".join(word.capitalize() for word in name.replace("+", " ").replace("-", " ").split())
    data = {"idx": index, "question": question, "answer": answer}
    digest = hashlib.sha256(f"{name} {index}".encode()).hexdigest()
    return {"type": f"{kind}Task", "data": data, "key": f"{name}-{index}", "hash": digest}


def _tool() -> dict[str, Any]:
    query = {"type": "string", "description": "What to look up"}
    return {
        "name": TOOL,
        "description": "Look a word up in the list",
        "parameters": {"type": "object", "properties": {"query": query}, "required": ["query"]},
    }
