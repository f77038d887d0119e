"""From a model's name to a directory."""

from pathlib import Path

import pytest

from launch_stand_ins import make_model
from prl.inference.architecture import FAMILIES
from prl.launch.exits import CONFIGURATION, RefusedError
from prl.launch.model import ARCHITECTURES, copy_tokenizer, resolve_model


def refusal(name: str) -> str:
    with pytest.raises(RefusedError) as refused:
        resolve_model(name)
    assert refused.value.exit_code == CONFIGURATION
    return str(refused.value)


def test_a_directory_is_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    assert resolve_model("model") == resolve_model(str(model)) == model


@pytest.mark.parametrize(
    ("absent", "named"),
    [("config.json", "no config.json"), ("tokenizer.json", "no tokenizer"), ("model.safetensors", "no weights")],
)
def test_what_a_directory_lacks_is_named(tmp_path: Path, absent: str, named: str) -> None:
    model = make_model(tmp_path / "model")
    (model / absent).unlink()
    message = refusal(str(model))
    assert named in message
    assert str(model) in message


def test_an_index_must_find_its_shards(tmp_path: Path) -> None:
    model = make_model(tmp_path / "model")
    index = model / "model.safetensors.index.json"
    index.write_text('{"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}')
    assert "model-2.safetensors" in refusal(str(model))
    index.write_text("[]")
    assert "model.safetensors.index.json" in refusal(str(model))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "is not JSON"),
        ("[]", "architectures = None"),
        ("{}", "architectures = None"),
        ('{"architectures": []}', "architectures = []"),
        ('{"architectures": ["MambaForCausalLM"]}', "['MambaForCausalLM']; supported are LlamaForCausalLM"),
    ],
)
def test_a_model_that_cannot_be_trained_here(tmp_path: Path, content: str, told: str) -> None:
    model = make_model(tmp_path / "model")
    (model / "config.json").write_text(content)
    message = refusal(str(model))
    assert f"model.name = {str(model)!r}" in message
    assert told in message


def test_the_engine_runs_what_the_launcher_lets_through() -> None:
    assert set(ARCHITECTURES) == set(FAMILIES)


@pytest.mark.parametrize("name", ["./absent", "/absent/model", "a/b/c", "absent"])
def test_a_path_that_is_not_there(name: str) -> None:
    assert "no such directory" in refusal(name)


def test_a_name_that_was_never_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    message = refusal("made-up-org/made-up-model")
    assert "hf download made-up-org/made-up-model" in message


def test_the_tokenizer_alone_is_copied_and_never_replaced(tmp_path: Path) -> None:
    model, target = make_model(tmp_path / "model"), tmp_path / "run" / "tokenizer"
    copy_tokenizer(model, target)
    assert sorted(path.name for path in target.iterdir()) == ["tokenizer.json", "tokenizer_config.json"]
    (model / "tokenizer.json").write_text('{"other": 1}')
    copy_tokenizer(model, target)
    assert (target / "tokenizer.json").read_text() == "{}"
    assert [path.name for path in target.parent.iterdir()] == ["tokenizer"]
