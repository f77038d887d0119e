"""The bundled environments and the example, played in this process against an engine that says what it is told."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from verifiers.v1.clients import ModelContext
from verifiers.v1.serve.types import RunRequest
from verifiers.v1.utils.loaders import load_environment

from env_doubles import FakeEngine, run_body
from prl.config.envs import ServeConfig
from prl.envs.seats import resolve_seats
from prl.envs.worker import BUNDLED
from prl.trainer.tiny import byte_tokenizer

EXAMPLES = Path(__file__).parents[1] / "examples"
sys.path[:] = [*sys.path, str(BUNDLED), str(EXAMPLES)]

import guess_number  # noqa: E402 - bundled modules become importable on the line above


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tokenizer")
    byte_tokenizer(512).save_pretrained(directory)
    return directory


@pytest.fixture
def engine() -> Iterator[FakeEngine]:
    with FakeEngine() as engine:
        yield engine


Play = Callable[..., dict[str, Any]]


@pytest.fixture
def play(engine: FakeEngine, tokenizer: Path) -> Play:
    def episode(taskset: dict[str, Any], say: Callable[[str], str], index: int = 0) -> dict[str, Any]:
        engine.say = say
        env = load_environment(resolve_seats({"taskset": taskset}, serve=ServeConfig(), timeout=30.0))
        task = list(env.taskset)[index]
        request = RunRequest.model_validate(run_body(engine, tokenizer, task.data.model_dump()))
        context = ModelContext(client=request.client, model=request.model, sampling=request.sampling)

        async def run() -> dict[str, Any]:
            async with env.serving():
                (slot,) = env.slots(task)
                record: dict[str, Any] = (await env.run_slot(slot, context)).to_record()
                return record

        return asyncio.run(run())

    return episode


def last_user(prompt: str) -> str:
    """The last user message of a rendered ChatML prompt (special tokens are no bytes, so only their words are left)."""
    return prompt.rpartition("user\n")[2].partition("\n")[0]


def test_reversing_a_word_right_scores_one(play: Play) -> None:
    record = play({"id": "reverse-text"}, lambda prompt: last_user(prompt)[::-1])

    (trace,) = record["traces"]
    assert record["ok"]
    assert trace["rewards"] == {"similarity": {"score": 1.0, "weight": 1.0}}
    assert trace["metrics"] == {"exact": 1.0}
    word = trace["task"]["data"]["prompt"]
    assert trace["nodes"][0]["message"]["content"] == word
    assert trace["nodes"][-1]["message"]["content"] == word[::-1]


def test_half_a_word_scores_by_similarity(play: Play) -> None:
    record = play({"id": "reverse-text", "min_letters": 6, "max_letters": 6}, lambda prompt: last_user(prompt)[:2:-1])

    # Three matching characters out of three and six: 2 * 3 / 9.
    assert record["traces"][0]["rewards"]["similarity"]["score"] == pytest.approx(2 / 3)


def test_words_are_drawn_as_configured() -> None:
    def words(**config: Any) -> list[str]:
        block = {"taskset": {"id": "reverse-text", **config}}
        taskset = load_environment(resolve_seats(block, serve=ServeConfig(), timeout=30.0)).taskset
        return [task.data.prompt for task in taskset]

    drawn = words()
    assert len(drawn) == 4096
    assert {len(word) for word in drawn} == {5, 6, 7, 8, 9, 10}
    assert all(word.isascii() and word.isalpha() and word.islower() for word in drawn)
    assert drawn == words()
    assert words(num_tasks=8) == drawn[:8]
    assert words(num_tasks=8, seed=1) != drawn[:8]
    with pytest.raises(ValueError, match="min_letters = 9, max_letters = 3"):
        words(min_letters=9, max_letters=3)


def test_a_number_is_found_by_halving(play: Play) -> None:
    bounds = [1, 20]

    def halve(prompt: str) -> str:
        heard, middle = last_user(prompt), sum(bounds) // 2
        if heard == "higher":
            bounds[0] = middle + 1
        elif heard == "lower":
            bounds[1] = middle - 1
        return str(sum(bounds) // 2)

    record = play({"id": "guess-number"}, halve)

    (trace,) = record["traces"]
    assert (record["ok"], trace["stop_condition"]) == (True, "user_closed")
    guesses = int(trace["metrics"]["guesses"])
    assert 1 <= guesses <= 5, "halving finds any of 20 numbers in five guesses"
    assert trace["rewards"]["found"]["score"] == 1.0 - 0.5 * (guesses - 1) / 4
    assert trace["nodes"][0]["message"]["content"] == "1-20?"
    leaves = set(range(len(trace["nodes"]))) - {node.get("parent") for node in trace["nodes"]}
    assert len(leaves) == 1, "turns extend each other, so the game is one training sample"


def test_what_is_no_guess_is_asked_again_until_the_turns_are_used_up(play: Play) -> None:
    (trace,) = play({"id": "guess-number", "max_guesses": 3}, lambda prompt: "hm")["traces"]

    assert trace["metrics"] == {"guesses": 3.0, "unparsable": 3.0}
    assert trace["rewards"]["found"]["score"] == 0.0
    assert [node["message"]["content"] for node in trace["nodes"]] == ["1-20?", "hm", "number?", "hm", "number?", "hm"]


@given(st.text(max_size=30), st.integers(1, 100))
def test_any_reply_is_answered(reply: str, target: int) -> None:
    assert guess_number.answer(reply, target) in {"number?", "higher", "lower", "correct"}
    assert guess_number.answer(f"I say {target}.", target) == "correct"


@given(st.integers(1, 20), st.data())
def test_sooner_is_better_and_found_is_better_than_not(most: int, data: st.DataObject) -> None:
    guesses = data.draw(st.integers(1, most))
    score = guess_number.score(True, guesses, most)

    assert 0.5 <= score <= 1.0
    assert guess_number.score(False, guesses, most) == 0.0
    assert guesses == most or score > guess_number.score(True, guesses + 1, most)


def test_the_example_of_an_own_environment_plays(play: Play) -> None:
    right = play({"id": "my-env"}, lambda prompt: "".join(sorted(last_user(prompt))))
    wordy = play({"id": "my-env"}, lambda prompt: "".join(sorted(last_user(prompt))) * 2)

    assert right["traces"][0]["rewards"]["in_place"]["score"] == 1.0
    assert wordy["traces"][0]["rewards"]["in_place"]["score"] == 0.5
