"""Query parameters: declared once per route, validated before the route runs, described in the OpenAPI document.

A parameter that is unknown, repeated where one is meant, or out of its bounds is a 400 that names it. Left out:
nested or JSON-valued parameters; a route that needs structure takes a body.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prl.dashboard.errors import bad_parameter

Kind = Literal["text", "integer", "number", "flag", "choice", "range"]
MAX_TEXT = 2000
"""Characters of a text parameter."""
MAX_MANY = 200
"""How often a parameter with ``many`` may be given."""
_NUMBER = r"[-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?"
_RANGE = rf"^({_NUMBER})?(\.\.({_NUMBER})?)?$"
_FLAGS = {"1": True, "true": True, "0": False, "false": False}


@dataclass(frozen=True)
class Parameter:
    """One query parameter.

    ``kind``: ``range`` is two optional numbers, ``3..9``, ``3..``, ``..9`` or ``7`` (both ends belong to it).
    ``many``: may be given several times; its value is then a tuple, empty when it is absent.
    """

    name: str
    kind: Kind
    about: str
    default: Any = None
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    many: bool = False
    required: bool = False
    longest: int = MAX_TEXT
    """Characters of a text."""

    def schema(self) -> dict[str, Any]:
        """The JSON schema of one value."""
        if self.kind == "choice":
            return {"type": "string", "enum": list(self.choices)}
        kinds: dict[str, dict[str, Any]] = {
            "text": {"type": "string", "maxLength": self.longest},
            "integer": {"type": "integer"},
            "number": {"type": "number"},
            "flag": {"type": "boolean"},
            "range": {"type": "string", "pattern": _RANGE, "examples": ["3..9", "7", "3.."]},
        }
        bounds = {"minimum": self.minimum, "maximum": self.maximum}
        return {**kinds[self.kind], **{name: bound for name, bound in bounds.items() if bound is not None}}

    def parse(self, text: str) -> Any:
        """One value of this parameter. Raises ApiError (400)."""
        if self.kind == "text":
            if len(text) > self.longest:
                raise bad_parameter(self.name, f"longer than {self.longest} characters")
            return text
        if self.kind == "flag":
            if text.lower() not in _FLAGS:
                raise bad_parameter(self.name, "is true or false")
            return _FLAGS[text.lower()]
        if self.kind == "choice":
            if text not in self.choices:
                raise bad_parameter(self.name, f"is one of {', '.join(self.choices)}")
            return text
        if self.kind == "range":
            low, dots, high = text.partition("..")
            bottom = self._number(low) if low else None
            top = (self._number(high) if high else None) if dots else bottom
            return bottom, top
        return self._number(text)

    def _number(self, text: str) -> int | float:
        try:
            value = int(text) if self.kind == "integer" else float(text)
        except ValueError:
            raise bad_parameter(self.name, f"is {'a whole' if self.kind == 'integer' else 'a'} number") from None
        if not abs(value) <= 2**53:  # not a number, infinite, or more than a float can hold
            raise bad_parameter(self.name, "is not a number that can be used")
        if self.minimum is not None and value < self.minimum:
            raise bad_parameter(self.name, f"is at least {self.minimum:g}")
        if self.maximum is not None and value > self.maximum:
            raise bad_parameter(self.name, f"is at most {self.maximum:g}")
        return value


def validate(parameters: Sequence[Parameter], given: Iterable[tuple[str, str]]) -> Mapping[str, Any]:
    """The value of every parameter, by name. Raises ApiError (400) on anything that no parameter takes."""
    declared = {parameter.name: parameter for parameter in parameters}
    values: dict[str, list[Any]] = {}
    for name, text in given:
        parameter = declared.get(name)
        if parameter is None:
            known = ", ".join(sorted(declared)) or "none"
            raise bad_parameter(name[:80], f"is no parameter of this route (it takes: {known})")
        found = values.setdefault(name, [])
        if len(found) >= (MAX_MANY if parameter.many else 1):
            raise bad_parameter(name, f"given more than {MAX_MANY} times" if parameter.many else "given twice")
        found.append(parameter.parse(text))
    return {parameter.name: _value(parameter, values.get(parameter.name)) for parameter in parameters}


def _value(parameter: Parameter, found: list[Any] | None) -> Any:
    if parameter.many:
        return tuple(found or ())
    if found is not None:
        return found[0]
    if parameter.required:
        raise bad_parameter(parameter.name, "is missing")
    return parameter.default
