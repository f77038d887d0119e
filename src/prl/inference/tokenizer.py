"""Text to token ids and back, and chat messages to a prompt, from the files of a model directory.

``tokenizers`` and jinja2 do the work; transformers' wrapper around both would triple the start-up time. Chat templates
come from the model's author: they render in a sandbox without access to Python objects.
"""

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import Template, TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer as FastTokenizer


class TokenizerError(ValueError):
    """A tokenizer that cannot be loaded, with the file concerned."""


class ChatTemplateError(ValueError):
    """Messages that the chat template refuses, or a template that fails on them."""


class Tokenizer:
    """The tokenizer of one model directory."""

    def __init__(self, directory: Path) -> None:
        path = directory / "tokenizer.json"
        if not path.is_file():
            raise TokenizerError(f"{path}: no such file. A model directory needs its tokenizer beside the weights")
        try:
            self._tokenizer = FastTokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain Exception
            raise TokenizerError(f"{path}: {error}") from error
        # Padding or truncation saved with the tokenizer are for training batches: a prompt is encoded as it is.
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        config = _read_config(directory / "tokenizer_config.json")
        self._special = _special_tokens(config)
        self._template = _chat_template(directory, config)

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Token ids of ``text``."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids
        return ids

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        """Text of ``token_ids``. Ids beyond the tokenizer's (a padded embedding) give nothing."""
        return self._tokenizer.decode(list(token_ids), skip_special_tokens=skip_special_tokens)

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        variables: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """Token ids of a conversation as the model's chat template writes it. Raises ChatTemplateError.

        ``variables`` are handed to the template (``chat_template_kwargs`` of a request).
        """
        if self._template is None:
            raise ChatTemplateError("the model has no chat template; use /v1/completions")
        try:
            text = self._template.render(
                **{**self._special, "tools": None, "documents": None, **(variables or {})},
                messages=messages,
                add_generation_prompt=add_generation_prompt,
            )
        except (TemplateError, TypeError, ValueError, KeyError, AttributeError) as error:
            raise ChatTemplateError(f"the chat template failed: {error}") from error
        return self.encode(text, add_special_tokens=False)


def _read_config(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise TokenizerError(f"{path}: {error}") from error
    return content if isinstance(content, dict) else {}


def _special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """The tokens that templates refer to by name, such as ``bos_token``."""
    tokens = {}
    for name, value in config.items():
        content = value.get("content") if isinstance(value, dict) else value
        if name.endswith("_token") and isinstance(content, str):
            tokens[name] = content
    return tokens


def _chat_template(directory: Path, config: Mapping[str, Any]) -> Template | None:
    path = directory / "chat_template.jinja"
    source: Any = path.read_text(encoding="utf-8") if path.is_file() else config.get("chat_template")
    if isinstance(source, list):
        named = {entry.get("name"): entry.get("template") for entry in source if isinstance(entry, dict)}
        source = named.get("default")
    if not isinstance(source, str):
        return None
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda form: dt.datetime.now().astimezone().strftime(form)
    environment.filters["tojson"] = _to_json
    try:
        return environment.from_string(source)
    except TemplateError as error:
        raise TokenizerError(f"{directory}: its chat template is not valid: {error}") from error


def _raise_exception(message: str) -> NoReturn:
    """What templates call to refuse messages."""
    raise TemplateError(message)


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None) -> str:
    """Plain JSON: jinja2's own filter escapes HTML, which no model was trained on."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)
