"""Taking values out of JSON that anybody may have written, so that a wrong shape is a missing value, nothing worse."""

from collections.abc import Mapping
from typing import Any, TypeGuard

_MAX_INTEGER = 2**512
"""Integers from here on are no numbers: their product would have no float."""


def as_object(value: object) -> dict[str, Any]:
    """``value`` where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """``value`` where it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def objects(value: object) -> list[dict[str, Any]]:
    """The objects in a list; none where ``value`` is no list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list | tuple) else []


def get(value: Any, *keys: str) -> Any:
    """What these keys lead to, one object within the other. None where one of them is absent or is no object."""
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def is_number(value: object) -> TypeGuard[float]:
    """Whether ``value`` can be reckoned with: a float (NaN and infinities too), or an integer that one can hold."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < _MAX_INTEGER
    return isinstance(value, float)
