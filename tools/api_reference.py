"""Write ``docs/dashboard-api.md`` from the dashboard's routes: what each takes and what it answers.

    python tools/api_reference.py          (make docs)

A test compares the page with what this prints. The same is served as OpenAPI under ``/api/v1/openapi.json``.
"""

from pathlib import Path

from prl.dashboard.openapi import plain_path
from prl.dashboard.parameters import Parameter
from prl.dashboard.routes import ROUTES
from prl.dashboard.routing import Route

PAGE = Path(__file__).parent.parent / "docs" / "dashboard-api.md"
HEAD = """\
# The dashboard's API

Everything that the pages show, for programs and agents; `/api/v1/openapi.json` has the same as an OpenAPI document.
[The dashboard](dashboard.md) says how to reach it and what it is safe from. `{run}` is a run's id, as the list of runs
has it.

Answers below `/api/v1` begin with `schema_version`, `as_of` (Unix seconds) and `ok`. Times are Unix seconds; null is
unknown. A number that is not finite is null in its place and named beside. An answer has an `ETag`: sent back as
`If-None-Match` it makes an answer that did not change a 304. A range is `3..9`, `3..`, `..9` or `7`, both ends
included. A parameter that a route does not take, or that is out of its bounds, is a 400 that names it.

Errors are `{"error": {"kind": ..., "message": ...}}`. Kinds: `bad_parameter` and `bad_body` (400), `unauthorized`
(401), `forbidden` (403), `not_found` (404), `method` (405), `conflict` (409), `gone` (410: the run was there and is not
any more), `too_large` (413), `media_type` (415), `internal` (500), `unreadable` (503: a file cannot be read; the
message says which and why).

`make docs` writes this page from the routes.
"""


def page() -> str:
    """The whole page."""
    return HEAD + "".join(_section(route) for route in ROUTES)


def _section(route: Route) -> str:
    text = f"\n## `{route.method} {plain_path(route.path)}`\n\n{route.about}.\n"
    if route.parameters:
        text += "\n" + "".join(map(_parameter, route.parameters))
    return text + (f"\n{route.answer}\n" if route.answer else "")


def _parameter(parameter: Parameter) -> str:
    words = [f"one of {', '.join(parameter.choices)}" if parameter.choices else parameter.kind]
    words += [f"from {parameter.minimum:g}"] if parameter.minimum is not None else []
    words += [f"to {parameter.maximum:g}"] if parameter.maximum is not None else []
    words += ["many"] if parameter.many else []
    words += ["required"] if parameter.required else []
    words += [f"default {parameter.default}"] if parameter.default is not None and not parameter.many else []
    return f"- `{parameter.name}` ({', '.join(words)}): {parameter.about}\n"


if __name__ == "__main__":
    PAGE.write_text(page())
