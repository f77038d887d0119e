"""Rollouts of a task side by side: where they part, by tokens or by text, and with what probability."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from dashboard_runs import RunClient, message, tokens, write_episodes
from sample_episodes import make_episode, make_failure

F, T = False, True
PROMPT = "count to "


def rollout(
    name: str, answer: str, logprob: float = -0.5, *, with_tokens: bool = True, score: float = 1.0
) -> dict[str, Any]:
    """An answer of one token a letter (behind one token of the template), each with its own log-probability."""
    record = make_episode(name, score=score)
    user, assistant = message("user", PROMPT), message("assistant", answer, 0)
    if with_tokens:
        user = tokens(user, list(PROMPT.encode()), [F] * len(PROMPT), logprobs=[])
        logprobs = [logprob - 0.01 * place for place in range(len(answer))]
        assistant = tokens(assistant, [58, *answer.encode()], [F, *[T] * len(answer)], logprobs=logprobs)
    record["traces"][0] |= {"nodes": [user, assistant], "calls": []}
    return record


def group(root: Path, records: list[dict[str, Any]], *, tokenizer: bool = True) -> Any:
    write_episodes(root, records)
    if tokenizer:
        vocabulary = {chr(byte): byte for byte in range(33, 127)} | {"Ġ": 32}
        document = {"model": {"type": "BPE", "vocab": vocabulary}, "decoder": {"type": "ByteLevel"}}
        (root / "tokenizer").mkdir()
        (root / "tokenizer" / "tokenizer.json").write_text(json.dumps(document))
    return RunClient(root).json("episodes/group", group="g4")


def test_the_first_token_that_differs_is_found_with_its_ways(tmp_path: Path) -> None:
    answers = ["one two", "one two!", "one six", "one"]
    answer = group(tmp_path / "run", [rollout(f"e{n}", text, -0.5 - n, score=n) for n, text in enumerate(answers)])
    parting = answer["parting"]
    shared = len(PROMPT) + 1 + len("one")
    assert parting["token"] == shared and parting["turn"] == 1 and parting["message"] == 1
    assert parting["shared_text"] == "one"
    assert [(way["rollouts"], way["ended"]) for way in parting["ways"]] == [([0, 1, 2], False), ([3], True)]
    space = parting["ways"][0]
    assert space["text"] == " " and space["probability"] == pytest.approx(math.exp(-0.5 - 0.03))
    assert parting["ways"][1]["probability"] is None
    assert [one["text_after"] for one in answer["rollouts"]] == [" two", " two!", " six", ""]
    assert answer["prompt"] == PROMPT and answer["total"] == 4
    assert answer["reward_mean"] == 1.5 and answer["reward_std"] == pytest.approx(math.sqrt(1.25))
    assert [one["row"]["id"] for one in answer["rollouts"]] == ["e0", "e1", "e2", "e3"]


def test_each_way_begins_with_its_own_token_and_the_most_taken_is_first(tmp_path: Path) -> None:
    answer = group(tmp_path / "run", [rollout("a", "sea"), rollout("b", "tea", -1.0), rollout("c", "ten", -2.0)])
    ways = answer["parting"]["ways"]
    assert [(way["rollouts"], way["text"]) for way in ways] == [([1, 2], "te"), ([0], "sea")]
    assert [way["probability"] for way in ways] == pytest.approx([math.exp(-1.0), math.exp(-0.5)])


def test_without_a_tokenizer_the_place_is_a_token_and_the_texts_are_the_messages(tmp_path: Path) -> None:
    answer = group(tmp_path / "run", [rollout("a", "go left"), rollout("b", "go right")], tokenizer=False)
    assert answer["parting"]["token"] == len(PROMPT) + 1 + len("go ")
    assert [one["text_after"] for one in answer["rollouts"]] == ["left", "right"]
    assert answer["parting"]["shared_text"] == "go "


def test_where_one_has_no_tokens_texts_are_compared_by_words(tmp_path: Path) -> None:
    records = [rollout("a", "go lefty", with_tokens=False), rollout("b", "go left"), rollout("c", "go left")]
    parting = group(tmp_path / "run", records)["parting"]
    assert parting["token"] is None and parting["turn"] == 1 and parting["shared_text"] == "go "
    assert [(way["rollouts"], way["text"]) for way in parting["ways"]] == [([1, 2], "left"), ([0], "lefty")]


def test_rollouts_that_do_not_part_say_so(tmp_path: Path) -> None:
    same = group(tmp_path / "same", [rollout("a", "x"), rollout("b", "x")])
    assert same["parting"] is None and same["reason"] == "all rollouts are the same, token by token"
    alone = group(tmp_path / "alone", [rollout("a", "x"), make_failure("f")])
    assert alone["parting"] is None and "fewer than two" in alone["reason"]
    assert alone["rollouts"][1]["text_after"] is None


def test_branches_are_compared_by_the_first(tmp_path: Path) -> None:
    forked = rollout("a", "one")
    forked["traces"][0]["nodes"].append(tokens(message("assistant", "zzz", 0), [58, 122], [F, T], logprobs=[-1.0]))
    parting = group(tmp_path / "run", [forked, rollout("b", "owe")])["parting"]
    assert parting["token"] == len(PROMPT) + 2


def test_a_record_that_cannot_be_read_costs_only_itself(tmp_path: Path) -> None:
    root = write_episodes(tmp_path / "run", [rollout("a", "one"), rollout("b", "two"), rollout("c", "ten")])
    run = RunClient(root)
    run.json("episodes")
    chunk = root / "monitors/file/traces/stream/00000.jsonl"
    lines = chunk.read_bytes().split(b"\n")
    lines[1] = b"x" * len(lines[1])
    chunk.write_bytes(b"\n".join(lines))
    answer = run.json("episodes/group", group="g4")
    assert [one["reason"] is None for one in answer["rollouts"]] == [True, False, True]
    assert sorted(number for way in answer["parting"]["ways"] for number in way["rollouts"]) == [0, 2]


def test_a_task_at_one_step_and_bad_questions(tmp_path: Path) -> None:
    shipped = {
        "orch": [{"trace_id": "t-b", "info": {"effective": True, "ship": {"step": 3, "time": 1.0}}, "branches": []}]
    }
    root = write_episodes(tmp_path / "run", [rollout("a", "one"), rollout("b", "two")], shipped)
    run = RunClient(root)
    assert [one["row"]["id"] for one in run.json("episodes/group", task="w-17", step=3)["rollouts"]] == ["b"]
    assert run.answer("episodes/group").status == 400
    assert run.answer("episodes/group", group="g4", task="w-17").status == 400
    assert run.answer("episodes/group", group="nobody's").status == 404
    assert run.answer("episodes/task").error == "bad_parameter"
