"""Rows, records and annotations of sample runs are those that the writers would make and the readers expect."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from prl.rundir import jsonl
from prl.rundir.annotations.reader import fold_episode
from prl.rundir.chunks import chunk_numbers, plain_path
from prl.rundir.episodes.reader import iter_episodes, read_episode, read_index, read_values
from prl.rundir.episodes.record import stored_record
from prl.rundir.episodes.writer import INDEX, VALUES, EpisodeWriter
from prl.synth.annotations import AnnotationStreams, group_advantages
from prl.synth.course import Course
from prl.synth.episodes import Episode, EpisodeDrafts, EpisodeStream, eval_cohorts, train_cohorts
from prl.synth.shape import ENVIRONMENTS, Environment, RunShape
from prl.synth.signals import token_signals
from prl.synth.text import language

SHAPE = RunShape(environments=ENVIRONMENTS, steps=3, rollouts=24, error_rate=0.3, branch_rate=0.3, eval_interval=0)


def write(traces: Path, shape: RunShape) -> list[Episode]:
    """The training episodes of all steps with their annotations, without the rest of a run."""
    course, stream = Course(shape), EpisodeStream(shape, token_signals(), traces)
    drafts = EpisodeDrafts(shape, course)
    annotations = AnnotationStreams(shape, token_signals(), traces)
    written = []
    for step in course.last.steps():
        cohorts = train_cohorts(shape, step.attempt, step.number, step.begin, step.shipped)
        episodes = sorted((e for cohort in cohorts for e in drafts.draw(cohort)), key=lambda e: e.arrival)
        for episode in episodes:
            stream.write(episode)
        shipped = [episode for episode in episodes if episode.trains]
        annotations.ship(step, shipped, group_advantages(shipped))
        written += episodes
    stream.close()
    annotations.close()
    return written


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("traces")
    write(path, SHAPE)
    return path


@settings(max_examples=12, deadline=None)
@given(
    shape=st.builds(
        RunShape,
        environments=st.sampled_from([ENVIRONMENTS, ENVIRONMENTS[1:2], (Environment("a+b c"),)]),
        kind=st.sampled_from(["rl", "eval"]),
        steps=st.just(2),
        rollouts=st.sampled_from([4, 8]),
        group_size=st.sampled_from([1, 2, 4]),
        error_rate=st.sampled_from([0.0, 0.5, 1.0]),
        branch_rate=st.sampled_from([0.0, 1.0]),
        prompt_tokens=st.integers(1, 40),
        answer_tokens=st.integers(1, 40),
        chunk_bytes=st.sampled_from([1, 40_000, 2**30]),
        seed=st.integers(0, 1000),
    )
)
def test_the_writer_makes_the_same_of_the_records(tmp_path_factory: pytest.TempPathFactory, shape: RunShape) -> None:
    directory = tmp_path_factory.mktemp("same")
    ours, theirs = directory / "ours", directory / "theirs"
    write(ours, shape)
    writer = EpisodeWriter(theirs, chunk_bytes=shape.chunk_bytes)
    arrivals = [row["arrival"] for row in read_index(ours)]
    for episode, arrival in zip(iter_episodes(ours), arrivals, strict=True):
        writer.append(episode.record, arrival=arrival)
    writer.close(clean=False)
    assert read_values(theirs) == read_values(ours)
    # The generator's numbers of one width may have a different length than the writer's: places may differ, no more.
    assert [without_place(row) for row in read_index(theirs)] == [without_place(row) for row in read_index(ours)]


def test_records_lie_where_the_index_says_and_are_as_the_writer_stores_them(traces: Path) -> None:
    for row in read_index(traces):
        record = read_episode(traces, row["chunk"], row["offset"])
        assert record["id"] == row["id"]
        assert stored_record(record, 4) == record
    assert (traces / INDEX).exists()
    assert (traces / VALUES).exists()


def test_chunks_are_cut_as_the_writer_cuts_them(tmp_path: Path) -> None:
    write(tmp_path, RunShape(environments=ENVIRONMENTS[:1], steps=2, rollouts=16, chunk_bytes=30_000))
    numbers = chunk_numbers(tmp_path / "stream")
    sizes = [plain_path(tmp_path / "stream", number).stat().st_size for number in numbers]
    assert len(numbers) > 2
    assert all(size <= 30_000 for size in sizes)
    assert len(list(iter_episodes(tmp_path))) == 32


def test_all_ends_and_shapes_occur(traces: Path) -> None:
    rows = read_index(traces)
    assert {row["stop_condition"] for row in rows} >= {"agent_completed", "agent_timeout", "provider_error", None}
    assert {len(row["trace_ids"]) for row in rows} == {0, 1, 2}
    assert max(row["branches"] for row in rows) > 2
    assert {row["env"] for row in rows} == {environment.name for environment in ENVIRONMENTS}
    arrivals = [row["arrival"] for row in rows]
    assert arrivals == sorted(arrivals)
    assert len({row["id"] for row in rows}) == len(rows)


def test_token_ids_decode_to_the_messages(traces: Path) -> None:
    tokenizer = Tokenizer.from_str(language().tokenizer.files()["tokenizer.json"].decode())
    checked = 0
    for episode in iter_episodes(traces):
        for trace in episode.record["traces"]:
            for node in trace["nodes"]:
                content = [t for t, is_content in zip(node["token_ids"], node["is_content"], strict=True) if is_content]
                assert tokenizer.decode(content, skip_special_tokens=False) == node["message"]["content"]
                assert len(node["token_ids"]) == len(node["mask"])
                assert len(node["logprobs"]) == sum(node["mask"])
                assert node["sampled"] == (node["message"]["role"] == "assistant")
                checked += 1
    assert checked > 100


def test_a_tool_call_is_rendered_as_it_is_told(traces: Path) -> None:
    tokenizer = Tokenizer.from_str(language().tokenizer.files()["tokenizer.json"].decode())
    answers = [
        node
        for episode in iter_episodes(traces)
        for trace in episode.record["traces"]
        for node in trace["nodes"]
        if node["message"].get("tool_calls")
    ]
    assert answers
    for node in answers:
        call = node["message"]["tool_calls"][0]
        text = tokenizer.decode(node["token_ids"], skip_special_tokens=False)
        said = json.loads(text.partition("<tool_call>\n")[2].partition("\n</tool_call>")[0])
        assert said == {"name": call["name"], "arguments": json.loads(call["arguments"])}


def test_annotations_fold_onto_every_sampled_token(traces: Path) -> None:
    shipped = 0
    for episode in iter_episodes(traces):
        for trace in fold_episode(traces, episode.record)["traces"]:
            if not trace["info"].get("effective"):
                continue
            shipped += 1
            for node in trace["nodes"]:
                for stream in ("advantages", "trainer_logprobs", "entropies", "mismatch_kl", "is_masked"):
                    assert len(node.get(stream, [])) == len(node["logprobs"])
                assert set(node.get("advantages", [])) <= {trace["info"]["advantage"]}
    assert shipped > 20


def test_advantages_of_a_group_sum_to_nothing(traces: Path) -> None:
    updates = [line.value for line in jsonl.read_lines(traces / "annotations" / "orch.index.jsonl")[0]]
    group_of = {trace: row["group"] for row in read_index(traces) for trace in row["trace_ids"]}
    sums: dict[str, float] = {}
    for update in updates:
        group = group_of[update["trace_id"]]
        sums[group] = sums.get(group, 0.0) + update["info"]["advantage"]
    assert max(map(abs, sums.values())) < 0.002  # rounded to four decimals
    assert len({update["info"]["ship"]["step"] for update in updates}) == 3


def test_a_task_comes_again_with_the_same_words(traces: Path) -> None:
    asked: dict[tuple[str, str], set[str]] = {}
    for episode in iter_episodes(traces):
        for trace in episode.record["traces"]:
            prompt = next(node["message"]["content"] for node in trace["nodes"] if node["message"]["role"] == "user")
            asked.setdefault((episode.record["env"]["name"], episode.record["task"]["key"]), set()).add(prompt)
    assert all(len(prompts) == 1 for prompts in asked.values())


def test_cohorts_of_an_evaluation_are_bounded() -> None:
    shape = RunShape(kind="eval", steps=1, rollouts=5000, group_size=4, environments=ENVIRONMENTS[:2])
    cohorts = list(eval_cohorts(shape, 1, 0, 0.0, 100.0))
    assert max(cohort.count for cohort in cohorts) <= 256
    assert sum(cohort.count for cohort in cohorts) == 10_000
    begins = [cohort.begin for cohort in cohorts]
    assert begins == sorted(begins)


def test_every_environment_gets_its_share_of_many_steps() -> None:
    shape = RunShape(environments=ENVIRONMENTS, rollouts=16, group_size=8)
    counts = [0, 0, 0]
    for step in range(1, 4):
        cohorts = list(train_cohorts(shape, 1, step, 0.0, 1.0))
        assert sum(cohort.count for cohort in cohorts) == 16
        for cohort in cohorts:
            counts[cohort.environment] += cohort.count
    assert counts == [16, 16, 16]


def without_place(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("offset", "chunk")}
