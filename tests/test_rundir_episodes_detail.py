"""One episode opened: found by any of its names, folded, in pages, whatever its record holds."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prl.rundir.annotations.locator import UpdateLocator
from prl.rundir.annotations.writer import AnnotationWriter
from prl.rundir.chunks import Sealer
from prl.rundir.episodes.detail import EpisodeDetail, open_episode, stable_bound
from prl.rundir.episodes.lookup import EpisodeNotFoundError, find_episode
from prl.rundir.episodes.record import index_row
from prl.rundir.episodes.streams import NOT_COVERED
from prl.rundir.episodes.writer import EpisodeWriter
from prl.rundir.tokens.text import TokenText
from sample_episodes import make_episode, make_failure, make_node

NAMES = ["aaaa1111", "aaaa2222", "bbbb1111", "cccc1111"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRL_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    return tmp_path / "run" / "monitors" / "file" / "traces"


def write(traces: Path, episodes: list[dict[str, Any]], *, sealed: bool = False) -> None:
    sealer = Sealer(traces / ".sealing") if sealed else None
    writer = EpisodeWriter(traces, chunk_bytes=6000, sealer=sealer)
    for episode in episodes:
        writer.append(episode)
    writer.close(clean=True)
    assert sealer is None or sealer.close(20)


def annotate(traces: Path, trace_id: str, *branches: dict[str, Any], producer: str = "trainer", **info: Any) -> None:
    writer = AnnotationWriter(traces, producer, chunk_bytes=10_000)
    writer.append({"trace_id": trace_id, "info": info, "branches": list(branches)})
    writer.close(clean=False)


def tree_episode() -> dict[str, Any]:
    """One trace of two branches, 0-1-2-3 and 0-1-4: messages 0 and 1 are on both."""
    episode = make_episode("aaaa1111")
    parents = (("user", None), ("assistant", 0), ("user", 1), ("assistant", 2), ("assistant", 1))
    episode["traces"][0]["nodes"] = [make_node(role, f"m{n}", parent) for n, (role, parent) in enumerate(parents)]
    return episode


@pytest.mark.parametrize("sealed", [False, True])
def test_an_episode_is_found_by_each_of_its_names(traces: Path, sealed: bool) -> None:
    write(traces, [make_episode(name) for name in NAMES], sealed=sealed)
    for wanted in ("bbbb1111", "t-bbbb1111", "3", "bbbb", "t-bbbb"):
        assert find_episode(traces, wanted)["id"] == "bbbb1111"
        assert open_episode(traces, wanted).record["id"] == "bbbb1111"
    with pytest.raises(EpisodeNotFoundError, match="aaaa1111, aaaa2222"):
        find_episode(traces, "aaaa")
    for wanted in ("bbb", "xxxx", "99", "", "é\u2028"):
        with pytest.raises(EpisodeNotFoundError, match="no episode"):
            find_episode(traces, wanted)


def test_names_that_look_alike(traces: Path) -> None:
    write(traces, [make_episode("12"), make_episode("advantage"), make_episode('quoted \\ "id"'), make_episode("é")])
    assert find_episode(traces, "12")["line"] == 1
    assert find_episode(traces, "2")["id"] == "advantage"
    assert find_episode(traces, "advantage")["line"] == 2
    assert find_episode(traces, "quoted \\")["line"] == 3
    assert find_episode(traces, "é")["line"] == 4
    write(traces, [make_episode("12")])
    assert find_episode(traces, "12")["line"] == 5, "the later of two with one id"


@pytest.mark.parametrize(
    "damage",
    [
        lambda index, rows: index.unlink(),
        lambda index, rows: index.write_bytes(b"".join(rows[:1])),
        lambda index, rows: index.write_bytes(rows[0] + b"\0" * 9 + b"\n" + rows[3]),
        lambda index, rows: index.write_bytes(b"".join(rows).replace(b"bbbb1111", b"dddd1111")),
    ],
    ids=["absent", "short", "damaged", "another stream's"],
)
def test_an_index_that_cannot_be_believed(traces: Path, damage: Callable[[Path, list[bytes]], Any]) -> None:
    write(traces, [make_episode(name) for name in NAMES])
    index = traces / "stream.index.jsonl"
    damage(index, index.read_bytes().splitlines(keepends=True))
    for chunk in (traces / "stream").iterdir():
        os.utime(chunk, (1, 1))  # long ago: no row is on its way any more
    before = index.read_bytes() if index.exists() else None
    for wanted in ("bbbb1111", "t-bbbb1111"):
        assert open_episode(traces, wanted).record["id"] == "bbbb1111"
    assert (index.read_bytes() if index.exists() else None) == before, "nothing is written in a run"


def test_a_beginning_of_an_id_without_any_index(traces: Path) -> None:
    write(traces, [make_episode(name) for name in NAMES])
    (traces / "stream.index.jsonl").unlink()
    assert open_episode(traces, "bbbb").record["id"] == "bbbb1111"


def test_a_beginning_of_an_id_whose_index_row_was_lost(traces: Path) -> None:
    write(traces, [make_episode(name) for name in ("aaaa1111", "bbbb1111", "cccc1111")])
    index = traces / "stream.index.jsonl"
    rows = index.read_bytes().splitlines(keepends=True)
    index.write_bytes(b"".join((rows[0], b"\0" * 9 + b"\n", rows[2])))
    for name in ("bbbb1111", "bbbb", "t-bbbb1111", "t-bbbb", "2"):
        assert open_episode(traces, name).record["id"] == "bbbb1111"


def test_what_was_learned_later_is_folded(traces: Path) -> None:
    write(traces, [tree_episode()])
    trace_id = "t-aaaa1111"
    annotate(
        traces,
        trace_id,
        {"index": 0, "advantages": [0.5] * 12},
        producer="orch",
        effective=True,
        ship={"step": 14, "time": 5.0},
        advantage=0.5,
    )
    detail = open_episode(traces, "aaaa1111")
    (trace,) = detail.traces
    assert (detail.updates, detail.step, trace.trace["info"]["advantage"]) == (1, 14, 0.5)
    assert trace.message(1).tokens.streams["advantage"].to_list() == [None, 0.5, 0.5]
    assert trace.message(4).tokens.streams["advantage"].reason == NOT_COVERED, "branch 1 had no update"
    locator = UpdateLocator(traces)
    for value in (0.25, 0.75):  # of a message on both branches the later update counts
        annotate(traces, trace_id, {"index": 1, "advantages": [value] * 9}, {"index": 7, "advantages": [9.0] * 9})
        (trace,) = open_episode(traces, detail.row, locator=locator).traces
        advantages = [trace.message(n).tokens.streams["advantage"].to_list()[1:] for n in (1, 3, 4)]
        assert advantages == [[value] * 2, [0.5] * 2, [value] * 2]
    assert locator.problems == []


def test_streams_along_a_branch(traces: Path) -> None:
    write(traces, [tree_episode()])
    partial = [None, None, 0.5] + [None] * 9
    streams = {"trainer_logprobs": [None] + [-0.25] * 11, "mismatch_kl": partial, "entropies": [0.5] * 5}
    annotate(traces, "t-aaaa1111", {"index": 0, **streams})
    (trace,) = open_episode(traces, "aaaa1111").traces
    assert [list(branch) for branch in trace.branches] == [[0, 1, 2, 3], [0, 1, 4]]
    tokens = trace.branch_tokens(0)
    assert tokens.ids == [5, 6, 7] * 4
    assert tokens.streams["inference_logprob"].to_list()[3:6] == [None, -0.1235, -0.1235]
    assert tokens.streams["entropy"].values is None, "the list ends within the message: nothing of it is used"
    assert tokens.streams["mismatch_kl"].recomputed
    other = trace.branch_tokens(1).streams["trainer_logprob"].to_list()
    assert other == [None] * 4 + [-0.25] * 2 + [None] * 3, "a shared message has what the other branch's update said"
    assert trace.unavailable()["entropy"] == "no trainer stream"


def test_pages(traces: Path) -> None:
    write(traces, [tree_episode()])
    (trace,) = open_episode(traces, "aaaa1111").traces
    page = trace.messages(1, 2)
    assert ([m.index for m in page.messages], page.total, page.truncated) == ([1, 2], 5, True)
    assert [m.index for m in trace.messages(1, 9, branch=1).messages] == [1, 4]
    assert trace.messages(9).messages == []
    whole = trace.branch_tokens(0)
    for start in range(13):
        part = trace.token_page(0, start, 4)
        assert part.tokens.ids == whole.ids[start : start + 4]
        assert part.nodes == [n for n in (0, 1, 2, 3) for _ in range(3)][start : start + 4]
        assert part.total == 12
        expected = whole.streams["loss_mask"].to_list()[start : start + 4]
        assert part.tokens.streams["loss_mask"].to_list() == expected
    with pytest.raises(IndexError):
        trace.branch_tokens(2)


def test_an_episode_without_a_trace_and_one_without_tokens(traces: Path) -> None:
    episode = make_episode("aaaa1111")
    for node in episode["traces"][0]["nodes"]:
        node.update(token_ids=None, mask=None, is_content=None, logprobs=None)
    write(traces, [make_failure("ffff1111"), episode])
    failed = open_episode(traces, "ffff1111")
    assert (failed.traces, failed.step, failed.updates) == ([], None, 0)
    (trace,) = open_episode(traces, "aaaa1111").traces
    assert set(trace.unavailable().values()) == {"no tokens"}
    assert trace.rendered(0, TokenText(None, None, "none")).status == "missing_token_ids"


class Letters:
    """A tokenizer for which each id is a letter."""

    special = frozenset({7})

    def parts(self, ids: Any, *, begins: bool = True) -> list[str]:
        return [chr(ord("a") + token) for token in ids]

    def text(self, ids: Any) -> str:
        return "".join(self.parts(ids))


def test_the_text_that_the_model_saw(traces: Path) -> None:
    write(traces, [tree_episode()])
    (trace,) = open_episode(traces, "aaaa1111").traces
    assert trace.rendered(1, TokenText(Letters(), "given", None)).text == "fgh" * 3
    missing = trace.rendered(1, TokenText(None, None, "there is none"))
    assert (missing.status, missing.text, missing.reason) == ("tokenizer_unavailable", None, "there is none")

    def fail(ids: Any) -> str:
        raise OverflowError("no such id")

    broken = Letters()
    broken.text = fail  # type: ignore[method-assign]
    assert trace.rendered(1, TokenText(broken, "given", None)).status == "decode_error"


def test_bytes_that_are_no_utf8_and_line_separators_within_a_text(traces: Path) -> None:
    episode = make_episode("aaaa1111")
    episode["traces"][0]["nodes"][1]["message"]["content"] = "a\u2028b\x85c caf\u00e9"
    write(traces, [make_episode("bbbb1111"), episode])
    chunk = traces / "stream" / "00000.jsonl"
    assert open_episode(traces, "aaaa1111").problems == []
    chunk.write_bytes(chunk.read_bytes().replace("caf\u00e9".encode(), b"caf\xe9!"))
    detail = open_episode(traces, "aaaa1111")
    text = detail.record["traces"][0]["nodes"][1]["message"]["content"]
    assert text == "a\u2028b\x85c caf\N{REPLACEMENT CHARACTER}!"
    assert "not UTF-8" in detail.problems[0]


def test_a_huge_record_is_opened_in_pages(traces: Path) -> None:
    """A chain of 20,000 messages, each with a sibling: all branches together would be 400 million steps long."""
    nodes = [{"parent": None, "message": {"role": "user", "content": "go"}, "token_ids": [1], "mask": [False]}]
    for n in range(0, 40_000, 2):
        answer = {"message": {"role": "assistant", "content": "x" * 100}, "token_ids": [2], "mask": [True]}
        nodes += [{"parent": n, **answer}, {"parent": n, **answer}]
    episode = make_episode("aaaa1111")
    episode["traces"][0]["nodes"] = nodes
    write(traces, [episode])
    annotate(traces, "t-aaaa1111", {"index": 0, "advantages": [0.5] * 2})
    detail = open_episode(traces, "aaaa1111")
    (trace,) = detail.traces
    page = trace.messages()
    assert (len(page.messages), page.total, page.truncated) == (2000, 40_001, True)
    assert len(trace.branches) == 20_001
    assert trace.token_page(20_000, 19_999, 5).total == 20_001
    assert detail.row["branches"] == 20_001


def test_the_bound_of_stable_is_the_losss(traces: Path) -> None:
    run = traces.parents[2]
    write(traces, [tree_episode()])
    assert stable_bound(run).eps == 0.1
    for attempt, loss in ((1, {"type": "ipo", "eps": 0.3}), (2, {"type": "ipo", "eps": 0.25})):
        resolved = run / "configs" / f"attempt_{attempt}" / "resolved"
        resolved.mkdir(parents=True)
        (resolved / "trainer.json").write_text(json.dumps({"loss": loss}))
        assert stable_bound(run).eps == loss["eps"]
    assert open_episode(traces, "aaaa1111").bound.source == "trainer.json"
    for loss in ({"type": "ppo", "eps": 0.3}, {"type": "ipo", "eps": "x"}, 3):
        (resolved / "trainer.json").write_text(json.dumps({"loss": loss}))
        assert (stable_bound(run).eps, stable_bound(run).source) == (0.1, "default")


def test_records_of_the_oldest_layout(tmp_path: Path) -> None:
    trace = tree_episode()["traces"][0]
    line = json.dumps({**trace, "id": "tttt1111"}, default=str) + "\n"
    for step, kind in ((3, "train"), (4, "eval")):
        file = tmp_path / "rollouts" / f"step_{step}" / kind / "all" / "traces.jsonl"
        file.parent.mkdir(parents=True)
        file.write_text(line.replace("tttt1111", f"tttt{step}"))
    detail = open_episode(tmp_path, "tttt4")
    assert detail.traces[0].trace["id"] == "tttt4"
    assert len(detail.traces[0].branches) == 2


def test_a_record_that_is_gone_or_damaged(traces: Path) -> None:
    write(traces, [make_episode("aaaa1111")])
    row = find_episode(traces, "aaaa1111")
    chunk = traces / "stream" / "00000.jsonl"
    for content, message in ((b"\0\0\n", "damaged"), (b"", "cannot be read")):
        chunk.write_bytes(content)
        with pytest.raises(OSError, match=message):
            open_episode(traces, row)
    for place in ({}, {"offset": "x"}, {"offset": -1}, {"chunk": None, "offset": 0}):
        with pytest.raises(OSError, match="cannot be read"):
            open_episode(traces, place)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats(allow_nan=False) | st.text(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["traces", "nodes", "message", "role", "token_ids", "mask", "logprobs", "parent", "info"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=16,
)


def look_at_everything(detail: EpisodeDetail) -> None:
    for trace in detail.traces:
        trace.messages()
        trace.unavailable()
        assert (trace.id, trace.agent, trace.reward) is not None
        for branch in range(len(trace.branches)):
            trace.token_page(branch)
            trace.rendered(branch, TokenText(Letters(), "given", None))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ANY, ANY)
def test_records_of_any_shape_can_be_looked_at(traces: Path, value: Any, nodes: Any) -> None:
    record = {"id": "a", "traces": [{"id": "t", "nodes": nodes, "agent": value, "info": value}, value], "group": value}
    chunk = traces / "stream" / "00000.jsonl"
    chunk.parent.mkdir(parents=True, exist_ok=True)
    chunk.write_text(json.dumps(record) + "\n")
    if not (traces / "annotations").exists():
        annotate(traces, "t", {"index": 0, "advantages": [0.5] * 3}, {"index": 1, "is_masked": [True] * 3})
    row = index_row(record, line=1, chunk=0, offset=0)
    look_at_everything(open_episode(traces, row))
