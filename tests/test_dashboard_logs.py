"""Logs through the API: files, pages, jumps, search over whole files, what was written when, known failures."""

import datetime as dt
import os
from pathlib import Path
from typing import Any

import pytest

from dashboard_runs import RunClient
from prl.dashboard.log_view import page_answer
from prl.dashboard.routes.logs import LEVELS as OFFERED
from prl.rundir.logs.console import LEVELS
from prl.rundir.logs.merge import RunLogs
from prl.rundir.search import Query
from prl.synth import RunShape, write_run

START = dt.datetime(2026, 3, 1, 10, 0, tzinfo=dt.UTC)


def line(second: int, text: str, level: str = "INFO") -> str:
    return f"{START + dt.timedelta(seconds=second):%H:%M:%S} {level:>7} {text}\n"


def moment(second: int) -> float:
    return START.timestamp() + second


def write_logs(root: Path, files: dict[str, str], attempt: int = 1) -> RunClient:
    (root / "configs" / f"attempt_{attempt}").mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = root / "logs" / f"attempt_{attempt}" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (moment(3600), moment(3600)))
    return RunClient(root)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunClient:
    monkeypatch.setenv("TZ", "UTC")
    return write_logs(
        tmp_path / "run",
        {
            "trainer.log": "".join(line(2 * n, f"trainer {n}") for n in range(600)),
            "orchestrator.log": "".join(line(2 * n + 1, f"orchestrator {n}") for n in range(600)),
        },
    )


def texts(answer: Any) -> list[str]:
    return [entry["message"] for entry in answer["entries"]]


MERGED = [f"{name} {n}" for n in range(600) for name in ("trainer", "orchestrator")]


def test_pages_of_two_logs_join_to_the_whole_in_both_directions(run: RunClient) -> None:
    assert texts(run.json("logs", limit=5)) == MERGED[-5:]
    backwards: list[str] = []
    answer = run.json("logs", limit=170)
    while True:
        backwards = texts(answer) + backwards
        if answer["older"] is None:
            break
        answer = run.json("logs", limit=170, before=answer["older"])
    assert backwards == MERGED
    forwards: list[str] = []
    answer = run.json("logs", after="", limit=170)
    while answer["entries"]:
        forwards += texts(answer)
        answer = run.json("logs", after=answer["newer"], limit=170)
    assert forwards == MERGED


@pytest.mark.parametrize("second", [0, 1, 333, 500.5, 1199])
def test_a_jump_to_a_moment_stands_between_before_and_after(run: RunClient, second: float) -> None:
    answer = run.json("logs", at=moment(0) + second, limit=30)
    times = [entry["time"] for entry in answer["entries"]]
    assert all(time < moment(0) + second for time in times[: answer["anchor"]])
    assert all(time >= moment(0) + second for time in times[answer["anchor"] :])
    first = MERGED.index(texts(answer)[0])
    assert texts(answer) == MERGED[first : first + len(times)]
    if answer["older"]:
        before = texts(run.json("logs", before=answer["older"], limit=7))
        assert before == MERGED[max(first - 7, 0) : first]
    behind = texts(run.json("logs", after=answer["newer"], limit=7))
    assert behind == MERGED[first + len(times) :][:7]


def test_a_line_of_a_file_is_found_among_those_of_its_time(run: RunClient, tmp_path: Path) -> None:
    data = (tmp_path / "run/logs/attempt_1/trainer.log").read_bytes()
    offset = data.index(b"trainer 300\n")
    answer = run.json("logs", file="logs/attempt_1/trainer.log", offset=offset, limit=30)
    assert texts(answer)[answer["anchor"]] == "trainer 300"
    first = MERGED.index(texts(answer)[0])
    assert texts(answer) == MERGED[first : first + 30]
    other = run.json("logs", file="logs/attempt_1/trainer.log", offset=offset, component="orchestrator", limit=30)
    assert "trainer 300" in texts(other), "the file that was asked for is shown with the others"


def test_no_path_of_a_client_is_read(run: RunClient, tmp_path: Path) -> None:
    (tmp_path / "run" / "secret.txt").write_text(line(0, "hidden"))
    for name in ("secret.txt", "../../../etc/passwd", "/etc/passwd", "logs/attempt_1/../../secret.txt"):
        assert run.answer("logs", file=name, offset=0).status == 404


def test_links_out_of_the_run_are_refused_and_loops_end(tmp_path: Path) -> None:
    outside = tmp_path / "outside.log"
    outside.write_text(line(0, "hidden"))
    run = write_logs(tmp_path / "outputs" / "run", {"trainer.log": line(0, "shown")})
    logs = tmp_path / "outputs/run/logs/attempt_1"
    (logs / "inference.log").symlink_to(outside)
    (logs / "loop").symlink_to(logs)
    (logs / "dangling.log").symlink_to(logs / "nothing")
    answer = run.json("logs")
    assert texts(answer) == ["shown"] and any("leaves the run" in text for text in answer["trouble"])
    assert run.json("logs/search", q="hidden")["hits"] == []


def test_files_stand_by_component_and_attempt(tmp_path: Path) -> None:
    write_run(tmp_path / "run", RunShape(steps=4, rollouts=8, attempts=2))
    run = RunClient(tmp_path / "run")
    answer = run.json("logs/files")
    assert answer["attempt"] == 2 and answer["attempts"] == [1, 2]
    rows = {row["name"]: row for row in answer["components"]}
    assert rows["trainer"]["default"] is True and rows["trainer/rank_0"]["default"] is False
    file = rows["trainer"]["files"][0]
    assert file["bytes"] == (tmp_path / "run" / file["name"]).stat().st_size
    first = run.json("logs", attempt=1)
    assert first["attempt"] == 1 and {entry["file"].split("/")[1] for entry in first["entries"]} == {"attempt_1"}
    assert run.answer("logs", attempt=3).status == 404
    cursor = first["newer"]
    assert run.answer("logs", attempt=2, after=cursor).status == 400


def test_a_new_line_changes_the_etag_and_follows_the_cursor(
    run: RunClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prl.dashboard.log_desk.SIZE_SECONDS", 0.0)
    first = run.answer("logs", limit=3)
    assert run.client.again(f"{run.base}/logs", first.etag, limit=3).status == 304
    with (tmp_path / "run/logs/attempt_1/trainer.log").open("a") as file:
        file.write(line(1300, "new", "ERROR"))
    assert run.client.again(f"{run.base}/logs", first.etag, limit=3).status == 200
    assert texts(run.json("logs", after=first.json["newer"])) == ["new"]
    assert texts(run.json("logs", level="ERROR")) == ["new"]
    assert OFFERED == LEVELS


def test_a_page_is_bounded_by_time_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prl.dashboard.log_view._PART", 100_000)
    monkeypatch.setattr("prl.dashboard.log_view.SECONDS", 60.0)
    run = write_logs(tmp_path / "run", {"trainer.log": "".join(line(n // 10, f"trainer {n}") for n in range(10_000))})
    whole = [f"trainer {n}" for n in (999, 7777, *range(9990, 10_000))]
    logs, wanted = RunLogs(tmp_path / "run"), Query(r"r (999\d?|7777)$", regex=True)
    found = page_answer(logs, query=wanted)
    assert texts(found) == whole and found["complete"]
    assert texts(page_answer(logs, query=wanted, after="")) == whole
    monkeypatch.setattr("prl.dashboard.log_view.SECONDS", 0.0)
    query = {"q": "r 999", "limit": 100}
    parts = 0
    taken: list[str] = []
    answer = run.json("logs", **query)
    while not answer["complete"]:
        parts, taken = parts + 1, texts(answer) + taken
        answer = run.json("logs", **query, before=answer["older"])
    assert texts(answer) + taken == [text for text in whole if text != "trainer 7777"] and parts > 1


def test_a_filter_keeps_entries_with_such_a_line(run: RunClient) -> None:
    assert texts(run.json("logs", q="NER 59", component="trainer")) == [
        "trainer 59",
        *(f"trainer {n}" for n in range(590, 600)),
    ]
    assert texts(run.json("logs", q="NER 59", case=True)) == []
    assert texts(run.json("logs", q=r"tor 5\d$", regex=True)) == [f"orchestrator {n}" for n in range(50, 60)]
    assert run.answer("logs", q="(", regex=True).error == "bad_parameter"


def test_search_goes_through_whole_files_in_parts(run: RunClient) -> None:
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        answer = run.json("logs/search", q="r 59", limit=4, cursor=cursor)
        found += answer["hits"]
        cursor = answer["cursor"]
        if answer["done"]:
            break
    assert len(found) == 22 and answer["scanned_bytes"] == answer["total_bytes"]
    hit = next(hit for hit in found if hit["text"].endswith("trainer 599"))
    assert hit["text"][hit["start"] : hit["end"]] == "r 59" and hit["time"] == moment(1198)
    assert hit["file"] == "logs/attempt_1/trainer.log" and hit["component"] == "trainer"
    regex = run.json("logs/search", q=r"orchestrator 5\d9", regex=True)["hits"]
    assert [hit["text"][-3:] for hit in regex] == [f"5{n}9" for n in range(10)]
    assert run.answer("logs/search").status == 400 and run.answer("logs/search", q="x", cursor="junk").status == 400


def test_an_expression_without_end_is_stopped(run: RunClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prl.dashboard.searching.SECONDS", 1.5)
    with (tmp_path / "run/logs/attempt_1/trainer.log").open("a") as file:
        file.write(line(1300, "a" * 64 + "!"))
    answer = run.answer("logs/search", q=r"(a+)+$", regex=True, component="trainer")
    assert answer.status == 400 and "simpler" in answer.json["error"]["message"]
    assert run.json("logs/search", q="trainer 7", limit=1)["hits"]


def test_secrets_are_masked_and_markup_and_escapes_are_plain_text(tmp_path: Path) -> None:
    trace = 'Traceback (most recent call last):\n  File "x.py", line 1\nValueError: HF_TOKEN=hf_abcdefghijklmnop\n'
    text = (
        line(0, "WANDB_API_KEY=0123456789abcdef0123 <img src=x onerror=alert(1)>")
        + line(1, "\x1b[31mred\x1b[0m \x1b]0;pwned\x07done", "WARNING")
        + line(2, "failed", "ERROR")
        + trace
    )
    run = write_logs(tmp_path / "run", {"trainer.log": text})
    answer = run.answer("logs")
    key, red, failed = answer.json["entries"]
    assert key["message"] == "WANDB_API_KEY=*** <img src=x onerror=alert(1)>"
    assert red["message"] == "red done" and "\x1b[31m" in red["styled"]
    assert failed["exception"] == "ValueError: HF_TOKEN=***" and failed["more_total"] == 3
    assert "hf_abc" not in answer.text and "0123456789" not in answer.text
    hit = run.json("logs/search", q="onerror")["hits"][0]
    assert "0123456789" not in hit["text"] and hit["text"][hit["start"] : hit["end"]] == "onerror"


def test_the_rail_has_all_bytes_at_their_time(run: RunClient, tmp_path: Path) -> None:
    answer = run.json("logs/rail", bins=10)
    sizes = [path.stat().st_size for path in (tmp_path / "run/logs/attempt_1").iterdir()]
    assert sum(answer["counts"]) == pytest.approx(sum(sizes), abs=10)
    assert answer["start"] == moment(0) and answer["end"] == moment(1199)
    assert max(answer["counts"]) < 2 * min(answer["counts"]), "both wrote evenly all the time"


def test_known_failures_are_marked_at_their_first_line(tmp_path: Path) -> None:
    trouble = (
        line(60, "step 3", "INFO")
        + line(61, "boom", "ERROR")
        + ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.75 GiB.\n")
    )
    run = write_logs(
        tmp_path / "run", {"trainer.log": line(0, "start") + trouble + trouble, "orchestrator.log": line(0, "x")}
    )
    answer = run.json("logs/incidents")
    incident = answer["incidents"][0]
    data = (tmp_path / "run/logs/attempt_1/trainer.log").read_bytes()
    assert incident["count"] == 2 and incident["component"] == "trainer" and incident["cause"] and incident["fix"]
    assert data[incident["offset"] :].startswith(b"torch.OutOfMemoryError")
    assert incident["time"] == moment(61)
    rail = run.json("logs/rail")
    assert [one["id"] for one in rail["incidents"]] == [one["id"] for one in answer["incidents"]]
    shown = run.json("logs", file=incident["file"], offset=incident["offset"])
    assert any("OutOfMemory" in text for text in shown["entries"][shown["anchor"]]["more"])


def test_a_run_without_logs_has_none(tmp_path: Path) -> None:
    (tmp_path / "run" / "configs").mkdir(parents=True)
    run = RunClient(tmp_path / "run")
    assert run.json("logs")["entries"] == [] and run.json("logs/files")["components"] == []
    assert run.json("logs/rail")["counts"] == [] and run.json("logs/incidents")["incidents"] == []
    assert run.json("logs/search", q="x")["done"] is True


@pytest.mark.parametrize(
    "query",
    [{"before": "x", "at": 1}, {"file": "a"}, {"offset": 3}, {"limit": 0}, {"level": "LOUD"}, {"before": "junk"}],
)
def test_bad_questions_are_told(run: RunClient, query: dict[str, Any]) -> None:
    assert run.answer("logs", **query).error == "bad_parameter"
