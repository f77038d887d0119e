import json
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from prl.synth.text import language
from prl.synth.tokenizer import END, SPECIAL_TOKENS, WordTokenizer

ours = language().tokenizer
theirs = Tokenizer.from_str(ours.files()["tokenizer.json"].decode())


@given(st.text())
@example(" dan zirfai\n\nDan  zir " + END + " 语言 🙂 café")
def test_the_library_reads_the_files_and_encodes_the_same(text: str) -> None:
    text = text.encode(errors="replace").decode()
    ids = ours.encode(text)
    assert theirs.encode(text).ids == ids
    assert theirs.decode(ids, skip_special_tokens=False) == text


def test_special_tokens_have_the_ids_that_the_library_gives_them() -> None:
    assert {token: theirs.token_to_id(token) for token in SPECIAL_TOKENS} == ours.special
    assert theirs.get_vocab_size() == ours.size


def test_a_word_after_a_space_is_one_token_and_an_unknown_one_its_longest_beginning() -> None:
    tokenizer = WordTokenizer(["dan"])
    assert len(tokenizer.encode(" dan")) == 1
    assert tokenizer.encode(" dance") == [*tokenizer.encode(" dan"), *b"ce"]
    assert tokenizer.encode("dan") == list(b"dan")


def test_ids_of_a_message_are_those_of_its_parts() -> None:
    message = language().message(123_456, 200)
    text = json.loads(b'"' + message.escaped + b'"')
    ids = json.loads(b"[" + message.listed[:-1] + b"]")
    assert ids == ours.encode(text)
    assert len(ids) == message.tokens
    assert 150 < message.tokens < 250


def test_the_tokenizer_is_written_where_a_run_has_it(tmp_path: Path) -> None:
    ours.write(tmp_path)
    assert Tokenizer.from_file(str(tmp_path / "tokenizer" / "tokenizer.json")).get_vocab_size() == ours.size
    assert json.loads((tmp_path / "tokenizer" / "tokenizer_config.json").read_text())["eos_token"] == END
