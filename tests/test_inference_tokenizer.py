"""Tokenizer and chat template give what transformers gives for the same directory."""

import json
import shutil
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from prl.inference.tokenizer import ChatTemplateError, Tokenizer, TokenizerError
from prl.trainer.tiny import byte_tokenizer

MESSAGES = [
    {"role": "system", "content": "Reverse, please."},
    {"role": "user", "content": "<b>Grüße</b> & \n\n  tabs\t"},
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer")
    byte_tokenizer(512).save_pretrained(path)
    return path


@pytest.fixture
def copy(directory: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(directory, tmp_path / "copy"))


def set_template(directory: Path, template: object) -> Path:
    (directory / "chat_template.jinja").unlink(missing_ok=True)
    path = directory / "tokenizer_config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "chat_template": template}))
    return directory


def test_text_goes_to_ids_and_back(directory: Path) -> None:
    tokenizer = Tokenizer(directory)
    ids = tokenizer.encode("abc é<|im_end|>", add_special_tokens=True)
    assert ids == [97, 98, 99, 32, 0xC3, 0xA9, 258]
    assert tokenizer.decode(ids, skip_special_tokens=True) == "abc é"
    assert tokenizer.decode(ids, skip_special_tokens=False) == "abc é<|im_end|>"
    assert tokenizer.decode([97, 100_000], skip_special_tokens=True) == "a"


TEMPLATES = [
    None,
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}\n"
    "    [{{ m.role|upper }}] {{ m.content|trim }}{{ m|tojson }}\n"
    "{% endfor %}{% if add_generation_prompt %}>{% endif %}{{ eos_token }}",
    "{% set ns = namespace(n=0) %}"
    "{% for m in messages %}{% set ns.n = ns.n + 1 %}{{ ns.n }}{{ m.content }}{% endfor %}",
]


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("generation_prompt", [True, False])
def test_chats_are_written_as_transformers_writes_them(
    copy: Path, template: str | None, generation_prompt: bool
) -> None:
    if template is not None:
        set_template(copy, template)
    reference = AutoTokenizer.from_pretrained(copy)
    # transformers leaves an undefined token out of the variables; jinja2 writes it as nothing.
    expected = reference.apply_chat_template(MESSAGES, add_generation_prompt=generation_prompt)["input_ids"]
    assert Tokenizer(copy).encode_chat(MESSAGES, add_generation_prompt=generation_prompt) == expected


def test_variables_reach_the_template_and_named_templates_have_a_default(copy: Path) -> None:
    entries = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "{{ enable_thinking }}"}]
    tokenizer = Tokenizer(set_template(copy, entries))
    assert tokenizer.encode_chat(MESSAGES, variables={"enable_thinking": False}) == list(b"False")


def test_a_template_that_refuses_or_reaches_for_python_is_an_error(copy: Path) -> None:
    tokenizer = Tokenizer(set_template(copy, "{{ raise_exception('roles must alternate') }}"))
    with pytest.raises(ChatTemplateError, match="roles must alternate"):
        tokenizer.encode_chat(MESSAGES)
    tokenizer = Tokenizer(set_template(copy, "{{ messages.__class__.__mro__ }}"))
    with pytest.raises(ChatTemplateError, match="unsafe"):
        tokenizer.encode_chat(MESSAGES)
    tokenizer = Tokenizer(set_template(copy, None))
    with pytest.raises(ChatTemplateError, match="no chat template"):
        tokenizer.encode_chat(MESSAGES)


def test_directories_without_a_usable_tokenizer_are_refused(copy: Path) -> None:
    with pytest.raises(TokenizerError, match="its chat template is not valid"):
        Tokenizer(set_template(copy, "{% for"))
    (copy / "tokenizer.json").write_text("{}")
    with pytest.raises(TokenizerError, match=r"tokenizer\.json"):
        Tokenizer(copy)
    (copy / "tokenizer.json").unlink()
    with pytest.raises(TokenizerError, match=r"tokenizer\.json: no such file"):
        Tokenizer(copy)
