"""Health, the list of runs, a run, its verdict, its reports, the pulse and view commands, as a client sees them."""

import json
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dashboard_client import Client
from made_up_runs import aged, rl_files, write
from prl.dashboard.app import create_app
from prl.dashboard.workspace import MAX_OPEN, Workspace
from prl.rundir.episodes.table import EpisodeTable
from prl.rundir.recognition import run_id
from prl.synth import RunShape, write_run

CLIENT = {"prl-client": "tab-1"}


@pytest.fixture(scope="module", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("outputs")
    write_run(root / "failed", RunShape(steps=8, episodes=8, state="failed"))
    write_run(root / "fine run+1", RunShape(steps=8, episodes=8))
    return root


@pytest.fixture
def client(outputs: Path) -> Client:
    return Client(create_app(Workspace([outputs], url="http://localhost:7788")))


@pytest.fixture
def failed(outputs: Path) -> str:
    return f"/api/v1/runs/{run_id(str((outputs / 'failed').resolve()))}"


def test_health_says_who_is_here(client: Client, outputs: Path) -> None:
    answer = client.get("/api/health")
    assert answer.status == 200
    assert answer.json["service"] == "prl dashboard" and answer.json["ok"] is True
    assert answer.json["dirs"] == [str(outputs)] and answer.json["url"] == "http://localhost:7788"


def test_the_list_has_every_run_and_no_phase_before_the_verdict(client: Client, outputs: Path) -> None:
    answer = client.get("/api/v1/runs").json
    assert answer["dirs"] == [str(outputs)] and answer["scanning"] is False and answer["counts"]["runs"] == 2
    rows = {row["name"]: row for row in answer["rows"]}
    assert set(rows) == {"failed", "fine run+1"}
    row = rows["failed"]
    assert (row["phase"], row["health"], row["judged_at"], row["finding"]) == (None, None, None, None)
    assert row["kind"] == "rl" and row["step"] == 8 and row["attempts"] == [1]
    assert row["path"] == str(outputs / "failed") and row["dir"] == str(outputs)


def test_after_the_verdict_the_list_tells_it(client: Client, failed: str) -> None:
    before = client.get("/api/v1/runs")
    run = client.get(failed).json["run"]
    assert (run["phase"], run["health"]) == ("failed", "Down") and run["finding"]["rule"] == "process.run-failed"
    assert run["has"] == {"metrics": True, "episodes": True, "logs": True, "configs": True, "reports": True}
    assert run["elapsed"] > 0 and run["eta"] is None and run["reward"]["step"] == 8
    after = client.again("/api/v1/runs", before.etag)
    assert after.status == 200 and after.json["counts"]["health"] == {"Down": 1}
    row = next(row for row in after.json["rows"] if row["name"] == "failed")
    assert row["health"] == "Down" and row["judged_at"] is not None and row["checkpoints"] == run["checkpoints"]
    assert client.again("/api/v1/runs", after.etag).status == 304


def test_a_run_whose_name_is_hard_to_write_in_an_address(client: Client, outputs: Path) -> None:
    name = run_id(str((outputs / "fine run+1").resolve()))
    assert client.get(f"/api/v1/runs/{name}").json["run"]["name"] == "fine run+1"


def test_a_run_that_does_not_exist(client: Client) -> None:
    for name in ("none~00000000", "..", "failed", "~", "a~b/../c", "\x00~1", "é~1"):
        for path in ("", "/verdict", "/restart-plan", "/reports", "/reports/STATUS.md"):
            answer = client.get(f"/api/v1/runs/{name}{path}")
            assert (answer.status, answer.error) == (404, "not_found"), (name, path)


def test_findings_lead_to_their_evidence(client: Client, failed: str) -> None:
    answer = client.get(f"{failed}/verdict").json
    assert answer["verdict"]["health"] == "Down" and answer["judged_at"] == answer["verdict"]["as_of"]
    finding = answer["findings"][0]
    assert finding["rule"] == "process.run-failed" and finding["severity"] == "critical"
    links = [evidence["link"] for evidence in finding["evidence"] if evidence["link"]]
    assert links[0]["page"] == "logs" and links[0]["params"]["file"].startswith("logs/attempt_1/")
    # what is linked is really there
    text = (Path(answer["verdict"]["run_dir"]) / links[0]["params"]["file"]).read_bytes()
    assert b"OutOfMemory" in text[int(links[0]["params"]["offset"]) :][:400]


@pytest.mark.parametrize("route", ["configs", "reports"])
def test_an_answer_that_says_the_same_later_is_not_sent_again(client: Client, failed: str, route: str) -> None:
    """``as_of`` alone is no news."""
    answer = client.get(f"{failed}/{route}")
    assert answer.json["as_of"] > 0
    assert client.again(f"{failed}/{route}", answer.etag).status == 304


def test_the_verdict_is_that_of_the_command(client: Client, outputs: Path, failed: str) -> None:
    from prl.cli.answers import verdict_answer
    from prl.watch import status_of

    told = client.get(f"{failed}/verdict").json["verdict"]
    expected = json.loads(json.dumps(verdict_answer(status_of(outputs / "failed", told["as_of"]))))
    for name in ("phase", "health", "reason", "step", "findings", "processes", "unknown"):
        assert told[name] == expected[name]


def test_a_plan_of_a_restart_as_text_and_as_data(client: Client, failed: str) -> None:
    answer = client.get(f"{failed}/restart-plan").json
    assert answer["plan"]["warranted"] == "yes" and "What must hold first:" in answer["text"]
    assert answer["plan"]["command"] is None or answer["plan"]["command"]["line"]


def test_rules_say_what_they_look_for(client: Client) -> None:
    answer = client.get("/api/v1/rules/process.run-failed").json
    assert answer["id"] == "process.run-failed" and "Needs:" in answer["text"]
    assert client.get("/api/v1/rules/rule.failed").status == 200
    assert client.get("/api/v1/rules/none").error == "not_found"


def test_reports_are_listed_and_read_as_blocks(client: Client, failed: str) -> None:
    rows = client.get(f"{failed}/reports").json["rows"]
    assert [row["name"] for row in rows] == ["STATUS.md", "reports/first-look.md"]
    answer = client.get(f"{failed}/reports/STATUS.md")
    assert answer.json["blocks"][0]["type"] == "heading" and answer.json["citations"] == []
    assert client.again(f"{failed}/reports/STATUS.md", answer.etag).status == 304


@pytest.mark.parametrize(
    "name", ["../STATUS.md", "reports/../STATUS.md", "logs/latest", "reports/x/y.md", "/etc/passwd", "reports/", ""]
)
def test_no_other_file_is_a_report(client: Client, failed: str, name: str) -> None:
    assert client.get(f"{failed}/reports/{name}").status == 404


def test_citations_are_checked_against_the_episode(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run", RunShape(steps=3, episodes=8))
    app = create_app(Workspace([tmp_path]))
    client, run = Client(app), f"/api/v1/runs/{run_id(str(root.resolve()))}"
    from prl.rundir.run import Run

    opened = Run(root)
    row = opened.episodes.page(limit=1).rows[0]
    episode = opened.episode(row["id"])
    content = next(node["message"]["content"] for node in episode.traces[0].nodes if node["message"]["content"])
    right = {"episode": row["id"], "quote": content[:40], "note": "as it says"}
    wrong = {"episode": row["id"], "quote": "nobody ever wrote this"}
    (root / "reports" / "why.md").write_text(
        f"# Why\n\nIt says so[^a], not so[^b].\n\n[^a]: {json.dumps(right)}\n[^b]: {json.dumps(wrong)}\n"
    )
    answer = client.get(f"{run}/reports/reports/why.md").json
    assert [(one["id"], one["found"]) for one in answer["citations"]] == [("a", True), ("b", False)]
    assert answer["citations"][0]["link"]["params"]["episode"] == row["id"]
    assert [span.get("cite") for span in answer["blocks"][1]["spans"]] == [None, "a", None, "b", None]


def test_citations_are_checked_while_nobody_else_has_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of episodes is used by one thread at a time: pages that are polled meanwhile read it on."""
    root = write_run(tmp_path / "run", RunShape(steps=1, episodes=2, group_size=2))
    workspace = Workspace([tmp_path])
    client, name = Client(create_app(workspace)), run_id(str(root.resolve()))
    (root / "reports" / "why.md").write_text('So[^a].\n\n[^a]: {"episode": "nowhere", "quote": "x"}\n')
    client.get(f"/api/v1/runs/{name}/episodes")
    opened, looked = workspace.open(name), []
    found = EpisodeTable.row

    def row(table: EpisodeTable, *wanted: str, **more: Any) -> Any:
        if table is opened.run.episodes:
            looked.append(opened._episodes_lock._is_owned())  # type: ignore[attr-defined]
        return found(table, *wanted, **more)

    monkeypatch.setattr(EpisodeTable, "row", row)
    answer = client.get(f"/api/v1/runs/{name}/reports/reports/why.md").json
    assert [one["found"] for one in answer["citations"]] == [False]
    assert looked and all(looked)


def test_prime_rl_finds_its_list(client: Client, outputs: Path) -> None:
    answer = client.get("/api/runs")
    assert answer.json["output_dir"] == str(outputs)
    row = next(row for row in answer.json["runs"] if row["name"] == "failed")
    assert row["type"] == "rl" and row["last_step"] == 8 and row["has_metrics"] is True and row["total_episodes"] > 0
    assert client.again("/api/runs", answer.etag).status == 304


def test_two_runs_of_one_name_are_told_apart_for_prime_rl(tmp_path: Path) -> None:
    for parent in ("one", "two"):
        aged(write(tmp_path / parent / "demo", rl_files()))
    client = Client(create_app(Workspace([tmp_path / "one", tmp_path / "two"])))
    assert sorted(row["name"] for row in client.get("/api/runs").json["runs"]) == ["one:demo", "two:demo"]


# ---- the pulse


def pulse(client: Client, run: str | None = None, page: str | None = None, **query: Any) -> Any:
    return client.get("/api/v1/pulse", CLIENT, run=run and run.rpartition("/")[2], page=page, **query).json


@pytest.mark.parametrize("page", ["overview", "traces", "logs", None])
def test_the_pulse_is_the_same_while_nothing_changes(client: Client, failed: str, page: str | None) -> None:
    client.get(failed)
    first = pulse(client, failed, page)
    assert set(first["run"]) == {"id", "metrics", "episodes", "live", "logs", "verdict", "header"}
    again = pulse(client, failed, page)
    assert (first["run"], first["runs"]) == (again["run"], again["runs"])


def test_the_pulse_beats_for_the_part_that_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_SECONDS", "_LOGS_SECONDS"):
        monkeypatch.setattr(f"prl.dashboard.routes.pulse.{name}", 0.0)
    root = write_run(tmp_path / "run", RunShape(steps=3, episodes=8))
    client, run = Client(create_app(Workspace([tmp_path]))), f"/{run_id(str(root.resolve()))}"
    told = [pulse(client, run)["run"]]
    for name in (
        "monitors/file/metrics.jsonl",
        "monitors/file/traces/stream.index.jsonl",
        "logs/attempt_1/trainer.log",
        "monitors/file/traces/live/x.jsonl",
    ):
        (root / name).parent.mkdir(exist_ok=True)
        with (root / name).open("a") as file:
            file.write("{}\n")
        told.append(pulse(client, run)["run"])
    changed = [{name for name in after if after[name] != before[name]} for before, after in pairwise(told)]
    for parts, part in zip(changed, ("metrics", "episodes", "logs", "live"), strict=True):
        assert part in parts


def test_the_pulse_of_a_run_that_is_gone_says_so(client: Client) -> None:
    told = pulse(client, "none~00000000")
    assert told["run"] is None and "none~00000000" in told["gone"] and told["runs"]


# ---- view commands


def test_an_agent_moves_the_pages_that_are_open(client: Client, outputs: Path, failed: str) -> None:
    assert client.post("/api/v1/view", {"run": "failed"}).error == "conflict"
    assert pulse(client)["view"] is None
    sent = client.post("/api/v1/view", {"run": "failed", "page": "metrics", "key": "loss/mean", "step": 3})
    assert sent.status == 200 and sent.json["tabs"] == 1
    command = {"run": failed.rpartition("/")[2], "page": "metrics", "key": "loss/mean", "step": 3}
    assert pulse(client)["view"] == {"seq": sent.json["seq"], "command": command}
    # a tab that comes later was not meant
    assert client.get("/api/v1/pulse", {"prl-client": "tab-2"}).json["view"] is None
    again = client.post("/api/view", {"run": "failed", "tab": "config"}).json
    assert again["seq"] == sent.json["seq"] + 1 and again["command"]["page"] == "configs" and again["tabs"] == 2
    assert client.get("/api/v1/pulse", {"prl-client": "tab-2"}).json["view"]["seq"] == again["seq"]


def test_a_tab_that_does_not_follow_is_nobody_who_looks(client: Client) -> None:
    pulse(client, following=False)
    client.get("/api/v1/pulse")  # a program that is no tab
    assert client.post("/api/v1/view", {"run": "failed"}).error == "conflict"


def test_what_a_command_names_exists(client: Client, outputs: Path, failed: str) -> None:
    from prl.rundir.run import Run

    pulse(client)
    row = Run(outputs / "failed").episodes.page(limit=1).rows[0]
    by_id = client.post("/api/v1/view", {"run": "failed", "page": "traces", "episode": row["id"]}).json
    by_trace = client.post("/api/v1/view", {"run": "failed", "page": "traces", "episode": row["trace_ids"][0]}).json
    by_line = client.post("/api/v1/view", {"run": "failed", "page": "traces", "line": row["line"]}).json
    assert {one["command"]["episode"] for one in (by_id, by_trace, by_line)} == {row["id"]}
    report = client.post("/api/v1/view", {"run": "failed", "page": "reports", "report": "first-look.md"}).json
    assert report["command"]["report"] == "reports/first-look.md"
    log = {"run": "failed", "page": "logs", "file": "logs/attempt_1/trainer.log", "offset": 10}
    assert client.post("/api/v1/view", log).status == 200
    for wrong in (
        {"run": "nope"},
        {"run": "failed", "episode": "nope"},
        {"run": "failed", "line": 10**9},
        {"run": "failed", "report": "../STATUS.md"},
        {"run": "failed", "file": "logs/attempt_1/../../STATUS.md"},
    ):
        assert client.post("/api/v1/view", wrong).error == "not_found"


@pytest.mark.parametrize(
    "body",
    [
        [],
        "x",
        None,
        {},
        {"page": "overview"},
        {"run": 3},
        {"run": "failed", "page": "nope"},
        {"run": "failed", "step": -1},
        {"run": "failed", "step": 1.5},
        {"run": "failed", "step": True},
        {"run": "failed", "step": "3"},
        {"run": "failed", "unknown": 1},
        {"run": "x" * 3000},
        {"run": "failed", "highlight": {}},
        {"run": "failed", "highlight": [{}]},
        {"run": "failed", "highlight": [{"quote": " "}]},
        {"run": "failed", "highlight": [{"quote": "a", "color": "red"}]},
        {"run": "failed", "highlight": [{"quote": "a"}] * 51},
    ],
)
def test_a_command_that_says_nothing_right(client: Client, body: Any) -> None:
    pulse(client)
    answer = client.post("/api/v1/view", body)
    assert (answer.status, answer.error) == (400, "bad_body")


def test_quotes_go_with_a_command(client: Client) -> None:
    pulse(client)
    quotes = [{"quote": "again", "node": 3, "prefix": "and ", "reason": "it loops"}, {"quote": "x", "suffix": None}]
    answer = client.post("/api/v1/view", {"run": "failed", "page": "traces", "highlight": quotes}).json
    assert answer["command"]["highlight"] == [quotes[0], {"quote": "x"}]


def test_a_body_is_json_and_short(client: Client) -> None:
    assert client.post("/api/v1/view", b"{").error == "bad_body"
    assert client.post("/api/v1/view", b"[" * 70_000).error == "too_large"
    assert client.post("/api/v1/view", {}, {"content-type": "text/plain"}).error == "media_type"
    assert client.post("/api/v1/view", {}, {"content-type": "application/json; charset=utf-8"}).error == "bad_body"


# ---- runs that come and go


def test_a_run_that_begins_after_the_last_look_is_found(tmp_path: Path) -> None:
    workspace = Workspace([tmp_path])
    client = Client(create_app(workspace))
    assert client.get("/api/v1/runs").json["rows"] == []
    root = aged(write(tmp_path / "new", rl_files()))
    assert client.get(f"/api/v1/runs/{run_id(str(root.resolve()))}").status == 200


def test_a_run_that_is_deleted_while_it_is_open_is_gone(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run", RunShape(steps=3, episodes=8))
    client, run = Client(create_app(Workspace([tmp_path]))), f"/api/v1/runs/{run_id(str(root.resolve()))}"
    for path in ("", "/verdict", "/reports"):
        assert client.get(f"{run}{path}").status == 200
    shutil.rmtree(root)
    assert client.get(run).error == "gone"
    for path in ("", "/verdict", "/reports", "/restart-plan", "/reports/STATUS.md"):
        assert client.get(f"{run}{path}").error in ("gone", "not_found")
    assert client.get("/api/v1/runs").json["rows"] == []


def test_a_directory_that_is_a_run_itself_is_served(tmp_path: Path) -> None:
    root = aged(write(tmp_path / "only", rl_files()))
    client = Client(create_app(Workspace([root])))
    (row,) = client.get("/api/v1/runs").json["rows"]
    assert client.get(f"/api/v1/runs/{row['id']}").status == 200


def test_a_link_to_a_run_elsewhere_is_one(tmp_path: Path) -> None:
    aged(write(tmp_path / "elsewhere" / "real", rl_files()))
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "linked").symlink_to(tmp_path / "elsewhere" / "real")
    client = Client(create_app(Workspace([tmp_path / "outputs"])))
    (row,) = client.get("/api/v1/runs").json["rows"]
    assert client.get(f"/api/v1/runs/{row['id']}").json["run"]["name"] == "linked"


def test_few_runs_are_kept_open(tmp_path: Path) -> None:
    for number in range(MAX_OPEN + 3):
        aged(write(tmp_path / f"run-{number}", rl_files()))
    workspace = Workspace([tmp_path])
    for run in workspace.runs().runs:
        workspace.open(run.id)
    assert len(workspace._open) == MAX_OPEN


def test_started_and_closed(outputs: Path) -> None:
    workspace = Workspace([outputs])
    workspace.start()
    client = Client(create_app(workspace))
    try:
        (name,) = [row["id"] for row in client.get("/api/v1/runs").json["rows"] if row["name"] == "failed"]
        assert client.get(f"/api/v1/runs/{name}/verdict").json["verdict"]["health"] == "Down"
        assert client.get("/api/v1/runs").json["scanning"] is False
    finally:
        workspace.close()
