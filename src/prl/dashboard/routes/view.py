"""Where an agent sends the human who looks: to a run, a step, an episode, a token, a line of a log, with a quote."""

from collections.abc import Mapping
from typing import Any

from prl.dashboard.episode_rows import reference
from prl.dashboard.errors import ApiError, not_found
from prl.dashboard.routing import Call, Route, head
from prl.rundir.reports import list_reports

PAGES = ("runs", "overview", "metrics", "traces", "logs", "configs", "reports")
MAX_HIGHLIGHTS = 50
_MAX_TEXT = 2000
_MAX_NUMBER = 2**53
_ALIASES = {"tab": "page"}
_TABS = {"config": "configs", "report": "reports"}
"""Names that prime-rl's tools use."""

_TEXTS = ("run", "page", "episode", "trace", "report", "file", "key", "kind", "subset", "stream")
_NUMBERS = ("step", "branch", "token", "node", "line", "offset", "attempt", "time")
_HIGHLIGHT_TEXTS = ("quote", "prefix", "suffix", "reason", "field")


def view(call: Call) -> dict[str, Any]:
    command = _command(call.body)
    if "run" in command:
        _check_target(call, command)
    tabs = call.workspace.tabs.here()
    if tabs == 0:
        raise ApiError(409, "conflict", "nobody looks: no tab that follows asked within the last 15 s")
    return head(seq=call.workspace.tabs.send(command), command=command, tabs=tabs)


def _command(body: Any) -> dict[str, Any]:
    """What was asked, checked. Raises ApiError (400)."""
    if not isinstance(body, Mapping):
        raise _bad("the body is to be a JSON object")
    command: dict[str, Any] = {}
    for given, value in body.items():
        name = _ALIASES.get(given, given)
        if value is None:
            continue
        if name == "highlight":
            command[name] = _highlights(value)
        elif name in _TEXTS:
            command[name] = _text(name, value)
        elif name in _NUMBERS:
            command[name] = _number(name, value)
        else:
            raise _bad(f"{str(given)[:80]}: is no field (there are {', '.join((*_TEXTS, *_NUMBERS, 'highlight'))})")
    command["page"] = page = _TABS.get(command.get("page", ""), command.get("page", "overview"))
    if page not in PAGES:
        raise _bad(f"page: is one of {', '.join(PAGES)}")
    if "run" not in command and page != "runs":
        raise _bad("run: is missing")
    return command


def _highlights(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list) or len(value) > MAX_HIGHLIGHTS:
        raise _bad(f"highlight: is a list of at most {MAX_HIGHLIGHTS} objects")
    found: list[dict[str, Any]] = []
    for entry in value:
        if not isinstance(entry, Mapping) or not isinstance(entry.get("quote"), str) or not entry["quote"].strip():
            raise _bad("highlight: each is an object with a quote")
        unknown = entry.keys() - {*_HIGHLIGHT_TEXTS, "node"}
        if unknown:
            raise _bad(f"highlight: {str(min(map(str, unknown)))[:80]} is no field of it")
        given = {name: value for name, value in entry.items() if value is not None}
        told: dict[str, Any] = {name: _text(name, value) for name, value in given.items() if name != "node"}
        if "node" in given:
            told["node"] = _number("node", given["node"])
        found.append(told)
    return found


def _check_target(call: Call, command: dict[str, Any]) -> None:
    """What the command names exists. Raises ApiError (404, 410)."""
    command["run"] = _run_id(call, command["run"])
    run = call.workspace.open(command["run"])
    if "episode" in command or "line" in command:
        wanted = command["episode"] if "episode" in command else f"@{command['line']}"
        command["episode"] = reference(run.rollouts.find(wanted))
        command.pop("line", None)
    if "report" in command:
        names = [report.name for report in list_reports(run.path)]
        wanted = command["report"]
        command["report"] = next((name for name in (wanted, f"reports/{wanted}") if name in names), None)
        if command["report"] is None:
            raise not_found(f"no report {wanted[:200]!r}")
    if "file" in command:
        with run.log_desk.logs(command.get("attempt")) as logs:
            names = [logs.name(file) for file in logs.files()]
        if command["file"] not in names:
            raise not_found(f"no log {command['file'][:200]!r} of this attempt")


def _run_id(call: Call, wanted: str) -> str:
    """An id, or the name of one run."""
    named = [run.id for run in call.workspace.runs(0.15).runs if wanted in (run.id, run.name)]
    if len(set(named)) > 1:
        raise ApiError(409, "conflict", f"several runs are named {wanted[:200]!r}: give one of the ids {named[:10]}")
    return named[0] if named else wanted


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise _bad(f"{name}: is a text of at most {_MAX_TEXT} characters")
    return value


def _number(name: str, value: Any) -> int | float:
    kinds = (int, float) if name == "time" else (int,)
    if type(value) not in kinds or not 0 <= value <= _MAX_NUMBER:
        raise _bad(f"{name}: is a number, not negative")
    number: int | float = value
    return number


def _bad(message: str) -> ApiError:
    return ApiError(400, "bad_body", message)


_BODY = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        **{name: {"type": "string", "maxLength": _MAX_TEXT} for name in _TEXTS},
        **{name: {"type": "integer", "minimum": 0} for name in _NUMBERS},
        "time": {"type": "number", "minimum": 0, "description": "Unix seconds"},
        "page": {"type": "string", "enum": list(PAGES), "default": "overview"},
        "highlight": {
            "type": "array",
            "maxItems": MAX_HIGHLIGHTS,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["quote"],
                "properties": {
                    **{name: {"type": "string", "maxLength": _MAX_TEXT} for name in _HIGHLIGHT_TEXTS},
                    "node": {"type": "integer", "minimum": 0},
                },
            },
        },
    },
}
_ANSWER = (
    "`seq`: the number of the command, `command` as the tabs get it, `tabs`: how many were there. 409 when nobody "
    "looks: no tab that follows asked the pulse within 15 s. 404 for a run, episode, report or log that does not exist."
)
_ABOUT = "Move the pages that are open to a run, step, episode, token or log line, with quotes marked"

ROUTES = tuple(Route(path, view, _ABOUT, _ANSWER, method="POST", body=_BODY) for path in ("/api/v1/view", "/api/view"))
