"""The text of tokens: our decoder against the library, and which tokenizer is a run's."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from prl.rundir.tokens import text as module
from prl.rundir.tokens.decoder import TokenDecoder, UnknownFormError
from prl.rundir.tokens.text import token_text

CORPUS = [
    "the quick brown fox, don't say it 's over . café 😀 naïve 日本語 text",
    "hello world  double  spaces\n\nlines",
]


def byte_level() -> Any:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=330, initial_alphabet=alphabet, special_tokens=["<|end|>", "<of two words>"]
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens([AddedToken("日本", special=False)])
    return tokenizer


def fallback() -> Any:
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    special = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=320, special_tokens=special))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


def metaspace() -> Any:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=80, unk_token="<unk>", special_tokens=["<unk>"])
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def word_piece() -> Any:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Whitespace(), decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=90, special_tokens=["[UNK]", "do not"])
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def words() -> Any:
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(CORPUS, trainers.WordLevelTrainer(special_tokens=["[UNK]"]))
    return tokenizer


def word_ends() -> Any:
    tokenizer = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Whitespace(), decoders.BPEDecoder()
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=90, end_of_word_suffix="</w>"))
    return tokenizer


LIBRARY = {make.__name__: make() for make in (byte_level, fallback, metaspace, word_piece, words, word_ends)}
OURS = {name: TokenDecoder(json.loads(tokenizer.to_str())) for name, tokenizer in LIBRARY.items()}


@pytest.mark.parametrize("name", LIBRARY)
@given(ids=st.lists(st.integers(0, 340), max_size=12))
def test_any_ids_decode_as_by_the_library(name: str, ids: list[int]) -> None:
    parts = OURS[name].parts(ids)
    assert len(parts) == len(ids)
    assert "".join(parts) == OURS[name].text(ids) == LIBRARY[name].decode(ids, skip_special_tokens=False)


@pytest.mark.parametrize("name", ["byte_level", "fallback"])
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=12), cut=st.integers(0, 40))
def test_a_text_comes_back(name: str, text: str, cut: int) -> None:
    ids = LIBRARY[name].encode(text).ids
    decoded = LIBRARY[name].decode(ids, skip_special_tokens=False)
    assert OURS[name].text(ids) == decoded
    if name == "byte_level":
        assert decoded == text


def test_a_character_cut_over_tokens_belongs_to_the_one_that_completes_it() -> None:
    decoder = OURS["byte_level"]
    ids = [LIBRARY["byte_level"].token_to_id(piece) for piece in "ðŁĺĢ!"]
    assert decoder.parts(ids) == ["", "", "", "😀", "!"]
    assert decoder.parts(ids[:3]) == ["", "", "\N{REPLACEMENT CHARACTER}"], "never completed"
    token = LIBRARY["fallback"].token_to_id
    ids = [token("<0xC3>"), token("<0xB6>"), token("<0xFF>")]
    assert OURS["fallback"].parts(ids[:2]) == ["", "ö"]
    assert OURS["fallback"].parts(ids) == ["\N{REPLACEMENT CHARACTER}"] * 3, "one bad byte spoils its run"


def test_a_message_in_the_middle_keeps_its_leading_space() -> None:
    ids = LIBRARY["fallback"].encode("hello").ids
    assert OURS["fallback"].text(ids) == "hello"
    assert "".join(OURS["fallback"].parts(ids, begins=False)) == " hello"
    ids = LIBRARY["metaspace"].encode("hello").ids
    assert "".join(OURS["metaspace"].parts(ids, begins=False)) == " hello"


def test_special_tokens_are_known_and_unknown_ids_say_nothing() -> None:
    decoder = OURS["byte_level"]
    end = LIBRARY["byte_level"].token_to_id("<|end|>")
    assert end in decoder.special
    assert LIBRARY["byte_level"].token_to_id("日本") not in decoder.special
    assert decoder.parts([end, 99_999, -1]) == ["<|end|>", "", ""]
    assert decoder.piece(end) == "<|end|>"


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["model", "vocab", "type", "decoder", "decoders", "added_tokens", "content", "id"]), inner
        )
    ),
    max_leaves=10,
)


@given(ANY, ANY)
def test_files_of_any_form_are_refused_or_decoded(value: Any, decoder: Any) -> None:
    for tokenizer in (value, {"model": {"vocab": {"a": 0, "b": 1}}, "decoder": decoder, "added_tokens": value}):
        try:
            made = TokenDecoder(tokenizer)
        except UnknownFormError:
            continue
        assert "".join(made.parts([0, 1, 2])) == made.text([0, 1, 2])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty model cache."""
    for name in ("HF_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def put(directory: Path, content: str | None = None) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "tokenizer.json").write_text(LIBRARY["words"].to_str() if content is None else content)
    return directory


def put_config(run: Path, model: str) -> None:
    resolved = run / "configs" / "attempt_1" / "resolved"
    resolved.mkdir(parents=True, exist_ok=True)
    (resolved / "trainer.json").write_text(json.dumps({"model": {"name": model}}))


def put_cached(home: Path, model: str, revision: str) -> None:
    repository = home / "hub" / f"models--{model.replace('/', '--')}"
    put(repository / "snapshots" / revision)
    (repository / "refs").mkdir(exist_ok=True)
    (repository / "refs" / "main").write_text(revision)


def test_where_a_tokenizer_is_looked_for(tmp_path: Path, home: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    found = token_text(run)
    assert (found.decoder, found.origin, found.parts([1]), found.text([1])) == (None, None, None, None)
    assert found.reason is not None
    assert "no configuration names its model" in found.reason
    put_config(run, "org/small")
    assert "org/small" in str(token_text(run).reason)
    sources: list[tuple[Callable[[], Any], str]] = [
        (lambda: put_cached(home, "org/small", "abc"), "the model cache (org/small)"),
        (lambda: put(run / "broadcasts" / "step_7"), "broadcasts/step_7"),
        (lambda: put(run / "weights" / "step_9"), "weights/step_9"),
        (lambda: put(run / "checkpoints" / "step_3"), "checkpoints/step_3"),
        (lambda: put(run / "checkpoints" / "step_10" / "trainer"), "checkpoints/step_10/trainer"),
        (lambda: put(run / "tokenizer"), "the run"),
    ]
    for make, origin in sources:
        make()
        found = token_text(run)
        assert (found.origin, found.reason) == (origin, None)
        assert found.text([1, 2])
    given_one = put(tmp_path / "mine")
    assert token_text(run, given_one).origin == "given"
    assert token_text(run, tmp_path).reason == f"{tmp_path} has no tokenizer.json"
    assert token_text(None).reason == "the run directory is not known"


def test_a_malformed_file_is_passed_over_with_its_reason(tmp_path: Path, home: Path) -> None:
    run = tmp_path / "run"
    for content in ("{", "[1]", '{"model":{}}', "\0", '{"model":{"vocab":{"a":0}},"decoder":{"type":"CTC"}}'):
        put(run / "tokenizer", content)
        found = token_text(run)
        assert found.decoder is None
        assert "tokenizer.json" in str(found.reason)
    put(run / "weights" / "step_1")
    assert token_text(run).origin == "weights/step_1"


@pytest.mark.parametrize("model", ["../../etc", "/etc", "org/../x", "a/b/c", ".hidden/x", "a\0b"])
def test_a_model_name_never_leads_out_of_the_cache(tmp_path: Path, home: Path, model: str) -> None:
    put_config(tmp_path / "run", model)
    assert token_text(tmp_path / "run").decoder is None


def test_a_link_that_leaves_the_run_is_not_followed(tmp_path: Path, home: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "tokenizer").symlink_to(put(tmp_path / "elsewhere"))
    assert token_text(run).decoder is None
    put(run / "kept")
    (run / "tokenizer").unlink()
    (run / "tokenizer").symlink_to("kept")
    assert token_text(run).origin == "the run"


def test_a_file_is_read_once_while_it_stays_as_it_is(tmp_path: Path, home: Path) -> None:
    run = tmp_path / "run"
    file = put(run / "tokenizer") / "tokenizer.json"
    first = token_text(run).decoder
    assert token_text(run).decoder is first
    file.write_text(LIBRARY["byte_level"].to_str())
    os.utime(file, ns=(1, 1))
    assert token_text(run).decoder is not first


def test_a_form_unknown_here_is_left_to_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tokenizers import Regex

    tokenizer = byte_level()
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Replace(Regex("[xX]"), "y")])
    with pytest.raises(UnknownFormError):
        TokenDecoder(json.loads(tokenizer.to_str()))
    ids = tokenizer.encode("xylo 😀 X").ids
    found = token_text(None, put(tmp_path / "given", tokenizer.to_str()))
    assert found.text(ids) == "yylo 😀 y"
    assert "".join(found.parts(ids) or []) == "yylo 😀 y"
    assert "".join(found.parts(ids[:-3]) or []) == found.text(ids[:-3])
    assert found.decoder is not None
    assert tokenizer.token_to_id("<|end|>") in found.decoder.special
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    module._loaded.clear()
    assert "extra 'tokens'" in str(token_text(None, tmp_path / "given").reason)
