"""One episode through the API: transcript, branches, agents, tools, evidence; overlays against their definitions."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from dashboard_runs import RunClient, message, tokens, write_episodes
from prl.dashboard import transcript
from prl.rundir.episodes.streams import STREAMS
from sample_episodes import make_episode, make_failure, make_trace

EPS = 0.1


F, T = False, True
PROMPT = ([5, 6, 7], [F, F, F])
ANSWER = ([8, 9, 10, 11], [F, T, T, T])
OTHER = ([8, 12, 13], [F, T, T])
TRAINER = {0: [-0.2, -2.5, -0.9], 1: [-0.4, -0.01]}
ENGINE = {0: [-0.21, -0.1, -1.4], 1: [-0.35, -0.3]}


def branched() -> dict[str, Any]:
    """An answer, and another one from the same prompt: two leaves."""
    record = make_episode("e1")
    record["traces"][0]["nodes"] = [
        tokens(message("user", "guess"), *PROMPT, logprobs=[]),
        tokens(message("assistant", "slate", 0), *ANSWER, logprobs=ENGINE[0]),
        tokens(message("assistant", "crane", 0), *OTHER, logprobs=ENGINE[1]),
    ]
    record["traces"][0]["calls"] = []
    return record


def updates() -> dict[str, list[dict[str, Any]]]:
    """What the orchestrator and the trainer told later, over whole branches."""
    nothing: list[Any] = [None] * 4
    info = {"effective": True, "ship": {"step": 12, "time": 1.0}, "advantage": 0.5}
    shipped = [
        {"index": 0, "advantages": [0, 0, 0, 0, 0.5, 0.5, 0.5]},
        {"index": 1, "advantages": [0, 0, 0, 0, -1, -1]},
    ]
    trained = [
        {"index": 0, "trainer_logprobs": nothing + TRAINER[0], "entropies": [*nothing, 0.3, 0.02, 1.5]},
        {"index": 1, "trainer_logprobs": nothing + TRAINER[1], "is_masked": [*nothing, True, False]},
    ]
    return {
        "orch": [{"trace_id": "t-e1", "info": info, "branches": shipped}],
        "trainer": [{"trace_id": "t-e1", "info": {}, "branches": trained}],
    }


@pytest.fixture
def run(tmp_path: Path) -> RunClient:
    return RunClient(write_episodes(tmp_path / "run", [branched()], updates()))


def column(answer: Any, name: str) -> list[float | None]:
    """A stream of a window; a window without any value has a reason in the place of values."""
    nothing: list[float | None] = [None] * len(answer["ids"])
    return answer["streams"][name].get("values") or nothing


@pytest.mark.parametrize("branch", [0, 1])
def test_each_overlay_is_what_its_definition_says(run: RunClient, branch: int) -> None:
    answer = run.json("episodes/e1/tokens", branch=branch)
    ids, mask = ((PROMPT[n] + (ANSWER, OTHER)[branch][n]) for n in (0, 1))
    trainer, engine = TRAINER[branch], ENGINE[branch]
    nothing: list[Any] = [None] * 4
    assert answer["ids"] == ids and answer["total"] == len(ids)
    assert answer["nodes"] == [[0, 0, 3], [branch + 1, 3, len(ids) - 3]]
    assert column(answer, "trainer_logprob") == nothing + trainer
    assert column(answer, "inference_logprob") == nothing + engine
    advantage = [0.5] * 3 if branch == 0 else [-1.0] * 2
    assert column(answer, "advantage") == nothing + advantage
    assert column(answer, "loss_mask") == [float(flag) for flag in mask]
    divergence = [math.exp(t - i) - (t - i) - 1 for t, i in zip(trainer, engine, strict=True)]
    assert column(answer, "mismatch_kl")[:4] == nothing
    assert column(answer, "mismatch_kl")[4:] == pytest.approx(divergence)
    assert answer["streams"]["mismatch_kl"]["recomputed"] is True
    difference = [math.exp(t) - math.exp(i) for t, i in zip(trainer, engine, strict=True)]
    if branch == 0:  # nothing stored: by the bound
        assert answer["streams"]["stable"]["recomputed"] is True
        assert (
            column(answer, "stable")[4:] == [1 if p > EPS else -1 if p < -EPS else 0 for p in difference] == [0, -1, 1]
        )
        assert column(answer, "entropy") == [*nothing, 0.3, 0.02, 1.5]
    else:  # as the trainer stored it, whatever the bound says
        assert column(answer, "stable")[4:] == [-1 if difference[0] < 0 else 1, 0]
        assert answer["streams"]["entropy"] == {"reason": "not covered"}
    assert answer["streams"]["reference_logprob"] == {"reason": "not recorded"}


def test_a_strip_has_the_furthest_value_of_each_bin_and_marks_what_the_loss_left_out(run: RunClient) -> None:
    answer = run.json("episodes/e1/token-map", stream="advantage", branch=1, bins=3)
    assert answer["bins"] == [None, None, -1.0] and (answer["min"], answer["max"]) == (-1.0, -1.0)
    stable = run.json("episodes/e1/token-map", stream="stable", branch=0)
    assert stable["marked"] == [5, 6] and stable["marked_total"] == 2
    above = run.json("episodes/e1/token-map", stream="entropy", threshold=0.3)
    whole = column(run.json("episodes/e1/tokens"), "entropy")
    assert whole[above["furthest"]] == max(value for value in whole if value is not None)
    assert run.json("episodes/e1/token-map", stream="reference_logprob")["furthest"] is None
    assert above["marked"] == [4, 6]
    assert run.json("episodes/e1/token-map", stream="reference_logprob")["reason"] == "not recorded"


def test_branches_are_those_of_the_leaves_in_order(run: RunClient) -> None:
    trace = run.json("episodes/e1")["traces"][0]
    assert [branch["nodes"] for branch in trace["branches"]] == [[0, 1], [0, 2]]
    assert [(branch["tokens"], branch["turns"], branch["parts_at"]) for branch in trace["branches"]] == [
        (7, 1, None),
        (6, 1, 1),
    ]
    assert [node["parent"] for node in trace["nodes"]] == [None, 0, 0]
    assert run.answer("episodes/e1/tokens", branch=2).status == 404
    assert run.answer("episodes/e1/tokens", trace=1).status == 404


def test_an_episode_says_its_step_bound_policy_and_neighbours(tmp_path: Path) -> None:
    root = write_episodes(tmp_path / "run", [make_episode("before"), branched(), make_episode("after")], updates())
    resolved = root / "configs" / "resolved"
    resolved.mkdir()
    (resolved / "trainer.json").write_text(json.dumps({"loss": {"type": "ipo", "eps": 0.4}}))
    answer = RunClient(root).json("episodes/e1")
    assert answer["step"] == 12 and answer["updates"] == 2
    assert answer["bound"] == {"eps": 0.4, "source": "trainer.json"}
    assert answer["policy"] == {"start": 11, "end": 12}
    assert answer["neighbours"] == {"previous": "before", "next": "after"}
    assert answer["task"] == {"key": "w-17", "type": "WordTask", "data": {"answer": "crane"}}
    assert answer["traces"][0]["rewards"] == [{"name": "win", "score": 0.75, "weight": 1.0}]
    assert answer["row"]["lag"] == 0


def test_what_becomes_known_later_shows_and_changes_the_etag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prl.dashboard.rollouts.CHECK_SECONDS", 0.0)
    root = write_episodes(tmp_path / "run", [branched()])
    run = RunClient(root)
    first = run.answer("episodes/e1/tokens")
    assert first.json["streams"]["trainer_logprob"] == {"reason": "no trainer stream"}
    assert run.client.again(f"{run.base}/episodes/e1/tokens", first.etag).status == 304
    write_episodes(root, [], updates())
    second = run.client.again(f"{run.base}/episodes/e1/tokens", first.etag)
    assert second.status == 200 and column(second.json, "trainer_logprob")[4:] == TRAINER[0]


def test_tool_results_are_found_under_their_calls(tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "name": "look_up", "arguments": '{"q": 1}'}
    record = make_episode("e1")
    record["traces"][0]["nodes"] = [
        message("user", "go"),
        message("assistant", "", 0, tool_calls=[call], reasoning_content="let me see"),
        message("tool", "first", 1, tool_call_id="c1", timestamp=1_790_000_010.0),
        message("assistant", "again", 2, tool_calls=[call]),
        message("tool", "second", 3, tool_call_id="c1"),
        message("tool", "stray", 0, tool_call_id="nobody"),
        message("tool", "other branch", 1, tool_call_id="c1"),
    ]
    span = {"start": 1_790_000_001.0, "end": 1_790_000_002.0}
    record["traces"][0]["calls"] = [
        {"node": 1, "model": "m", "finish_reason": "tool_calls", "time": span, "usage": {"prompt_tokens": 4}},
        {
            "error": {"type": "ProviderError", "message": "503"},
            "time": {"start": 1_790_000_020.0, "end": 1_790_000_021.0},
        },
    ]
    trace = RunClient(write_episodes(tmp_path / "run", [record])).json("episodes/e1")["traces"][0]
    nodes = trace["nodes"]
    assert [part["type"] for part in nodes[1]["parts"]] == ["reasoning", "tool_call"]
    assert nodes[1]["parts"][1]["results"] == [2, 6] and nodes[3]["parts"][1]["results"] == [4]
    assert [node["answers"] for node in nodes] == [None, None, 1, None, 3, None, 1]
    assert nodes[1]["call"]["input"] == 4 and nodes[1]["call"]["seconds"] == 1.0 and nodes[3]["call"] is None
    lanes = {lane["kind"]: lane["spans"] for lane in trace["lanes"]}
    assert [(span["kind"], span["node"], span["label"]) for span in lanes["branch"]] == [
        ("model", 1, "tool_calls"),
        ("tool", 2, "look_up"),
    ]
    assert (lanes["branch"][1]["start"], lanes["branch"][1]["end"]) == (1_790_000_002.0, 1_790_000_010.0)
    assert [span["start"] for span in lanes["failed"]] == [1_790_000_020.0]
    assert [span["kind"] for span in lanes["stages"]] == ["setup", "agent", "finalize"]
    assert trace["failed_calls"][0]["error"]["message"] == "503"


def test_every_agent_has_its_trace_and_judges_their_calls(tmp_path: Path) -> None:
    record = make_episode("e1")
    judge = make_trace("t2", score=None)
    judge["agent"] |= {"name": "judge", "trainable": False}
    judge["info"]["judge_calls"] = [{"model": "j", "reply": "good", "api_key": "abcdef0123"}]
    record["traces"].append(judge)
    answer = RunClient(write_episodes(tmp_path / "run", [record])).json("episodes/e1")
    assert [(trace["agent"], trace["trainable"], trace["reward"]) for trace in answer["traces"]] == [
        ("agent", True, 0.75),
        ("judge", False, None),
    ]
    assert answer["traces"][1]["rewards"] == [{"name": "win", "score": None, "weight": 1.0}]
    assert answer["judge"] == [{"trace": 1, "call": {"model": "j", "reply": "good", "api_key": "***"}}]


def test_an_episode_without_a_trace_shows_its_error(tmp_path: Path) -> None:
    run = RunClient(write_episodes(tmp_path / "run", [make_failure("f1")]))
    answer = run.json("episodes/f1")
    assert answer["traces"] == [] and answer["errors"][0]["type"] == "EnvWorkerDied"
    assert run.answer("episodes/f1/tokens").status == 404


def test_episodes_are_found_by_trace_beginning_and_line(tmp_path: Path) -> None:
    run = RunClient(write_episodes(tmp_path / "run", [make_episode("abcdef"), make_episode("ghijkl")]))
    for wanted in ("ghijkl", "t-ghijkl", "ghij", "2", "@2"):
        assert run.json(f"episodes/{wanted}")["row"]["id"] == "ghijkl", wanted
    assert run.answer("episodes/@3").status == 404


def test_overlays_that_are_not_there_say_why(tmp_path: Path) -> None:
    record = make_episode("e1")
    record["traces"][0]["nodes"] = [message("user", "go"), message("assistant", "well", 0)]
    run = RunClient(write_episodes(tmp_path / "run", [record]))
    assert run.json("episodes/e1")["traces"][0]["unavailable"] == dict.fromkeys(STREAMS, "no tokens")
    answer = run.json("episodes/e1/tokens")
    assert answer["total"] == 0 and answer["ids"] == []
    assert run.json("episodes/e1/rendered")["status"] == "missing_token_ids"


def test_without_a_tokenizer_there_are_ids_and_a_reason(run: RunClient) -> None:
    answer = run.json("episodes/e1/tokens")
    assert answer["texts"] is None and "no tokenizer.json" in answer["tokenizer"]["reason"]
    rendered = run.json("episodes/e1/rendered")
    assert rendered["status"] == "tokenizer_unavailable" and rendered["text"] is None and rendered["reason"]


def letters(root: Path) -> None:
    """A tokenizer of bytes: token ``n`` is the byte ``n``."""
    vocabulary = {f"<0x{byte:02X}>": byte for byte in range(256)}
    added = [{"id": 256, "content": "<|end|>", "special": True}]
    (root / "tokenizer").mkdir()
    document = {
        "model": {"type": "BPE", "vocab": vocabulary},
        "added_tokens": added,
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
    }
    (root / "tokenizer" / "tokenizer.json").write_text(json.dumps(document))


def test_windows_join_to_the_whole_whatever_is_cut(tmp_path: Path) -> None:
    text = "déjà vu ☃ " * 40
    ids = [*text.encode(), 256]
    record = make_episode("e1")
    record["traces"][0]["nodes"] = [
        tokens(message("user", "x"), ids[:100], [F] * 100),
        tokens(message("user", "y", 0), [], []),
        tokens(
            message("assistant", text, 1),
            ids[100:],
            [T] * (len(ids) - 100),
            logprobs=[-float(i) for i in range(len(ids) - 100)],
        ),
    ]
    root = write_episodes(tmp_path / "run", [record])
    letters(root)
    run = RunClient(root)
    whole = run.json("episodes/e1/tokens", limit=20_000)
    assert "".join(whole["texts"]) == f"{text}<|end|>" and whole["special"] == [len(ids) - 1]
    assert run.json("episodes/e1/rendered")["text"] == f"{text}<|end|>"
    for limit in (7, 33):
        parts = [run.json("episodes/e1/tokens", start=start, limit=limit) for start in range(0, len(ids), limit)]
        assert [token for part in parts for token in part["ids"]] == ids
        assert "".join(piece for part in parts for piece in part["texts"]) == f"{text}<|end|>"
        assert [v for part in parts for v in column(part, "inference_logprob")] == column(whole, "inference_logprob")
        at = 0
        for part in parts:
            assert part["start"] == at == part["nodes"][0][1] and sum(run_[2] for run_ in part["nodes"]) == len(
                part["ids"]
            )
            at += len(part["ids"])
    behind = run.json("episodes/e1/tokens", start=10**6)
    assert behind["ids"] == [] and behind["total"] == len(ids)


def test_a_window_of_a_long_branch_looks_only_at_its_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = make_episode("e1")
    record["traces"][0]["nodes"] = [
        tokens(message("assistant", "x", index - 1 if index else None), [5] * 100, [T] * 100) for index in range(500)
    ]
    run = RunClient(write_episodes(tmp_path / "run", [record]))
    run.json("episodes/e1")
    looked: list[Any] = []
    from prl.rundir.episodes import detail

    real = detail.node_tokens
    monkeypatch.setattr(detail, "node_tokens", lambda node, **more: looked.append(node) or real(node, **more))
    answer = run.json("episodes/e1/tokens", start=25_050, limit=200)
    assert answer["total"] == 50_000 and answer["nodes"] == [[250, 25_050, 50], [251, 25_100, 100], [252, 25_200, 50]]
    assert len(looked) == 3


def test_long_traces_and_texts_come_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript, "MAX_NODES", 1000)
    record = make_episode("e1")
    long = "word " * 10_000
    record["traces"][0]["nodes"] = [message("user", long), *(message("assistant", "x", 0) for _ in range(1500))]
    run = RunClient(write_episodes(tmp_path / "run", [record]))
    trace = run.json("episodes/e1")["traces"][0]
    assert trace["nodes_total"] == 1501 and len(trace["nodes"]) == 1000
    part = trace["nodes"][0]["parts"][0]
    assert part["cut"] is True and part["length"] == len(long) and part["text"] == long[:20_000]
    assert run.json("episodes/e1/text", node=0)["text"] == long
    assert run.answer("episodes/e1/text", node=0, part=3).status == 404
    rest = run.json("episodes/e1/nodes", start=1000)
    assert [node["index"] for node in rest["nodes"]] == list(range(1000, 1501))
    assert len(trace["branches"]) == 1000 and trace["branches_total"] == 1500


def test_what_a_model_wrote_passes_as_text_and_secrets_of_the_run_do_not(tmp_path: Path) -> None:
    record = make_episode("e1")
    evil = "<img src=x onerror=alert(1)> \x1b]0;pwned\x07 \x1b[2J \u202e '\"</script>"
    trace = record["traces"][0]
    trace["nodes"] = [message("user", evil), message("assistant", [{"type": "text", "text": evil}], 0)]
    trace["errors"] = [
        {"type": "E", "message": "WANDB_API_KEY=0123456789abcdef failed", "traceback": "Bearer abcd1234efgh"}
    ]
    trace["info"]["env"] = {"HF_TOKEN": "hf_abcdefghijklmnop", "note": "ok"}
    record["env"]["name"] = evil
    run = RunClient(write_episodes(tmp_path / "run", [record]))
    answer = run.answer("episodes/e1")
    shown = answer.json["traces"][0]
    assert shown["nodes"][0]["parts"][0]["text"] == evil == shown["nodes"][1]["parts"][0]["text"]
    assert answer.json["row"]["env"] == evil and answer.headers["content-type"].startswith("application/json")
    assert shown["errors"][0]["message"] == "WANDB_API_KEY=*** failed" and "abcd1234" not in answer.text
    assert shown["info"]["env"] == {"HF_TOKEN": "***", "note": "ok"}


def test_what_no_record_should_hold_is_no_failure(tmp_path: Path) -> None:
    root = write_episodes(tmp_path / "run", [make_episode("e1")])
    chunk = root / "monitors/file/traces/stream/00000.jsonl"
    record = json.loads(chunk.read_text())
    trace = record["traces"][0]
    trace["nodes"] = [
        {
            "message": {
                "role": 7,
                "content": [{"type": {}}, 3, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}],
            }
        },
        {
            "parent": 0,
            "message": {
                "role": "assistant",
                "content": "\ud800 half",
                "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}],
            },
        },
        "no node",
        {"parent": "x", "token_ids": ["a", 1.5, 7], "mask": [True], "logprobs": [1]},
    ]
    trace |= {"calls": [{"node": 99}, {"node": 1, "time": 3, "usage": [], "policy": 2**80}], "tools": 3, "metrics": [1]}
    trace |= {
        "errors": [{"message": 5}],
        "timing": "late",
        "rewards": {"r": 3},
        "info": {"advantage": "x", "deep": 2**70},
    }
    chunk.write_text(json.dumps(record) + "\n")
    run = RunClient(root)
    answer = run.json("episodes/e1")
    nodes = answer["traces"][0]["nodes"]
    assert [part["type"] for part in nodes[0]["parts"]] == ["{}", "image"] and nodes[0]["parts"][1][
        "media_type"
    ] == "image/png"
    assert nodes[1]["parts"][0]["text"].endswith("half") and nodes[1]["parts"][1]["name"] == "f"
    assert run.json("episodes/e1/tokens", branch=2)["problems"]
    for path in ("rendered", "token-map", "nodes", "policies"):
        assert (
            run.answer(f"episodes/e1/{path}", **({"branch": 2} if path in ("rendered", "token-map") else {})).status
            == 200
        )


def test_values_that_json_has_no_form_for_are_named(tmp_path: Path) -> None:
    root = write_episodes(tmp_path / "run", [branched()])
    chunk = root / "monitors/file/traces/stream/00000.jsonl"
    chunk.write_text(chunk.read_text().replace("-0.1,", "-Infinity,"))
    answer = RunClient(root).json("episodes/e1/tokens")
    stream = answer["streams"]["inference_logprob"]
    assert stream["values"][5] is None and stream["nonfinite"] == [[5, "-inf"]]
