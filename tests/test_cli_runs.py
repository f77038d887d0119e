"""``prl runs``: the table and the JSON answer."""

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from made_up_runs import LONG_AGO, aged, rl_files, write
from prl.cli import runs as runs_module
from prl.cli.runs import runs as command
from prl.cli.ticker import Ticker
from prl.rundir import discovery
from prl.watch.outward import safe

GOLDEN = Path(__file__).parent / "golden" / "runs.json"
"""``PRL_UPDATE_GOLDEN=1`` writes the answer anew: read the difference."""


@pytest.fixture(autouse=True)
def surroundings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRL_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("PRL_OUTPUT_DIR", raising=False)
    monkeypatch.setattr(discovery.time, "time", lambda: LONG_AGO + 7261)


def call(*args: object) -> Result:
    return CliRunner().invoke(command, [str(arg) for arg in args], standalone_mode=False)


def answer(*args: object) -> dict[str, Any]:
    result = call(*args, "--json")
    assert result.exception is None, result.exception
    value: dict[str, Any] = json.loads(result.stdout)
    return value


def outputs(root: Path) -> Path:
    """A run of each kind and layout."""
    write(root / "gsm--tiny--0a1b2c3d", rl_files())
    resolved = "configs/attempt_2/resolved"
    sft = {"model": {"name": "models/tiny"}, "data": {"path": "talks.jsonl"}, "max_steps": 100}
    step = [{"step": 40, "time": LONG_AGO + 3600, "loss/mean": 1.0, "producer": "trainer"}]
    write(root / "warm-up", {f"{resolved}/sft.json": sft, "logs/attempt_2/trainer.log": "", "trainer_step": "x"})
    write(root / "warm-up", {"monitors/file/metrics.jsonl": step})
    write(
        root / "held-out",
        {
            f"{resolved}/eval.json": {"model": {"name": "org/tiny"}, "source": [{"name": n} for n in ("a", "b", "c")]},
            "monitors/file/traces/stream.index.jsonl": [{"line": 128, "arrival": LONG_AGO + 7200}],
            "monitors/file/plan.json": {"a": {"0": 100}, "b": {"0": 50}},
            "launcher/status.json": "{",
        },
    )
    write(root / "old", {"configs/trainer.json": {"max_steps": 5}, "metrics.jsonl": "", "job_77.log": ""})
    aged(root)
    for index, name in enumerate(("old", "held-out", "warm-up", "gsm--tiny--0a1b2c3d")):
        aged(root / name, LONG_AGO + index)
    return root


def test_answer_is_as_recorded(tmp_path: Path) -> None:
    found = answer(outputs(tmp_path / "outputs"), "--no-health")
    text = json.dumps(found, indent=1).replace(str(tmp_path), "")
    text = re.sub(r"~[0-9a-f]{8}", "~00000000", text) + "\n"
    if os.environ.get("PRL_UPDATE_GOLDEN"):
        GOLDEN.write_text(text)
    assert json.loads(text) == json.loads(GOLDEN.read_text())


def test_table_for_people(tmp_path: Path) -> None:
    lines = call(outputs(tmp_path), "--no-health").stdout.splitlines()
    assert lines == [
        "NAME                 KIND  HEALTH  PHASE     STEP                AGE     MODEL  ENVIRONMENTS",
        "gsm--tiny--0a1b2c3d  rl    -       running?  12 / 40             2h 0m   tiny   gsm, word-sort",
        "warm-up              sft   -       -         40 / 100            1h 1m   tiny   -",
        "held-out             eval  -       -         128 / 150 episodes  1m 1s   tiny   a, b +1",
        "old                  rl    -       -         ? / 5               ~2h 1m  -      -",
        "~ nothing that was recorded tells when it got on: the age of a file",
        "1 with files that cannot be read or are of a newer form: --json names them",
    ]


def test_sorted_chosen_and_cut(tmp_path: Path) -> None:
    outputs(tmp_path)
    found = answer(tmp_path, "--sort", "name", "--limit", 2, "--no-health")
    assert [row["name"] for row in found["rows"]] == ["gsm--tiny--0a1b2c3d", "held-out"]
    assert (found["truncated"], found["counts"]["runs"]) == (True, 4)
    some = answer(tmp_path, "--kind", "sft", "--kind", "eval", "--sort", "progress", "--no-health")
    assert [row["kind"] for row in some["rows"]] == ["eval", "sft"]
    assert (some["truncated"], some["counts"]["runs"], some["counts"]["rl"]) == (False, 2, 0)
    assert "and 3 more (--limit)" in call(tmp_path, "--limit", 1, "--no-health").stdout


def test_health_of_the_newest_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs(tmp_path)
    monkeypatch.setattr(runs_module, "JUDGED", 1)
    health = [row["health"] for row in answer(tmp_path)["rows"]]
    assert [word is not None for word in health] == [True, False, False, False]
    assert None not in [row["health"] for row in answer(tmp_path, "--health")["rows"]]
    assert {row["health"] for row in answer(tmp_path, "--no-health")["rows"]} == {None}
    monkeypatch.setattr(runs_module, "_JUDGING_SECONDS", -1.0)
    assert {row["health"] for row in answer(tmp_path)["rows"]} == {None}


def test_two_of_one_name_are_told_apart_by_their_ids(tmp_path: Path) -> None:
    for name in "xy":
        write(tmp_path / name / "gsm", rl_files())
    shown = call(tmp_path / "x", tmp_path / "y", "--no-health").stdout
    ids = [row["id"] for row in answer(tmp_path / "x", tmp_path / "y", "--no-health")["rows"]]
    assert all(run_id in shown for run_id in ids)


def test_no_runs_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert call().stdout == "no run below outputs/\n"
    assert answer()["rows"] == []
    assert answer()["absent"] == ["outputs"]
    assert "does not exist" in str(call(tmp_path / "absent").exception)
    write(tmp_path / "outputs/gsm", rl_files())
    assert call("--kind", "sft").stdout == "no run below outputs/ of that kind\n"


def test_entries_that_cannot_be_looked_at_are_said(tmp_path: Path) -> None:
    for index in range(7):
        (tmp_path / f"loop{index}").symlink_to(f"loop{index}")
    lines = call(tmp_path).stdout.splitlines()
    assert len([line for line in lines if line.startswith("not looked at:")]) == 5
    assert lines[-1] == "and 2 more entries were not looked at"
    assert answer(tmp_path)["counts"]["problems"] == 7


def test_nothing_in_a_run_moves_the_cursor_or_tells_a_secret(tmp_path: Path) -> None:
    files = rl_files()
    document = files["configs/attempt_1/resolved/orchestrator.json"]
    document["model"]["name"] = "\x1b[2Japi_key=abcdefgh12345678"
    document["train"]["source"] = [{"name": "a\nb\r\x1b]0;title\x07"}]
    write(tmp_path / "run\x1b[31m\n", files)
    (tmp_path / os.fsdecode(b"caf\xe9/logs")).mkdir(parents=True)
    for result in (call(tmp_path), call(tmp_path, "--json")):
        assert result.exception is None
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", result.stdout)
        assert "abcdefgh" not in result.stdout
    assert safe("a\nb") in call(tmp_path).stdout


def test_wide_characters_keep_the_columns(tmp_path: Path) -> None:
    write(tmp_path / "\u8bad\u7ec3", {"logs/x.log": ""})
    write(tmp_path / "ab", {"logs/x.log": ""})
    lines = call(tmp_path, "--no-health", "--sort", "name").stdout.splitlines()
    assert [line.index("other") for line in lines[1:3]] == [6, 4]


def test_long_look_says_how_far_it_is_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    ticker = Ticker("looking at runs", lambda done, total: f"{done} of {total}")
    monkeypatch.setattr(ticker, "_next", time.monotonic() - 1)
    with ticker:
        ticker(1, 10)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with ticker:
        ticker(2, 10)
        ticker(3, 10)
    assert capsys.readouterr().err == "\rlooking at runs: 2 of 10\r" + " " * 24 + "\r"


def test_a_run_without_an_end_is_told_from_one_of_which_nothing_is_known(tmp_path: Path) -> None:
    resolved = "configs/attempt_1/resolved/trainer.json"
    write(tmp_path / "endless", {resolved: {"max_steps": None}, "logs/attempt_1/trainer.log": "x"})
    write(tmp_path / "unknown", {resolved: {"model": {"name": "tiny"}}, "logs/attempt_1/trainer.log": "x"})
    rows = {row["name"]: row for row in answer(tmp_path, "--no-health")["rows"]}
    assert {name: (row["max_steps"], row["endless"]) for name, row in rows.items()} == {
        "endless": (None, True),
        "unknown": (None, False),
    }
    lines = call(tmp_path, "--no-health").stdout
    assert "? / ∞" in lines
    assert "? / ?" in lines
