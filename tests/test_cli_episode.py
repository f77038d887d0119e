"""``prl episode``: transcript, tokens, rendered text and the JSON answer."""

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from prl.cli.episode import episode as command
from prl.rundir.annotations.writer import AnnotationWriter
from prl.rundir.episodes.writer import EpisodeWriter
from sample_episodes import make_episode, make_failure, make_node

GOLDEN = Path(__file__).parent / "golden" / "episode.json"
"""``PRL_UPDATE_GOLDEN=1`` writes the answers anew: read the difference."""

HOSTILE = "\x1b]0;pwned\x07\x1b[2Jhello\r\n <img src=x onerror=alert(1)> \u202eabc WANDB_API_KEY=0123456789abcdef"


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with one episode of two branches, one that failed early, and one that says hostile things."""
    root = tmp_path / "run"
    traces = root / "monitors" / "file" / "traces"
    writer = EpisodeWriter(traces, chunk_bytes=100_000)
    episode = make_episode("abcd1234")
    nodes = episode["traces"][0]["nodes"]
    nodes.append(make_node("assistant", "other", 0))
    calls = [{"id": "c1", "type": "function", "name": "look", "arguments": '{"at": "it"}'}]
    nodes[1]["message"].update(reasoning_content="hm", tool_calls=calls)
    hostile = make_episode("evil1234")
    hostile["traces"][0]["nodes"][1]["message"]["content"] = HOSTILE
    hostile["env"]["name"] = HOSTILE
    for each in (episode, make_failure("ffff1234"), hostile):
        writer.append(each)
    writer.close(clean=False)
    updates = AnnotationWriter(traces, "orch", chunk_bytes=100_000)
    info = {"effective": True, "ship": {"step": 14, "time": 5.0}, "advantage": 0.5}
    updates.append({"trace_id": "t-abcd1234", "info": info, "branches": [{"index": 0, "advantages": [0.5] * 12}]})
    updates.close(clean=False)
    (root / "tokenizer").mkdir()
    vocab = {" the": 5, "\u001b[2J": 6, "\n": 7}
    added = [{"id": 7, "content": "<end>", "special": True}]
    tokenizer = {"model": {"vocab": vocab}, "added_tokens": added, "decoder": {"type": "Fuse"}}
    (root / "tokenizer" / "tokenizer.json").write_text(json.dumps(tokenizer))
    return root


def call(*args: object) -> Result:
    return CliRunner().invoke(command, [str(arg) for arg in args], standalone_mode=False)


def answer(*args: object) -> dict[str, Any]:
    result = call(*args, "--json")
    assert result.exception is None, result.exception
    value: dict[str, Any] = json.loads(result.stdout)
    return value


def test_json_answers(run: Path) -> None:
    answers = {
        "messages": answer(run, "abcd"),
        "tokens": answer(run, "abcd1234", "--tokens", "--start", 4, "--limit", 2),
        "rendered": answer(run, "1", "--rendered", "--branch", 1),
        "failed": answer(run, "ffff1234"),
    }
    for each in answers.values():
        assert each.pop("as_of") > 1e9
        assert each.pop("run_dir") == str(run)
    text = json.dumps(answers, indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("PRL_UPDATE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


def test_a_transcript(run: Path) -> None:
    text = call(run, "abcd1234").stdout
    assert "episode abcd1234 train wordle ok reward 0.75" in text
    assert "shipped in step 14" in text
    assert '(thinks) hm\n    slate\n    -> look({"at": "it"})' in text
    assert "[4] after 0 assistant" in text
    assert "no trainer_logprob: no trainer stream" in text
    branch = call(run, "abcd1234", "--branch", 1).stdout
    assert "other" in branch
    assert "crane" not in branch
    assert "shown 2 of 5 messages, from 1 on" in call(run, "abcd1234", "--start", 1, "--limit", 2).stdout
    failed = call(run, "ffff1234").stdout
    assert "EnvWorkerDied: the worker was killed" in failed
    assert "no trace" in failed


def test_what_a_record_does_not_say_is_unknown_and_no_failure(run: Path) -> None:
    traces = run / "monitors" / "file" / "traces"
    with (traces / "stream" / "00000.jsonl").open("ab") as file:
        file.write(b'{"id": "bare1234", "traces": []}\n{"traces": []}\n')
    for path in (traces / "stream").iterdir():
        os.utime(path, (1e9, 1e9))
    bare = call(run, "bare1234").stdout.splitlines()
    assert bare[0] == "episode bare1234 kind unknown env unknown outcome unknown reward -"
    assert bare[-1] == "no trace was recorded"
    nameless = call(run, "5").stdout.splitlines()
    assert nameless[0].startswith("episode at line 5, without an id kind unknown")
    assert "None" not in "".join([*bare, *nameless])
    assert answer(run, "bare1234")["episode"]["ok"] is None


def test_reasons_fit_what_the_head_says(run: Path) -> None:
    """The episode was shipped: a stream that is not there for another reason is not said not to be."""
    text = call(run, "abcd1234").stdout
    assert "shipped in step 14" in text and "no reference_logprob: not recorded" in text
    assert "not shipped" not in text
    traces = run / "monitors" / "file" / "traces"
    updates = AnnotationWriter(traces, "orch", chunk_bytes=100_000)
    updates.append({"trace_id": "t-evil1234", "info": {"effective": True, "ship": {"step": 15}}, "branches": []})
    updates.close(clean=False)
    assert "no advantage: not recorded" in call(run, "evil1234").stdout
    assert "no advantage: not shipped" not in call(run, "evil1234").stdout


def test_a_table_of_tokens(run: Path) -> None:
    text = call(run, "abcd1234", "--tokens", "--limit", 5).stdout
    lines = text.splitlines()
    header = next(line for line in lines if line.startswith("POS"))
    assert header.split() == ["POS", "NODE", "ID", "ADV", "INF", "LOGP", "LOSS", "CONTENT", "TEXT"]
    assert any(line.split()[:4] == ["4", "1", "6", "0.5"] for line in lines)
    assert '" the"' in text
    assert "shown 5 of 12 tokens" in text
    assert "\x1b" not in text
    assert call(run, "abcd1234", "--rendered").stdout.count("<end>") == 4


def test_a_tokenizer_that_was_given(run: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert "has no tokenizer.json" in call(run, "1", "--rendered", "--tokenizer", tmp_path / "mine").stdout
    (tmp_path / "mine" / "tokenizer.json").write_text('{"model":{"vocab":{"x":5}},"decoder":{"type":"Fuse"}}')
    assert answer(run, "1", "--rendered", "--tokenizer", tmp_path / "mine")["rendered"]["text"] == "x" * 4
    (run / "tokenizer" / "tokenizer.json").unlink()
    tokens = answer(run, "1", "--tokens", "--limit", 1)
    assert tokens["rows"][0]["text"] is None
    assert "no configuration names its model" in tokens["tokenizer_reason"]


def test_what_a_model_wrote_moves_no_cursor_and_gives_no_secret_away(run: Path) -> None:
    for args in ((), ("--json",), ("--tokens",), ("--rendered",)):
        text = call(run, "evil1234", *args).stdout
        assert not set(text) & {"\x1b", "\x07", "\r", "\u202e"}
        assert "0123456789abcdef" not in text
    assert "<img src=x onerror=alert(1)>" in call(run, "evil1234").stdout, "markup is text like any other"
    rows = answer(run, "evil1234")["rows"]
    assert rows[1]["message"]["content"].startswith("hello\n <img"), "white space is part of a text"


def test_what_is_long_is_cut_and_said(run: Path) -> None:
    writer = EpisodeWriter(run / "monitors" / "file" / "traces", chunk_bytes=100_000)
    long = make_episode("long1234")
    long["traces"][0]["nodes"][1]["message"]["content"] = "x" * 50_000
    long["traces"][0]["info"]["many"] = list(range(5000))
    writer.append(long)
    writer.close(clean=False)
    found = answer(run, "long1234")
    assert found["truncated"]
    assert len(found["rows"][1]["message"]["content"]) == 20_000
    assert len(found["traces"][0]["info"]["many"]) == 1000
    assert not answer(run, "abcd1234")["truncated"]
    assert "x" * 4000 + "…" in call(run, "long1234").stdout


def test_values_that_are_not_finite(run: Path) -> None:
    traces = run / "monitors" / "file" / "traces"
    chunk = traces / "stream" / "00000.jsonl"
    chunk.write_bytes(chunk.read_bytes().replace(b"[-0.1235,-0.1235]", b"[-Infinity,-0.123]"))
    found = answer(run, "abcd1234", "--tokens")
    assert found["nonfinite"] == ["rows/4/inference_logprob", "rows/10/inference_logprob"]
    assert found["rows"][4]["inference_logprob"] is None
    assert math.isclose(found["rows"][5]["inference_logprob"], -0.123)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("nobody1",), "no episode 'nobody1'"),
        (("abcd1234", "--trace", 3), "the episode has 1"),
        (("abcd1234", "--branch", 3), "the trace has 2"),
        (("abcd1234", "--tokens", "--rendered"), "one of them"),
    ],
)
def test_wrong_calls_say_what_there_is(run: Path, args: tuple[object, ...], message: str) -> None:
    error = call(run, *args).exception
    assert message in str(getattr(error, "message", error))


@pytest.mark.parametrize("loss", ["damaged", "gone"])
def test_a_record_that_cannot_be_read_is_told_and_no_wrong_call(run: Path, loss: str) -> None:
    chunk = run / "monitors" / "file" / "traces" / "stream" / "00000.jsonl"
    if loss == "gone":
        chunk.unlink()
    else:
        lines = chunk.read_bytes().splitlines(keepends=True)
        chunk.write_bytes(lines[0][:20] + b"\0" * (len(lines[0]) - 21) + b"\n" + b"".join(lines[1:]))
    result = call(run, "abcd1234")
    assert (result.exception, result.return_value) == (None, 1)
    assert "the record at offset 0" in result.stderr
    result = call(run, "abcd1234", "--json")
    found = json.loads(result.stdout)
    assert (result.return_value, found["ok"], found["rows"]) == (1, False, [])
    assert "the record at offset 0" in found["error"]
