"""The API's description in OpenAPI 3.1, made from the routes themselves."""

import re
from collections.abc import Iterable
from typing import Any

from prl.dashboard.parameters import Parameter
from prl.dashboard.routing import JSON, SCHEMA_VERSION, Route

_IN_PATH = re.compile(r"{(\w+)(?::\w+)?}")
_PATH_WORDS = {
    "run": "Id of a run, `<name>~<8 hex digits>`, as the list of runs has it.",
    "rule": "Id of a rule, as a finding names it.",
    "name": "Name of a report, as the list of reports has it.",
    "id": "Id of an episode.",
    "trace": "Id of a trace.",
}
_ERROR: dict[str, Any] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["kind", "message"],
            "properties": {
                "kind": {"type": "string", "description": "Stable, for programs."},
                "message": {"type": "string", "description": "For people: what happened, and what to do."},
            },
        }
    },
}
_HEAD: dict[str, Any] = {
    "type": "object",
    "properties": {
        "schema_version": {"type": "integer", "const": SCHEMA_VERSION},
        "as_of": {"type": "number", "description": "When the answer was made, Unix seconds."},
        "ok": {"type": "boolean"},
    },
}
_DESCRIPTION = (
    "Everything that the pages show, for programs. Reads only. Times are Unix seconds, null is unknown; a number that "
    "is not finite is null and named beside. Answers carry an ETag: send it as If-None-Match and what did not change "
    "is 304. Errors are `{error: {kind, message}}`. A parameter that a route does not take is a 400."
)


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """The OpenAPI document of these routes."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(plain_path(route.path), {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "prl dashboard", "version": str(SCHEMA_VERSION), "description": _DESCRIPTION},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": {"Error": _ERROR, "Head": _HEAD},
            "responses": {
                "Error": {
                    "description": "The request cannot be answered.",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
                }
            },
        },
    }


def plain_path(path: str) -> str:
    """A route's path as OpenAPI has it, without converters."""
    return _IN_PATH.sub(r"{\1}", path)


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.about,
        "operationId": _operation_id(route),
        "parameters": [*map(_path_parameter, _IN_PATH.findall(route.path)), *map(_query_parameter, route.parameters)],
        "responses": {
            "200": {
                "description": route.answer or route.about,
                "content": {media_type: {"schema": _schema(route, media_type)} for media_type in route.media_types},
            },
            "default": {"$ref": "#/components/responses/Error"},
        },
    }
    if route.method == "GET" and JSON in route.media_types:
        operation["responses"]["304"] = {"description": "Nothing changed since the answer with the given ETag."}
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": dict(route.body)}}}
    return operation


def _schema(route: Route, media_type: str) -> dict[str, Any]:
    if media_type != JSON:
        return {"type": "string"}
    return {"$ref": "#/components/schemas/Head"} if route.has_head else {"type": "object"}


def _operation_id(route: Route) -> str:
    parts = [part for part in re.split(r"\W+", plain_path(route.path)) if part]
    return "_".join([route.method.lower(), *parts])


def _path_parameter(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": _PATH_WORDS.get(name, ""),
        "schema": {"type": "string"},
    }


def _query_parameter(parameter: Parameter) -> dict[str, Any]:
    schema = parameter.schema()
    if parameter.default is not None and not parameter.many:
        schema["default"] = parameter.default
    if parameter.many:
        schema = {"type": "array", "items": schema}
    described = {
        "name": parameter.name,
        "in": "query",
        "required": parameter.required,
        "description": parameter.about,
        "schema": schema,
    }
    return {**described, "style": "form", "explode": True} if parameter.many else described
