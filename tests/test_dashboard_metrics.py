"""What the metrics page asks, against values computed from the file."""

import json
import math
from pathlib import Path

import pytest

from dashboard_client import Client
from dashboard_metrics import HOSTILE_KEYS, START, add_rows, api, client_of, row, write_config, write_rows
from prl.dashboard.open_runs import REFRESH_SECONDS
from prl.rundir.metrics.reader import read_metrics

REWARD = "train/agg/effective/agent/reward"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two producers, a resume that gives up steps 3 and 4, values that are not finite, rows without a step."""
    rows = []
    for first, last, started in ((1, 4, START), (3, 6, START + 100)):
        for step in range(first, last + 1):
            time = started + 10 * (step - first + 1)
            rows.append(row(step, time, "orch", **{f"{REWARD}/mean": 0.1 * step, f"{REWARD}/p10": 0.05 * step}))
            rows[-1][f"{REWARD}/p90"] = 0.2 * step
            rows.append(row(step, time + 1, time__step=9.0, optim__grad_norm=math.nan if step == 5 else float(step)))
            rows.append(row(None, time + 2, "orch", dispatcher__inflight__train=step))
    write_rows(tmp_path / "demo", rows, tail=b'not json\n{"step": 9, "half')
    for attempt in (1, 2):
        write_config(tmp_path / "demo", attempt, trainer={"max_steps": 6})
    return tmp_path / "demo"


@pytest.fixture
def client(run: Path) -> Client:
    return client_of(run.parent)


def test_keys_with_what_the_file_says_of_each(run: Path, client: Client) -> None:
    answer = client.get(api(run, "metrics/keys")).json
    history = read_metrics(run / "monitors" / "file" / "metrics.jsonl")
    assert [(one["producer"], one["key"]) for one in answer["series"]] == history.names()
    for one in answer["series"]:
        points = history.series(one["producer"], one["key"])
        last = points[-1]
        finite = math.isfinite(last.value)
        assert one["points"] == len(points)
        assert one["first"] == points[0].value
        assert (one["last"], one["last_step"], one["last_time"]) == (
            last.value if finite else None,
            last.step,
            last.time,
        )
        assert one["nonfinite"] == sum(not math.isfinite(point.value) for point in points)
        assert one["band"] == ("p10/p90" if one["key"] == f"{REWARD}/mean" else None)
    assert answer["damage"]["lines"] == 1
    assert answer["partial"] is False and answer["trouble"] is None


@pytest.mark.parametrize(
    ("pattern", "found"),
    [("reward", 3), ("REWARD", 3), ("*/mean", 1), ("time/*", 1), ("[x]", 0), ("optim/grad_nor?", 1), ("", 6)],
)
def test_keys_by_pattern(run: Path, client: Client, pattern: str, found: int) -> None:
    answer = client.get(api(run, "metrics/keys"), match=pattern).json
    assert (len(answer["series"]), answer["counts"]["series"]) == (found, found)


def test_series_as_the_reference_reads_them(run: Path, client: Client) -> None:
    answer = client.get(api(run, "metrics/series"), key=["reward", "trainer:optim/grad_norm", "none"], band=True).json
    history = read_metrics(run / "monitors" / "file" / "metrics.jsonl")
    reward, norm = answer["series"]
    points = history.series("orch", f"{REWARD}/mean")
    assert reward["x"] == [point.step for point in points]
    assert reward["y"] == pytest.approx([point.value for point in points])
    assert reward["low"] == pytest.approx([0.05 * point.step for point in points if point.step])
    assert reward["high"] == pytest.approx([0.2 * point.step for point in points if point.step])
    assert (norm["y"], norm["nonfinite"]) == ([1.0, 2.0, 3.0, 4.0, None, 6.0], [[5.0, "nan"]])
    assert (norm["low"], norm["high"], norm["total"]) == (None, None, 6)
    assert answer["missing"] == ["none"]


def test_axes_and_ranges(run: Path, client: Client) -> None:
    one = client.get(api(run, "metrics/series"), key="time/step", axis="time", start=START + 100).json
    assert one["series"][0]["x"] == [START + 111 + 10 * index for index in range(4)]
    two = client.get(api(run, "metrics/series"), key="time/step", start=2, end=3).json
    assert two["series"][0]["x"] == [2, 3]
    inflight = client.get(api(run, "metrics/series"), key="orch:dispatcher/inflight/train").json["series"][0]
    assert inflight["axis"] == "step" and len(inflight["x"]) == 8
    tokens = client.get(api(run, "metrics/series"), key="time/step", axis="tokens").json["series"][0]
    assert tokens["axis"] == "step"


def test_marks(run: Path, client: Client) -> None:
    marks = client.get(api(run, "metrics/series"), key="optim/grad_norm").json["marks"]
    assert [one["attempt"] for one in marks["attempts"]] == [1, 2]
    assert marks["evals"] == [] and marks["checkpoints"] == []


def test_a_step_and_the_rows_since_a_cursor(run: Path, client: Client) -> None:
    step = client.get(api(run, "metrics/step"), step=5).json["rows"]
    values = {(one["producer"], one["key"]): (one["value"], one.get("nonfinite")) for one in step}
    assert values["trainer", "optim/grad_norm"] == (None, "nan")
    assert values["trainer", "time/step"] == (9.0, None)
    assert values["orch", f"{REWARD}/mean"] == (pytest.approx(0.5), None)
    first = client.get(api(run, "metrics/tail"), limit=2).json
    assert [one["step"] for one in first["rows"]] == [6, None]
    assert not first["more"] and not first["restarted"]
    again = client.get(api(run, "metrics/tail"), cursor=first["cursor"]).json
    assert again["rows"] == [] and again["cursor"] == first["cursor"]
    assert client.get(api(run, "metrics/tail"), cursor="no cursor").error == "bad_parameter"
    whole = client.get(api(run, "metrics/tail"), limit=1000).json["rows"]
    assert sum(one["supersedes"] for one in whole) == 2
    assert [one["nonfinite"] for one in whole if one["nonfinite"]] == [[["optim/grad_norm", "nan"]]]


def test_polling_costs_nothing_until_something_is_written(run: Path, client: Client) -> None:
    for what, query in (("keys", {}), ("series", {"key": "reward"}), ("step", {"step": 7}), ("tail", {})):
        answer = client.get(api(run, f"metrics/{what}"), **query)
        assert client.again(api(run, f"metrics/{what}"), answer.etag, **query).status == 304
    before = client.get(api(run, "metrics/keys"))
    path = run / "monitors" / "file" / "metrics.jsonl"
    path.write_bytes(path.read_bytes().removesuffix(b'{"step": 9, "half'))
    add_rows(run, [row(7, START + 200, new__key=1.0)])
    after = wait_for_change(client, api(run, "metrics/keys"), before.etag)
    assert "new/key" in {one["key"] for one in after.json["series"]}


def wait_for_change(client: Client, path: str, etag: str):  # type: ignore[no-untyped-def]
    import time

    deadline = time.monotonic() + 20 * REFRESH_SECONDS
    while time.monotonic() < deadline:
        answer = client.again(path, etag)
        if answer.status != 304:
            return answer
        time.sleep(REFRESH_SECONDS / 5)
    raise AssertionError("no change was seen")


@pytest.mark.parametrize("key", HOSTILE_KEYS)
def test_any_key_is_a_name_and_nothing_else(tmp_path: Path, key: str) -> None:
    run = write_rows(tmp_path / "demo", [{"step": step, "time": START, key: 0.5 * step} for step in (1, 2)])
    client = client_of(tmp_path)
    (listed,) = client.get(api(run, "metrics/keys")).json["series"]
    assert (listed["key"], listed["points"], listed["last"]) == (key, 2, 1.0)
    answer = client.get(api(run, "metrics/series"), key=f"{listed['producer']}:{key}", band=True)
    assert answer.status == 200
    (series,) = answer.json["series"]
    assert (series["key"], series["x"], series["y"]) == (key, [1, 2], [0.5, 1.0])
    (value,) = client.get(api(run, "metrics/step"), step=2).json["rows"]
    assert (value["key"], value["value"]) == (key, 1.0)
    assert client.get(api(run, "metrics/tail")).json["rows"][0]["values"] == {key: 0.5}
    assert client.get(api(run, "metrics/keys"), match=key[:500]).json["counts"]["series"] == 1
    assert client.get("/api/v1/metrics-info", key=key).status in (200, 404)
    assert client.get(api(run, "overview")).status == 200


def test_a_key_too_long_to_ask_for_is_refused(run: Path, client: Client) -> None:
    assert client.get(api(run, "metrics/series"), key="k" * 20_001).error == "bad_parameter"


@pytest.mark.parametrize(
    ("what", "query"),
    [
        ("metrics/series", {}),
        ("metrics/series", {"key": "a", "points": 1}),
        ("metrics/series", {"key": "a", "points": "many"}),
        ("metrics/series", {"key": "a", "axis": "epoch"}),
        ("metrics/series", {"key": "a", "start": "nan"}),
        ("metrics/series", {"key": "a", "band": "perhaps"}),
        ("metrics/series", {"key": ["a"] * 201}),
        ("metrics/step", {}),
        ("metrics/step", {"step": "1.5"}),
        ("metrics/step", {"step": 10**20}),
        ("metrics/tail", {"limit": 0}),
        ("metrics/keys", {"pattern": "x"}),
        ("overview", {"points": 1001}),
        ("overview", {"axis": "epoch"}),
        ("configs", {"attempt": -1}),
    ],
)
def test_parameters_are_checked(run: Path, client: Client, what: str, query: dict[str, object]) -> None:
    answer = client.get(api(run, what), **query)
    assert (answer.status, answer.error) == (400, "bad_parameter")


@pytest.mark.parametrize("content", [b"", b"\n", b"{", b"[1]\nnull\n\xff\xfe\n", b"\x00" * 5000, b'{"a": {"b": 1}}\n'])
def test_a_file_that_holds_no_metrics(tmp_path: Path, content: bytes) -> None:
    run = write_rows(tmp_path / "demo", [], tail=content)
    client = client_of(tmp_path)
    for what, query in (("keys", {}), ("series", {"key": "reward"}), ("step", {"step": 1}), ("tail", {})):
        assert client.get(api(run, f"metrics/{what}"), **query).status == 200


def test_no_file_is_no_metrics_yet(tmp_path: Path) -> None:
    (tmp_path / "demo" / "logs").mkdir(parents=True)
    answer = client_of(tmp_path).get(api(tmp_path / "demo", "metrics/keys")).json
    assert (answer["series"], answer["absent"], answer["trouble"]) == ([], True, None)


def test_a_link_out_of_the_run_is_trouble(tmp_path: Path) -> None:
    secret = tmp_path / "elsewhere.jsonl"
    secret.write_text(json.dumps({"step": 1, "secret": 1.0}) + "\n")
    run = write_rows(tmp_path / "demo", [])
    path = run / "monitors" / "file" / "metrics.jsonl"
    path.unlink()
    path.symlink_to(secret)
    answer = client_of(tmp_path).get(api(run, "metrics/keys")).json
    assert answer["series"] == []
    assert "secret" not in json.dumps(answer)


def test_points_of_many_series_are_bounded_together(tmp_path: Path) -> None:
    keys = [f"k{number:03d}" for number in range(150)]
    rows = [{"step": step, "time": START, **dict.fromkeys(keys, float(step))} for step in range(2000)]
    run = write_rows(tmp_path / "demo", rows)
    answer = client_of(tmp_path).get(api(run, "metrics/series"), key=keys, points=2000).json
    assert len(answer["series"]) == 150
    assert sum(len(one["x"]) for one in answer["series"]) <= 110_000
    assert all((one["x"][0], one["x"][-1], one["total"]) == (0, 1999, 2000) for one in answer["series"])
