"""Made-up episodes in the shape that the environment library gives them (python dump: absent fields are None)."""

from typing import Any


def make_node(role: str, content: str, parent: int | None = None, tokens: int = 3) -> dict[str, Any]:
    """A message node; an assistant's is sampled but for its first token."""
    sampled = role == "assistant"
    mask = [sampled and i > 0 for i in range(tokens)]
    return {
        "parent": parent,
        "tools": [],
        "semantic_parents": [],
        "message": {"role": role, "content": content, "reasoning_content": None, "tool_calls": None},
        "sampled": sampled,
        "timestamp": 1_790_000_001.5,
        "token_ids": list(range(5, 5 + tokens)),
        "mask": mask,
        "is_content": list(mask),
        "logprobs": [-0.1234567] * sum(mask),
        "advantages": None,
        "routed_experts": {"__nd__": True, "data": b"\0\1"},
        "sampling_mask": None,
    }


def make_trace(name: str = "t1", *, score: float | None = 0.75, tokens: int = 3) -> dict[str, Any]:
    """A trace of two turns."""
    span = {"start": 1_790_000_001.0, "end": 1_790_000_002.0}
    return {
        "version": 1,
        "id": name,
        "verifiers": {"version": "0.4.0", "commit": None},
        "task": {"type": "WordTask", "key": "w-17", "hash": None, "data": {"answer": "crane", "hint": None}},
        "agent": {
            "name": "agent",
            "trainable": True,
            "runtime": None,
            "config": {"model": "tiny", "max_turns": None, "sampling": {"temperature": 1.0, "top_p": None}},
        },
        "tools": [{"name": "look", "strict": None, "parameters": {"properties": {"x": {"default": None}}}}],
        "nodes": [
            make_node("user", "guess"),
            make_node("assistant", "slate", 0, tokens),
            make_node("user", "no", 1),
            make_node("assistant", "crane", 2, tokens),
        ],
        "calls": [
            {
                "node": 1,
                "model": "tiny",
                "finish_reason": "stop",
                "usage": {"prompt_tokens": 3, "completion_tokens": 2, "cost": None},
                "time": span,
                "error": None,
            }
        ],
        "mm_token_type_id_map": {},
        "rewards": {"win": {"score": score, "weight": 1.0}} if score is not None else {"win": None},
        "metrics": {"guesses": 2.0, "late": None},
        "info": {
            "kind": "train",
            "dispatch": {"step": 12, "time": 1_790_000_000.0},
            "arrival": {"step": 12, "time": 1_790_000_041.5},
            "note": None,
        },
        "root_reply": None,
        "extra_usage": [],
        "is_completed": True,
        "ok": True,
        "stop_condition": "agent_completed",
        "is_timeout": False,
        "errors": [],
        "timing": {
            "start": 1_790_000_000.5,
            "boot": {"start": 0.0, "end": 0.0},
            "setup": span,
            "agent": {**span, "model": {"duration": 0.75}, "harness": {"duration": 0.25}},
            "finalize": {"start": 1_790_000_002.0, "end": 1_790_000_002.25},
            "scoring": {"start": 0.0, "end": 0.0},
        },
        "num_input_tokens": 900,
        "num_output_tokens": 310,
        "num_total_tokens": 1210,
    }


def make_episode(name: str = "e1", *, score: float | None = 0.75, tokens: int = 3) -> dict[str, Any]:
    """A training episode of one trace, named ``t-<name>``."""
    trace = make_trace(f"t-{name}", score=score, tokens=tokens)
    return {
        "id": name,
        "env": {"id": "words", "name": "wordle"},
        "task": trace["task"],
        "group": {"id": "g4"},
        "run": {
            "type": "train",
            "id": "r",
            "name": None,
            "work": {"type": "train", "step": 12, "policy": {"start": 11, "end": 12}},
        },
        "ok": True,
        "is_timeout": False,
        "errors": [],
        "traces": [trace],
        "num_input_tokens": 900,
        "num_output_tokens": 310,
        "num_total_tokens": 1210,
    }


def make_failure(name: str = "f1") -> dict[str, Any]:
    """An episode that failed before it had a trace."""
    return {
        **make_episode(name),
        "ok": False,
        "errors": [{"type": "EnvWorkerDied", "message": "the worker was killed", "status_code": None}],
        "traces": [],
        "num_input_tokens": 0,
        "num_output_tokens": 0,
        "num_total_tokens": 0,
    }
