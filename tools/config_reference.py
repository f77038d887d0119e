"""Write ``docs/configuration.md`` from the configuration models: every key with its type, default and meaning.

    python tools/config_reference.py          (make docs)

A test compares the page with what this prints, so that no key goes undocumented.
"""

import ast
import inspect
import textwrap
import types
import typing
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from prl.config import EnvServerConfig, InferenceConfig, RLConfig, SFTConfig

PAGE = Path(__file__).parent.parent / "docs" / "configuration.md"
HEAD = """\
# Configuration

Every key of the commands that take a configuration. `make docs` writes this page from the models in `prl.config`.

Files and command line compose: `rl @ a.toml @ b.toml --orchestrator.batch_size 64`. Later files win over earlier ones
and the command line wins over all; tables merge, lists are replaced whole. `--block` alone turns an optional table on
with its defaults, `--no-block` turns it off, `None` is null. Unknown keys, wrong types and contradictions are refused
with exit status 64 before anything starts. Times are seconds.

Values given at the top of `rl` (`max_steps`, `seq_len`, `model`, `ckpt`, `resume`, `monitors`, `weight_broadcast`,
`rollout_transport`, `log`) fill the same keys of the components; a component that was given another value is a
contradiction.
"""
COMMANDS: dict[str, type[BaseModel]] = {
    "rl": RLConfig,
    "sft": SFTConfig,
    "env-server": EnvServerConfig,
    "inference": InferenceConfig,
}


def meanings(model: type[BaseModel]) -> dict[str, str]:
    """The string below each field, where there is one, base classes included."""
    found: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if not issubclass(cls, BaseModel) or cls.__module__.split(".")[0] != "prl":
            continue
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
        assert isinstance(definition, ast.ClassDef)
        for field, text in zip(definition.body, definition.body[1:], strict=False):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                    found[name] = " ".join(said.split())
    return found


def models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in typing.get_args(annotation) for model in models_in(part)]


def type_name(annotation: Any) -> str:
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return type_name(args[0])
    if origin is typing.Literal:
        return ", ".join(f"`{value}`" for value in args)
    if origin in (typing.Union, types.UnionType):
        return " or ".join("none" if part is type(None) else type_name(part) for part in args)
    if origin in (list, dict):
        return f"{origin.__name__} of {type_name(args[-1])}"
    if models_in(annotation):
        return "table"
    return {"Path": "path", "str": "text", "Any": "anything"}.get(annotation.__name__, annotation.__name__)


def default_of(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default_factory is not None:
        made = field.get_default(call_default_factory=True)
        environment = {"output_dir": "`$PRL_OUTPUT_DIR` or `outputs`", "level": "`$PRIME_LOG_LEVEL` or `info`"}
        named = getattr(field.default_factory, "__name__", "")
        return environment.get(named.removeprefix("default_").replace("log_level", "level"), f"`{made!r}`")
    if field.default is PydanticUndefined or isinstance(field.default, BaseModel):
        return ""
    return "none" if field.default is None else f"`{field.default}`" if field.default != "" else ""


def limits_of(field: FieldInfo) -> str:
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    found = [f"{sign} {getattr(m, name)}" for m in field.metadata for name, sign in signs.items() if hasattr(m, name)]
    return f" ({', '.join(found)})" if found else ""


def rows(model: type[BaseModel], prefix: str = "") -> list[str]:
    said = meanings(model)
    lines = []
    for name, field in model.model_fields.items():
        key = f"{prefix}{name}"
        inner = models_in(field.annotation)
        listed = typing.get_origin(field.annotation) is list
        text = said.get(name, "")
        kind = type_name(field.annotation)
        if kind != "table" or text:
            lines.append(f"| `{key}` | {kind}{limits_of(field)} | {default_of(field)} | {text.replace('``', '`')} |")
        for part in inner:
            label = f"{key}[]." if listed else f"{key}."
            nested = rows(part, label)
            if len(inner) > 1:  # a choice among tables: each names its type
                tag = part.model_fields["type"].default
                nested = [row.replace("| `", f"| {tag}: `", 1) for row in nested]
            lines += nested
    return lines


def page() -> str:
    parts = [HEAD]
    for command, model in COMMANDS.items():
        about = (model.__doc__ or "").strip().splitlines()[0].replace("``", "`")
        parts.append(f"\n## `{command}`\n\n{about}\n\n| key | type | default | meaning |\n| --- | --- | --- | --- |")
        parts += rows(model)
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"{PAGE.name}: {page().count('| `')} keys")
