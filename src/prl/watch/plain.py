"""Dataclasses out of plain JSON values, checked against their annotations."""

import dataclasses
import types
import typing
from typing import Any, TypeVar


class PlainError(ValueError):
    """A value that its annotation does not allow, with its place."""


_T = TypeVar("_T")


def build(cls: type[_T], raw: object, where: str) -> _T:
    """A dataclass from a JSON object. Unknown fields are ignored. Raises :class:`PlainError` with the place."""
    if not isinstance(raw, dict):
        raise PlainError(f"{where}: an object was expected, not {type(raw).__name__}")
    hints = typing.get_type_hints(cls)
    given = {name: _value(hints[name], raw[name], f"{where}.{name}") for name in hints if name in raw}
    try:
        return cls(**given)
    except TypeError as error:
        raise PlainError(f"{where}: {error}") from error


def _value(hint: Any, raw: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        if raw is None:
            return None
        return _value(next(part for part in typing.get_args(hint) if part is not types.NoneType), raw, where)
    if origin is list:
        if not isinstance(raw, list):
            raise PlainError(f"{where}: a list was expected, not {type(raw).__name__}")
        (item,) = typing.get_args(hint)
        return [_value(item, entry, f"{where}[{index}]") for index, entry in enumerate(raw)]
    if dataclasses.is_dataclass(hint):
        return build(typing.cast(Any, hint), raw, where)
    accepted = (int, float) if hint is float else hint
    if not isinstance(raw, accepted) or (isinstance(raw, bool) and hint is not bool):
        raise PlainError(f"{where}: {hint.__name__} was expected, not {raw!r}")
    return raw
