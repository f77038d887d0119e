"""Files of any size for measuring readers, and the command for people."""

import json
from pathlib import Path

from click.testing import CliRunner

from prl.rundir.logs.dating import parse_date_line
from prl.rundir.logs.reader import read_log
from prl.synth import log_file, metrics_file
from prl.synth.__main__ import main
from prl.synth.logs import NEEDLE
from prl.synth.metrics import OVERVIEW_KEYS


def test_a_metrics_file_has_every_key_on_every_row(tmp_path: Path) -> None:
    names = metrics_file(tmp_path / "metrics.jsonl", rows=1003, keys=200)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert len(set(names)) == 200
    assert set(OVERVIEW_KEYS) <= set(names)
    assert [row["step"] for row in rows] == list(range(1003))
    assert all(set(row) == {"step", "time", "producer", *names} for row in rows)


def test_most_keys_of_a_sparse_file_come_on_one_row_in_fifty(tmp_path: Path) -> None:
    names = metrics_file(tmp_path / "metrics.jsonl", rows=200, keys=4000, sparse=True)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert len(set(names)) == 4000
    counts = {name: sum(name in row for row in rows) for name in names}
    assert {counts[name] for name in OVERVIEW_KEYS} == {200}
    assert {counts[name] for name in names if name not in OVERVIEW_KEYS} == {4}


def test_a_log_has_the_size_asked_for_and_passes_midnight(tmp_path: Path) -> None:
    path = tmp_path / "made.log"
    needles = log_file(path, 30_000_000, start=1_795_996_700.0)  # 100 s before midnight
    data = path.read_bytes()
    assert 30_000_000 <= len(data) < 30_100_000
    assert data.count(NEEDLE.encode()) == needles > 1
    dates = [line for line in data.decode().split("\n") if parse_date_line(line)]
    assert [line[4:14] for line in dates] == ["2026-11-29", "2026-11-30"]
    assert all(entry.level for entry in read_log(path).entries)


def test_the_command_writes_a_run_and_refuses_what_is_there(tmp_path: Path) -> None:
    arguments = [str(tmp_path / "run"), "--steps", "2", "--episodes", "8", "--env", "a+b c", "--layout", "B"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "run/logs/envs/train/a+b c.log").is_file()
    again = CliRunner().invoke(main, arguments)
    assert again.exit_code == 1
    assert "not an empty directory" in again.output
    assert CliRunner().invoke(main, [str(tmp_path / "many"), "--count", "3"]).exit_code == 0
    assert len(list((tmp_path / "many").iterdir())) == 3
    odd = CliRunner().invoke(main, [str(tmp_path / "odd"), "--episodes", "9"])
    assert "no multiple of group_size" in odd.output
