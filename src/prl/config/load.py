"""From a command line to a validated configuration: ``rl @ a.toml @ b.toml --orchestrator.batch_size 64``.

The syntax is that of prime-pydantic-config. Errors are printed to standard error with key, value and what is allowed;
the library raises its own error for some of them and lets through whatever the file or the parser below it raised.
"""

import codecs
import difflib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_config import ConfigFileError, cli

USAGE_EXIT = os.EX_USAGE
"""Exit status of a command that was configured wrongly."""

Config = TypeVar("Config", bound=BaseModel)


class _UnreadableError(Exception):
    """A word or a file of the command line cannot be read. The message says which and why."""


def load_config(cls: type[Config], args: Sequence[str] | None = None, *, prog: str, description: str = "") -> Config:
    """Parse ``args`` (default: the process's) into ``cls``. Raises ``SystemExit(64)`` with a message when it cannot."""
    given = list(sys.argv[1:] if args is None else args)
    try:
        _check_words(given)
        # Its overloads leave out prog and description, which the implementation takes.
        return cli(cls, args=given, prog=prog, description=description or None)  # type: ignore[call-overload, no-any-return]
    except _UnreadableError as error:
        problem = str(error)
    except ConfigFileError as error:
        cause = error.__cause__
        problem = _invalid(cls, cause) if isinstance(cause, ValidationError) else str(error)
    except json.JSONDecodeError as error:
        problem = f"{_key_of(given, error.doc)}{error.doc}: not JSON ({error})"
    except (OSError, ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
        problem = f"the configuration cannot be put together ({type(error).__name__}: {error})"
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise SystemExit(USAGE_EXIT) from None
    print(f"{prog}: {problem}\n{prog}: nothing was started. `{prog} --help` lists every key.", file=sys.stderr)
    raise SystemExit(USAGE_EXIT)


def _check_words(args: Sequence[str]) -> None:
    """Raise _UnreadableError for a word that is no text and for a file that cannot be read as text."""
    for word in args:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise _UnreadableError(f"{word!r}: not UTF-8 text") from None
    for path in _files(args):
        _check_file(path)


def _files(args: Sequence[str]) -> Iterator[Path]:
    """Files that are given as ``@ file``, ``--key @ file`` and ``--key @file``."""
    for before, word in zip(["", *args], args, strict=False):
        if before == "@":
            yield Path(word)
        elif before.startswith("--") and word.startswith("@") and len(word) > 1:
            yield Path(word[1:])


def _check_file(path: Path) -> None:
    try:
        # A pipe can be read only once; that is left to the reader.
        data = path.read_bytes() if path.exists() and not path.is_fifo() else b""
        if path.suffix != ".json" and data.startswith(codecs.BOM_UTF8):
            raise _UnreadableError(f"{path}: starts with a byte order mark; save it as UTF-8 without one")
        if path.suffix == ".json":
            table = json.loads(data) if data else {}
            if not isinstance(table, dict):
                raise _UnreadableError(f"{path}: must be one JSON object, not {type(table).__name__}")
        data.decode(json.detect_encoding(data) if path.suffix == ".json" else "utf-8")
    except OSError as error:
        raise _UnreadableError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise _UnreadableError(f"{path} line {line}: not UTF-8 text ({error.reason})") from None
    except RecursionError:
        raise _UnreadableError(f"{path}: nested too deeply") from None
    except ValueError as error:  # of JSON, or a path that holds a null byte
        raise _UnreadableError(f"{path}: {error}") from None


def _key_of(args: Sequence[str], value: str) -> str:
    """The flag that was given ``value``, with a space behind it."""
    return next((f"{key} " for key, word in pairwise(args) if word == value), "")


def _invalid(cls: type[BaseModel], error: ValidationError) -> str:
    """What the models refuse, a line for each key, with a likely name where a key is unknown."""
    lines = []
    for detail in error.errors():
        key = _flag(detail["loc"])
        given = detail["input"]
        shown = "" if given is None or isinstance(given, (dict, list, BaseModel)) else f" (got {given!r})"
        hint = _likely_key(cls, detail["loc"]) if detail["type"] == "extra_forbidden" else ""
        lines.append(f"  {key}: {detail['msg']}{shown}{hint}")
    return "\n".join(["the configuration is refused:", *lines])


def _flag(loc: Sequence[str | int]) -> str:
    """``("orchestrator", "train", "source", 0, "env")`` as ``--orchestrator.train.source[0].env``."""
    words = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return f"--{words.removeprefix('.')}" if words else "all keys together"


def _likely_key(cls: type[BaseModel], loc: Sequence[str | int]) -> str:
    """``; did you mean `--key`?`` for an unknown key that resembles one of its model, else nothing."""
    *above, unknown = loc
    models = [cls]
    for part in above:
        fields = [model.model_fields[part] for model in models if isinstance(part, str) and part in model.model_fields]
        # An index, or the tag of a union, names no field: the models stay.
        models = [found for field in fields for found in _models_in(field.annotation)] or models
    names = {name for model in models for name in model.model_fields}
    near = difflib.get_close_matches(str(unknown).replace("-", "_"), names, n=1)
    return f"; did you mean `{_flag([*above, near[0]])}`?" if near else ""


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """The models that an annotation is of, through unions and containers."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]
