"""No question and no file makes a route fail: every route, with any parameter, on runs in any state of decay."""

import json
import os
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dashboard_client import Answer, Client
from prl.dashboard.app import create_app
from prl.dashboard.parameters import Parameter
from prl.dashboard.routes import ROUTES
from prl.dashboard.routing import JSON, Route
from prl.dashboard.workspace import Workspace
from prl.rundir.recognition import run_id
from prl.rundir.run import Run
from prl.synth import RunShape, write_run

GETS = [route for route in ROUTES if route.method == "GET"]
NAMES = [route.path for route in GETS]
_IN_PATH = re.compile(r"{(\w+)(?::\w+)?}")


@pytest.fixture(scope="module", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield


class Served:
    """A run behind the application, and what stands in the paths of its routes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.client = Client(create_app(Workspace([root.parent])))
        self.run = run_id(str(root.resolve()))
        row: dict[str, Any] = next(iter(Run(root, cached=False).episodes.page(limit=1).rows), {})
        self.values = {
            "run": self.run,
            "rule": "process.run-failed",
            "name": "STATUS.md",
            "id": row.get("id") or "e1",
            "trace": next(iter(row.get("trace_ids") or ["t1"])),
        }

    def path(self, route: Route, **values: str) -> str:
        return _IN_PATH.sub(lambda found: (self.values | values)[found[1]], route.path)

    def get(self, route: Route, query: list[tuple[str, str]] | None = None, **values: str) -> Answer:
        given_ = query if query is not None else self.needed(route)
        return self.client.call("GET", self.path(route, **values), query=urlencode(given_, errors="replace"))

    def needed(self, route: Route) -> list[tuple[str, str]]:
        """What a route does not answer without, and of the download a part."""
        part = [("step", "1")] if route.path.endswith("/export") else []
        return [*part, *((one.name, self.sensible(one)) for one in route.parameters if one.required)]

    def sensible(self, parameter: Parameter) -> str:
        if parameter.name in ("run", "a", "b"):
            return self.run
        texts = {"choice": parameter.choices[:1], "integer": ["1"], "number": ["1"], "flag": ["1"], "range": ["0..3"]}
        return next(iter(texts.get(parameter.kind, ["reward"])))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    return Served(write_run(tmp_path_factory.mktemp("fine") / "run", RunShape(steps=2, episodes=4, group_size=2)))


def assert_handled(answer: Answer, route: Route, *context: object) -> None:
    """An answer, or an error of the documented form; never the server's own failure."""
    assert answer.status != 500, (route.path, *context, answer.text)
    if answer.status >= 400:
        assert set(answer.json["error"]) == {"kind", "message"}


@pytest.mark.parametrize("route", GETS, ids=NAMES)
def test_every_route_answers_for_a_run(served: Served, route: Route) -> None:
    answer = served.get(route)
    assert_handled(answer, route)
    assert answer.status in (200, 400, 404), answer.text
    if answer.status == 200:
        assert answer.headers["content-type"] in route.media_types
    if answer.status == 200 and answer.headers["content-type"] == JSON:
        said = json.loads(answer.content, parse_constant=_no_constant)
        assert ({"schema_version", "as_of", "ok"} <= said.keys()) == route.has_head
        assert answer.headers["etag"] and answer.headers["cache-control"] == "no-cache"


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


_values = (
    st.text(alphabet=st.characters(codec="utf-8"), max_size=20)
    | st.integers().map(str)
    | st.floats().map(str)
    | st.sampled_from(
        ["", "..", "1..0", "-1", "1e400", "nan", "0..", "..5", "true", "../../x", "*", "(", "\0", "9" * 400]
    )
)


@pytest.mark.parametrize("route", [route for route in GETS if route.parameters], ids=lambda route: route.path)
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_parameter_makes_a_route_fail(served: Served, route: Route, data: st.DataObject) -> None:
    query = dict(served.needed(route))
    chosen = data.draw(st.lists(st.sampled_from(route.parameters), max_size=4, unique_by=lambda one: one.name))
    for parameter in chosen:
        query[parameter.name] = data.draw(_plausible(parameter) | _values)
    assert_handled(served.get(route, list(query.items())), route, query)


def _plausible(parameter: Parameter) -> st.SearchStrategy[str]:
    """Values that get past the validation."""
    small = st.integers(int(parameter.minimum or 0), int(min(parameter.maximum or 50, 50)))
    match parameter.kind:
        case "choice":
            return st.sampled_from(parameter.choices)
        case "flag":
            return st.sampled_from(["0", "1"])
        case "integer" | "number":
            return small.map(str)
        case "range":
            return st.tuples(small, small).map(lambda pair: f"{pair[0]}..{pair[1]}")
    return st.sampled_from(["reward", "reverse-text", "a", "0", "e1", "agent"])


@pytest.mark.parametrize("route", GETS, ids=NAMES)
def test_a_parameter_that_no_route_takes_is_named(served: Served, route: Route) -> None:
    answer = served.get(route, [*served.needed(route), ("bogus", "1")])
    assert (answer.status, answer.error) == (400, "bad_parameter") and "bogus" in answer.json["error"]["message"]


@pytest.mark.parametrize("route", [route for route in GETS if "{" in route.path], ids=lambda route: route.path)
@pytest.mark.parametrize("value", ["..", ".", "x" * 3000, "a/b", "\x00", "é\u202e~12345678", "%", "~", " ", "*", "-1"])
def test_no_name_in_a_path_makes_a_route_fail(served: Served, route: Route, value: str) -> None:
    for name in _IN_PATH.findall(route.path):
        assert_handled(served.get(route, **{name: value}), route, name)


@pytest.mark.parametrize("route", GETS, ids=NAMES)
def test_no_other_method_is_taken(served: Served, route: Route) -> None:
    for method in ("PUT", "DELETE", "PATCH", "POST"):
        if any(other.path == route.path and other.method == method for other in ROUTES):
            continue
        answer = served.client.call(method, served.path(route))
        assert (answer.status, answer.error) == (405, "method")


# ---- files


def torn(root: Path) -> None:
    """The last lines of everything were cut off."""
    for file in _files(root):
        if file.stat().st_size > 10:
            os.truncate(file, file.stat().st_size - 7)


def garbage(root: Path) -> None:
    """Other bytes in every file."""
    noise = random.Random(1)
    for file in _files(root):
        file.write_bytes(noise.randbytes(3000))


def other_json(root: Path) -> None:
    """Valid JSON that is not what was meant, in every file."""
    for file in _files(root):
        file.write_text('{"step": "x", "time": [], "id": 7, "line": {}, "traces": 3, "x": 1e999}\n[1]\nnull\n"a"\n')


def deep(root: Path) -> None:
    """Nesting that no recursion survives."""
    for file in _files(root):
        file.write_text("[" * 100_000 + "\n" + '{"a":' * 5000 + "1" + "}" * 5000 + "\n")


def empty(root: Path) -> None:
    for file in _files(root):
        file.write_bytes(b"")


def directories(root: Path) -> None:
    """A directory where each file was."""
    for file in _files(root):
        file.unlink()
        file.mkdir()


def pipes(root: Path) -> None:
    """A named pipe where each file was: opening one waits for ever."""
    for file in _files(root):
        file.unlink()
        os.mkfifo(file)


def links_out(root: Path) -> None:
    """A link out of the run where each file was."""
    secret = root.parent / ".secret"
    secret.write_text('{"api_key": "the-secret-of-somebody-else"}\n')
    for file in _files(root):
        file.unlink()
        file.symlink_to(secret)


def loops(root: Path) -> None:
    for file in _files(root):
        file.unlink()
        file.symlink_to(file.name)


def _files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]


DECAYS = (torn, garbage, other_json, deep, empty, directories, pipes, links_out, loops)


@pytest.mark.parametrize("decay", DECAYS, ids=lambda decay: decay.__name__)
def test_no_file_makes_a_route_fail(served: Served, tmp_path: Path, decay: Any) -> None:
    root = tmp_path / "run"
    shutil.copytree(served.root, root, symlinks=True)
    decay(root)
    decayed = Served.__new__(Served)
    decayed.root, decayed.run = root, run_id(str(root.resolve()))
    decayed.client = Client(create_app(Workspace([tmp_path])))
    decayed.values = {**served.values, "run": decayed.run}
    for route in GETS:
        answer = decayed.get(route)
        assert_handled(answer, route, decay.__name__)
        assert b"the-secret-of-somebody-else" not in answer.content


def test_a_run_that_is_deleted_while_it_is_open_is_gone_on_every_route(served: Served, tmp_path: Path) -> None:
    root = tmp_path / "run"
    shutil.copytree(served.root, root, symlinks=True)
    going = Served(root)
    of_runs = [route for route in GETS if "{run}" in route.path]
    for route in of_runs:
        going.get(route)
    shutil.rmtree(root)
    for route in of_runs:
        answer = going.get(route)
        assert answer.status in (400, 404, 410), (route.path, answer.status, answer.text)


def test_one_broken_run_breaks_no_other(served: Served, tmp_path: Path) -> None:
    for name in ("fine", "broken"):
        shutil.copytree(served.root, tmp_path / name, symlinks=True)
    garbage(tmp_path / "broken")
    client = Client(create_app(Workspace([tmp_path])))
    rows = {row["name"]: row for row in client.get("/api/v1/runs").json["rows"]}
    assert set(rows) == {"fine", "broken"}
    for name in rows:
        client.get(f"/api/v1/runs/{rows[name]['id']}/verdict")
    rows = {row["name"]: row for row in client.get("/api/v1/runs").json["rows"]}
    assert rows["fine"]["health"] == "Healthy" and rows["broken"]["health"] is not None


def test_a_route_that_fails_says_so_and_no_more(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> None:
        raise ZeroDivisionError("/home/somebody/secret")

    monkeypatch.setattr("prl.rundir.reports.list_reports", broken)
    monkeypatch.setattr("prl.dashboard.routes.reports.list_reports", broken)
    answer = served.client.get(f"/api/v1/runs/{quote(served.run)}/reports")
    assert (answer.status, answer.error) == (500, "internal") and "somebody" not in answer.text


def test_a_disk_that_cannot_be_read_is_told(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def stale(_: object) -> None:
        raise OSError(116, "Stale file handle", "/runs/demo/reports")

    monkeypatch.setattr("prl.dashboard.routes.reports.list_reports", stale)
    answer = served.client.get(f"/api/v1/runs/{served.run}/reports")
    assert (answer.status, answer.error) == (503, "unreadable")
    assert "/runs/demo/reports: Stale file handle" in answer.json["error"]["message"]
