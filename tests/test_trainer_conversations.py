"""Which tokens of a conversation are learned, in which order they are seen, and what is refused."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.trainer.conversations import DataError, load_conversations, pack_greedily, sample_indices
from prl.trainer.tiny import byte_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return byte_tokenizer(512)


def write(path: Path, *conversations: object) -> Path:
    path.write_text("".join(json.dumps(conversation) + "\n" for conversation in conversations))
    return path


def chat(*turns: tuple[str, str]) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": content} for role, content in turns]}


def learned(tokenizer: Any, conversation: Any) -> str:
    return str(tokenizer.decode(conversation.token_ids[conversation.loss_mask]))


def test_learned_are_the_assistants_words_and_the_token_that_ends_them(tokenizer: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "d.jsonl", chat(("user", "ab"), ("assistant", "bä")), chat(("assistant", "x")))
    conversations, cut = load_conversations(path, tokenizer, 100)
    assert cut == 0
    assert [learned(tokenizer, c) for c in conversations] == ["bä<|im_end|>", "x<|im_end|>"]
    assert tokenizer.decode(conversations[1].token_ids) == "<|im_start|>assistant\nx<|im_end|>\n"


def test_every_assistant_turn_is_learned_and_no_other(tokenizer: Any, tmp_path: Path) -> None:
    turns = [("system", "s"), ("user", "a"), ("assistant", "one"), ("user", "b"), ("assistant", "two")]
    (conversation,), _ = load_conversations(write(tmp_path / "d.jsonl", chat(*turns)), tokenizer, 200)
    assert learned(tokenizer, conversation) == "one<|im_end|>two<|im_end|>"


def test_a_long_conversation_is_cut_and_counted(tokenizer: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "d.jsonl", chat(("user", "a"), ("assistant", "b" * 50)), chat(("assistant", "c")))
    conversations, cut = load_conversations(path, tokenizer, 24)
    assert cut == 1
    assert [len(c.token_ids) for c in conversations] == [24, 14]


def test_a_template_that_rewrites_earlier_turns_is_refused(tmp_path: Path) -> None:
    changing = byte_tokenizer(512)
    changing.chat_template = "{{ messages|length }}{% for m in messages %}{{ m.content }}{% endfor %}"
    path = write(tmp_path / "d.jsonl", chat(("user", "a"), ("assistant", "b")))
    with pytest.raises(DataError, match="conversation 1: the chat template renders message 2 differently"):
        load_conversations(path, changing, 100)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "line 2: not"),
        ('{"prompt": "a"}', "line 2: not"),
        ('{"messages": [{"role": "user", "content": "a"}]}', "line 2: needs an assistant message"),
        ('{"messages": [{"role": "assistant", "content": null}]}', "line 2: needs an assistant message, and text"),
    ],
)
def test_a_wrong_line_is_named(tokenizer: Any, tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text(json.dumps(chat(("assistant", "x"))) + "\n" + line + "\n")
    with pytest.raises(DataError, match=reason):
        load_conversations(path, tokenizer, 100)


def test_no_data_is_refused(tokenizer: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        load_conversations(tmp_path / "none.jsonl", tokenizer, 100)
    (tmp_path / "empty.jsonl").write_text("\n\n")
    with pytest.raises(DataError, match="holds no conversation"):
        load_conversations(tmp_path / "empty.jsonl", tokenizer, 100)


@given(st.integers(1, 20), st.integers(1, 15), st.integers(0, 3), st.integers(1, 6))
def test_every_epoch_sees_every_conversation_once_however_batches_fall(
    count: int, batch: int, seed: int, epochs: int
) -> None:
    total = count * epochs
    seen = [i for first in range(0, total, batch) for i in sample_indices(first, batch, count, seed)][:total]
    for epoch in range(epochs):
        assert sorted(seen[epoch * count : (epoch + 1) * count]) == list(range(count))


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = [sample_indices(first, 30, 30, seed) for first, seed in ((0, 0), (30, 0), (0, 1))]
    assert len({tuple(order) for order in orders}) == 3
    assert orders[0] == sample_indices(0, 30, 30, 0)


@given(st.lists(st.integers(1, 10), min_size=1, max_size=30))
def test_packing_keeps_order_and_capacity(lengths: list[int]) -> None:
    groups = pack_greedily(lengths, 10)
    assert [place for group in groups for place in group] == list(range(len(lengths)))
    assert max(sum(lengths[place] for place in group) for group in groups) <= 10
    # Neighbours would not have fitted together, or the first fit of the second would be in the first.
    for left, right in itertools.pairwise(groups):
        assert sum(lengths[place] for place in left) + lengths[right[0]] > 10


def test_offsets_of_multi_byte_characters_stay_inside_the_turn(tokenizer: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "d.jsonl", chat(("user", "日本"), ("assistant", "日"), ("user", "€"), ("assistant", "€é")))
    (conversation,), _ = load_conversations(path, tokenizer, 200)
    assert learned(tokenizer, conversation) == "日<|im_end|>€é<|im_end|>"
    assert conversation.loss_mask.dtype == np.bool_
