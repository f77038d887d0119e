"""The base of every configuration: what no key may hold, whichever model it belongs to."""

import math
from typing import Any, Self

import pydantic_config
from pydantic import ConfigDict, model_validator


class BaseConfig(pydantic_config.BaseConfig):
    """Unknown keys and numbers that are none (``inf``, ``nan``) are refused; JSON could not record the latter."""

    model_config = ConfigDict(allow_inf_nan=False)

    @model_validator(mode="after")
    def _finite_tables(self) -> Self:
        # Tables that belong to other packages are of any type, which the setting above does not reach.
        for name in type(self).model_fields:
            value = getattr(self, name)
            found = _non_finite(value, name) if isinstance(value, (dict, list)) else None
            if found is not None:
                raise ValueError(f"{found[0]} = {found[1]}: must be a finite number")
        return self


def _non_finite(value: Any, key: str) -> tuple[str, float] | None:
    """Key and value of the first number below ``value`` that is not finite."""
    if isinstance(value, float):
        return None if math.isfinite(value) else (key, value)
    below: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        below = [(f"{key}.{name}", item) for name, item in value.items()]
    elif isinstance(value, list):
        below = [(f"{key}[{index}]", item) for index, item in enumerate(value)]
    return next((found for name, item in below if (found := _non_finite(item, name)) is not None), None)
