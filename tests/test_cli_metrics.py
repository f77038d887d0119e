"""``prl metrics``: keys, values and the rows since a cursor."""

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from prl.cli.metrics import metrics as command
from prl.rundir import status
from sample_runs import T0, SampleRun, running

GOLDEN = Path(__file__).parent / "golden"
"""``PRL_UPDATE_GOLDEN=1`` writes the answers anew: read the difference."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRL_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def run(tmp_path: Path) -> SampleRun:
    return running(tmp_path / "outputs")[0]


def call(*args: object) -> Result:
    return CliRunner().invoke(command, [str(arg) for arg in args], standalone_mode=False)


def text(*args: object) -> str:
    result = call(*args)
    assert result.exception is None, result.exception
    return result.stdout


def answer(*args: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text(*args, "--json"))
    return found


def append(run: SampleRun, line: str) -> None:
    with run.layout.metrics.open("a") as file:
        file.write(line)


def test_keys_with_their_newest_values(run: SampleRun) -> None:
    lines = text(run.root, "--match", "time/*").splitlines()
    assert [line.split() for line in lines] == [
        ["KEY", "PRODUCER", "LAST", "STEP", "POINTS"],
        ["time/step", "orch", "2", "12", "12"],
        ["time/wait_for_policy", "orch", "0.1", "12", "12"],
        ["time/step", "trainer", "2", "12", "12"],
        ["time/wait_for_batch", "trainer", "0.5", "12", "12"],
    ]
    assert "and 13 more" in text(run.root, "--limit", 5)
    assert text(run.root, "--match", "zzz").startswith("no such key")


def test_keys_as_a_tree(run: SampleRun) -> None:
    append(run, '{"step": 12, "time/step/inner": 3, "timing//gen": 1, "producer": "trainer"}\n')
    lines = text(run.root, "--tree", "--producer", "trainer").splitlines()
    at = lines.index("time/ (3)")
    assert lines[at : at + 4] == [
        "time/ (3)",
        "  step/ (1) trainer: 2",
        "    inner trainer: 3",
        "  wait_for_batch trainer: 0.5",
    ]
    assert lines[-3:] == ["timing/ (1)", "  (empty)/ (1)", "    gen trainer: 1"]


@pytest.mark.parametrize(
    ("name", "args"),
    [("keys", ("--limit", 3)), ("values", ("reward", "trainer:time/step", "--last", 2)), ("tail", ("--limit", 2))],
)
def test_answers_keep_their_form(run: SampleRun, name: str, args: tuple[object, ...]) -> None:
    if name == "tail":
        cursor = answer(run.root)["cursor"]
        append(
            run, '{"step": 12, "time": 1795946430, "loss/mean": NaN, "entropy/all/mean": 1, "producer": "trainer"}\n'
        )
        append(run, '{"step": null, "time": 1795946431, "x": 1, "producer": "orch"}\n' * 2)
        args = (*args, "--since", cursor)
    found = answer(run.root, *args)
    found["as_of"] = 0
    for field in ("run_dir", "file"):
        found[field] = str(Path(found[field]).relative_to(run.output_dir))
    found["cursor"] = "-".join("0" for _ in found["cursor"].split("-"))
    path = GOLDEN / f"metrics.{name}.json"
    if os.environ.get("PRL_UPDATE_GOLDEN"):
        path.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    assert found == json.loads(path.read_text())


def test_values_by_step_side_by_side(run: SampleRun) -> None:
    assert [line.split() for line in text(run.root, "time/step", "loss/mean", "--step", "11..").splitlines()] == [
        ["STEP", "orch:time/step", "trainer:time/step", "trainer:loss/mean"],
        ["11", "2", "2", "0.001"],
        ["12", "2", "2", "0.001"],
    ]


def test_values_without_a_step_by_time(run: SampleRun) -> None:
    rows = answer(run.root, "policy_version", "--last", 2)
    assert [(row["step"], row["time"], row["value"]) for row in rows["rows"]] == [
        (None, T0 + 6 + 11 * 2 - 0.5, 10),
        (None, T0 + 6 + 12 * 2 - 0.5, 11),
    ]
    assert rows["series"][0]["axis"] == "time"
    assert "2026-11-29 10:00:29" in text(run.root, "policy_version", "--last", 1)


def test_values_are_bounded_and_counted(run: SampleRun) -> None:
    found = answer(run.root, "*time/*", "--step", "..", "--limit", 8)
    assert (len(found["rows"]), found["counts"], found["truncated"]) == (8, {"series": 4, "values": 48}, True)
    assert [row["step"] for row in found["rows"]] == [11, 12] * 4
    found = answer(run.root, "reward", "--points", 6)
    assert (found["counts"]["values"], found["series"][0]["points"], found["truncated"]) == (4, 12, False)


def test_what_is_not_finite_is_null_and_named(run: SampleRun) -> None:
    append(run, '{"step": 13, "loss/mean": NaN, "optim/grad_norm": "Infinity", "producer": "trainer"}\n')
    found = answer(run.root, "loss", "grad_norm", "--last", 1)
    assert [row["value"] for row in found["rows"]] == [None, None]
    assert found["nonfinite"] == ["trainer:loss/mean", "trainer:optim/grad_norm"]
    assert text(run.root, "loss", "--last", 1).split()[-1] == "nan"


def test_csv_has_every_value(run: SampleRun) -> None:
    rows = list(csv.DictReader(io.StringIO(text(run.root, "loss", "--step", "..", "--csv", "--limit", 1))))
    assert [(row["producer"], row["key"], row["step"], row["value"]) for row in rows] == [
        ("trainer", "loss/mean", str(step), "0.001") for step in range(1, 13)
    ]
    assert len(list(csv.reader(io.StringIO(text(run.root, "--csv"))))) == answer(run.root)["counts"]["series"] + 1


def test_what_a_resume_replaced(run: SampleRun) -> None:
    append(run, '{"step": 11, "time": 1795946500, "loss/mean": 7, "producer": "trainer"}\n')
    assert [row["value"] for row in answer(run.root, "loss")["rows"]][-2:] == [0.001, 7]
    replaced = answer(run.root, "loss", "--superseded")["rows"]
    assert [(row["step"], row["value"]) for row in replaced] == [(11, 0.001), (12, 0.001)]


def test_rows_since_a_cursor(run: SampleRun) -> None:
    cursor = answer(run.root)["cursor"]
    assert answer(run.root, "--since", cursor)["rows"] == []
    run.step(13)
    found = answer(run.root, "entropy", "--since", cursor)
    assert [(row["step"], row["values"]) for row in found["rows"]] == [(13, {"entropy/all/mean": 1.5})]
    assert text(run.root, "--since", cursor).splitlines()[-1] == f"cursor: {found['cursor']}"
    first = answer(run.root, "--since", cursor, "--limit", 2)
    rest = answer(run.root, "--since", first["cursor"])
    assert (first["truncated"], len(first["rows"]), len(rest["rows"])) == (True, 2, 3)
    assert (rest["cursor"], rest["restarted"]) == (found["cursor"], False)
    run.layout.metrics.unlink()
    run.metrics("orch", 1, T0, a=1)
    again = answer(run.root, "--since", cursor)
    assert (again["restarted"], again["rows"][0]["values"]) == (True, {"a": 1})


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("nope",), "no series 'nope' among 18 (prl metrics RUN lists them)"),
        (("entrop",), "near it: entropy/all/mean"),
        (("--since", "x"), "not a cursor of metrics: 'x'"),
        (("--json", "--csv"), "not both"),
        (("--step", "a..b"), "no step"),
    ],
)
def test_called_wrongly(run: SampleRun, args: tuple[str, ...], message: str) -> None:
    result = call(run.root, *args)
    assert message in str(result.exception)


def test_a_run_without_metrics(tmp_path: Path) -> None:
    run = SampleRun(tmp_path)
    assert "no metrics yet in" in text(run.root)
    assert "no values" in text(run.root, "loss")
    found = answer(run.root)
    assert (found["ok"], found["rows"], found["rows_read"]) == (True, [], 0)
    run.layout.metrics.mkdir(parents=True)
    found = answer(run.root)
    assert (found["ok"], found["trouble"] is not None, found["rows"]) == (True, True, [])
    assert "cannot be read" in text(run.root)


def test_an_older_layout_is_read(tmp_path: Path) -> None:
    root = tmp_path / "old"
    (root / "configs").mkdir(parents=True)
    (root / "metrics.jsonl").write_text(
        '{"step": 1, "perf/mfu": 3}\n{"step": null, "time": 5, "inference/agg/gpu_cache_usage_perc/max": 0.5}\n'
    )
    assert [(row["producer"], row["value"]) for row in answer(root, "mfu", "kv_cache")["rows"]] == [
        ("trainer", 3),
        ("orch", 0.5),
    ]


def test_a_last_line_counts_once_its_writer_is_gone(run: SampleRun) -> None:
    append(run, '{"step": 13, "loss/mean": 9, "producer": "trainer"}')
    assert answer(run.root, "loss", "--last", 1)["rows"][0]["step"] == 12
    run.write_status(phase=status.FINISHED, exit_code=0)
    assert answer(run.root, "loss", "--last", 1)["rows"][0]["step"] == 13


def test_names_cannot_move_the_cursor(run: SampleRun) -> None:
    append(
        run,
        json.dumps({"step": 1, "\x1b]0;owned\x07key\n\x1b[2J": 1, "bad\x1b[2J": "x", "producer": "orch\x1b[1m"})
        + "\n\0\x1b[2J\n",
    )
    for args in ((), ("--tree",), ("*key*",), ("--csv",), ("--json",)):
        assert not set("\x1b\x07\0") & set(text(run.root, *args))
    assert "1 unreadable lines" in text(run.root)
    assert "values that are no numbers: bad (1)" in text(run.root)


def test_what_is_no_file_is_no_metrics_yet_and_no_error(run: SampleRun) -> None:
    run.layout.metrics.unlink()
    for make in (run.layout.metrics.mkdir, lambda: os.mkfifo(run.layout.metrics)):
        make()
        assert call(run.root).return_value == 0
        assert "no metrics yet" in text(run.root)
        assert (answer(run.root)["ok"], answer(run.root)["trouble"] is None) == (True, False)
        run.layout.metrics.rmdir() if run.layout.metrics.is_dir() else run.layout.metrics.unlink()


def test_a_file_that_cannot_be_read_is_an_error(run: SampleRun, tmp_path: Path) -> None:
    run.layout.metrics.rename(tmp_path / "elsewhere")
    run.layout.metrics.symlink_to(tmp_path / "elsewhere")
    result = call(run.root, "--json")
    assert (result.return_value, json.loads(result.stdout)["ok"]) == (1, False)


def test_csv_has_all_values_and_json_says_what_it_leaves_out(run: SampleRun) -> None:
    for n in range(30):
        append(run, f'{{"step": null, "time": {T0 + n}, "timed": {n}, "producer": "orch"}}\n')
    assert len(text(run.root, "timed", "--csv").splitlines()) == 31
    found = answer(run.root, "timed")
    assert (len(found["rows"]), found["truncated"]) == (20, True)
    assert "and 10 more values" in text(run.root, "timed")
    assert not answer(run.root, "timed", "--last", 20)["truncated"], "no more were asked for"


def test_rows_since_a_time(run: SampleRun) -> None:
    append(run, f'{{"step": 13, "time": {T0 + 9e6}, "late": 1, "producer": "orch"}}\n')
    found = answer(run.root, "--since", T0 + 9e6 - 1)
    assert [row["values"] for row in found["rows"]] == [{"late": 1.0}]
    assert answer(run.root, "--since", "2100-01-01")["rows"] == []
    assert answer(run.root, "--since", found["cursor"])["rows"] == []


def test_a_key_is_found_by_the_form_in_which_it_was_shown(run: SampleRun) -> None:
    append(run, json.dumps({"step": 13, "ke\x1b[31my": 1, "producer": "orch"}) + "\n")
    shown = next(row["key"] for row in answer(run.root)["rows"] if row["key"].startswith("key"))
    assert [row["value"] for row in answer(run.root, shown)["rows"]] == [1]


def test_rows_of_a_newer_form_say_so_and_are_read_as_far_as_they_go(run: SampleRun) -> None:
    append(run, '{"schema_version": 99, "step": 13, "later": 1, "producer": "trainer"}\n')
    found = answer(run.root, "--match", "later")
    assert (found["file_schema_version"], [row["key"] for row in found["rows"]]) == (99, ["later"])
    assert "schema_version" not in {row["key"] for row in answer(run.root)["rows"]}
    assert "of schema version 99; this reader knows 1" in text(run.root)
